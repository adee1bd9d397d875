//! The seam between requests and whatever carries them.
//!
//! That is `/dev/fuse` or a queue of FUSE over io_uring (`ring`). Everything
//! above speaks in whole requests and whole replies; a reply leaves in one
//! call, gathered from its parts.

use crate::errno::Errno;
use crate::protocol::{
    EXPIRE_ONLY, NOTIFY_INVAL_ENTRY, NOTIFY_INVAL_INODE, NOTIFY_PRUNE, NOTIFY_RETRIEVE,
    NotifyInvalEntry, NotifyInvalInode, NotifyPrune, NotifyRetrieve, OutHeader,
};
use rustix::io::Errno as Os;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};
use zerocopy::IntoBytes;

/// What [`Transport::receive`] brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A request of so many bytes.
    Request(usize),
    /// The file system is unmounted; nothing more will come.
    Unmounted,
    /// The connection was cut; the mount, if any, answers ENOTCONN.
    Aborted,
}

/// Carries requests and replies.
pub trait Transport {
    /// Waits for the next request. `buffer` holds at least the largest one.
    ///
    /// # Errors
    /// Whatever the carrier reports, but for the two ways it ends.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Received>;

    /// Answers the request `unique`: with `body`, or with an error number and
    /// no body.
    ///
    /// # Errors
    /// ENOENT if nobody waits for the answer any more.
    fn reply(&self, unique: u64, answer: Result<&[u8], Errno>) -> io::Result<()>;

    /// Tells the kernel something it did not ask for: a header with this code
    /// and then the parts.
    ///
    /// # Errors
    /// ENOENT if the kernel does not hold what this is about.
    fn notify(&self, code: i32, parts: [&[u8]; 2]) -> io::Result<()>;
}

/// Writes the dirty pages of `offset..offset + len` and drops all pages of
/// that range. A `len` of 0 means to the end of the file.
///
/// Waits for WRITE requests, so it must never run on a serving thread.
///
/// # Errors
/// ENOENT if the kernel does not hold the inode.
pub fn invalidate_pages(
    transport: &dyn Transport,
    nodeid: u64,
    offset: u64,
    len: u64,
) -> io::Result<()> {
    let clamp = |v: u64| i64::try_from(v).unwrap_or(i64::MAX);
    let body = NotifyInvalInode {
        ino: nodeid,
        off: clamp(offset),
        len: clamp(len),
    };
    transport.notify(NOTIFY_INVAL_INODE, [body.as_bytes(), &[]])
}

/// Makes the kernel ask for the attributes of an inode when they are next
/// wanted. Its pages stay.
///
/// Waits while the kernel evicts the inode, which waits for WRITE requests,
/// so it must never run on a serving thread.
///
/// # Errors
/// ENOENT if the kernel does not hold the inode.
pub fn invalidate_attributes(transport: &dyn Transport, nodeid: u64) -> io::Result<()> {
    let body = NotifyInvalInode {
        ino: nodeid,
        off: -1,
        len: 0,
    };
    transport.notify(NOTIFY_INVAL_INODE, [body.as_bytes(), &[]])
}

/// How a name that the kernel caches is invalidated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stale {
    /// The kernel looks it up again when it is next wanted. If it leads to the same
    /// inode, nothing happens to what is mounted below, or has its working directory
    /// there. (Before Linux 6.2 as [`Stale::Gone`].)
    Expired,
    /// It leads nowhere. Mounts below it are unmounted.
    Gone,
}

/// Outdates a name, for changes that did not come through this mount.
///
/// Takes the directory's lock in the kernel, so it must never run on a
/// serving thread.
///
/// # Errors
/// ENOENT if the kernel does not hold the name.
pub(crate) fn invalidate_entry(
    transport: &dyn Transport,
    parent: u64,
    name: &[u8],
    stale: Stale,
) -> io::Result<()> {
    let body = NotifyInvalEntry {
        parent,
        namelen: name.len() as u32,
        flags: match stale {
            Stale::Expired => EXPIRE_ONLY,
            Stale::Gone => 0,
        },
    };
    let terminated = [name, b"\0"].concat();
    transport.notify(NOTIFY_INVAL_ENTRY, [body.as_bytes(), &terminated])
}

/// Makes the kernel drop those of these inodes that nothing uses, with their names.
///
/// Waits for WRITE requests, so it must never run on a serving thread.
///
/// # Errors
/// EINVAL before Linux 6.18.
pub(crate) fn prune(transport: &dyn Transport, nodeids: &[u64]) -> io::Result<()> {
    for nodeids in nodeids.chunks(NotifyPrune::NODES_MAX) {
        let body = NotifyPrune {
            count: nodeids.len() as u32,
            ..NotifyPrune::default()
        };
        transport.notify(NOTIFY_PRUNE, [body.as_bytes(), nodeids.as_bytes()])?;
    }
    Ok(())
}

/// Makes the kernel send a request that asks for nothing, NOTIFY_REPLY with
/// this number, to the CPU this runs on.
///
/// # Errors
/// ENOENT if the kernel does not hold the inode.
pub(crate) fn retrieve_nothing(
    transport: &dyn Transport,
    unique: u64,
    nodeid: u64,
) -> io::Result<()> {
    let body = NotifyRetrieve {
        notify_unique: unique,
        nodeid,
        offset: 0,
        size: 0,
        padding: 0,
    };
    transport.notify(NOTIFY_RETRIEVE, [body.as_bytes(), &[]])
}

/// An open `/dev/fuse` that belongs to a mount.
pub struct DevFuse {
    device: OwnedFd,
}

impl DevFuse {
    /// Takes a device that was given to mount(2), or came from fusermount3.
    pub fn new(device: OwnedFd) -> Self {
        DevFuse { device }
    }

    /// The device's descriptor, which names the mount to the kernel.
    pub(crate) fn descriptor(&self) -> i32 {
        self.device.as_raw_fd()
    }

    fn send(&self, header: &OutHeader, parts: [&[u8]; 2]) -> io::Result<()> {
        let slices = [
            IoSlice::new(header.as_bytes()),
            IoSlice::new(parts[0]),
            IoSlice::new(parts[1]),
        ];
        // Empty parts at the end are not sent at all: the kernel counts them.
        let used = slices
            .iter()
            .rposition(|s| !s.is_empty())
            .map_or(0, |last| last + 1);
        rustix::io::writev(&self.device, &slices[..used])?;
        Ok(())
    }
}

impl Transport for DevFuse {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        loop {
            return match rustix::io::read(&self.device, &mut *buffer) {
                Ok(0) | Err(Os::NODEV) => Ok(Received::Unmounted),
                Ok(bytes) => Ok(Received::Request(bytes)),
                Err(Os::CONNABORTED) => Ok(Received::Aborted),
                // ENOENT: the request was interrupted before we had it.
                Err(Os::INTR | Os::AGAIN | Os::NOENT) => continue,
                Err(other) => Err(other.into()),
            };
        }
    }

    fn reply(&self, unique: u64, answer: Result<&[u8], Errno>) -> io::Result<()> {
        let (error, body) = match answer {
            Ok(body) => (0, body),
            Err(errno) => (-errno.0, &[][..]),
        };
        let len = (size_of::<OutHeader>() + body.len()) as u32;
        self.send(&OutHeader { len, error, unique }, [body, &[]])
    }

    fn notify(&self, code: i32, parts: [&[u8]; 2]) -> io::Result<()> {
        let len = (size_of::<OutHeader>() + parts[0].len() + parts[1].len()) as u32;
        self.send(
            &OutHeader {
                len,
                error: code,
                unique: 0,
            },
            parts,
        )
    }
}
