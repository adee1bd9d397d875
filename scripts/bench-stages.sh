#!/bin/bash
# bench-stages.sh - where the time of a load goes, stage by stage.
#
#   scripts/bench-stages.sh [--peers "a b ..."] [--size 2G] [--cache 1G]
#                           [--hz 4000] [--record DIRECTORY]
#                           WORKLOAD [OPTIONS OF varve bench...]
#   scripts/bench-stages.sh --report DIRECTORY
#   environment: WORK, VARVE as for bench-peers.sh, and the same peers
#
# The whole machine is sampled (perf, the processor's clock as event, since virtual
# machines seldom have counters) while `varve bench` runs; for each of its phases this
# prints the processor's time by stage, in microseconds for each operation, or for each
# MiB where operations carry 64 KiB or more; requests to devices and to FUSE servers, how
# many, how large and how long each; and switches between threads. stages.awk says which
# function is which stage. Nothing else should run: its time would be counted, too. Summing
# takes longer than measuring: --record keeps what was measured, --report sums it later.
# Needs root, perf.
set -u
HERE=$(cd "$(dirname "$0")/.." && pwd)
WORK=${WORK:-/tmp/varve-stages}
PEERS="varve-lib varve-mount ext4" SIZE=2G CACHE=1G HZ=4000 RECORD= REPORT=

while [ $# -gt 0 ]; do
	case $1 in
	--peers) PEERS=$2; shift 2 ;;
	--size) SIZE=$2; shift 2 ;;
	--cache) CACHE=$2; shift 2 ;;
	--hz) HZ=$2; shift 2 ;;
	--record) RECORD=$(realpath -m "$2"); shift 2 ;;
	--report) REPORT=$2; shift 2 ;;
	-*) sed -n '2,/^set -u/{/^set -u/d;s/^# \{0,1\}//;p}' "$0"; exit 2 ;;
	*) break ;;
	esac
done
[ $# -gt 0 ] || [ -n "$REPORT" ] || { echo "bench-stages.sh: which workload? See --help." >&2; exit 2; }

if [ -z "${VARVE:-}" ] && [ -z "$REPORT" ]; then
	(cd "$HERE" && cargo build --release -q -p varve-cli -p varve-bench) || exit 1
	VARVE=${CARGO_TARGET_DIR:-$HERE/target}/release/varve
fi
. "$HERE/scripts/lib.sh"
need perf linux-perf || exit 1
. "$HERE/scripts/peers.sh"
trap cleanup EXIT
trap 'exit 130' INT TERM

# Each line of the benchmark, with the clock that perf has at its end.
stamped() {
	while read -r line; do
		read -r now _ </proc/uptime
		echo "$now $line"
	done
}

# Traced requests cost as much as small ones take, so what is sampled is not traced.
SAMPLES=(-g -e "cpu-clock/freq=$HZ/" -e context-switches/period=100/)
REQUESTS=(-e block:block_rq_issue -e block:block_rq_complete)
[ -d /sys/kernel/tracing/events/fuse ] &&
	REQUESTS+=(-e fuse:fuse_request_send -e fuse:fuse_request_end)

# record NAME EVENTS PEER WORKLOAD [OPTIONS...]: what perf saw, and the phases, into $RECORDS
record() {
	local at=$RECORDS/$3-$1 peer=$3
	local -n events=$2
	shift 3
	setup "$peer" "$SIZE" || { say "$peer: skipped"; teardown; return; }
	perf record -q -a -k monotonic "${events[@]}" -o "$at.data" -- sleep 1000 &
	PERF=$!
	sleep 0.5
	say "$peer $*"
	"$VARVE" bench "$@" "${WHERE[@]}" "${COLD[@]}" --tag "$peer" | stamped >"$at.phases"
	kill -INT $PERF
	wait $PERF 2>/dev/null
	teardown
}

report() {
	local data
	for data in "$RECORDS"/*.data; do
		perf script --no-inline -i "$data" -F comm,tid,cpu,time,event,ip,sym,trace 2>/dev/null |
			awk -v hz="$HZ" -f "$HERE/scripts/stages.awk" "${data%.data}.phases" -
	done
}

if [ -n "$REPORT" ]; then
	RECORDS=$REPORT
	report
	exit 0
fi
RECORDS=${RECORD:-$WORK/records}
mkdir -p "$RECORDS"
for peer in $PEERS; do
	record 1-sampled SAMPLES "$peer" "$@"
	record 2-traced REQUESTS "$peer" "$@"
done
if [ -z "$RECORD" ]; then
	report
	rm -r "$RECORDS"
fi
