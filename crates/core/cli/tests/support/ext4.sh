# ext4.sh PHASE WORK SOCKET PID: an ext4 over nbdfuse and a loop device.
# make: makes it. write-and-kill: writes, and kills the server PID while it
# does. check: fsck, then what was synced. Whatever happens, mounts and loop
# devices are gone in the end.
set -euo pipefail
phase=$1 work=$2 socket=$3 server=$4
fuse=$work/fuse mnt=$work/mnt loop= client=
mkdir -p "$fuse" "$mnt"
cleanup() {
	set +e
	if mountpoint -q "$mnt"; then timeout -s KILL 30 umount "$mnt" 2>/dev/null || umount -l "$mnt"; fi
	[ -z "$loop" ] || losetup -d "$loop" 2>/dev/null
	fusermount3 -u "$fuse" 2>/dev/null || fusermount3 -uz "$fuse" 2>/dev/null
	[ -z "$client" ] || { kill "$client" 2>/dev/null; wait "$client" 2>/dev/null; }
}
trap cleanup EXIT
nbdfuse "$fuse/disk" --unix "$socket" &
client=$!
for ((i = 0; i < 600; i++)); do
	if [ -e "$fuse/disk" ]; then break; fi
	kill -0 "$client" || { echo "nbdfuse ended"; exit 1; }
	sleep 0.1
done
loop=$(timeout -s KILL 60 losetup --find --show --direct-io=on "$fuse/disk")

case $phase in
make)
	mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$loop"
	;;
write-and-kill)
	mount -t ext4 "$loop" "$mnt"
	mkdir -p "$mnt/synced" "$mnt/loose"
	for n in $(seq 30); do
		head -c $((n * 1777)) /dev/urandom >"$mnt/synced/$n"
	done
	head -c 6M /dev/urandom >"$mnt/synced/large"
	(cd "$mnt/synced" && sha256sum -- *) >"$work/sums"
	sync -f "$mnt"
	(
		set +e
		while :; do
			for n in $(seq 200); do
				head -c 20000 /dev/zero >"$mnt/loose/$n" && mv "$mnt/loose/$n" "$mnt/loose/$n.x"
			done
			sync -f "$mnt" || exit 0
			rm -f "$mnt"/loose/*
		done
	) >/dev/null 2>&1 &
	writer=$!
	sleep 1
	kill -KILL "$server"
	kill "$writer" 2>/dev/null || true
	wait "$writer" 2>/dev/null || true
	;;
check)
	# Replaying the journal is what it is for; more must not be needed.
	fsck.ext4 -p "$loop" || [ $? = 1 ]
	fsck.ext4 -f -n "$loop"
	mount -t ext4 "$loop" "$mnt"
	(cd "$mnt/synced" && sha256sum --quiet -c "$work/sums")
	umount "$mnt"
	echo verified
	;;
esac
