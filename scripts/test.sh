#!/usr/bin/env bash
# Runs every check: formatting, lints, unit, integration, crash, mount,
# conformance and documentation tests, and a short fuzz of every parser of
# on-disk bytes and of the network.
#
#   scripts/test.sh        all of it, as CI does
#   scripts/test.sh core   for a change in crates/core: its lints, its tests but the long
#                          ones on mounts, crashes at a tenth of the usual number
#   scripts/test.sh long   all of it, with twenty times as many drawn cases, and fuzzing
#                          for ten minutes a parser: some hours
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

extent=${1:-all}
case $extent in
  all) ;;
  long) export VARVE_FUZZ_SECONDS=${VARVE_FUZZ_SECONDS:-600} VARVE_PROVE_SCALE=${VARVE_PROVE_SCALE:-20} ;;
  core)
    need_rust
    need cc gcc
    export VARVE_PROVE_SCALE=${VARVE_PROVE_SCALE:-0.1}
    export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=none
    scripts/words.sh
    cargo fmt --all --check
    # The default members of the workspace are the core.
    cargo clippy --all-targets --quiet -- -D warnings
    cargo test --quiet --lib -p varve-device -p varve-console -p varve-format -p varve-fs \
      -p varve-locks -p varve-lfs -p varve-fsck -p varve-fuse -p varve
    cargo test --quiet -p varve-lfs -p varve-fsck -p varve --tests
    cargo test --quiet -p varve-cli --bins --test cli --test helpers --test mount
    printf 'the core passed in %d s\n' "$SECONDS"
    exit
    ;;
  *)
    say "usage: scripts/test.sh [core|long], not $extent"
    exit 2
    ;;
esac

export VARVE_FUZZ_SECONDS=${VARVE_FUZZ_SECONDS:-3}
# Half of the cases that would be drawn otherwise, as two processors take 24 minutes
# for all of this (docs/testing.md).
export VARVE_PROVE_SCALE=${VARVE_PROVE_SCALE:-0.5}
# Compiled once, nothing needs what would make the next compilation faster.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=none
# What tests can have beside: the mistakes that they must catch, which are made on
# a thread that asks for one and nowhere else, and record stores on volumes.
features=varve-prove/planted,varve-tp/planted,varve/tp,varve-object/cloud,varve-object/planted

# step NAME: what follows is called so. Says how long what went before took.
name=
step() {
  took
  name=$* began=$SECONDS
  printf '\n== %s\n' "$name"
}
took() { [ -z "$name" ] || printf '   (%s: %d s)\n' "$name" $((SECONDS - began)); }
# beside NAME COMMAND..: begins what sleeps much or waits for itself, to go on beside
# what follows. joined NAME: shows what it said, and fails if it did.
declare -A beside=()
said=$(mktemp -d)
ends() {
  scripts/bucket-server.sh stop "$said/s3"
  rm -rf "$said"
  [ "$name" = end ] && return
  took
  printf '\nFAILED: %s\n' "$name"
  [ ${#beside[@]} = 0 ] || kill "${beside[@]}" 2>/dev/null || true
}
trap ends EXIT
beside() {
  local what=$1
  shift
  "$@" >"$said/$what" 2>&1 &
  beside[$what]=$!
}
joined() {
  local status=0
  wait "${beside[$1]}" || status=$?
  unset "beside[$1]"
  cat "$said/$1"
  return "$status"
}

step "programs that this needs"
need_rust
need cc gcc
# What only the tests run.
programs=(git:git make:make dpkg-deb:dpkg tar:tar sqlite3:sqlite3 fio:fio fusermount3:fuse3
  qemu-img:qemu-utils nbdcopy:libnbd-bin mkfs.ext4:e2fsprogs losetup:mount file:file mandoc:mandoc)
# PostgreSQL's server programs are not on the path.
[ -n "$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null)" ] || programs+=(pg_ctlcluster:postgresql)
beside programs need_all "${programs[@]}"

# All of the workspace, also where one package would do: the crates below it
# are then those that are compiled already.
step "words that a stranger does not understand"
scripts/words.sh
step "format"
cargo fmt --all --check
step "lints"
cargo clippy --workspace --all-targets --features "$features" --quiet -- -D warnings
step "documentation"
# By the compiler of the lints, and with their features: what it found of each crate is
# used again, where another would check all of them once more (`cargo clippy` is such a
# wrapper; should its arguments change, this takes longer and proves the same).
RUSTC_WORKSPACE_WRAPPER=$(rustc --print sysroot)/bin/clippy-driver \
  CLIPPY_ARGS="-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__" \
  RUSTDOCFLAGS="-D warnings" cargo doc --workspace --features "$features" --no-deps --quiet
# Not compiled each by itself: the workspace is, by the lints and the tests.
step "crates, as they would be published"
cargo publish --workspace --dry-run --no-verify --allow-dirty --quiet
step "tests, compiled"
targets=(--lib --bins --tests) examples=()
for example in crates/core/library/examples/*.rs; do examples+=(--example "$(basename "$example" .rs)"); done
cargo test --workspace --features "$features" "${targets[@]}" --no-run \
  --message-format=json-render-diagnostics >"$said/built"
# The programs that `varve` runs are looked for next to it.
cargo build --workspace --features "$features" --bins "${examples[@]}"
step "programs that this needs, begun with the lints"
joined programs
step "a server of objects for the tests"
server=$(scripts/bucket-server.sh start "$said/s3")
eval "$server"
built=${CARGO_TARGET_DIR:-target}/debug
# These sleep much, or compile what depends on each other: the processors are the tests'.
beside conformance env "VARVE=$built/varve" scripts/conformance.sh
beside schedules cargo test --workspace \
  --features varve-lfs/planted,varve-lfs/shuttle,varve-locks/shuttle,varve-tp/shuttle --test schedules
step "tests"
scripts/test-programs.sh together "$said/built"
step "conformance, begun with the tests"
joined conformance
step "schedules of threads, begun with the tests"
joined schedules
step "tests alone, and of the documentation"
scripts/test-programs.sh alone "$said/built"
cargo test --workspace --features "$features" --doc --quiet
step "examples of the library"
for example in crates/core/library/examples/*.rs; do
  "$built/examples/$(basename "$example" .rs)"
done
step "fuzz, $VARVE_FUZZ_SECONDS seconds for each parser"
"$built/smoke" --seconds "$VARVE_FUZZ_SECONDS"
step "end"
printf 'all checks passed in %d s\n' "$SECONDS"
