#!/bin/sh
# `varve txn run` beside the plain mount: a tree of 10,000 small files is copied,
# alternately.
#
# scripts/bench-txn.sh DIRECTORY [ROUNDS]: one line for each run, in seconds, and the
# medians. DIRECTORY is made, and removed again; needs what mounting does.
set -eu
cd "$(dirname "$0")/.."
directory=$1 rounds=${2:-7}
cargo build --release -p varve-cli -p varve-bench
varve=${CARGO_TARGET_DIR:-target}/release/varve
mkdir -p "$directory/source" "$directory/mnt"
directory=$(realpath "$directory")
trap '"$varve" umount "$directory/mnt" || true; rm -rf "$directory"' EXIT
for i in $(seq 0 9999); do
    sub=$directory/source/$((i % 100))
    mkdir -p "$sub"
    head -c $((200 + i * 7919 % 7800)) /dev/urandom > "$sub/$i"
done
"$varve" mkfs "$directory/image" --size 4G > /dev/null
# Transactions may take a quarter of the cache.
"$varve" mount "$directory/image" "$directory/mnt" --cache 512M
now() { date +%s.%N; }
copy() { cp -r "$directory/source" "$directory/mnt/$1"; }
report() { echo "$1 $2 $3" | awk '{ printf "%s %.3f\n", $1, $3 - $2 }'; }
copy warm
for round in $(seq "$rounds"); do
    begun=$(now); copy "plain$round"; ended=$(now)
    sync -f "$directory/mnt"; sync "$directory/mnt"
    report plain "$begun" "$ended"; report plain+sync "$begun" "$(now)"
    begun=$(now)
    "$varve" txn run "$directory/mnt" -- cp -r "$directory/source" "$directory/mnt/txn$round"
    report txn "$begun" "$(now)"
    begun=$(now); "$varve" txn run "$directory/mnt" -- true; report empty "$begun" "$(now)"
done | tee "$directory/runs"
for what in plain plain+sync txn empty; do
    awk -v what=$what '$1 == what { print $2 }' "$directory/runs" | sort -n |
        awk -v what=$what '{ all[NR] = $1 } END { print "median", what, all[int((NR + 1) / 2)] }'
done
