//! What the kernel is not told by an answer.
//!
//! The kernel keeps attributes one by one, for as long as we let it. Of what a
//! request changes it learns in one of three ways: the answer brings attributes;
//! or it knows what such a request changes and will ask for that when it is
//! wanted; or it is told to forget what it has, which is done here. The whole
//! table is in `docs/guide/semantics.md`, "Attribute caching".
//!
//! The rule: of every inode that a request may change without attributes in its
//! answer, what it was before is compared with what it is afterwards, whether
//! the request succeeded or not. If anything differs that the kernel would go on
//! to take from its cache, the reply names the inode, and the kernel forgets
//! before it gets the answer. So nobody runs a set-id program with rights that a
//! write has ended, and whatever else a request comes to change is covered.
//!
//! - Whoever waits for such an answer holds the inode, so the kernel is not
//!   evicting it, and forgetting attributes waits for nothing: the thread that
//!   serves does it itself. (A write out of the write-back cache has nobody who
//!   holds anything; see [`Late`] and `full.rs`.)
//! - An answer with older attributes that is still on its way does no harm: the
//!   kernel sees that it was asked for before.
//!
//! **Room taken by held writes.** Under write-back size and times of a file are
//! the kernel's own, but `st_blocks` changes when its pages reach us, and that
//! may be long after anybody waits for it. Such files are noted ([`Late`]). The
//! kernel forgets their attributes when somebody waits, in fsync, and otherwise
//! within [`LATE`]: not at once, as each time costs the next write(2) a question.

use super::{Adapter, Outcome, convert, inode_of};
use crate::errno::Errno;
use crate::protocol::{CopyFileRangeIn, Opcode, WRITE_CACHE, WRITE_LOCKOWNER, WriteIn};
use crate::reply::Reply;
use crate::request::Request;
use crate::transport::Transport;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::time::Duration;
use varve_fs::{Attr, FileKind, InodeNo, Layout};

/// How long `st_blocks` of a file may lag behind what its held writes took.
pub const LATE: Duration = Duration::from_secs(1);

/// What the kernel takes for outdated by itself once a request has succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Nothing,
    /// The change time.
    Change,
    /// Size, blocks, modification and change time.
    Content,
}

/// An inode that a request may change, as it was before.
struct Watched {
    before: Attr,
    known: Known,
}

/// Files whose held writes have changed how much room they take, since the
/// kernel was told.
#[derive(Default)]
pub(super) struct Late {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: HashSet<InodeNo>,
    /// Somebody is to call [`Adapter::tell_late`].
    is_due: bool,
}

impl Late {
    /// Notes a file. True if nobody sees to it yet that the kernel is told.
    fn note(&self, ino: InodeNo) -> bool {
        let mut state = self.state.lock();
        state.files.insert(ino);
        !std::mem::replace(&mut state.is_due, true)
    }

    /// Nothing is left to tell about `ino`; true if there was something.
    pub(super) fn forget(&self, ino: InodeNo) -> bool {
        self.state.lock().files.remove(&ino)
    }

    fn take(&self) -> HashSet<InodeNo> {
        std::mem::take(&mut *self.state.lock()).files
    }
}

impl<L: Layout> Adapter<L> {
    /// Serves a request, and has `reply` name what the kernel is to forget.
    pub(super) fn serve(
        &self,
        opcode: Option<Opcode>,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Result<Outcome, Errno> {
        self.keep_name(opcode, request);
        let watched = self.watch(opcode, request);
        let mut outcome = self.dispatch(opcode, request, reply);
        if matches!(outcome, Ok(Outcome::Reply))
            && let Err(errno) = self.make_change_durable(opcode)
        {
            outcome = Err(errno);
        }
        for watched in watched.iter().flatten() {
            self.compare(request, watched, outcome.is_ok(), reply);
        }
        if opcode == Some(Opcode::Fsync) && self.late.forget(inode_of(request)) {
            reply.amend(request.header.nodeid);
        }
        outcome
    }

    /// The inodes that a request may change and whose attributes its answer does
    /// not carry.
    fn watch(&self, opcode: Option<Opcode>, request: &Request<'_>) -> [Option<Watched>; 2] {
        let watch = |ino, known| {
            let before = self.fs.getattr(ino).ok()?;
            Some(Watched { before, known })
        };
        let about = inode_of(request);
        match opcode {
            Some(Opcode::Write | Opcode::Fallocate) => [watch(about, Known::Content), None],
            Some(Opcode::Setxattr | Opcode::Removexattr) => [watch(about, Known::Change), None],
            Some(Opcode::CopyFileRange | Opcode::CopyFileRange64) => {
                let Ok(copy) = request.arguments().take::<CopyFileRangeIn>() else {
                    return [None, None];
                };
                let target = convert::inode(copy.nodeid_out);
                let source = (target != about).then(|| watch(about, Known::Nothing));
                [watch(target, Known::Content), source.flatten()]
            }
            _ => [None, None],
        }
    }

    fn compare(&self, request: &Request<'_>, watched: &Watched, done: bool, reply: &mut Reply) {
        let Watched { before, known } = watched;
        let Ok(after) = self.fs.getattr(before.ino) else {
            return;
        };
        let flags = write_flags(request);
        let held = self.write_back() && flags & WRITE_CACHE != 0;
        let direct = flags & WRITE_LOCKOWNER != 0;
        let asked = direct && self.direct.was_asked(before.ino);
        let known = match done && !held && !asked {
            true => *known,
            false => Known::Nothing,
        };
        let blocks = known != Known::Content && before.sectors != after.sectors;
        if held {
            if blocks && self.late.note(before.ino) {
                reply.tell_late();
            }
            return;
        }
        // Under write-back the kernel never takes these from us.
        let own = self.write_back() && after.kind == FileKind::Regular;
        let rights = |a: &Attr| (a.mode, a.uid, a.gid, a.nlink, a.atime);
        let content = |a: &Attr| (a.size, a.mtime);
        let differs = blocks
            || rights(before) != rights(&after)
            || (known != Known::Content && !own && content(before) != content(&after))
            || (known == Known::Nothing && !own && before.ctime != after.ctime);
        if differs {
            reply.amend(convert::node(before.ino));
        }
    }

    /// Has the kernel forget the attributes of all files whose room has changed
    /// while nobody waited. Never call it on a thread that serves requests: some
    /// may be on their way out of the kernel.
    pub fn tell_late(&self, transport: &dyn Transport) {
        for ino in self.late.take() {
            self.outdate(convert::node(ino), transport);
        }
    }
}

/// The flags of a WRITE; none of other requests.
pub(super) fn write_flags(request: &Request<'_>) -> u32 {
    let write = (request.opcode() == Some(Opcode::Write)).then(|| request.arguments().take());
    match write {
        Some(Ok(WriteIn { write_flags, .. })) => write_flags,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_notes_the_first_has_to_see_to_all() {
        let late = Late::default();
        assert!(late.note(InodeNo(5)));
        assert!(!late.note(InodeNo(5)) && !late.note(InodeNo(6)));
        assert!(late.forget(InodeNo(6)) && !late.forget(InodeNo(6)));
        // However often that empties the table.
        assert!(late.forget(InodeNo(5)) && !late.note(InodeNo(7)));
        assert_eq!(late.take(), HashSet::from([InodeNo(7)]));
        assert!(late.note(InodeNo(6)));
    }
}
