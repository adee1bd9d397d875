#!/usr/bin/env bash
# Builds the Debian package: the program, its helpers for mount(8), fsck(8) and
# mkfs(8), manual pages, completions, units and documents. Says where it is.
#
#   scripts/package.sh                         # the package
#   scripts/package.sh stage PROGRAM FOLDER    # only what is generated for it
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

# stage PROGRAM FOLDER: what PROGRAM says of itself, in FOLDER.
stage() {
  rm -rf "$2"
  mkdir -p "$2"
  # A package of one commit is always the same.
  SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)} \
    "$1" manual "$2/man"
  gzip -9n "$2"/man/man*/*
  "$1" completions bash >"$2/varve.bash"
  "$1" completions zsh >"$2/_varve"
  "$1" completions fish >"$2/varve.fish"
  gzip -9nc CHANGELOG.md >"$2/changelog.gz"
}

case ${1:-} in
  stage)
    stage "$(realpath "$2")" "$3"
    exit
    ;;
  "") ;;
  *)
    say "usage: scripts/package.sh [stage PROGRAM FOLDER]"
    exit 2
    ;;
esac

need_rust
need cc gcc
need dpkg-shlibdeps dpkg-dev
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
tools=$target/tools
export PATH=$tools/bin:$PATH
command -v cargo-deb >/dev/null || {
  say "installing cargo-deb into $tools"
  cargo install --quiet --locked --root "$tools" cargo-deb
}

say "building (the first time takes some minutes)"
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
cargo build --profile dist --quiet -p varve-cli
stage "$target/dist/varve" "$target/dist/package"
cargo deb --quiet --no-build --profile dist -p varve-cli
