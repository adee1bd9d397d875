#!/bin/bash
# bench-cleaning.sh - what cleaning costs the processor.
#
#   scripts/bench-cleaning.sh [FILE_BYTES]
#   environment: WORK (image, 1 GiB, and mount point; default /dev/shm/varve-cleaning,
#   in memory; name a directory on a disk to measure that), MKFS (options of mkfs,
#   such as "--segment-size 1M"), SECONDS_LONG (20), VARVE (the binary; default: the
#   release build of this tree)
#
# A volume is filled to 85 % of what df calls available and then overwritten for
# SECONDS_LONG: without FILE_BYTES one file, at random, in blocks of 4 KiB with an
# fdatasync after a thousand; with FILE_BYTES files of that size, one after the other
# drawn at random, removed and made anew, with an fsync after twenty. Told is the time
# of the server's cleaning threads, its checkpoints included, for each GiB that
# survived and was moved, and for each GiB that was read or written for that. Needs
# root and python3; nothing else should be at work.
set -eu
HERE=$(cd "$(dirname "$0")/.." && pwd)
FILE_BYTES=${1:-0} WORK=${WORK:-/dev/shm/varve-cleaning}
if [ -z "${VARVE:-}" ]; then
	(cd "$HERE" && cargo build --release -q -p varve-cli -p varve-bench)
	VARVE=${CARGO_TARGET_DIR:-$HERE/target}/release/varve
fi
MNT=$WORK/mnt IMG=$WORK/image
mkdir -p "$MNT"
rm -f "$IMG"
# shellcheck disable=SC2086 # several options
"$VARVE" mkfs --size 1G ${MKFS:-} "$IMG" >/dev/null
"$VARVE" mount --cache 64M -o noholes -f "$IMG" "$MNT" 2>"$WORK/log" &
SERVER=$!
trap '"$VARVE" umount "$MNT" || kill "$SERVER"; wait "$SERVER" || true; rm -f "$IMG"' EXIT
for _ in $(seq 200); do mountpoint -q "$MNT" && break; sleep 0.05; done
mountpoint -q "$MNT"

python3 - "$VARVE" "$MNT" "$SERVER" "$FILE_BYTES" "${SECONDS_LONG:-20}" <<'PY'
import glob, json, os, random, subprocess, sys, time
varve, where, server, each, seconds = *sys.argv[1:4], int(sys.argv[4]), float(sys.argv[5])
tick, gib = os.sysconf('SC_CLK_TCK'), 1 << 30

def spent():
    """Seconds of the cleaning threads, and of all threads."""
    cleaning = total = 0
    for task in glob.glob(f'/proc/{server}/task/*/stat'):
        name, rest = open(task).read().rsplit(')', 1)
        ticks = sum(map(int, rest.split()[11:13]))
        total += ticks
        cleaning += ticks if 'varve-clean' in name else 0
    return cleaning / tick, total / tick

def counts():
    all = json.loads(subprocess.check_output([varve, 'stats', '--json', where]))['layout']
    return all['cleaner_bytes'], all['cleaner_read_bytes'], all['checkpoints']

size = os.statvfs(where)
size = size.f_bavail * size.f_frsize * 85 // 100
random.seed(1)
data = random.randbytes(1 << 20)
def put(path, length):
    with open(path, 'wb', buffering=0) as file:
        for at in range(0, length, len(data)):
            file.write(data[:min(len(data), length - at)])
        return file

if each:
    many = size // each
    name = lambda nth: f'{where}/{nth % 100}/{nth}'
    for nth in range(min(100, many)):
        os.mkdir(f'{where}/{nth}')
    for nth in range(many):
        put(name(nth), each)
else:
    put(f'{where}/file', size)
os.sync()
before, began, done = (spent(), counts()), time.time(), 0
if each:
    while time.time() - began < seconds:
        path = name(random.randrange(many))
        os.unlink(path)
        put(path, each)
        done += 1
        if done % 20 == 0:
            with open(path, 'rb') as file:
                os.fsync(file)
else:
    file, blocks = os.open(f'{where}/file', os.O_WRONLY), size // 4096
    while time.time() - began < seconds:
        at = random.randrange(256) * 4096
        os.pwrite(file, data[at:at + 4096], random.randrange(blocks) * 4096)
        done += 1
        if done % 1000 == 0:
            os.fdatasync(file)
after, took = (spent(), counts()), time.time() - began
cleaning, total = (b - a for a, b in zip(before[0], after[0]))
moved, read, checkpoints = (b - a for a, b in zip(before[1], after[1]))
print(f'{done / took:.0f} a second for {took:.0f} s; cleaning took {cleaning:.2f} of the '
      f'server\'s {total:.2f} core-seconds, moved {moved / gib:.3f} GiB, read {read / gib:.3f}, '
      f'{checkpoints} checkpoints: {cleaning * gib / max(moved, 1):.2f} core-seconds a GiB '
      f'moved, {cleaning * gib / max(moved + read, 1):.2f} a GiB read or written')
PY
