#!/bin/sh
# Point reads of the record store beside LMDB, alternately.
#
# scripts/bench-reads.sh DIRECTORY [SECONDS] [ROUNDS]: one JSON line for each run.
# DIRECTORY is made, and removed again; needs liblmdb-dev and a C compiler.
set -eu
cd "$(dirname "$0")/.."
directory=$1 seconds=${2:-5} rounds=${3:-3}
if [ ! -e /usr/include/lmdb.h ]; then
    apt-get install -y liblmdb-dev
fi
if [ -e "$directory" ]; then
    echo "$directory is there already; it would be removed" >&2
    exit 1
fi
mkdir -p "$directory"
trap 'rm -rf "$directory"' EXIT
cc -O2 -o "$directory/reads-lmdb" scripts/reads-lmdb.c -llmdb -lpthread
cargo bench --no-run -p varve-tp --bench reads
for _ in $(seq "$rounds"); do
    for gets in 1 100; do
        for threads in 1 2; do
            cargo bench -q -p varve-tp --bench reads -- "$directory/tp" \
                --threads "$threads" --seconds "$seconds" --gets "$gets"
            rm -rf "$directory/tp"
            mkdir "$directory/lmdb"
            "$directory/reads-lmdb" "$directory/lmdb" "$threads" "$seconds" 100000 "$gets"
            rm -rf "$directory/lmdb"
        done
    done
done
