#!/bin/sh
# TPC-B and hot reads on varve-tp beside Berkeley DB, SQLite with a write-ahead log,
# RocksDB's TransactionDB, LMDB, redb and fjall, alternately.
#
# scripts/bench-tp-peers.sh DIRECTORY [SECONDS] [ROUNDS] [ACCOUNTS] [SYSTEM...]: one JSON
# line for each run, of 3 seconds, 3 rounds, 100000 accounts; DIRECTORY is made, and removed
# again. varve-tp-client is varve-tp through the socket of a holder. Needs libdb5.3-dev,
# librocksdb-dev and a C compiler. What was written is counted at the disk: let nothing
# else write to it.
set -eu
cd "$(dirname "$0")/tp-peers"
directory=$1 seconds=${2:-3} rounds=${3:-3} accounts=${4:-100000}
shift $(($# < 4 ? $# : 4))
systems=${*:-varve-tp varve-tp-client bdb sqlite rocksdb lmdb redb fjall}
for need in db.h:libdb5.3-dev rocksdb/c.h:librocksdb-dev; do
    if [ ! -e "/usr/include/${need%:*}" ]; then apt-get install -y "${need#*:}" >&2; fi
done
cargo build --release --quiet
peers=${CARGO_TARGET_DIR:-target}/release/varve-tp-peers
if [ -e "$directory" ]; then
    echo "$directory is there already; it would be removed" >&2
    exit 1
fi
mkdir -p "$directory"
trap 'rm -rf "$directory"' EXIT
cc -O2 -o "$directory/tpcb-bdb" ../tpcb-bdb.c -ldb -lpthread
bdb() {
    mkdir "$directory/bank"
    "$directory/tpcb-bdb" "$directory/bank" "$1" "$seconds" "$2" "$3" "$accounts"
    rm -rf "$directory/bank"
}
for round in $(seq "$rounds"); do
    for system in $systems; do
        if [ "$system" = bdb ]; then
            for threads in 1 8; do
                for page in 1024 4096; do
                    bdb "$threads" 1 "$page"
                    bdb "$threads" 0 "$page"
                done
            done
            continue
        fi
        for sync in "" --no-sync; do
            "$peers" "$system" "$directory/bank" --accounts "$accounts" --seconds "$seconds" $sync
            rm -rf "$directory/bank"
        done
    done
done
