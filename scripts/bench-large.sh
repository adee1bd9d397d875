#!/bin/bash
# bench-large.sh - a large volume with many files: memory and mount times.
#
#   scripts/bench-large.sh [--size 100G] [--files 1000000] [--dirs 1000]
#                          [--cache 256M]
#   environment: WORK (image and mount point; default /tmp/varve-large),
#   VARVE (the binary; default: the release build of this tree)
#
# The image is sparse; a million files of 1 KiB take 2 GB of it. In turn:
#   1. the library creates, reads and stats them (peak memory of each phase);
#   2. clean mounts, timed from the command to its return;
#   3. the mount creates a tenth as many more and scans everything with find
#      (peak memory of the server);
#   4. the server is killed while it creates, five times; the mount after each
#      is timed, and the volume is checked at the end.
# Needs root and /dev/fuse. Ends only processes it started.
set -eu
HERE=$(cd "$(dirname "$0")/.." && pwd)
WORK=${WORK:-/tmp/varve-large}
SIZE=100G FILES=1000000 DIRS=1000 CACHE=256M

while [ $# -gt 0 ]; do
	case $1 in
	--size) SIZE=$2 ;;
	--files) FILES=$2 ;;
	--dirs) DIRS=$2 ;;
	--cache) CACHE=$2 ;;
	*) sed -n '2,/^set -eu/{/^set -eu/d;s/^# \{0,1\}//;p}' "$0"; exit 2 ;;
	esac
	shift 2
done

if [ -z "${VARVE:-}" ]; then
	(cd "$HERE" && cargo build --release -q -p varve-cli -p varve-bench)
	VARVE=${CARGO_TARGET_DIR:-$HERE/target}/release/varve
fi
IMAGE=$WORK/large.img MNT=$WORK/mnt
mkdir -p "$MNT"
cleanup() {
	mountpoint -q "$MNT" && "$VARVE" umount "$MNT"
	rm -f "$IMAGE"
	rmdir "$MNT" 2>/dev/null
}
trap cleanup EXIT

seconds() { # of the command
	local begun
	begun=$(date +%s%N)
	"$@"
	awk -v ns=$(($(date +%s%N) - begun)) 'BEGIN { printf "%.3f s\n", ns / 1e9 }'
}
mounted() { "$VARVE" mount "$IMAGE" "$MNT" --cache "$CACHE"; }
server() { fuser -a "$IMAGE" 2>/dev/null | tr -d ' '; }
peaks() { # of the benchmark's lines
	sed -E 's/.*"phase":"([^"]*)".*"ops_per_s":([0-9.]*).*"peak_bytes":([0-9]+).*/\1 \2 \3/' |
		awk '{ printf "   %-12s %9.0f/s   peak %4.0f MiB\n", $1, $2, $3 / 1048576 }'
}

rm -f "$IMAGE"
truncate -s "$SIZE" "$IMAGE"
"$VARVE" mkfs "$IMAGE" >/dev/null

echo "1. the library, $FILES files in $DIRS directories, cache $CACHE"
"$VARVE" bench smallfile --image "$IMAGE" --cache "$CACHE" --n "$FILES" \
	--dirs "$DIRS" --keep --nodrop | peaks

echo "2. mounting it clean"
for _ in 1 2 3 4 5; do
	sync
	echo 3 >/proc/sys/vm/drop_caches
	echo "   $(seconds mounted)"
	"$VARVE" umount "$MNT"
done

echo "3. the mount, $((FILES / 10)) files more"
mounted
mv "$MNT/bench.smallfile" "$MNT/library" # a benchmark begins by removing its own
"$VARVE" bench smallfile --dir "$MNT" --server "$(server)" --nodrop \
	--n $((FILES / 10)) --dirs "$DIRS" --keep --tag mount | peaks
mv "$MNT/bench.smallfile" "$MNT/mount"
echo "   find -size: $(seconds find "$MNT" -size +100M)"
echo "   server's peak: $(awk '/VmHWM/ { printf "%.0f MiB", $2 / 1024 }' "/proc/$(server)/status")"
"$VARVE" umount "$MNT"

echo "4. mounting it after its server was killed"
for i in 1 2 3 4 5; do
	mounted
	"$VARVE" bench smallfile --dir "$MNT" --nodrop --n 1000000 >/dev/null 2>&1 &
	sleep 5
	kill -9 "$(server)"
	wait $! || true
	umount -l "$MNT" 2>/dev/null || true
	echo 3 >/proc/sys/vm/drop_caches
	echo "   $(seconds mounted)"
	"$VARVE" umount "$MNT"
done
"$VARVE" fsck "$IMAGE" && echo "   and the check finds nothing"
