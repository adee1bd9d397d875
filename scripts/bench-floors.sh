#!/bin/bash
# bench-floors.sh - what this machine's disk, memory and kernel give at best, to hold the
# stages of study/performance.md against.
#
#   scripts/bench-floors.sh [SECONDS]      length of each of fio's runs (3)
#   environment: WORK, VARVE as for bench-peers.sh
#
# The disk: fio's direct requests to a fully written file of 1 GiB. Memory, the checksum and
# a request to a FUSE server: the example `floors` of varve-fuse. Needs root, fio.
set -u
HERE=$(cd "$(dirname "$0")/.." && pwd)
WORK=${WORK:-/tmp/varve-floors} CACHE=256M SECONDS_EACH=${1:-3}
if [ -z "${VARVE:-}" ]; then
	(cd "$HERE" && cargo build --release -q -p varve-cli -p varve-bench) || exit 1
	VARVE=${CARGO_TARGET_DIR:-$HERE/target}/release/varve
fi
(cd "$HERE" && cargo build --release -q -p varve-fuse --example floors) || exit 1
FLOORS=${CARGO_TARGET_DIR:-$HERE/target}/release/examples/floors
. "$HERE/scripts/lib.sh"
need fio fio || exit 1
. "$HERE/scripts/peers.sh"
trap cleanup EXIT
trap 'exit 130' INT TERM

image 1G
# disk NAME OPTIONS...: MB/s, requests a second, and the median's microseconds
disk() {
	local name=$1; shift
	fio --name=floor --filename="$IMG" --direct=1 --time_based --runtime="$SECONDS_EACH" \
		--size=1G --output-format=terse --terse-version=3 --group_reporting "$@" |
		awk -F';' -v name="$name" '{
			read = $6 > 0
			split(read ? $24 : $65, median, "=")
			printf "%s: %.0f MB/s, %d/s, p50 %s us\n", name, (read ? $7 : $48) * 1.024 / 1e3,
				(read ? $8 : $49), median[2] }'
}
disk "written in order, 1 MiB, one at a time" --rw=write --bs=1M
disk "written in order, 1 MiB, 4 at a time" --rw=write --bs=1M --ioengine=io_uring --iodepth=4
disk "read in order, 1 MiB, one at a time" --rw=read --bs=1M
disk "read in order, 1 MiB, 4 at a time" --rw=read --bs=1M --ioengine=io_uring --iodepth=4
disk "read at random, 8 KiB, one at a time" --rw=randread --bs=8k
disk "read at random, 8 KiB, 16 at a time" --rw=randread --bs=8k --numjobs=16
disk "written in order, 16 KiB, each synced" --rw=write --bs=16k --sync=dsync
disk "written at random, 4 KiB, each synced" --rw=randwrite --bs=4k --sync=dsync
disk "the same, 4 at a time" --rw=randwrite --bs=4k --sync=dsync --numjobs=4

"$VARVE" mkfs --force "$IMG" >/dev/null
for how in uring nouring; do
	"$VARVE" mount -o "$how" "$IMG" "$MNT" --cache "$CACHE" || exit 1
	echo "a mount, $how:"
	"$FLOORS" "$MNT" | sed 's/^/  /'
	echo "  the client on one processor: $(taskset -c 1 "$FLOORS" "$MNT" | grep request)"
	teardown
done
