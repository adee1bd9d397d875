#!/bin/bash
# mount-memory.sh - what memory the server of a mount takes, at most.
#
#   scripts/mount-memory.sh [CACHE]     default: 16M
#   environment: WORK (image, 6 GB sparse, and mount point; default
#   /tmp/varve-memory), VARVE (the binary; default: the release build of this
#   tree)
#
# A mixed workload on one mount: 100,000 small files, find, tar, ls, large files
# in large and small writes, SQLite, random writes, also through a map, all at
# once, rm. After each the peak of the server's memory since it began is told
# (VmHWM) and what of the present is not backed by files. The promise is CACHE
# and 64 MiB. Needs root, python3 and sqlite in it; takes some two minutes.
set -eu
HERE=$(cd "$(dirname "$0")/.." && pwd)
CACHE=${1:-16M} WORK=${WORK:-/tmp/varve-memory}
if [ -z "${VARVE:-}" ]; then
	(cd "$HERE" && cargo build --release -q -p varve-cli)
	VARVE=${CARGO_TARGET_DIR:-$HERE/target}/release/varve
fi
MNT=$WORK/mnt IMG=$WORK/image
mkdir -p "$MNT"
rm -f "$IMG"
"$VARVE" mkfs --size 6G "$IMG" >/dev/null
"$VARVE" mount --cache "$CACHE" -f "$IMG" "$MNT" 2>"$WORK/log" &
SERVER=$!
trap '"$VARVE" umount "$MNT" || kill "$SERVER"; wait "$SERVER" || true; rm -f "$IMG"' EXIT
for _ in $(seq 200); do mountpoint -q "$MNT" && break; sleep 0.05; done
mountpoint -q "$MNT"

say() { echo "$1: $(grep -E 'VmHWM|RssAnon' "/proc/$SERVER/status" | tr -s '\t \n' ' ')"; }

say start
python3 - "$MNT" <<'PY'
import os, sys
for d in range(1000):
    where = f'{sys.argv[1]}/tree/{d // 50}/{d}'
    os.makedirs(where)
    for f in range(100):
        with open(f'{where}/file{f}', 'wb') as file:
            file.write(b'x' * ((d * 7 + f * 131) % 6000))
PY
say '100,000 files'
find "$MNT/tree" -type f >/dev/null; say find
tar cf "$MNT/t.tar" -C "$MNT" tree; say tar
echo 2 >/proc/sys/vm/drop_caches; ls -lR "$MNT/tree" >/dev/null; say 'ls -lR'
dd if=/dev/zero of="$MNT/big" bs=1M count=800 status=none; say 'large writes'
dd if=/dev/zero of="$MNT/small" bs=8k count=60000 status=none; say 'small writes'
python3 - "$MNT" <<'PY'
import random, sqlite3, sys
db = sqlite3.connect(sys.argv[1] + '/db')
db.execute('pragma journal_mode=wal')
db.execute('create table t(a integer primary key, b)')
for _ in range(300):
    with db:
        db.executemany('insert into t(b) values(?)', [(random.randbytes(200),) for _ in range(100)])
PY
say SQLite
dd if="$MNT/big" of=/dev/null bs=1M status=none; say read
python3 - "$MNT" <<'PY'
import mmap, os, random, sys
file = os.open(sys.argv[1] + '/big', os.O_RDWR)
for _ in range(40000):
    os.pwrite(file, b'y' * 4096, random.randrange(200000) * 4096)
os.fsync(file)
view = mmap.mmap(file, 400 << 20)
for _ in range(30000):
    view[random.randrange(100000) * 4096] = 7
view.flush()
PY
say 'random writes'
cp -r "$MNT/tree/1" "$MNT/c1" & one=$!
cp -r "$MNT/tree/2" "$MNT/c2" & two=$!
tar xf "$MNT/t.tar" -C "$MNT" --one-top-level=x & three=$!
dd if=/dev/zero of="$MNT/big3" bs=1M count=500 status=none
wait $one $two $three; say 'all at once'
rm -rf "$MNT/tree"; say 'rm -r'
dd if=/dev/zero of="$MNT/big4" bs=1M count=500 status=none; say 'large writes'
