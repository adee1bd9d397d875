#!/usr/bin/env bash
# bench.sh - everything that BENCHMARKS.md shows, as Markdown on stdout.
#
#   scripts/bench.sh [quick] > BENCHMARKS.new
#   environment: WORK, a directory on the disk to be measured (/tmp/varve-bench); it is
#   made, and removed again
#
# `quick` runs each part once and briefly, to see that everything works. Needs root, jq,
# and what the scripts that it calls need: each says so itself. Takes about an hour.
set -euo pipefail
cd "$(dirname "$0")/.."
work=${WORK:-/tmp/varve-bench}
runs=3 seconds=4
case ${1:-} in
  '') ;;
  quick) runs=1 seconds=1 ;;
  *) echo "usage: scripts/bench.sh [quick], not $1" >&2; exit 2 ;;
esac
[ ! -e "$work" ] || { echo "$work is there already; it would be removed" >&2; exit 1; }
mkdir -p "$work"
work=$(realpath "$work")
trap 'rm -rf "$work"' EXIT

# The build that users install.
cargo build --quiet --profile dist -p varve-cli -p varve-bench
VARVE=$(realpath "${CARGO_TARGET_DIR:-target}/dist/varve")
export VARVE

# peers SYSTEMS WORKLOADS: the table of bench-peers.sh, and the command above it.
peers() {
  local command="scripts/bench-peers.sh --peers \"$1\" --workloads \"$2\" --runs $runs --seconds $seconds --size 2G --table"
  printf '\n`%s`\n' "$command"
  WORK=$work/peers scripts/bench-peers.sh --peers "$1" --workloads "$2" \
    --runs "$runs" --seconds "$seconds" --size 2G --out "$work/$RANDOM.jsonl" --table
}

# records: medians of transactions a second, by system.
records() {
  jq -rs '
    def median: sort | .[((length - 1) / 2) | floor];
    group_by([.system, .page, .threads, .sync]) |
    map({system: (.[0].system + (.[0].page // "" | if . == "" then . else " (\(.) B)" end)), threads: .[0].threads, sync: .[0].sync,
         tps: (map(.tps // empty) | if length == 0 then null else median end)}) |
    map(select(.tps != null)) |
    "| system | threads | durable | transactions/s |\n|---|---:|---|---:|",
    (.[] | "| \(.system) | \(.threads) | \(.sync) | \(.tps | floor) |")'
}

# listed COMMAND..: its output, as it is.
listed() {
  printf '\n`%s`\n\n```text\n' "$*"
  "$@"
  printf '```\n'
}

printf '# Benchmarks\n\n%s, %s processors, Linux %s, commit %s; `scripts/bench.sh`.\n' \
  "$(date -u +%F)" "$(nproc)" "$(uname -r)" "$(git rev-parse --short HEAD)"
printf '\n## Beside other file systems\n'
peers "varve-lib varve-mount ext4 fuse2fs passthrough" "smallfile largefile fsyncupdate"
printf '\n## The layout in place, and full volumes\n'
peers "varve-lib ffs-lib varve-mount ext4" "fillaging"
printf '\n## Record stores\n\n`scripts/bench-tp-peers.sh DIRECTORY %s %s`\n\n' "$seconds" "$runs"
scripts/bench-tp-peers.sh "$work/records" "$seconds" "$runs" | records
printf '\n## Transactions of the file system\n\n`scripts/bench-tpcb.sh DIRECTORY %s %s`\n\n' "$seconds" "$runs"
scripts/bench-tpcb.sh "$work/tpcb" "$seconds" "$runs" | records
printf '\n## SQLite\n'
printf '\n## Shipping\n'
listed scripts/bench-ship.sh "$VARVE" "$work" "$runs"
printf '\n## NBD\n'
listed scripts/bench-nbd.sh "$runs"
printf '\n## Cleaning\n'
listed scripts/bench-cleaning.sh
