#!/usr/bin/env bash
# How much of the log's code its tests reach: lines and branches of four parts.
#
#   scripts/coverage.sh              everything below; 20 minutes on two cores
#   scripts/coverage.sh lfs          the tests of varve-lfs and varve-fsck anew; 5 minutes
#   scripts/coverage.sh prove        those of varve-prove anew
#   scripts/coverage.sh -n           measure nothing, report what was measured
#   environment: VARVE_COVERAGE_DIR  profiles and reports; default:
#                                    target/coverage
#
# What was measured before of other tests is kept and counted with it, until
# the code changes.
#
# The tests of varve-lfs and varve-fsck, and of varve-prove those that work on the log, its
# planted bugs excepted. The mounts and the fuzz targets are not asked: what
# they reach comes on top. A line counts if any test reached it, a branch if any
# took it. Tests do not count, nor the branches of a line that plants a bug: in
# this build there are none. What was not reached is listed in missed, by file
# and line.
#
# Branches need an option of the compiler that is not stable yet, so the
# compiler is told to accept it (RUSTC_BOOTSTRAP), for the crates measured only.
set -euo pipefail

# As the compiler's wrapper: measures the log and what is linked with it.
if [ -n "${VARVE_COVERAGE_WRAPS:-}" ]; then
  rustc=$1
  shift
  case " $* " in
  *" --crate-name varve_device "* | *" --crate-name varve_fs "* | \
    *" --crate-name varve_fuse "* | *" --crate-name varve_prove "* | \
    *" --crate-name ___ "* | *" -vV "*) exec "$rustc" "$@" ;;
  esac
  RUSTC_BOOTSTRAP=1 exec "$rustc" "$@" -C instrument-coverage -Z coverage-options=branch
fi

cd "$(dirname "$0")/.."
. scripts/lib.sh

case ${1:-} in
-n) suites=() ;;
lfs | prove) suites=("$1") ;;
'') suites=(lfs prove) ;;
*) sed -n '2,/^set -eu/{/^set -eu/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 1 ;;
esac
out=$(realpath -m "${VARVE_COVERAGE_DIR:-target/coverage}")
mkdir -p "$out"

need_rust
tools=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin
[ -x "$tools/llvm-cov" ] || rustup component add llvm-tools ||
  { say "missing: llvm-cov. Install the component 'llvm-tools' with rustup."; exit 1; }

arguments() {
  case $1 in
  lfs) echo -p varve-lfs -p varve-fsck ;;
  prove)
    echo -p varve-prove
    for test in bounded crashes faults full images leftover protocol_traces reference sabotage; do
      echo --test $test
    done
    ;;
  esac
}

# suite NAME: runs it and keeps one profile, and the programs it came from.
suite() {
  local raw=$out/raw-$1
  rm -rf "$raw" && mkdir "$raw"
  say "$1: building and running its tests"
  # shellcheck disable=SC2046  # words
  VARVE_COVERAGE_WRAPS=1 RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/coverage.sh \
    cargo test $(arguments "$1") --no-run 2>&1 | tee "$out/$1.build" >&2
  sed -n 's/^ *Executable .*(\(.*\))$/\1/p' "$out/$1.build" >"$out/$1.objects"
  # shellcheck disable=SC2046
  VARVE_COVERAGE_WRAPS=1 RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/coverage.sh \
    LLVM_PROFILE_FILE=$raw/%p-%m.profraw \
    cargo test $(arguments "$1") --no-fail-fast >"$out/$1.log" 2>&1 ||
    { say "tests fail: see $out/$1.log"; exit 1; }
  "$tools/llvm-profdata" merge --sparse "$raw"/*.profraw -o "$out/$1.profdata"
  rm -rf "$raw"
}

[ $# -gt 0 ] || rm -f "$out"/*.profdata "$out"/*.objects
for name in "${suites[@]}"; do suite "$name"; done

"$tools/llvm-profdata" merge --sparse "$out"/*.profdata -o "$out/all"
objects=()
while read -r object; do objects+=(--object "$object"); done < <(cat "$out"/*.objects)
: >"$out/missed"
printf '%-12s %18s %18s\n' part lines branches
for part in format recovery cleaner checkpoint; do
  mapfile -t sources < <(find "$PWD/crates/core/log/src/$part" -name '*.rs' ! -path '*/tests*' | sort)
  "$tools/llvm-cov" export --format=lcov --instr-profile="$out/all" "${objects[@]:1}" \
    --sources "${sources[@]}" >"$out/$part.lcov"
  # A line may belong to several copies of a function, and a branch too: the
  # greatest count is what counts.
  awk -v part=$part -v missed="$out/missed" '
    function sum(counts, names, kind,   key, all, hit) {
      for (key in counts) { all++; if (counts[key] > 0) hit++; else print kind " " key >>missed }
      return sprintf("%d/%d %.1f %%", hit, all, all ? 100 * hit / all : 100)
    }
    function note(counts, key, count) { if (!(key in counts) || count > counts[key]) counts[key] = count + 0 }
    /^SF:/ {
      path = file = substr($0, 4)
      sub(/.*varve-lfs\/src\//, "", file)
      of_tests = 0
      for (line = 1; (getline text <path) > 0; line++) {
        if (text ~ /^mod tests \{/) of_tests = 1
        if (of_tests) ignored[file ":" line] = "all"
        else if (text ~ /planted::is/) ignored[file ":" line] = "branches"
      }
      close(path)
    }
    /^DA:/ {
      split(substr($0, 4), field, ",")
      if (ignored[file ":" field[1]] != "all") note(lines, file ":" field[1], field[2])
    }
    /^BRDA:/ {
      split(substr($0, 6), field, ",")
      at = file ":" field[1]
      if (ignored[at] == "") note(branches, at " " field[2] "," field[3], field[4])
    }
    END { printf "%-12s %18s %18s\n", part, sum(lines, 0, "line"), sum(branches, 0, "branch") }
  ' "$out/$part.lcov"
done
sort -t: -k1,1 -k2,2n -o "$out/missed" "$out/missed"
say "what was not reached: $out/missed"
