#!/bin/sh
# TPC-B: transactions of the library and the record store beside Berkeley DB 5.3, alternately.
#
# scripts/bench-tpcb.sh DIRECTORY [SECONDS] [ROUNDS]: one JSON line for each run.
# DIRECTORY is made, and removed again; needs libdb5.3-dev and a C compiler.
set -eu
cd "$(dirname "$0")/.."
directory=$1 seconds=${2:-10} rounds=${3:-3}
if [ ! -e /usr/include/db.h ]; then
    apt-get install -y libdb5.3-dev
fi
if [ -e "$directory" ]; then
    echo "$directory is there already; it would be removed" >&2
    exit 1
fi
mkdir -p "$directory"
trap 'rm -rf "$directory"' EXIT
cc -O2 -o "$directory/tpcb-bdb" scripts/tpcb-bdb.c -ldb -lpthread
cargo bench --no-run -p varve --bench tpcb
cargo bench --no-run -p varve-tp --bench tpcb
varve() {
    cargo bench -q -p varve --bench tpcb -- "$directory/v.img" --seconds "$seconds" "$@"
    rm -f "$directory/v.img"
}
tp() {
    cargo bench -q -p varve-tp --bench tpcb -- "$directory/tp" --seconds "$seconds" "$@"
    rm -rf "$directory/tp"
}
bdb() {
    mkdir "$directory/bdb"
    "$directory/tpcb-bdb" "$directory/bdb" "$1" "$seconds" "$2" "$3"
    rm -rf "$directory/bdb"
}
for round in $(seq "$rounds"); do
    for threads in 1 8; do
        varve --threads "$threads"
        tp --threads "$threads"
        for page in 1024 4096; do bdb "$threads" 1 "$page"; done
        varve --threads "$threads" --no-sync
        tp --threads "$threads" --no-sync
        for page in 1024 4096; do bdb "$threads" 0 "$page"; done
    done
done
