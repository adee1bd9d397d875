#!/usr/bin/env bash
# Runs every check: formatting, lints, unit, integration, crash, mount,
# conformance and documentation tests, and a short fuzz of every parser of
# on-disk bytes and of the network.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_rust
need cc gcc
for pair in git:git tar:tar sqlite3:sqlite3 fio:fio fusermount3:fuse3 \
  qemu-img:qemu-utils nbdcopy:libnbd-bin mkfs.ext4:e2fsprogs losetup:mount; do
  need "${pair%%:*}" "${pair#*:}"
done
# PostgreSQL's server programs are not on the path.
[ -n "$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null)" ] || need pg_ctlcluster postgresql
export VARVE_FUZZ_SECONDS=${VARVE_FUZZ_SECONDS:-6}

step() { printf '\n== %s\n' "$*"; }

step "format"
cargo fmt --all --check
step "lints"
cargo clippy --workspace --all-targets --quiet -- -D warnings
step "tests"
cargo test --workspace
step "conformance"
VARVE=${CARGO_TARGET_DIR:-target}/debug/varve scripts/conformance.sh
step "planted bugs"
cargo test -p varve-prove --features planted --test planted_log --test virtual_log
step "schedules of threads"
cargo test -p varve-prove --features planted,shuttle --test schedules
step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
if [ -d fuzz ]; then
  step "fuzz, $VARVE_FUZZ_SECONDS seconds for each parser"
  cargo run --quiet --release --manifest-path fuzz/Cargo.toml --bin smoke -- --seconds "$VARVE_FUZZ_SECONDS"
fi
printf '\nall checks passed\n'
