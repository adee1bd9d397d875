//! The ioctls of local file systems that concern a whole volume: FITRIM and FS_IOC_SHUTDOWN.
//! Root and the user who runs the server may send them, on any file of the mount.

use super::{Adapter, Outcome};
use crate::errno::Errno;
use crate::protocol::{InHeader, IoctlIn, IoctlOut};
use crate::reply::Reply;
use crate::request::Request;
use std::fs::File;
use std::os::unix::fs::FileExt;
use varve_fs::Layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `_IOWR('X', 121, struct fstrim_range)`.
const TRIM: u32 = 0xc018_5879;
/// `_IOR('X', 125, __u32)`: the number says that the argument is read from the
/// kernel, but it is the flags.
const SHUTDOWN: u32 = 0x8004_587d;

/// Changes that are not durable yet are lost. (0 makes all of them durable, 1 those that are
/// needed to find data.)
const WITHOUT_LOG: u32 = 2;

/// `struct fstrim_range`.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Range {
    start: u64,
    bytes: u64,
    bytes_min: u64,
}

impl<L: Layout> Adapter<L> {
    /// Answers these two ioctls. Returns nothing for others.
    pub(super) fn maintenance_ioctl(
        &self,
        request: &Request<'_>,
        asked: &IoctlIn,
        input: &[u8],
        reply: &mut Reply,
    ) -> Result<Option<Outcome>, Errno> {
        if self.is_down() && asked.cmd != SHUTDOWN {
            return Err(Errno(libc::EIO));
        }
        if ![TRIM, SHUTDOWN].contains(&asked.cmd) {
            return Ok(None);
        }
        let uid = self.asker(request).uid;
        if uid != 0 && uid != rustix::process::geteuid().as_raw() {
            return Err(Errno(libc::EPERM));
        }
        reply.put(&IoctlOut::default());
        if asked.cmd == TRIM {
            let range = Range::read_from_bytes(input).map_err(|_| Errno::INVALID)?;
            let end = range.start.saturating_add(range.bytes);
            let bytes = self.fs.trim(range.start..end, range.bytes_min)?;
            reply.put_bytes(Range { bytes, ..range }.as_bytes());
        } else {
            let flags = argument(&request.header, asked.arg);
            if flags.is_some_and(|flags| flags > WITHOUT_LOG) {
                return Err(Errno::INVALID);
            }
            self.shut_down(flags)?;
            reply.put_bytes(&[]);
        }
        Ok(Some(Outcome::Reply))
    }

    /// Shuts the volume down. Without flags, all changes are made durable before.
    fn shut_down(&self, flags: Option<u32>) -> Result<(), Errno> {
        if self.is_down() {
            return Ok(());
        }
        if flags != Some(WITHOUT_LOG) {
            self.fs.sync()?;
        }
        tracing::warn!(
            ?flags,
            "the volume was shut down; it answers EIO until it is mounted again"
        );
        self.shutdown.begin();
        self.fs.shut_down("it was shut down");
        Ok(())
    }

    /// True after a shutdown.
    pub fn is_down(&self) -> bool {
        self.shutdown.is_down()
    }
}

/// The number at an address of the calling process, which waits for the answer. The kernel does
/// not copy it, because the direction in the ioctl's number is wrong.
fn argument(header: &InHeader, address: u64) -> Option<u32> {
    let memory = File::open(format!("/proc/{}/mem", header.pid)).ok()?;
    let mut bytes = [0; 4];
    memory.read_exact_at(&mut bytes, address).ok()?;
    Some(u32::from_ne_bytes(bytes))
}
