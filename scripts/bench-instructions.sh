#!/bin/sh
# Instructions of create, write, fsync, lookup, an entry of a list and the removal of a
# file that nothing is known of, beside those of an older version: what a feature costs those who do not use it. Instructions, not
# times: other work on the machine does not change them.
#
# scripts/bench-instructions.sh COMMIT [DIRECTORY]: a line for each operation, counts
# of one operation there and here, and the ratio. DIRECTORY, for the older version and
# what is built and counted, is made, and removed again. Needs valgrind and a C
# compiler. An empty count ends it: then callgrind saw no such function.
set -eu
cd "$(dirname "$0")/.."
commit=$1 directory=${2:-$(mktemp -d)}
command -v valgrind >/dev/null || apt-get install -y valgrind
mkdir -p "$directory"
trap 'git worktree remove --force "$directory/older"; rm -rf "$directory"' EXIT
git worktree add -q --detach "$directory/older" "$commit"
# A package beside each tree, so that nothing is built but the library.
build() {
    mkdir -p "$directory/$1/src"
    cp scripts/operation-cost.rs "$directory/$1/src/main.rs"
    cp "$2/Cargo.lock" "$directory/$1/"
    # Where the crates were before they got folders.
    local library=$2/crates/varve device=$2/crates/varve-device
    [ ! -d "$2/crates/core" ] || library=$2/crates/core/library device=$2/crates/core/device
    cat >"$directory/$1/Cargo.toml" <<EOF
[package]
name = "operation-cost"
version = "0.1.0"
edition = "2024"
[dependencies]
varve = { path = "$library" }
varve-device = { path = "$device" }
[workspace]
[profile.release]
codegen-units = 4
EOF
    (cd "$directory/$1" && CARGO_TARGET_DIR="$directory/target" cargo build -q --release)
    mv "$directory/target/release/operation-cost" "$directory/$1/"
}
cc -o "$directory/without-auxv" scripts/without-auxv.c
build here "$PWD"
build there "$directory/older"
# Instructions within a function, with all that it calls, of one of its 2,000 turns.
count() {
    "$directory/without-auxv" valgrind --tool=callgrind --collect-atstart=no \
        --toggle-collect="*measured_$2*" --callgrind-out-file="$directory/out" \
        "$directory/$1/operation-cost" >/dev/null 2>&1
    awk '/^(summary|totals):/ && $2 > 0 {print int($2 / 2000); exit}' "$directory/out"
}
printf '%-8s %9s %9s  %s\n' operation "$commit" here ratio
for operation in create write fsync lookup list remove; do
    there=$(count there "$operation") here=$(count here "$operation")
    [ -n "$there" ] && [ -n "$here" ]
    printf '%-8s %9d %9d  %s\n' "$operation" "$there" "$here" \
        "$(awk "BEGIN {printf \"%.3f\", $here / $there}")"
done
