//! WRITE from the kernel's write-back cache: no client waits for the answer. How its errors
//! reach the writer is in `space/write_errors.rs`.

use super::{Adapter, Done};
use crate::errno::Errno;
use crate::reply::Reply;
use crate::request::Request;
use crate::space::{MINOR_MIN, Patience};
use varve_fs::{Caller, Error, HeldTimes, InodeNo, Layout};

impl<L: Layout> Adapter<L> {
    /// Serves such a WRITE.
    pub(super) fn write_cached(
        &self,
        caller: &Caller,
        (ino, offset): (InodeNo, u64),
        data: &[u8],
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Done {
        let times = match self.write_back() {
            true => HeldTimes::HandedOver,
            // A map has changed the file, and the kernel keeps no times.
            false => HeldTimes::Arrival,
        };
        let written = self.fs.write_held(caller, ino, offset, data, times);
        let lost = match &written {
            Ok(written) if !written.used_kept_room => return Ok(()),
            Ok(_) => None,
            // Space may become free in a moment: then the write is not lost.
            Err(error) if request.patience.is_some() && error.errno() == libc::ENOSPC => {
                return Err(Errno::NO_SPACE);
            }
            // The file was removed in the meantime, with its content.
            Err(Error::Stale) => return Err(Error::Stale.into()),
            Err(error) => Some(Errno(error.errno())),
        };
        if self.speaks(MINOR_MIN) {
            self.write_errors.note(ino, lost);
            reply.mark_stale_unheld(request.header.nodeid);
        }
        match written {
            // Refused for the writer, lost for a caller of fsync.
            Err(Error::ReadOnly(_)) => Err(Errno(libc::EIO)),
            Err(error) if self.is_answered_as_done(ino, &error) => Ok(()),
            written => Ok(written.map(|_| ())?),
        }
    }

    /// Answers a GETATTR that the kernel sends from within write(2). If space may be free in a
    /// moment, returns the patience with which to ask again.
    ///
    /// # Errors
    /// The error of an earlier write, and EPERM for a file that has become immutable.
    pub(super) fn report_to_writer(
        &self,
        ino: InodeNo,
        patience: Option<Patience>,
    ) -> Result<Option<Patience>, Errno> {
        if self.write_back() {
            self.must_be_mutable(ino)?;
        }
        let has_space = || self.fs.available() > 0;
        self.write_errors.report(ino, patience, has_space)
    }
}
