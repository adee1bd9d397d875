#!/bin/bash
# What shipping a log and replaying it cost, all in one run: bytes per second of both,
# and what a follower costs the writer. Usage: bench-ship.sh [VARVE [FOLDER [ROUNDS]]]
set -euo pipefail
varve=${1:-target/release/varve}
folder=$(mktemp -d "${2:-/dev/shm}/varve-ship.XXXXXX")
rounds=${3:-3}
trap 'umount "$folder/mnt" 2>/dev/null || true; rm -rf "$folder"' EXIT
mkdir "$folder/mnt"

now() { date +%s%N; }
seconds() { awk "BEGIN { printf \"%.2f\", ($2 - $1) / 1e9 }"; }
rate() { awk "BEGIN { printf \"%.0f\", $3 / 1e6 / (($2 - $1) / 1e9) }"; }

# Large files, and small ones each with an fsync.
write() {
    local begun
    begun=$(now)
    for i in 1 2 3 4; do
        dd if=/dev/zero of="$folder/mnt/large$i" bs=1M count=64 conv=fsync status=none
    done
    echo "large $(rate "$begun" "$(now)" $((4 * 64 * 1048576))) MB/s"
    begun=$(now)
    for i in $(seq 1 200); do
        dd if=/dev/zero of="$folder/mnt/small$i" bs=4k count=1 conv=fsync status=none
    done
    echo "small $(seconds "$begun" "$(now)") s for 200 files with an fsync each"
}

for round in $(seq 1 "$rounds"); do
    rm -f "$folder"/*.img "$folder/stream"
    "$varve" mkfs --size 2G "$folder/a.img" > /dev/null
    cp --sparse=always "$folder/a.img" "$folder/copy.img"
    cp --sparse=always "$folder/a.img" "$folder/other.img"
    mark=$("$varve" replay "$folder/copy.img" --position)
    "$varve" mount "$folder/a.img" "$folder/mnt"
    echo "round $round, nobody ships:"; write
    sync -f "$folder/mnt"
    begun=$(now)
    "$varve" ship "$folder/mnt" --since "$mark" --to "$folder/stream" > /dev/null
    bytes=$(stat -c %s "$folder/stream")
    echo "shipped at $(rate "$begun" "$(now)" "$bytes") MB/s ($bytes bytes)"
    begun=$(now)
    "$varve" replay "$folder/copy.img" --from "$folder/stream" > /dev/null
    echo "replayed at $(rate "$begun" "$(now)" "$bytes") MB/s"
    begun=$(now)
    cp "$folder/stream" "$folder/plain"; sync "$folder/plain"
    echo "copied by cp at $(rate "$begun" "$(now)" "$bytes") MB/s"
    rm "$folder/plain" "$folder/stream"
    mark=$("$varve" replay "$folder/copy.img" --position)
    rm "$folder"/mnt/*; sync -f "$folder/mnt"
    "$varve" ship "$folder/mnt" --follow --since "$mark" | "$varve" replay "$folder/copy.img" > /dev/null &
    sleep 2
    echo "round $round, with a follower:"; write
    begun=$(now)
    umount "$folder/mnt"
    wait %1
    echo "the copy was up to it $(seconds "$begun" "$(now)") s after the unmount"
    "$varve" fsck "$folder/copy.img" > /dev/null
done
