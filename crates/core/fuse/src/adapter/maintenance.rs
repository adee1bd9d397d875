//! The ioctls of local file systems that concern a whole volume: FITRIM and
//! FS_IOC_SHUTDOWN. Root and whoever mounted may, on any file of the mount.
//!
//! After a shutdown everything that is asked for is EIO, but for what lets go
//! and what unmounting needs; the volume is left as by a crash at that moment.
//! What the kernel still holds comes afterwards, and is lost likewise.

use super::{Adapter, Outcome};
use crate::errno::Errno;
use crate::protocol::{InHeader, IoctlIn, IoctlOut, Opcode, ROOT_NODE};
use crate::reply::Reply;
use crate::request::Request;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;
use varve_fs::Layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `_IOWR('X', 121, struct fstrim_range)`.
const TRIM: u32 = 0xc018_5879;
/// `_IOR('X', 125, __u32)`: the number says that the argument is read from the
/// kernel, but it is the flags.
const SHUTDOWN: u32 = 0x8004_587d;

/// What has not been written is lost. (0: all is made durable, 1: what is
/// needed to find it.)
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
    /// Answers these ioctls. Nothing for others.
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

    /// Without flags as much is kept as with any.
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
        self.down.store(true, Relaxed);
        self.fs.shut_down("it was shut down");
        Ok(())
    }

    /// True after a shutdown.
    pub fn is_down(&self) -> bool {
        self.down.load(Relaxed)
    }

    /// # Errors
    /// EIO for what a mount that was shut down does not do.
    pub(super) fn must_be_up(&self, opcode: Opcode, header: &InHeader) -> Result<(), Errno> {
        if !self.is_down() {
            return Ok(());
        }
        match opcode {
            Opcode::Init
            | Opcode::Destroy
            | Opcode::Forget
            | Opcode::BatchForget
            | Opcode::NotifyReply
            | Opcode::Interrupt
            | Opcode::Release
            | Opcode::Releasedir
            | Opcode::Ioctl
            | Opcode::Statfs => Ok(()),
            Opcode::Getattr | Opcode::Statx if header.nodeid == ROOT_NODE => Ok(()),
            _ => Err(Errno(libc::EIO)),
        }
    }
}

/// The number at an address of the asker, who waits for the answer. The kernel
/// does not hand it over, as the ioctl's number does not say that it should.
fn argument(header: &InHeader, address: u64) -> Option<u32> {
    let memory = File::open(format!("/proc/{}/mem", header.pid)).ok()?;
    let mut bytes = [0; 4];
    memory.read_exact_at(&mut bytes, address).ok()?;
    Some(u32::from_ne_bytes(bytes))
}
