#!/usr/bin/env bash
# The main job in a minute: builds Varve, makes a volume in an image file,
# mounts it, works on it with ordinary programs, kills the server, mounts again
# and checks. Everything happens in a directory that is removed at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_rust
need cc gcc
need git git
need sqlite3 sqlite3
if [ "$(id -u)" != 0 ]; then need fusermount3 fuse3; fi
say "building (the first time takes some minutes)"
cargo build --profile dist --quiet -p varve-cli
varve=${CARGO_TARGET_DIR:-$PWD/target}/dist/varve

work=$(mktemp -d)
mnt=$work/mnt
mkdir "$mnt"
cleanup() { "$varve" umount "$mnt" >/dev/null 2>&1 || true; rm -rf "$work"; }
trap cleanup EXIT
show() { printf '\n$ %s\n' "$*"; "$@"; }

show "$varve" mkfs --size 512M --label demo "$work/demo.img"
if [ ! -w /dev/fuse ]; then
  say "no /dev/fuse here, so nothing can be mounted: showing the volume offline"
  show "$varve" info "$work/demo.img"
  show "$varve" fsck --data "$work/demo.img"
  exit 0
fi
show "$varve" mount "$work/demo.img" "$mnt"
show df -h "$mnt"

printf '\n# a repository, cloned and packed on the volume\n'
git clone --quiet . "$mnt/repository" 2>/dev/null || {
  git init --quiet "$mnt/repository"
  cp -r crates docs "$mnt/repository/"
  git -C "$mnt/repository" add .
  git -C "$mnt/repository" -c user.name=demo -c user.email=demo@localhost commit --quiet -m demo
}
show git -C "$mnt/repository" gc --quiet
show git -C "$mnt/repository" fsck --no-dangling

printf '\n# a program, compiled and run there\n'
cargo new --quiet --vcs none "$mnt/hello"
show cargo build --quiet --release --manifest-path "$mnt/hello/Cargo.toml" --target-dir "$mnt/hello/target"
show "$mnt/hello/target/release/hello"

printf '\n# a database\n'
sqlite3 "$mnt/demo.db" 'create table n(i integer); with recursive c(i) as (values(1) union all select i+1 from c where i<100000) insert into n select i from c;'
show sqlite3 "$mnt/demo.db" 'pragma integrity_check' 'select count(*) from n'

printf '\n# what it has cost so far\n'
"$varve" stats "$mnt" | grep -E '^(layout\.(data|inode|summary|padding|node)_bytes|layout\.(checkpoints|flushes|partials)|requests_total) '

printf '\n# the server is killed in the middle of writing; the next mount recovers\n'
dd if=/dev/zero of="$mnt/unfinished" bs=64k count=4096 2>/dev/null &
writer=$!
sleep 0.3
server=$(pgrep -f "varve.*$work/demo.img" | head -1)
kill -9 "$server"
wait "$writer" 2>/dev/null || true
"$varve" umount "$mnt" >/dev/null 2>&1 || true
begun=$(date +%s%N)
show "$varve" mount "$work/demo.img" "$mnt"
printf '(mounted after %s ms, recovery included)\n' $((($(date +%s%N) - begun) / 1000000))
show sqlite3 "$mnt/demo.db" 'pragma integrity_check' 'select count(*) from n'
show git -C "$mnt/repository" fsck --no-dangling

show "$varve" umount "$mnt"
show "$varve" fsck --data "$work/demo.img"
