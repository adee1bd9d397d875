#!/usr/bin/env bash
# conformance.sh - run public conformance programs on mounts of the built varve.
#
#   scripts/conformance.sh
#   environment: VARVE (the binary; default: a debug build of this tree),
#   VARVE_FSX_OPERATIONS (default 10000, on each mount), VARVE_SEED (of fsx;
#   default: drawn, and printed), VARVE_CONFORMANCE_TOOLS (where the programs
#   are installed; default: conformance/ in the target directory)
#
# pjdfstest (POSIX, call by call) and fsx (one file changed at random in every
# way and read back), both from crates.io, installed once. Each runs on two
# mounts of the segmented log and two of VLFS, which have requests over io_uring
# and over /dev/fuse, with POSIX ACLs in force and not, each pair of these once;
# and on one of FFS. The other policies of allocation have a mount each, with the
# cases that take and give up room, and a tenth of the operations of fsx.
# pjdfstest's cases that are skipped are listed with its reason; none may fail.
# Needs root and /dev/fuse; without them it skips and says so, and fails
# if CI is set. Whatever takes too long is ended, together with the mount below
# it, and named.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
export LC_ALL=C

PJDFSTEST=0.2.2
FSX=0.3.2
# Seconds; a debug build on two busy CPUs takes a fifth of that.
INSTALL_MAX=900 MOUNT_MAX=60 SUITE_MAX=240

fail() { say "conformance: $*"; exit 1; }
lacks() {
	if [ -n "${CI:-}" ]; then fail "CI must have $*"; fi
	say "=== SKIPPED: no $*; no conformance program was run and NOTHING was proved ==="
	exit 0
}
[ "$(id -u)" = 0 ] || lacks "root"
{ : <>/dev/fuse; } 2>/dev/null || lacks "/dev/fuse that opens"

# Mounts of our own, which nobody else sees and which end with us.
if [ -z "${VARVE_CONFORMANCE_APART:-}" ]; then
	need unshare util-linux
	unshare --mount --propagation private true 2>/dev/null || lacks "the right to mount (unshare --mount)"
	VARVE_CONFORMANCE_APART=1 exec unshare --mount --propagation private "$PWD/scripts/conformance.sh"
fi

need_rust
target=${CARGO_TARGET_DIR:-$PWD/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
tools=${VARVE_CONFORMANCE_TOOLS:-$target/conformance}
if [ -z "${VARVE:-}" ]; then
	cargo build --quiet -p varve-cli
	VARVE=$target/debug/varve
fi
VARVE=$(readlink -f "$VARVE")
"$VARVE" --version >/dev/null || fail "$VARVE does not run"

# install CRATE VERSION
install() {
	local program=$tools/bin/$1
	if [ "$("$program" --version 2>/dev/null)" = "$1 $2" ]; then return; fi
	say "installing $1 $2 into $tools"
	mkdir -p "$tools"
	# Optimised it takes twice as long to build and not less to run.
	CARGO_PROFILE_DEV_DEBUG=0 timeout -s KILL "$INSTALL_MAX" cargo install --debug --locked --force --root "$tools" \
		--target-dir "$tools/build" --version "=$2" "$1" >"$tools/$1.log" 2>&1 || {
		tail -n 30 "$tools/$1.log" >&2
		fail "cannot install $1 $2 from crates.io (network? more than $INSTALL_MAX s?)"
	}
	[ -x "$program" ] || fail "installing $1 left no $program"
}
install pjdfstest "$PJDFSTEST"
install fsx "$FSX"
rm -rf "$tools/build"

# pjdfstest calls these.
need mount mount
need which debianutils

# Short: a socket's path has at most 107 bytes, and pjdfstest takes 55 of them.
# Its tests visit as other users, who must get through.
umask 022
work=
for place in /tmp /var/tmp /run; do
	work=$(mktemp -d "$place/vc.XXXXXX" 2>/dev/null) && break
done
[ -n "$work" ] || fail "no directory for temporary files"
chmod 755 "$work"
mnt="$work/a mount"
mkdir "$mnt" "$work/other"
# mount(8) has a helper remount, if it finds one: /sbin/mount.fuse.varve if that
# is installed, else /sbin/mount.fuse, and that looks for varve where a shell
# looks by default.
if [ -e /sbin/mount.fuse ]; then mount --bind "$VARVE" /sbin/mount.fuse; fi
export PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin

# The connection's number, while the mount is there; nothing touches the mount.
connection() {
	awk -v at="${mnt// /\\\\040}" '$5 == at { split($3, device, ":"); n = device[2] } END { print n }' /proc/self/mountinfo
}
server=
# Takes the mount away, whatever state it is in.
sever() {
	local number
	number=$(connection)
	if [ -n "$number" ]; then echo 1 >"/sys/fs/fuse/connections/$number/abort" 2>/dev/null || true; fi
	# Before umount, which may have to wait for it.
	if [ -n "$server" ]; then kill -KILL "$server" 2>/dev/null || true; fi
	if [ -n "$number" ]; then umount -l "$mnt" 2>/dev/null || true; fi
}
running=
trap 'status=$?; trap "" INT TERM; sever; [ -z "$running" ] || kill -KILL "$running" 2>/dev/null || true; rm -rf "$work"; exit "$status"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# await SECONDS PROCESS: false if it has not ended by then.
await() {
	local i
	for ((i = 0; i < $1 * 20; i++)); do
		kill -0 "$2" 2>/dev/null || return 0
		sleep 0.05
	done
	return 1
}

# part NAME SECONDS COMMAND...: runs it, its output in $work/output. A program
# that waits for a server that does not answer cannot be killed, so what takes
# too long loses its mount first.
part() {
	local name=$1 seconds=$2
	shift 2
	"$@" </dev/null >"$work/output" 2>&1 &
	running=$!
	if ! await "$seconds" "$running"; then
		sever
		kill -KILL "$running" 2>/dev/null || true
		tail -n 20 "$work/output" >&2
		told
		fail "$name on $where took more than $seconds s"
	fi
	local status=0
	wait "$running" || status=$?
	running=
	return "$status"
}
# What the server had to say.
told() { sed "s/^/server: /" "$work/server.log" >&2 || true; }

# How it is mounted, for messages.
where=
# mount_with LAYOUT OPTIONS
mount_with() {
	where="a mount of layout $1 with $2"
	rm -f "$work/image"
	part "mkfs" "$MOUNT_MAX" "$VARVE" mkfs --layout "$1" --size 512M "$work/image" || { cat "$work/output" >&2; fail "mkfs failed"; }
	VARVE_LOG=warn "$VARVE" mount -f -o "$2" "$work/image" "$mnt" </dev/null >"$work/server.log" 2>&1 &
	server=$!
	local i
	for ((i = 0; i < MOUNT_MAX * 20; i++)); do
		[ -z "$(connection)" ] || break
		kill -0 "$server" 2>/dev/null || { told; fail "$where: the server ended"; }
		sleep 0.05
	done
	[ -n "$(connection)" ] || fail "$where did not come up in $MOUNT_MAX s"
	part "stats" "$MOUNT_MAX" "$VARVE" stats "$mnt" || { cat "$work/output" >&2; fail "$where answers no statistics"; }
}
unmount() {
	part "umount" "$MOUNT_MAX" "$VARVE" umount "$mnt" || { cat "$work/output" >&2; told; fail "$where cannot be unmounted"; }
	await "$MOUNT_MAX" "$server" || { told; fail "$where: the server does not end"; }
	wait "$server" || { told; fail "$where: the server failed"; }
	server=
	part "fsck" "$MOUNT_MAX" "$VARVE" fsck --data "$work/image" || { cat "$work/output" >&2; fail "fsck after $where"; }
}

# Two users that every system has, and their groups by whatever name.
for user in nobody daemon; do
	id -gn "$user" >/dev/null 2>&1 || fail "no user $user, or it has no group with a name"
done
entry() { printf '["%s", "%s"]' "$1" "$(id -gn "$1")"; }
# config ALLOW_REMOUNT
config() {
	cat <<TOML
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
# More than the 4 to 10 ms by which times advance.
naptime = 0.03
allow_remount = $1
[dummy_auth]
entries = [$(entry nobody), $(entry daemon)]
TOML
}
config true >"$work/read-only.toml"
config false >"$work/others.toml"
cat >"$work/fsx.toml" <<TOML
flen = 1048576
[opsize]
max = 131072
[weights]
close_open = 1
invalidate = 1
mapread = 10
mapwrite = 10
read = 10
write = 10
truncate = 5
fsync = 0.3
fdatasync = 0.3
posix_fallocate = 2
punch_hole = 5
sendfile = 3
posix_fadvise = 2
copy_file_range = 5
TOML

# suite CONFIG PATTERN...
suite() {
	local status=0 config=$1
	shift
	part pjdfstest "$SUITE_MAX" "$tools/bin/pjdfstest" -c "$work/$config.toml" \
		-s "$work/other" -p "$mnt" "$@" || status=$?
	local summary
	summary=$(grep -a '^Summary' "$work/output" || true)
	if [ "$status" != 0 ] || [ -z "$summary" ]; then
		grep -a -A 4 -E 'FAILED|UNEXPECTEDLY' "$work/output" >&2 || tail -n 20 "$work/output" >&2
		told
		fail "pjdfstest on $where: exit code $status, ${summary:-no summary}"
	fi
	say "  pjdfstest, $config: ${summary#Summary: }"
}
# Its cases of read-only mounts by themselves: those of posix_fallocate leave
# files open for writing, so that nothing can be made read-only after them.
run_pjdfstest() {
	suite read-only erofs
	suite others
	cp "$work/output" "$work/last"
}
# run_fsx OPERATIONS
run_fsx() {
	local seed=${VARVE_SEED:-$RANDOM$RANDOM} operations=$1
	part fsx "$((SUITE_MAX + operations / 100))" "$tools/bin/fsx" -f "$work/fsx.toml" -N "$operations" \
		-S "$seed" -P "$work" "$mnt/fsx" || {
		tail -n 60 "$work/output" >&2
		told
		fail "fsx on $where, seed $seed; again: VARVE_SEED=$seed VARVE_FSX_OPERATIONS=$operations scripts/conformance.sh"
	}
	say "  fsx: $operations operations, seed $seed"
}

say "pjdfstest $PJDFSTEST and fsx $FSX on $("$VARVE" --version), $VARVE"
operations=${VARVE_FSX_OPERATIONS:-10000}
# The layout is another room than transport and lists: every pair of these once.
for mount in log/uring/acl log/nouring/noacl vlfs/uring/noacl vlfs/nouring/acl \
	ffs/nouring/acl {extent,buddy,restricted,fixed}/nouring/noacl; do
	IFS=/ read -r layout transport lists <<<"$mount"
	mount_with "$layout" "$transport,$lists"
	over=/dev/fuse
	if grep -q over_io_uring "$work/output"; then over=io_uring; fi
	if [ "$transport" = uring ] && [ "$over" != io_uring ]; then
		say "=== SKIPPED: $where: this kernel has no FUSE over io_uring ==="
		unmount
		continue
	fi
	say "--layout $layout -o $transport,$lists: requests over $over"
	case $layout in
	log | vlfs | ffs)
		run_pjdfstest
		run_fsx "$operations"
		;;
	*)
		suite others ftruncate truncate posix_fallocate unlink
		run_fsx "$((operations / 10))"
		;;
	esac
	unmount
done
say "skipped by pjdfstest for other reasons than that they ran by themselves:"
awk '/ skipped$/ { name = $1; next } /^\t/ && name != "" && !/allow_remount/ { print "  " name ":" $0; next } { name = "" }' \
	"$work/last" >&2
