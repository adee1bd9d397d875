//! While a commit becomes visible on the mount.
//!
//! The kernel answers from what it holds, so a commit that is merged while the kernel
//! holds any of it is seen in part: some files as before, others as after. Therefore
//! the kernel drops all of it before the merge ([`crate::Kernel::prepare`]), and gets
//! nothing back that it could keep:
//!
//! - Names and attributes are answered with no time for which they may be trusted,
//!   whatever they are of. Answers that are still on their way do no harm: a name is
//!   expired under the directory's lock, which the look-up holds, and older attributes
//!   than an invalidation are not taken.
//! - Pages have no such time. A READ of a file that the commit changes is answered
//!   while the file's pages are being dropped, and noted: then they are dropped once
//!   more. A file that went through that without a READ is *held*: requests for its
//!   content and its attributes wait until the merge is over. Nothing that the kernel
//!   locks for such a request is needed to drop anything else, so nothing waits for
//!   itself; a page that is asked for is locked, but its file has been seen to.
//!
//! No request waits longer than [`HELD_MAX`]. Files whose requests are answered after
//! that time and before the merge are noted as well, and their pages are dropped after
//! the merge.

use super::{Adapter, inode_of};
use crate::protocol::Opcode;
use crate::request::Request;
use crate::settle::set_aside;
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use varve_fs::{InodeNo, Layout};

/// How long a request may wait for a merge. Only reached if the kernel waits for a
/// request that is held.
const HELD_MAX: Duration = Duration::from_secs(3);
/// How long a READ waits after the size of its file was set: the kernel takes the size
/// from the answer to that request a moment later.
const SIZE_TAKEN: Duration = Duration::from_millis(5);

/// What becomes of requests for a file's content.
#[derive(Clone, Copy)]
enum Phase {
    /// They are answered; true if one was since the pages were last dropped.
    Dropping(bool),
    /// They wait.
    Held,
    /// They wait until then: the size is what it will be.
    Sized(Instant),
}

#[derive(Default)]
struct State {
    files: HashMap<InodeNo, Phase>,
    /// Until when a request waits at most.
    until: Option<Instant>,
    /// The thread that uses the mount on behalf of the commit: it waits for nothing.
    own: Option<u32>,
}

/// The files of a commit whose READ and GETATTR wait while it is merged.
#[derive(Default)]
pub(super) struct Merging {
    /// One merge at a time.
    turn: Mutex<()>,
    is_active: AtomicBool,
    state: Mutex<State>,
}

/// A merge that is being prepared, or made: it is over when this is dropped.
pub struct Merge<'a> {
    merging: &'a Merging,
    _turn: MutexGuard<'a, ()>,
}

impl Merge<'_> {
    /// From now on requests for those of `files` wait that were not read since their
    /// pages were dropped. Returns the others, to be dropped again.
    pub(crate) fn hold_unread(&self, files: &[InodeNo]) -> Vec<InodeNo> {
        let mut state = self.merging.state.lock();
        state.until.get_or_insert(Instant::now() + HELD_MAX);
        let mut read = Vec::new();
        for ino in files {
            let Some(phase) = state.files.get_mut(ino) else {
                continue;
            };
            *phase = match phase {
                Phase::Dropping(true) => {
                    read.push(*ino);
                    Phase::Dropping(false)
                }
                _ => Phase::Held,
            };
        }
        read
    }

    /// The calling thread is going to use the mount.
    pub(crate) fn act(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.merging.state.lock().own = u32::try_from(thread).ok();
    }

    /// It is over. Returns the files of which the kernel may have got pages before it.
    pub(crate) fn end(self) -> Vec<InodeNo> {
        let state = self.merging.state.lock();
        let files = state.files.iter();
        let kept = files.filter(|(_, phase)| matches!(phase, Phase::Dropping(_)));
        kept.map(|(ino, _)| *ino).collect()
    }
}

impl Drop for Merge<'_> {
    fn drop(&mut self) {
        self.merging.is_active.store(false, SeqCst);
        *self.merging.state.lock() = State::default();
    }
}

impl Merging {
    fn begin(&self, files: &[InodeNo]) -> Merge<'_> {
        let turn = self.turn.lock();
        let files = files.iter().map(|ino| (*ino, Phase::Dropping(false)));
        self.state.lock().files = files.collect();
        self.is_active.store(true, SeqCst);
        Merge {
            merging: self,
            _turn: turn,
        }
    }

    /// How long the kernel may trust what it would trust for so many seconds.
    pub(super) fn trust(&self, seconds: u64) -> u64 {
        match self.is_active.load(SeqCst) {
            true => 0,
            false => seconds,
        }
    }

    /// The directory that the commit's own thread sets aside by this look-up.
    pub(super) fn aside(&self, request: &Request<'_>, name: &[u8]) -> Option<InodeNo> {
        if !self.is_active.load(SeqCst) || inode_of(request) != InodeNo::ROOT {
            return None;
        }
        let own = self.state.lock().own == Some(request.header.pid);
        set_aside(name).filter(|_| own)
    }

    /// Until when a request has to wait, if it has to.
    pub(super) fn holds(&self, request: &Request<'_>) -> Option<Instant> {
        if !self.is_active.load(SeqCst) {
            return None;
        }
        let opcode = request.opcode();
        let mut state = self.state.lock();
        let (until, own) = (state.until, state.own == Some(request.header.pid));
        let phase = state.files.get_mut(&inode_of(request))?;
        match opcode {
            Some(Opcode::Setattr) if own => {
                *phase = Phase::Sized(Instant::now() + SIZE_TAKEN);
                return None;
            }
            Some(Opcode::Read | Opcode::Getattr | Opcode::Statx) if !own => {}
            _ => return None,
        }
        let until = match *phase {
            Phase::Dropping(_) => None,
            Phase::Held => until,
            Phase::Sized(at) => Some(at),
        };
        let waits = until.filter(|until| Instant::now() < *until);
        if waits.is_none() && !matches!(phase, Phase::Sized(_)) && opcode == Some(Opcode::Read) {
            *phase = Phase::Dropping(true);
        }
        waits
    }
}

impl<L: Layout> Adapter<L> {
    /// A commit that changes these regular files is about to be merged.
    pub(crate) fn begin_merge(&self, files: &[InodeNo]) -> Merge<'_> {
        self.merging.begin(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::InHeader;
    use zerocopy::IntoBytes;

    const FILE: InodeNo = InodeNo(5);
    const OTHER: InodeNo = InodeNo(6);

    /// Whether this request for the content or attributes of `ino` waits.
    fn waits(merging: &Merging, opcode: Opcode, ino: InodeNo, pid: u32) -> bool {
        let header = InHeader {
            len: size_of::<InHeader>() as u32,
            opcode: opcode as u32,
            nodeid: ino.0,
            pid,
            ..InHeader::default()
        };
        let request = Request::parse(header.as_bytes()).expect("it is a header");
        merging.holds(&request).is_some()
    }

    #[test]
    fn a_file_that_is_read_while_its_pages_are_dropped_is_dropped_again() {
        let merging = Merging::default();
        assert_eq!(merging.trust(7), 7);
        let merge = merging.begin(&[FILE, OTHER]);
        assert_eq!(merging.trust(7), 0);
        assert!(!waits(&merging, Opcode::Read, FILE, 1));
        assert_eq!(merge.hold_unread(&[FILE, OTHER]), [FILE]);
        assert!(waits(&merging, Opcode::Read, OTHER, 1));
        assert!(waits(&merging, Opcode::Getattr, OTHER, 1));
        assert!(!waits(&merging, Opcode::Write, OTHER, 1));
        assert!(!waits(&merging, Opcode::Getattr, FILE, 1));
        assert_eq!(merge.hold_unread(&[FILE]), []);
        assert!(waits(&merging, Opcode::Read, FILE, 1));
        assert!(merge.end().is_empty());
        assert!(!waits(&merging, Opcode::Read, FILE, 1));
        assert_eq!(merging.trust(7), 7);
    }

    #[test]
    fn what_was_never_held_is_told_at_the_end() {
        let merging = Merging::default();
        let merge = merging.begin(&[FILE, OTHER]);
        assert!(!waits(&merging, Opcode::Read, FILE, 1));
        merge.hold_unread(&[FILE, OTHER]);
        assert_eq!(merge.end(), [FILE]);
        // One whose wait was too long is as if it had never been held.
        let merge = merging.begin(&[FILE]);
        merge.hold_unread(&[FILE]);
        merging.state.lock().until = Some(Instant::now());
        assert!(!waits(&merging, Opcode::Read, FILE, 1));
        assert_eq!(merge.end(), [FILE]);
    }

    #[test]
    fn the_commits_own_thread_waits_for_nothing_and_sets_sizes() {
        let merging = Merging::default();
        let merge = merging.begin(&[FILE]);
        merge.hold_unread(&[FILE]);
        merge.act();
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert!(!waits(&merging, Opcode::Getattr, FILE, own));
        assert!(!waits(&merging, Opcode::Setattr, FILE, own + 1));
        assert!(waits(&merging, Opcode::Read, FILE, own + 1));
        assert!(!waits(&merging, Opcode::Setattr, FILE, own));
        std::thread::sleep(SIZE_TAKEN);
        assert!(!waits(&merging, Opcode::Read, FILE, own + 1));
        assert!(merge.end().is_empty());
    }
}
