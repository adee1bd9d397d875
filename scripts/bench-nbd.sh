#!/usr/bin/env bash
# bench-nbd.sh - memory served over NBD, beside nbdkit's memory plugin.
#
#   scripts/bench-nbd.sh [rounds]
#   environment: VARVE (the binary; default: a release build of this tree),
#   VARVE_NBD_SECONDS (of each measurement; default 3), VARVE_NBD_SIZE_MIB
#   (default 1024)
#
# fio's nbd engine on Unix sockets, four connections; the two servers take turns
# in every round (default 5), so that what else the machine does hits both. One
# request at a time is measured with client and server on one processor and on
# two: left to the scheduler it is now this, now that, and they differ by ten.
# Prints one line for each measurement, then medians and their ratio.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
rounds=${1:-5} seconds=${VARVE_NBD_SECONDS:-3} mib=${VARVE_NBD_SIZE_MIB:-1024}
need fio fio
need nbdkit nbdkit
need jq jq
need taskset util-linux
fio --enghelp | grep -qw nbd || { say "this fio has no nbd engine"; exit 1; }
if [ -z "${VARVE:-}" ]; then
	need_rust
	cargo build --quiet --release -p varve-cli
	VARVE=${CARGO_TARGET_DIR:-target}/release/varve
fi
VARVE=$(readlink -f "$VARVE")
work=$(mktemp -d)
servers=()
trap 'kill "${servers[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
"$VARVE" vld serve --memory "${mib}M" --unix "$work/varve" >/dev/null &
servers+=($!)
nbdkit --foreground --unix "$work/nbdkit" memory "${mib}M" &
servers+=($!)
for name in varve nbdkit; do
	for ((i = 0; i < 100; i++)); do
		[ ! -S "$work/$name" ] || break
		sleep 0.1
	done
done

everywhere=$(taskset -cp $$ | sed 's/.*: //')
# place CLIENT SERVERS: the processors they run on.
place() {
	client=$1
	for server in "${servers[@]}"; do taskset -acp "$2" "$server" >/dev/null; done
}
place "$everywhere" "$everywhere"

# measure SERVER NAME RW BS DEPTH JOBS [LIMIT]
measure() {
	taskset -c "$client" fio --name=x --ioengine=nbd --uri="nbd+unix:///?socket=$work/$1" --size="${mib}M" \
		--rw="$3" --bs="$4" --iodepth="$5" --numjobs="$6" ${7---time_based --runtime="$seconds"} \
		--group_reporting --output-format=json 2>/dev/null |
		sed -n '/^{/,$p' |
		jq -r --arg server "$1" --arg name "$2" \
			'.jobs[0] | (if .read.total_ios > 0 then .read else .write end) |
			[$name, $server, .iops, .bw_bytes / 1e6] | @tsv' >>"$work/results"
	tail -n 1 "$work/results"
}
cd "$work"
# All of it, once: memory that was never written has to be had first, and has
# no bytes to send.
for server in varve nbdkit; do measure "$server" fill write 1M 4 1 --loops=1 >/dev/null; done
: >"$work/results"
for ((round = 0; round < rounds; round++)); do
	for each in "random-read-4k randread 4k 16 4" "random-write-4k randwrite 4k 16 4" \
		"read-256k read 256k 8 4" "write-256k write 256k 8 4" \
		"random-read-4k-together randread 4k 1 1" "random-read-4k-apart randread 4k 1 1"; do
		case $each in
		*-together*) place 0 0 ;;
		*-apart*) if [ "$(nproc)" -gt 1 ]; then place 0 1; else continue; fi ;;
		*) place "$everywhere" "$everywhere" ;;
		esac
		for name in varve nbdkit; do
			# shellcheck disable=SC2086
			measure "$name" $each
		done
	done
done
printf '\n%-24s %12s %12s %10s %10s %7s\n' measurement "varve iops" "nbdkit iops" "varve MB/s" "nbdkit" "ratio"
awk -F '\t' -v rounds="$rounds" '
	function median(key,   n, i, j, t, v) {
		n = split(values[key], v, " ")
		for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] + 0 < v[j-1] + 0; j--) { t = v[j]; v[j] = v[j-1]; v[j-1] = t }
		return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
	}
	!($1 in seen) { seen[$1] = 1; names[++count] = $1 }
	{ values[$1, $2, "i"] = values[$1, $2, "i"] " " $3; values[$1, $2, "b"] = values[$1, $2, "b"] " " $4 }
	END {
		for (n = 1; n <= count; n++) {
			name = names[n]
			a = median(name SUBSEP "varve" SUBSEP "i"); b = median(name SUBSEP "nbdkit" SUBSEP "i")
			printf "%-24s %12.0f %12.0f %10.0f %10.0f %7.2f\n", name, a, b,
				median(name SUBSEP "varve" SUBSEP "b"), median(name SUBSEP "nbdkit" SUBSEP "b"), a / b
		}
	}' "$work/results"
