//! What a mount may choose, and how a mount is undone.

use crate::device;
use crate::options::MountOptions;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno as Os;
use rustix::mount::{MountPropagationFlags, UnmountFlags};
use std::io;
use std::path::Path;

/// Changes the flags of the mount at `dir` (read-only, nosuid, nodev, noexec,
/// noatime) to those of `options`. The server goes on as it is. A mount that becomes
/// read-only is durable, with all that was done to it, when this returns: the kernel
/// writes back what it holds, but does not say so to the server.
///
/// # Errors
/// What mount(2) said: EBUSY if it is to become read-only while files are
/// open for writing, EPERM for anybody but root. What fsync(2) said: the mount is
/// read-only then.
pub fn remount(dir: &Path, options: &MountOptions) -> io::Result<()> {
    device::remount(dir, options)?;
    if options.read_only {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::fsync(rustix::fs::open(dir, flags, Mode::empty())?)?;
    }
    Ok(())
}

/// Moves this thread to the mount namespace that `namespace` is open on, with
/// those that it starts from now on. Its working directory is the root then.
///
/// # Errors
/// EPERM for anybody but root, EINVAL if it is no mount namespace.
pub fn enter_mounts(namespace: &std::fs::File) -> io::Result<()> {
    crate::sys::enter_mounts(namespace)
}

/// Gives this process, which must have one thread only, a mount namespace of its
/// own: what is mounted in it is seen by its children only, and what is unmounted
/// outside goes there, too. With `user` also a user namespace, in which it may
/// mount, and user and group are what they were.
///
/// # Errors
/// Says what the system refuses.
pub fn own_mounts(user: bool) -> io::Result<()> {
    let told = |what: &str, error: io::Error| {
        io::Error::new(error.kind(), format!("cannot make a {what}: {error}"))
    };
    let ids = (rustix::process::geteuid(), rustix::process::getegid());
    if user {
        crate::sys::leave_namespaces(true).map_err(|error| told("user namespace", error))?;
        let (uid, gid) = (ids.0.as_raw(), ids.1.as_raw());
        let mapped = std::fs::write("/proc/self/setgroups", "deny")
            .and_then(|()| std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")))
            .and_then(|()| std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")));
        mapped.map_err(|error| told("user namespace with this user in it", error))?;
    } else {
        crate::sys::leave_namespaces(false).map_err(|error| told("mount namespace", error))?;
    }
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", flags)
        .map_err(|error| told("mount namespace of its own", error.into()))
}

/// The namespaces of this process that [`join_mounts`] takes: user, and mounts.
///
/// # Errors
/// If there is no `/proc`.
pub fn held_mounts() -> io::Result<[std::fs::File; 2]> {
    let open = |name| std::fs::File::open(format!("/proc/self/ns/{name}"));
    Ok([open("user")?, open("mnt")?])
}

/// Moves this process, which must have one thread only, to the namespaces that
/// another one told by [`held_mounts`]. Its working directory is their root then.
///
/// # Errors
/// EPERM unless the other process is the same user's, EINVAL for what is none.
pub fn join_mounts(user: &std::fs::File, mounts: &std::fs::File) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let own = std::fs::metadata("/proc/self/ns/user")?;
    let (own, other) = ((own.dev(), own.ino()), user.metadata()?);
    let user = (own != (other.dev(), other.ino())).then_some(user);
    crate::sys::join_namespaces(user, mounts)
}

/// Mounts a device on `mountpoint`, by mount(2), for another process to serve
/// ([`crate::Session::on`]). Until then whoever touches the mount waits.
///
/// # Errors
/// If `/dev/fuse` cannot be opened, or the mount is refused.
pub fn mount_device(mountpoint: &Path, options: &MountOptions) -> io::Result<std::os::fd::OwnedFd> {
    device::mount_directly(mountpoint, options)
}

/// Unmounts `dir`. A mount whose server is gone is detached even while it is
/// in use: there is nothing behind it to lose.
///
/// # Errors
/// EBUSY while a living mount is in use, EINVAL if nothing is mounted there.
pub fn unmount(dir: &Path) -> io::Result<()> {
    match plain_unmount(dir) {
        Err(e) if e.raw_os_error() == Some(libc::EBUSY) && is_dead(dir) => detach(dir),
        other => other,
    }
}

/// Takes the mount at `dir` out of the tree whatever its server does: cuts its
/// connection, whose number in `/sys/fs/fuse/connections` is `connection` (the
/// minor number of its device), so that nobody waits for the server any more,
/// and detaches it. What the kernel still held is lost. `dir` itself is not
/// looked into.
///
/// # Errors
/// Those of umount(2): EINVAL if nothing is mounted there, EPERM for a mount of
/// somebody else's.
pub fn force_unmount(dir: &Path, connection: u32) -> io::Result<()> {
    let knob = format!("/sys/fs/fuse/connections/{connection}/abort");
    match std::fs::write(&knob, "1") {
        Ok(()) => detach(dir),
        Err(error) => {
            // No control file system is mounted. Root can do without.
            tracing::debug!(%error, knob, "not cut this way");
            abort(dir)
        }
    }
}

/// True if `dir` is a mount whose server is gone.
fn is_dead(dir: &Path) -> bool {
    matches!(rustix::fs::statfs(dir), Err(Os::NOTCONN | Os::CONNABORTED))
}

/// Unmounts `dir`, without a look at what is there.
pub(crate) fn plain_unmount(dir: &Path) -> io::Result<()> {
    match rustix::mount::unmount(dir, UnmountFlags::NOFOLLOW) {
        Err(Os::PERM) => device::fusermount_unmount(dir, false),
        other => Ok(other?),
    }
}

/// Takes `dir` out of the tree at once; those who use it may go on.
///
/// # Errors
/// Those of umount(2).
pub fn detach(dir: &Path) -> io::Result<()> {
    match rustix::mount::unmount(dir, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Err(Os::PERM) => device::fusermount_unmount(dir, true),
        other => Ok(other?),
    }
}

/// Cuts the connection and takes `dir` out of the tree. Those who use it get
/// ENOTCONN.
pub(crate) fn abort(dir: &Path) -> io::Result<()> {
    let flags = UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    match rustix::mount::unmount(dir, flags) {
        Err(Os::PERM) => device::fusermount_unmount(dir, true),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_applied_in_order() {
        let mut options = MountOptions::default();
        for word in [
            "ro",
            "nosuid",
            "nodev",
            "noexec",
            "noatime",
            "order=strict",
            "rw",
        ] {
            assert!(options.apply(word), "{word}");
        }
        assert!(!options.read_only && options.no_suid && options.no_dev && options.no_exec);
        assert!(options.no_atime && options.strict_order && !options.write_back());
        assert!(options.apply("nobtime") && !options.birth_times);
        assert!(options.apply("noxattr") && !options.extended_attributes);
        assert!(!options.apply("cache=1G"));
    }
}
