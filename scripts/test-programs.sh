#!/usr/bin/env bash
# Runs the test programs that `cargo test` would run: of two kinds, one.
#
#     cargo test --no-run --message-format=json >FILE
#     scripts/test-programs.sh together|alone FILE
#
# together: as many side by side as there are processors, as most end with one long
# test, which leaves the others idle. alone: one after the other, those that count what
# the kernel asks for, as others drop its caches; nothing else should run then.
set -euo pipefail
[ $# = 2 ] || { echo "test-programs.sh together|alone FILE" >&2; exit 2; }
kind=$1 built=$(realpath "$2")
cd "$(dirname "$0")/.."
export logs
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# Memory that a crash image took is soon asked for again: the C library keeps it then,
# and the kernel need not empty a fresh page each time. Not where the memory of the file
# system itself is measured, which is as large as a user would have it.
keeps_memory() {
  case $(basename "$1") in
    library | cli) ;;
    *) export MALLOC_TRIM_THRESHOLD_=268435456 MALLOC_MMAP_THRESHOLD_=33554432 ;;
  esac
}

# run PACKAGE PROGRAM: in the package's directory, as cargo does. What it says is shown
# when it has ended.
run() {
  local log began=$SECONDS status=0
  log=$(mktemp "$logs/XXXXXX")
  (keeps_memory "$1" && cd "$1" && exec "$2") >"$log" 2>&1 || status=$?
  {
    flock 9
    printf '\n     Running %s of %s (%d s)\n' "$(basename "$2")" "$(basename "$1")" $((SECONDS - began))
    cat "$log"
    [ "$status" = 0 ] || printf 'FAILED: %s, status %d\n' "$2" "$status"
  } 9>"$logs/shown"
  return "$status"
}
export -f run keeps_memory

# Each package and each program that has tests.
programs='s|.*"manifest_path":"\([^"]*\)/Cargo.toml".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\1\t\2|p'
sed -n "$programs" "$built" >"$logs/programs"
[ -s "$logs/programs" ] || { echo "no test programs are named in $2" >&2; exit 1; }

# run_all N: the programs that it is told, N at a time.
run_all() {
  tr '\t' '\n' | xargs -r -d '\n' -n 2 -P "$1" bash -c 'run "$@"' _
}
alone=/requests-
case $kind in
  together) sed "\|$alone|d" "$logs/programs" | run_all "$(nproc)" ;;
  alone) sed -n "\|$alone|p" "$logs/programs" | run_all 1 ;;
  *) echo "together or alone, not $kind" >&2; exit 2 ;;
esac
