#!/bin/bash
# bench-peers.sh - measure Varve beside other file systems in the same run.
#
#   scripts/bench-peers.sh [options]
#     --peers "a b ..."      default: "varve-lib varve-mount ext4 fuse2fs"
#     --workloads "a b ..."  default: smallfile sizes largefile fsyncupdate
#                            tpcb metadata cached fillaging; of the papers'
#                            programs: oo1 wisconsin scan andrew multiandrew
#                            supercomputer bandwidth bigfile office
#     --runs N               repetitions of smallfile, largefile, metadata and
#                            the papers' programs (3)
#     --seconds S            length of the timed phases (10; aging 25)
#     --size BYTES           image of the general workloads (4G)
#     --age-size BYTES       image of fillaging (1G)
#     --utils "50 75 90"     fill levels of fillaging, in per cent
#     --cache BYTES          memory of a Varve volume (1G)
#     --out FILE             results are appended here (./peers.jsonl)
#     --table                print the table of ratios to ext4 at the end
#   environment: WORK (images and mount point; default /tmp/varve-peers),
#   VARVE (the binary; default: the release build of this tree)
#
# Peers: varve-lib, varve-mount, ffs-lib and vlfs-lib (the library on the layout in place
# with its journal, and on the virtual log), ext4, fuse2fs, and passthrough, a FUSE server
# that forwards to ext4: libfuse's own passthrough_ll with its write-back cache
# on, built from the example in Debian's libfuse3-dev (which has no
# passthrough_hp).
# Every peer gets a fresh file system on a fully written image: ext4 and
# fuse2fs on a loop device with direct I/O and default options, Varve on the
# image file itself with direct I/O. All run the same program, `varve bench`:
# varve-lib in this process, the others through system calls. Peers take turns
# workload by workload, so that a disturbed minute hits all of them. Cold means
# a remount for FUSE servers, as their own caches cannot be dropped otherwise,
# and dropped kernel caches for all.
# Needs root. Ends only processes it started; unmounts and frees its loops.
set -u
HERE=$(cd "$(dirname "$0")/.." && pwd)
WORK=${WORK:-/tmp/varve-peers}
PEERS="varve-lib varve-mount ext4 fuse2fs"
WORKLOADS="smallfile sizes largefile fsyncupdate tpcb metadata cached fillaging"
RUNS=3 SECONDS_EACH=10 SIZE=4G AGE_SIZE=1G UTILS="50 75 90" CACHE=1G
OUT=$PWD/peers.jsonl TABLE=

while [ $# -gt 0 ]; do
	case $1 in
	--peers) PEERS=$2; shift 2 ;;
	--workloads) WORKLOADS=$2; shift 2 ;;
	--runs) RUNS=$2; shift 2 ;;
	--seconds) SECONDS_EACH=$2; shift 2 ;;
	--size) SIZE=$2; shift 2 ;;
	--age-size) AGE_SIZE=$2; shift 2 ;;
	--utils) UTILS=$2; shift 2 ;;
	--cache) CACHE=$2; shift 2 ;;
	--out) OUT=$(realpath -m "$2"); shift 2 ;;
	--table) TABLE=1; shift ;;
	-h|--help) sed -n '2,/^set -u/{/^set -u/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
	*) echo "bench-peers.sh: unknown option $1" >&2; exit 2 ;;
	esac
done

if [ -z "${VARVE:-}" ]; then
	(cd "$HERE" && cargo build --release -q -p varve-cli -p varve-bench) || exit 1
	VARVE=${CARGO_TARGET_DIR:-$HERE/target}/release/varve
fi
. "$HERE/scripts/peers.sh"
trap cleanup EXIT
trap 'exit 130' INT TERM

# measure PEER SIZE WORKLOAD RUN OPTIONS...
measure() {
	local peer=$1 size=$2 workload=$3 run=$4 rc; shift 4
	setup "$peer" "$size"; rc=$?
	if [ $rc -eq 0 ]; then
		say "$peer $workload $run $*"
		timeout 300 "$VARVE" bench "$workload" "${WHERE[@]}" "${COLD[@]}" --tag "$peer" \
			--first-run "$run" "$@" >>"$OUT"
		rc=$?
		[ $rc -eq 124 ] && echo "{\"fs\":\"$peer\",\"run\":$run,\"workload\":\"$workload\",\"phase\":\"\",\"error\":\"timeout\"}" >>"$OUT"
		[ $rc -ne 0 ] && say "$peer $workload run $run: exit $rc"
	else
		say "$peer: skipped (setup $rc)"
	fi
	teardown
}

for workload in $WORKLOADS; do
	case $workload in
	smallfile|largefile|metadata|oo1|wisconsin|scan|andrew|multiandrew|supercomputer|bandwidth|bigfile|office)
		for run in $(seq "$RUNS"); do
			for peer in $PEERS; do measure "$peer" "$SIZE" "$workload" "$run"; done
		done ;;
	sizes)
		for peer in $PEERS; do measure "$peer" "$SIZE" sizes 1; done ;;
	cached)
		for threads in 1 2; do
			for peer in $PEERS; do measure "$peer" "$SIZE" cached 1 --threads $threads; done
		done ;;
	fsyncupdate)
		for threads in 1 4; do
			for peer in $PEERS; do
				measure "$peer" "$SIZE" fsyncupdate 1 --threads $threads --seconds "$SECONDS_EACH"
			done
		done ;;
	tpcb)
		for peer in $PEERS; do
			measure "$peer" "$SIZE" tpcb 1 --seconds "$SECONDS_EACH"
			measure "$peer" "$SIZE" tpcb 1 --seconds 2 --nosync
		done ;;
	fillaging)
		for util in $UTILS; do
			for peer in $PEERS; do
				measure "$peer" "$AGE_SIZE" fillaging 1 --util "$util" --seconds $((SECONDS_EACH * 5 / 2))
			done
		done ;;
	*) say "unknown workload $workload"; exit 2 ;;
	esac
done
say "done: $OUT"
[ -n "$TABLE" ] && "$VARVE" bench --table "$OUT" --baseline ext4
exit 0
