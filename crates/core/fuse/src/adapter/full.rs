//! Tells writers behind the write-back cache what became of their bytes.
//!
//! The kernel answers write(2) itself and sends WRITE later. If that fails,
//! it keeps the error for fsync and close, and a program that calls neither
//! writes into nothing for as long as it likes. One request of the kernel
//! reaches us from within write(2), and its error is write(2)'s: a GETATTR
//! that carries a file handle, sent if the attributes in the kernel's cache
//! are no longer valid. So when a held write fails, or has to use the room
//! that is kept for held writes, its inode is noted here and the kernel is
//! told to forget the inode's attributes; the next such GETATTR is answered
//! with the error, once.
//!
//! Why nobody but a writer gets to see it: stat and permission checks send
//! GETATTR without a handle. A read beyond the end and SEEK_END want the size,
//! which under write-back is the kernel's own, so that they send one only if
//! the time for which attributes may be trusted is over; that is why this time
//! is endless on such mounts ([`TRUST_S`]). A write wants the mode, too. Linux
//! before 5.16 made no such differences, so writers are not told there
//! ([`MINOR_MIN`]). Tried with Linux 6.18.
//!
//! Invariants:
//! - An inode is in the table only between a WRITE and the next write(2),
//!   truncate or FORGET, so the table is no larger than the kernel's own.
//! - Told once: a program may go on, and overwriting a full volume works.
//! - The notification is sent by a thread that serves nothing. It waits for
//!   an inode that is being evicted, which waits for WRITEs.
//! - The WRITE is answered after that, but for such an inode: with the answer
//!   the kernel takes more bytes from the writer, and the room that is kept is
//!   measured by what it can hold before.
//!
//! A stat in between makes the attributes valid again, and the next write is
//! not told: a program that stats its file between any two writes is stopped
//! by luck only. Nothing is silent even so: close and fsync have the error (in a
//! transaction that is too large from us, `found.rs`).

use super::{Adapter, Done};
use crate::errno::Errno;
use crate::nodes;
use crate::reply::Reply;
use crate::request::{Patience, Request};
use parking_lot::Mutex;
use std::collections::HashMap;
use varve_fs::{Caller, Error, HeldTimes, InodeNo, Layout};

/// Seconds for which attributes may be trusted under write-back: a century.
pub(super) const TRUST_S: u64 = 100 * 365 * 86_400;

/// The protocol's minor version since which the kernel knows what a GETATTR
/// is wanted for (Linux 5.16).
const MINOR_MIN: u32 = 35;

/// The inodes whose writers are to be told something: why bytes are lost.
/// Nothing if they used kept room: then only a volume that is still full is
/// worth an error.
#[derive(Default)]
pub(super) struct Writers {
    untold: Mutex<HashMap<InodeNo, Option<Errno>>>,
}

impl Writers {
    /// Notes what the next writer of `ino` is to be told.
    fn note(&self, ino: InodeNo, lost: Option<Errno>) {
        let mut untold = self.untold.lock();
        let entry = untold.entry(ino).or_default();
        *entry = entry.or(lost);
    }

    /// Nothing is left to tell about `ino`.
    pub(super) fn forget(&self, ino: InodeNo) {
        self.untold.lock().remove(&ino);
    }
}

impl<L: Layout> Adapter<L> {
    /// A WRITE out of the write-back cache.
    pub(super) fn write_held(
        &self,
        caller: &Caller,
        ino: InodeNo,
        offset: u64,
        data: &[u8],
        (request, reply): (&Request<'_>, &mut Reply),
    ) -> Done {
        let times = match self.write_back() {
            true => HeldTimes::HandedOver,
            // What maps have changed: the kernel keeps no times.
            false => HeldTimes::Arrival,
        };
        let held = self.fs.write_held(caller, ino, offset, data, times);
        let lost = match &held {
            Ok(held) if !held.used_kept_room => return Ok(()),
            Ok(_) => None,
            // There may be room in a moment: then nobody need be told.
            Err(error) if request.patience.is_some() && error.errno() == libc::ENOSPC => {
                return Err(Errno::NO_SPACE);
            }
            // Removed in the meantime: nobody misses it.
            Err(Error::Stale) => return Err(Error::Stale.into()),
            Err(error) => Some(Errno(error.errno())),
        };
        let knows = self.negotiated.get().is_some_and(|n| n.minor >= MINOR_MIN);
        if knows {
            self.writers.note(ino, lost);
            reply.mark_stale_unheld(nodes::node(ino));
        }
        match held {
            // Refused for the writer, lost for whoever waits in fsync.
            Err(Error::ReadOnly(_)) => Err(Errno(libc::EIO)),
            Err(error) if self.loses(ino, &error) => Ok(()),
            held => Ok(held.map(|_| ())?),
        }
    }

    /// What a write(2) that is under way is to be told about earlier ones. How it is to
    /// wait, if that depends on space that may be there in a moment.
    ///
    /// # Errors
    /// What is to be told.
    pub(super) fn tell_writer(
        &self,
        ino: InodeNo,
        patience: Option<Patience>,
    ) -> Result<Option<Patience>, Errno> {
        if self.write_back() {
            self.tell_of_flags(ino)?;
        }
        let mut untold = self.writers.untold.lock();
        match untold.get(&ino).copied() {
            None => return Ok(None),
            Some(Some(lost)) => {
                untold.remove(&ino);
                return Err(lost);
            }
            Some(None) => {}
        }
        if self.fs.available() > 0 {
            untold.remove(&ino);
            return Ok(None);
        }
        if patience.is_none() {
            untold.remove(&ino);
            return Err(Errno::NO_SPACE);
        }
        Ok(patience)
    }
}
