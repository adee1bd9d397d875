#!/usr/bin/env bash
# memory-limit.sh - run a command with little memory, and say how it went.
#
#   scripts/memory-limit.sh SIZE COMMAND [ARGUMENT...]     e.g. 512M cargo test
#
# The command and all it starts, servers of mounts included, share SIZE bytes of
# memory, page cache and kernel memory included, without swap: a control group
# of version 2 or 1, whichever has the memory controller. Build first: compilers
# need more. Needs root. The exit code is the command's.
set -u
[ $# -ge 2 ] || { sed -n '2,/^set -u/{/^set -u/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
size=$(numfmt --from=iec "$1") || exit 2
shift

root=/sys/fs/cgroup
if grep -qw memory "$root/cgroup.controllers" 2>/dev/null; then
	echo +memory >"$root/cgroup.subtree_control" || exit 1
	group=$root/varve-$$ limit=memory.max swap=memory.swap.max
	peak=memory.peak hits='^max ' events=memory.events
elif [ -d "$root/memory" ]; then
	group=$root/memory/varve-$$ limit=memory.limit_in_bytes swap=memory.swappiness
	peak=memory.max_usage_in_bytes hits=. events=memory.failcnt
else
	echo "memory-limit.sh: no memory controller under $root" >&2
	exit 1
fi
mkdir "$group" || exit 1
cleanup() {
	# What the command left behind, a dead mount's server for one.
	for _ in $(seq 50); do
		rmdir "$group" 2>/dev/null && return
		while read -r pid; do kill -KILL "$pid"; done <"$group/cgroup.procs"
		sleep 0.1
	done
}
trap cleanup EXIT
echo "$size" >"$group/$limit" || exit 1
[ ! -e "$group/$swap" ] || echo 0 >"$group/$swap"

(echo "$BASHPID" >"$group/cgroup.procs" && exec "$@")
code=$?
killed=$(grep -h '^oom_kill ' "$group/memory.events" "$group/memory.oom_control" 2>/dev/null | cut -d' ' -f2)
printf 'memory: peak %s of %s, limit reached %s times, killed for it: %s, exit code %s\n' \
	"$(numfmt --to=iec "$(cat "$group/$peak")")" "$(numfmt --to=iec "$size")" \
	"$(grep -E "$hits" "$group/$events" | grep -oE '[0-9]+$')" "${killed:-?}" "$code" >&2
exit "$code"
