#!/usr/bin/env bash
# Runs the test programs that `cargo test` would run, as many side by side as there
# are processors: most end with one long test, which leaves the others idle. Those
# that count what the kernel asks for run alone, afterwards: others drop its caches.
#
#     scripts/test-programs.sh [OPTION OF CARGO TEST]...
set -euo pipefail
cd "$(dirname "$0")/.."
export logs
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# run PACKAGE PROGRAM: in the package's directory, as cargo does. What it says is shown
# when it has ended.
run() {
  local log began=$SECONDS status=0
  log=$(mktemp "$logs/XXXXXX")
  (cd "$1" && exec "$2") >"$log" 2>&1 || status=$?
  {
    flock 9
    printf '\n     Running %s of %s (%d s)\n' "$(basename "$2")" "$(basename "$1")" $((SECONDS - began))
    cat "$log"
    [ "$status" = 0 ] || printf 'FAILED: %s, status %d\n' "$2" "$status"
  } 9>"$logs/shown"
  return "$status"
}
export -f run

# Each package and each program that has tests.
programs='s|.*"manifest_path":"\([^"]*\)/Cargo.toml".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\1\t\2|p'
cargo test "$@" --no-run --quiet --message-format=json | sed -n "$programs" >"$logs/programs"
[ -s "$logs/programs" ] || { echo "cargo named no test programs" >&2; exit 1; }

# run_all N: the programs that it is told, N at a time.
run_all() {
  tr '\t' '\n' | xargs -r -d '\n' -n 2 -P "$1" bash -c 'run "$@"' _
}
alone=/requests-
sed "\|$alone|d" "$logs/programs" | run_all "$(nproc)"
sed -n "\|$alone|p" "$logs/programs" | run_all 1
