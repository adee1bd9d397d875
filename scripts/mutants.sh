#!/usr/bin/env bash
# Changes the log's code in small ways, one at a time, and sees whether the
# tests of varve-lfs and varve-fsck notice: a mutation score on a seeded sample.
#
#   scripts/mutants.sh [SEED [COUNT [SKIP]]]      default: 1 40 0
#
# The mutants stand in an order that the seed decides; SKIP passes over the
# first so many, so that a sample can be made larger later. What is committed
# is mutated, in a worktree under $VARVE_MUTANTS_DIR (default: target/mutants),
# with the target directory kept between mutants: each costs 10 to 60 seconds.
# $VARVE_MUTANTS_TIMEOUT (default: 180) is how many seconds the tests of a stage
# may take: give more on a machine that does other things as well.
# Exit status 2: something was missed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

seed=${1:-1} count=${2:-40} skip=${3:-0}
timeout=${VARVE_MUTANTS_TIMEOUT:-180}
out=$(realpath -m "${VARVE_MUTANTS_DIR:-target/mutants}")
files='crates/core/log/src/{format,recovery,cleaner,checkpoint}/**'
# The second stage sees only what the first missed.
unit=(--lib)
programs=(--test log --test integrity)

need_rust
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
cargo mutants --version >/dev/null 2>&1 || cargo install --locked cargo-mutants --version 27.1.0

mkdir -p "$out"
tree=$out/tree
git worktree remove --force "$tree" 2>/dev/null || true
git worktree add --quiet --force --detach "$tree" HEAD
trap 'git worktree remove --force "$tree"' EXIT
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$out/target}
cd "$tree"

say "testing what is committed, unchanged"
cargo test --quiet -p varve-lfs -p varve-fsck "${unit[@]}" "${programs[@]}" >"$out/baseline.log" 2>&1 ||
  { say "the tests fail without any mutant: see $out/baseline.log"; exit 1; }

mutants() {
  cargo mutants -p varve-lfs --test-package varve-lfs,varve-fsck -f "$files" "$@"
}
mutants --list >"$out/all"
total=$(wc -l <"$out/all")

# try NUMBER TEST-ARGUMENT...: says what became of a mutant. One shard of as
# many as there are mutants is one mutant.
try() {
  local shard=$1/$total dir=$out/last
  shift
  rm -rf "$dir" && mkdir "$dir"
  mutants --shard "$shard" --in-place --baseline=skip --timeout "$timeout" --build-timeout 600 \
    -o "$dir" "${@/#/--cargo-arg=}" >"$dir/log" 2>&1 </dev/null ||
    case $? in
    2 | 3) ;; # missed, timeout
    *) cat "$dir/log" >&2 && exit 1 ;;
    esac
  for outcome in caught missed unviable timeout; do
    [ ! -s "$dir/mutants.out/$outcome.txt" ] || echo "$outcome"
  done
}

# Ordered by a hash of the seed and the mutant's name.
number=0
while IFS= read -r name; do
  hash=$(printf '%s %s' "$seed" "$name" | sha256sum | cut -c1-16)
  printf '%s\t%s\t%s\n' "$hash" "$number" "$name"
  number=$((number + 1))
done <"$out/all" | sort | sed -n "$((skip + 1)),$((skip + count))p" | cut -f2- >"$out/sample"

say "seed $seed: $(wc -l <"$out/sample") of $total mutants"
: >"$out/outcomes"
while IFS=$'\t' read -r number name; do
  outcome=$(try "$number" "${unit[@]}")
  [ "$outcome" != missed ] || outcome=$(try "$number" "${programs[@]}")
  printf '%s\t%s\n' "$outcome" "$name" | tee -a "$out/outcomes"
done <"$out/sample"
cut -f1 "$out/outcomes" | sort | uniq -c
! grep -q ^missed "$out/outcomes" || exit 2
