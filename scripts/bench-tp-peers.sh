#!/bin/sh
# TPC-B (100,000 accounts) and hot reads on varve-tp beside SQLite with a write-ahead log,
# LMDB, redb and fjall, alternately. Berkeley DB is in bench-tpcb.sh.
#
# scripts/bench-tp-peers.sh DIRECTORY [SECONDS] [ROUNDS] [SYSTEM...]: one JSON line for
# each run; DIRECTORY is made, and removed again. varve-tp-client is varve-tp through the
# socket of a holder; what that writes is not in its line.
set -eu
cd "$(dirname "$0")/tp-peers"
directory=$1 seconds=${2:-3} rounds=${3:-3}
shift $(($# < 3 ? $# : 3))
systems=${*:-varve-tp varve-tp-client sqlite lmdb redb fjall}
cargo build --release --quiet
peers=${CARGO_TARGET_DIR:-target}/release/varve-tp-peers
if [ -e "$directory" ]; then
    echo "$directory is there already; it would be removed" >&2
    exit 1
fi
mkdir -p "$directory"
trap 'rm -rf "$directory"' EXIT
run() {
    "$peers" "$system" "$directory/bank" "$@" --seconds "$seconds"
    rm -rf "$directory/bank"
}
for round in $(seq "$rounds"); do
    for system in $systems; do
        for threads in 1 8; do
            run tpcb --threads "$threads"
            run tpcb --threads "$threads" --no-sync
        done
        for threads in 1 2; do run reads --threads "$threads"; done
    done
done
