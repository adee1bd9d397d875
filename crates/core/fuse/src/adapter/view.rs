//! Requests of the view of a transaction that the states in `view/` need.

use super::later::{Later, Work};
use super::{Adapter, Done, Outcome};
use crate::errno::Errno;
use crate::nodes;
use crate::outside::Place;
use crate::protocol::{
    CopyFileRangeIn, FlushIn, InterruptIn, LockIn, Opcode, ReleaseIn, WRITE_CACHE,
};
use crate::reply::Reply;
use crate::request::Request;
use crate::view::{Attempt, HeldLock};
use std::path::PathBuf;
use varve_fs::{Caller, Error, InodeNo, Layout};

impl<L: Layout> Adapter<L> {
    /// Keeps the names of the file that a request is about to change.
    pub(super) fn keep_name(&self, opcode: Option<Opcode>, request: &Request<'_>) {
        let Some(names) = &self.names else { return };
        match opcode {
            Some(Opcode::Write | Opcode::Setattr | Opcode::Fallocate) => {
                names.keep(request.inode());
            }
            Some(Opcode::CopyFileRange | Opcode::CopyFileRange64) => {
                if let Ok(copy) = request.arguments().take::<CopyFileRangeIn>() {
                    names.keep(nodes::inode(copy.nodeid_out));
                }
            }
            _ => {}
        }
    }

    /// Notes a name by which the kernel finds a file from now on.
    pub fn note_name(&self, ino: InodeNo, parent: InodeNo, name: &[u8]) {
        if let Some(names) = &self.names
            && name != b"."
            && name != b".."
        {
            names.note(ino, parent, name);
        }
    }

    /// Notes that a file was renamed to `name`.
    pub(super) fn note_renamed(&self, caller: &Caller, parent: InodeNo, name: &[u8]) {
        if let Some(names) = &self.names
            && let Ok(attr) = self.fs.lookup(caller, parent, name)
        {
            names.note_renamed(attr.ino, parent, name);
        }
    }

    /// Notes that a request failed, if it is a cached write.
    pub(super) fn note_lost(&self, request: &Request<'_>, errno: Errno) {
        let is_cached = request.write_flags() & WRITE_CACHE != 0;
        // ESTALE: the file was removed in the meantime, with its content.
        if is_cached && errno.0 != Error::Stale.errno() {
            self.lost.note(errno);
        }
    }

    /// True if a cached write that failed with `error` is answered as done, see
    /// `view/lost.rs`. The error is then noted.
    pub(super) fn is_answered_as_done(&self, ino: InodeNo, error: &Error) -> bool {
        let is_done = self.names.is_some() && matches!(error, Error::TransactionTooLarge);
        if is_done {
            self.lost.note_answered(ino, Errno(error.errno()));
        }
        is_done
    }

    /// Succeeds unless writes to a file that were answered as done are lost.
    ///
    /// # Errors
    /// The error of a lost write.
    pub(super) fn has_lost_nothing(&self, ino: InodeNo) -> Done {
        self.lost.of(ino).map_or(Ok(()), Err)
    }

    /// The error of the first cached write that was lost, if there is one.
    pub fn lost(&self) -> Option<Errno> {
        self.lost.first()
    }

    /// The directory and the name by which a file was found first. Noted with
    /// [`crate::MountOptions::note_names`].
    pub fn name_of(&self, ino: InodeNo) -> Option<(InodeNo, Vec<u8>)> {
        self.names.as_ref()?.first(ino)
    }

    /// The path by which a file was found first, from the mount's root. Noted with
    /// [`crate::MountOptions::note_names`].
    pub fn path_of(&self, ino: InodeNo) -> Option<PathBuf> {
        self.names.as_ref()?.first_path(ino)
    }

    /// The files that were renamed.
    pub(crate) fn renamed(&self) -> Vec<InodeNo> {
        let names = self.names.as_ref();
        names.map_or_else(Vec::new, |names| names.renamed())
    }

    /// The newest directory and name of a file.
    pub(crate) fn new_name_of(&self, ino: InodeNo) -> Option<(InodeNo, Vec<u8>)> {
        self.names.as_ref()?.newest(ino)
    }

    /// The newest path of a file, from the mount's root.
    pub(crate) fn new_path_of(&self, ino: InodeNo) -> Option<PathBuf> {
        self.names.as_ref()?.newest_path(ino)
    }

    /// GETLK, SETLK and SETLKW.
    pub(super) fn lock(
        &self,
        opcode: Opcode,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Result<Outcome, Errno> {
        let locks = self.locks.as_ref().ok_or(Errno::NOT_IMPLEMENTED)?;
        let asked: LockIn = request.arguments().take()?;
        let (ino, wanted) = (request.inode(), HeldLock::wanted(&asked)?);
        if opcode == Opcode::Getlk {
            reply.put(&locks.conflict(ino, &wanted, || self.place(ino))?);
            return Ok(Outcome::Reply);
        }
        if asked.kind == libc::F_UNLCK as u32 {
            locks.unlock(ino, &wanted);
            return Ok(Outcome::Reply);
        }
        match (locks.attempt(ino, wanted, || self.place(ino))?, opcode) {
            (Attempt::Taken, _) => Ok(Outcome::Reply),
            (Attempt::Blocked, Opcode::Setlkw) => Ok(Later::put_off(request, Work::Lock(wanted))),
            (Attempt::Blocked, _) => Err(Errno(libc::EAGAIN)),
        }
    }

    /// Tries again to take a lock, unless the request was interrupted.
    pub(super) fn finish_lock(&self, later: &Later, wanted: HeldLock) -> Outcome {
        let Some(locks) = &self.locks else {
            return Outcome::Error(Errno::NOT_IMPLEMENTED);
        };
        if locks.is_interrupted(later.unique) {
            return Outcome::Error(Errno(libc::EINTR));
        }
        let ino = nodes::inode(later.nodeid);
        match locks.attempt(ino, wanted, || self.place(ino)) {
            Ok(Attempt::Taken) => Outcome::Reply,
            Ok(Attempt::Blocked) => Outcome::Later(later.again(Work::Lock(wanted))),
            Err(errno) => Outcome::Error(errno),
        }
    }

    /// FLUSH: a process closes a file, which ends its POSIX locks and reports lost writes.
    pub(super) fn flush(&self, request: &Request<'_>) -> Done {
        if let Some(locks) = &self.locks {
            let asked: FlushIn = request.arguments().take()?;
            locks.end_of_process(request.inode(), asked.lock_owner);
        }
        self.has_lost_nothing(request.inode())
    }

    /// RELEASE: the last descriptor of an open file is closed.
    pub(super) fn release_file(&self, request: &Request<'_>) -> Done {
        if let Some(locks) = &self.locks {
            let asked: ReleaseIn = request.arguments().take()?;
            locks.end_of_file(request.inode(), asked.fh);
        }
        Ok(())
    }

    /// INTERRUPT: a process that waits for the answer to a request got a signal.
    pub(super) fn interrupt(&self, request: &Request<'_>) -> Done {
        let asked: InterruptIn = request.arguments().take()?;
        if let Some(locks) = &self.locks {
            locks.interrupt(asked.unique);
        }
        Ok(())
    }

    /// Ends all locks with the transaction: later attempts are refused, and the locks on the
    /// mount's files are released.
    pub fn end_locks(&self) {
        if let Some(locks) = &self.locks {
            locks.end();
        }
    }

    fn place(&self, ino: InodeNo) -> Result<Place, Errno> {
        Ok(Place {
            ino,
            node: nodes::node(ino),
            version: self.fs.getattr(ino)?.version,
            path: self.path_of(ino),
        })
    }
}
