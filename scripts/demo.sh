#!/usr/bin/env bash
# The lines of README.md's "Five minutes", run as they stand there, but in a
# folder that is removed at the end. Among them ordinary programs work on the
# volume, its server is killed, and what it had promised is looked at.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_rust
need cc gcc
need git git
need sqlite3 sqlite3
if [ "$(id -u)" != 0 ]; then need fusermount3 fuse3; fi
say "building (the first time takes some minutes)"

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$(mktemp -d)
mnt=$work/mnt
server=
cleanup() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  varve umount "$mnt" >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap cleanup EXIT

# A trace to be replayed: blocks of a small disk, some of them often.
awk 'BEGIN {
  for (n = 0; n < 20000; n++)
    printf "%d,demo,0,%s,%d,4096,100\n", 1e17 + n * 1e5, rand() < 0.8 ? "Write" : "Read",
      int(rand() * rand() * 20000) * 4096
}' >"$work/trace.txt"

# The lines of the block, without comments, with our places for theirs.
lines() {
  awk '/^## /{on = $0 == "## Five minutes"} on && /^```/{if (inside) exit; inside = 1; next} inside' README.md |
    sed -E -e 's/ +#.*//' -e "s|\\\$PWD/target|$target|" -e "s|/mnt/notes|$mnt|g" \
      -e "s|/tmp/disk|$work/disk|" -e "s#(^| )(notes|small|place|disk)\.img#\1$work/\2.img#g" \
      -e "s|^varve lab run .*|& --out $work/lab|" -e "s|report lab|report $work/lab|" \
      -e "s|trace\.txt|$work/trace.txt|"
}
# The first lines of what comes, long ones cut, and how many follow.
beginning() {
  awk 'NR <= 12 {print "  " (length($0) > 400 ? substr($0, 1, 120) " ..." : $0)}
    END {if (NR > 12) print "  ... and " NR - 12 " lines more"}'
}
# Runs a line, and shows both.
run() {
  printf '\n$ %s\n' "$1"
  case $1 in
    PATH=*) eval "$1" ;;
    *"&")
      eval "$1" >/dev/null 2>&1
      server=$!
      for _ in $(seq 100); do [ ! -S "$work/disk" ] || return 0; sleep 0.1; done
      say "nothing listens at $work/disk"
      return 1
      ;;
    *) eval "$1" </dev/null 2>&1 | beginning ;;
  esac
}
# Without a repository, as in an archive of the sources, one is made.
clone() {
  git rev-parse --git-dir >/dev/null 2>&1 && run "$1" && return
  git init --quiet "$mnt/copy"
  cp -r crates study proof docs "$mnt/copy/"
  git -C "$mnt/copy" add .
  git -C "$mnt/copy" -c user.name=demo -c user.email=demo@localhost commit --quiet -m demo
}

programs() {
  printf '\n# a repository, packed and checked on the volume\n'
  run "git -C $mnt/copy gc --quiet"
  run "git -C $mnt/copy fsck --no-dangling"
  printf '\n# a program, compiled and run there\n'
  cargo new --quiet --vcs none "$mnt/hello"
  run "cargo build --quiet --release --manifest-path $mnt/hello/Cargo.toml --target-dir $mnt/hello/target"
  run "$mnt/hello/target/release/hello"
  printf '\n# a database\n'
  sqlite3 "$mnt/demo.db" 'create table n(i integer); with recursive c(i) as (values(1) union all select i+1 from c where i<100000) insert into n select i from c;'
  database
}
database() { run "sqlite3 $mnt/demo.db 'pragma integrity_check' 'select count(*) from n'"; }

crash() {
  printf '\n# the server is killed in the middle of writing; the next mount recovers\n'
  run "varve mount $work/notes.img $mnt"
  dd if=/dev/zero of="$mnt/unfinished" bs=64k count=4096 2>/dev/null &
  local writer=$! holder begun
  sleep 0.3
  holder=$(varve info --json "$work/notes.img" | sed -E 's/.*"pid":([0-9]+).*/\1/')
  run "kill -KILL $holder"
  wait "$writer" 2>/dev/null || true
  run "varve umount $mnt"
  run "varve info $work/notes.img"
  begun=$(date +%s%N)
  run "varve mount $work/notes.img $mnt"
  printf '  (mounted after %s ms, recovery included)\n' $((($(date +%s%N) - begun) / 1000000))
  database
  run "git -C $mnt/copy fsck --no-dangling"
  run "varve umount $mnt"
}

mountable=yes
[ -w /dev/fuse ] || mountable=
[ -n "$mountable" ] || say "no /dev/fuse here, so nothing can be mounted: the other lines are run"
while IFS= read -r line <&3; do
  case $line in
    "") continue ;;
    *"$mnt"*) [ -n "$mountable" ] || continue ;;
  esac
  case $line in
    "git clone"*) clone "$line" && programs ;;
    "varve umount"*) run "$line" && crash ;;
    *) run "$line" ;;
  esac
done 3< <(lines)
printf '\nall lines ran, in %s s\n' "$SECONDS"
