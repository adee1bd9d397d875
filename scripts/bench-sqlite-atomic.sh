#!/bin/sh
# SQLite, one row a transaction, synchronous=FULL: without a journal on Varve, beside
# the rollback journal and the write-ahead log on ext4.
#
# scripts/bench-sqlite-atomic.sh DIRECTORY [ROUNDS [SECONDS]]: one line for each run
# (inserts of new rows, updates of rows anywhere among 100,000), all in turn, and the
# medians. DIRECTORY is made, and removed again. ext4 is on a loop device with direct
# I/O over a fully written image, Varve on such an image itself. Needs root.
# ATOMIC_VARVE and ATOMIC_ROWS name binaries to be used instead of building them.
set -eu
cd "$(dirname "$0")/.."
directory=$1 rounds=${2:-5} seconds=${3:-3}
target=${CARGO_TARGET_DIR:-target}/release
if [ -z "${ATOMIC_VARVE:-}" ]; then
    cargo build --release -q -p varve-cli --bin varve --example sqlite_rows
fi
varve=${ATOMIC_VARVE:-$target/varve} rows=${ATOMIC_ROWS:-$target/examples/sqlite_rows}
mkdir -p "$directory/varve" "$directory/plain" "$directory/ext4"
directory=$(realpath "$directory") loop=
cleanup() {
    for mounted in varve plain; do "$varve" umount "$directory/$mounted" || true; done
    umount "$directory/ext4" || true
    [ -z "$loop" ] || losetup -d "$loop"
    rm -rf "$directory"
}
trap cleanup EXIT
for image in a b c; do
    dd if=/dev/zero of="$directory/$image" bs=1M count=1024 conv=fsync status=none
done
for image in a b; do "$varve" mkfs --force "$directory/$image" > /dev/null; done
"$varve" mount "$directory/a" "$directory/varve" -o atomic
"$varve" mount "$directory/b" "$directory/plain"
loop=$(losetup --direct-io=on -f --show "$directory/c")
mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$loop"
mount -t ext4 "$loop" "$directory/ext4"
for round in $(seq "$rounds"); do
    for what in varve:atomic:delete plain:journal:delete plain:wal:wal \
        ext4:journal:delete ext4:wal:wal; do
        file=${what%%:*} mode=${what##*:} kind=${what#*:}
        kind=${kind%:*}
        echo "$file-$kind $("$rows" "$directory/$file/$kind.db" "$mode" "$seconds")"
    done
done | tee "$directory/runs"
for what in varve-atomic plain-journal plain-wal ext4-journal ext4-wal; do
    for column in 3 5; do
        awk -v what="$what" -v c=$column '$1 == what { print $c }' "$directory/runs" |
            sort -n | awk '{ all[NR] = $1 } END { printf "%s ", all[int((NR + 1) / 2)] }'
    done | awk -v what="$what" '{ print "median", what, "insert/s", $1, "update/s", $2 }'
done
