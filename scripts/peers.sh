# Shared by bench-peers.sh and bench-stages.sh, which source it: sets file systems up to be
# measured side by side. Wants WORK, VARVE and CACHE; sets MNT, and by setup() WHERE and COLD.
# Whoever sources it sets `trap cleanup EXIT`.
MNT=$WORK/mnt LOWER=$WORK/lower LOOP= SERVER=
mkdir -p "$MNT" || exit 1
ulimit -n "$(ulimit -Hn)"

say() { echo "[$(date +%T)] $*" >&2; }

teardown() {
	if mountpoint -q "$MNT"; then
		if [ "$(findmnt -n -o FSTYPE --target "$MNT")" = fuse.varve ]; then
			"$VARVE" umount "$MNT"
		else
			umount "$MNT" || { sleep 2; umount -l "$MNT"; }
		fi
	fi
	if [ -n "$SERVER" ]; then	# let the server write its last data
		for _ in $(seq 100); do kill -0 "$SERVER" 2>/dev/null || break; sleep 0.1; done
		kill "$SERVER" 2>/dev/null && say "server $SERVER did not end by itself"
		wait "$SERVER" 2>/dev/null
		SERVER=
	fi
	mountpoint -q "$LOWER" && umount "$LOWER"
	[ -n "$LOOP" ] && losetup -d "$LOOP"
	LOOP=
}
cleanup() { teardown; rm -f "$WORK"/image-* "$WORK/passthrough"; rmdir "$MNT" "$LOWER" 2>/dev/null; }

# A fully written image, so that the host allocates nothing while we measure.
image() {
	IMG=$WORK/image-$1
	[ -f "$IMG" ] && return 0
	truncate -s "$1" "$IMG" &&
		dd if=/dev/zero of="$IMG" bs=1M count=$(($(stat -c %s "$IMG") >> 20)) \
			conv=notrunc,fsync status=none
}

loop() {
	LOOP=$(losetup --direct-io=on -f --show "$IMG" 2>/dev/null) ||
		LOOP=$(losetup -f --show "$IMG")
}

mk_ext4() { mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$LOOP"; }

# await_server NAME: until it has mounted
await_server() {
	for _ in $(seq 100); do
		mountpoint -q "$MNT" && return 0
		kill -0 "$SERVER" 2>/dev/null || break
		sleep 0.1
	done
	say "$1 failed: $(tail -3 "$WORK/server.log")"
	return 1
}

fuse2fs_up() {
	fuse2fs -f "$LOOP" "$MNT" >"$WORK/server.log" 2>&1 &
	SERVER=$!
	await_server fuse2fs
}

PASSTHROUGH_SOURCE=/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c
passthrough_up() {
	mkdir -p "$LOWER" && mount -t ext4 "$LOOP" "$LOWER" || return 1
	[ -x "$WORK/passthrough" ] ||
		cc -O2 -o "$WORK/passthrough" "$PASSTHROUGH_SOURCE" $(pkg-config --cflags --libs fuse3) || return 1
	"$WORK/passthrough" -f -o "writeback,cache=always,allow_other,source=$LOWER" "$MNT" >"$WORK/server.log" 2>&1 &
	SERVER=$!
	await_server passthrough
}

# setup PEER SIZE: mounts the peer; WHERE and COLD are what bench needs. 2: not
# available here.
setup() {
	COLD=()
	image "$2" || return 1
	WHERE=(--dir "$MNT")
	case $1 in
	varve-lib)
		# bench makes the volume itself; whatever stood here has to go
		"$VARVE" mkfs --force "$IMG" >/dev/null || return 1
		WHERE=(--image "$IMG" --cache "$CACHE") ;;
	ffs-lib|vlfs-lib)
		"$VARVE" mkfs --force "$IMG" >/dev/null || return 1
		WHERE=(--image "$IMG" --cache "$CACHE" --layout "${1%-lib}") ;;
	varve-mount)
		"$VARVE" mkfs --force "$IMG" >/dev/null || return 1
		"$VARVE" mount "$IMG" "$MNT" --cache "$CACHE" || return 1
		COLD=(--cold-cmd "'$VARVE' umount '$MNT' && '$VARVE' mount '$IMG' '$MNT' --cache $CACHE") ;;
	ext4) loop && mk_ext4 && mount -t ext4 "$LOOP" "$MNT" ;;
	fuse2fs)
		command -v fuse2fs >/dev/null || return 2
		loop && mk_ext4 && fuse2fs_up ;;
	passthrough)
		[ -f "$PASSTHROUGH_SOURCE" ] && pkg-config --exists fuse3 && command -v cc >/dev/null ||
			{ say "passthrough needs cc, pkg-config and libfuse3-dev"; return 2; }
		loop && mk_ext4 && passthrough_up ;;
	*) say "unknown peer $1"; return 2 ;;
	esac
}
