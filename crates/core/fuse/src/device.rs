//! Opens `/dev/fuse` and mounts it: by mount(2) as root, by fusermount3 else.

use crate::options::MountOptions;
use crate::protocol::MAX_PAYLOAD_BYTES;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno as Os;
use rustix::mount::MountFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};
use std::ffi::{CString, OsString};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// The helper that may mount for those who are not root.
const FUSERMOUNT: &str = "fusermount3";

/// Mounts at `mountpoint`, which is absolute, and returns the device.
///
/// # Errors
/// What mount(2) or fusermount3 said.
pub(crate) fn mount(mountpoint: &Path, options: &MountOptions) -> io::Result<OwnedFd> {
    if rustix::process::geteuid().is_root() {
        match mount_directly(mountpoint, options) {
            // Root in a container: the helper will say why.
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => {}
            other => return other,
        }
    }
    mount_by_helper(mountpoint, options)
}

pub(crate) fn mount_directly(mountpoint: &Path, options: &MountOptions) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/fuse", flags, Mode::empty()).map_err(|e| {
        let e = io::Error::from(e);
        io::Error::new(
            e.kind(),
            format!("/dev/fuse: {e}; is the fuse module loaded?"),
        )
    })?;
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions,max_read={}",
        device.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
        MAX_PAYLOAD_BYTES,
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let data = CString::new(data).expect("no NUL in numbers");
    let source = options.source.as_os_str();
    rustix::mount::mount(source, mountpoint, "fuse.varve", flags_of(options), &*data)?;
    Ok(device)
}

/// Gives the mount at `mountpoint` the flags of `options`; what the server
/// was told when it started stays.
///
/// # Errors
/// What mount(2) said: EBUSY if it is to become read-only while files are
/// open for writing, EPERM for anybody but root.
pub(crate) fn remount(mountpoint: &Path, options: &MountOptions) -> io::Result<()> {
    Ok(rustix::mount::mount_remount(
        mountpoint,
        flags_of(options),
        c"",
    )?)
}

fn flags_of(options: &MountOptions) -> MountFlags {
    let chosen = [
        (options.read_only, MountFlags::RDONLY),
        (options.no_suid, MountFlags::NOSUID),
        (options.no_dev, MountFlags::NODEV),
        (options.no_exec, MountFlags::NOEXEC),
        (options.no_atime, MountFlags::NOATIME),
        (options.strict_atime, MountFlags::STRICTATIME),
        (options.no_dir_atime, MountFlags::NODIRATIME),
    ];
    chosen
        .iter()
        .filter(|(on, _)| *on)
        .fold(MountFlags::empty(), |all, (_, flag)| all | *flag)
}

/// fusermount3 opens and mounts the device, and passes it over the socket
/// named by `_FUSE_COMMFD`. We name its standard input: then no other child
/// of ours can inherit the socket.
fn mount_by_helper(mountpoint: &Path, options: &MountOptions) -> io::Result<OwnedFd> {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let mut child = Command::new(FUSERMOUNT)
        .arg("-o")
        .arg(helper_options(options))
        .arg("--")
        .arg(mountpoint)
        .env("_FUSE_COMMFD", "0")
        .stdin(Stdio::from(theirs))
        .spawn()
        .map_err(|e| {
            io::Error::new(
                e.kind(),
                format!("{FUSERMOUNT}: {e}; only root mounts without it"),
            )
        })?;
    let received = receive_fd(&ours);
    let status = child.wait()?;
    match received? {
        Some(device) if status.success() => Ok(device),
        _ => Err(io::Error::other(format!(
            "{FUSERMOUNT} did not mount: {status}"
        ))),
    }
}

fn helper_options(options: &MountOptions) -> OsString {
    let mut words = b"fsname=".to_vec();
    for &byte in options.source.as_bytes() {
        if matches!(byte, b'\\' | b',') {
            words.push(b'\\');
        }
        words.push(byte);
    }
    let fixed = format!(",subtype=varve,default_permissions,max_read={MAX_PAYLOAD_BYTES}");
    words.extend(fixed.as_bytes());
    let chosen = [
        (options.read_only, ",ro"),
        (options.no_suid, ",nosuid"),
        (options.no_dev, ",nodev"),
        (options.no_exec, ",noexec"),
        (options.no_atime, ",noatime"),
        (options.allow_other, ",allow_other"),
    ];
    let chosen = chosen.iter().filter(|(on, _)| *on);
    words.extend(chosen.flat_map(|(_, word)| word.bytes()));
    OsString::from_vec(words)
}

/// A descriptor that comes over a socket, with one byte. None if the byte came
/// alone, or the other side is gone.
pub(crate) fn receive_fd(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0u8];
    let mut iov = [IoSliceMut::new(&mut byte)];
    loop {
        match rustix::net::recvmsg(&socket, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Os::INTR) => continue,
            other => other?,
        };
        break;
    }
    Ok(control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    }))
}

/// Has the helper unmount `dir`.
///
/// # Errors
/// EPERM if there is no helper; what it said otherwise.
pub(crate) fn fusermount_unmount(dir: &Path, lazy: bool) -> io::Result<()> {
    let mut command = Command::new(FUSERMOUNT);
    command
        .arg(if lazy { "-uz" } else { "-u" })
        .arg("--")
        .arg(dir);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|_| io::Error::from(Os::PERM))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if said.contains("busy") {
        return Err(Os::BUSY.into());
    }
    Err(io::Error::other(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_cannot_smuggle_options() {
        let options = MountOptions {
            source: "a,suid".into(),
            ..MountOptions::default()
        };
        let words = helper_options(&options);
        assert!(
            words
                .as_bytes()
                .starts_with(b"fsname=a\\,suid,subtype=varve")
        );
    }
}
