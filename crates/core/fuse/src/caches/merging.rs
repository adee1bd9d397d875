//! Requests of the kernel while a commit is merged into a mount.
//!
//! The kernel answers from its caches, so a commit that is merged while the kernel caches some
//! of it would be seen in part: some files as before, others as after. Therefore the kernel
//! drops all of it before the merge ([`crate::Kernel::prepare`]), and until the end of the
//! merge it gets no answer that it could cache:
//!
//! - Names and attributes of any file are answered with a validity of 0 seconds. Answers that
//!   are still in flight do no harm: a name is expired under the directory's lock, which the
//!   look-up holds, and the kernel discards attributes that are older than an invalidation.
//! - Pages have no validity. While the pages of a file are being dropped, a READ of the file is
//!   answered and noted, and the pages are dropped once more. A file whose pages were dropped
//!   without a READ is *paused*: requests for its content and attributes wait until the merge
//!   is over. The kernel locks nothing for such a request that the drop of another file's
//!   pages needs, so there is no deadlock.
//!
//! No request waits longer than `PAUSE_MAX`. A file whose READ is answered after that time and
//! before the merge is noted too, and its pages are dropped after the merge.
//!
//! Invariant: `files ≠ ∅ ⇒ is_active`, and `phase = Paused ⇒ until is set`.

use crate::protocol::Opcode;
use crate::settle::set_aside;
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use varve_fs::InodeNo;

/// Longest time for which a request waits for a merge. It is reached only if the kernel itself
/// waits for a request that is paused.
const PAUSE_MAX: Duration = Duration::from_secs(3);
/// Time for which a READ waits after the size of its file was set. The kernel takes the size
/// from the answer a moment after it has received it.
const SIZE_TAKEN: Duration = Duration::from_millis(5);

/// What happens to requests for a file's content.
#[derive(Clone, Copy)]
enum MergePhase {
    /// They are answered. True if one was answered since the pages were last dropped.
    Dropping(bool),
    /// They wait for the end of the merge.
    Paused,
    /// They wait until this time; the size has its final value.
    Sized(Instant),
}

#[derive(Default)]
struct MergedFiles {
    files: HashMap<InodeNo, MergePhase>,
    /// The time until which a request waits at most.
    until: Option<Instant>,
    /// The thread that uses the mount on behalf of the commit. Its requests do not wait.
    own: Option<u32>,
}

/// The files of the commit that is being merged.
#[derive(Default)]
pub(crate) struct Merging {
    /// Held during a merge: there is one at a time.
    one: Mutex<()>,
    is_active: AtomicBool,
    state: Mutex<MergedFiles>,
}

/// A merge that is prepared or running. It is over when this value is dropped.
pub struct Merge<'a> {
    merging: &'a Merging,
    _one: MutexGuard<'a, ()>,
}

impl Merge<'_> {
    /// Pauses those of `files` that were not read since their pages were dropped. Returns the
    /// others, whose pages must be dropped again.
    pub(crate) fn pause_unread(&self, files: &[InodeNo]) -> Vec<InodeNo> {
        let mut state = self.merging.state.lock();
        state.until.get_or_insert(Instant::now() + PAUSE_MAX);
        let mut read = Vec::new();
        for ino in files {
            let Some(phase) = state.files.get_mut(ino) else {
                continue;
            };
            *phase = match phase {
                MergePhase::Dropping(true) => {
                    read.push(*ino);
                    MergePhase::Dropping(false)
                }
                _ => MergePhase::Paused,
            };
        }
        read
    }

    /// Names the calling thread as the one that uses the mount on behalf of the commit.
    pub(crate) fn act(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.merging.state.lock().own = u32::try_from(thread).ok();
    }

    /// Ends the merge. Returns the files of which the kernel may have got pages before it.
    pub(crate) fn end(self) -> Vec<InodeNo> {
        let state = self.merging.state.lock();
        let files = state.files.iter();
        let cached = files.filter(|(_, phase)| matches!(phase, MergePhase::Dropping(_)));
        cached.map(|(ino, _)| *ino).collect()
    }
}

impl Drop for Merge<'_> {
    fn drop(&mut self) {
        self.merging.is_active.store(false, SeqCst);
        *self.merging.state.lock() = MergedFiles::default();
    }
}

impl Merging {
    /// Begins the merge of a commit that changes these regular files, after the end of the
    /// merge before.
    pub(crate) fn begin(&self, files: &[InodeNo]) -> Merge<'_> {
        let one = self.one.lock();
        let files = files.iter().map(|ino| (*ino, MergePhase::Dropping(false)));
        let state = &mut *self.state.lock();
        assert!(
            state.files.is_empty() && state.until.is_none(),
            "two merges"
        );
        state.files = files.collect();
        self.is_active.store(true, SeqCst);
        Merge {
            merging: self,
            _one: one,
        }
    }

    /// The validity, in seconds, of an answer that would otherwise be valid for `seconds`.
    pub(crate) fn validity(&self, seconds: u64) -> u64 {
        match self.is_active.load(SeqCst) {
            true => 0,
            false => seconds,
        }
    }

    /// The directory that the commit's own thread sets aside by a look-up of this name.
    pub(crate) fn aside(&self, parent: InodeNo, pid: u32, name: &[u8]) -> Option<InodeNo> {
        if !self.is_active.load(SeqCst) || parent != InodeNo::ROOT {
            return None;
        }
        let own = self.state.lock().own == Some(pid);
        set_aside(name).filter(|_| own)
    }

    /// The time until which a request of the thread `pid` has to wait, if it has to.
    pub(crate) fn pauses(&self, opcode: Option<Opcode>, ino: InodeNo, pid: u32) -> Option<Instant> {
        if !self.is_active.load(SeqCst) {
            return None;
        }
        let mut state = self.state.lock();
        let (until, own) = (state.until, state.own == Some(pid));
        let phase = state.files.get_mut(&ino)?;
        match opcode {
            Some(Opcode::Setattr) if own => {
                *phase = MergePhase::Sized(Instant::now() + SIZE_TAKEN);
                return None;
            }
            Some(Opcode::Read | Opcode::Getattr | Opcode::Statx) if !own => {}
            _ => return None,
        }
        let until = match *phase {
            MergePhase::Dropping(_) => None,
            MergePhase::Paused => {
                assert!(until.is_some(), "a pause without an end");
                until
            }
            MergePhase::Sized(at) => Some(at),
        };
        let waits = until.filter(|until| Instant::now() < *until);
        let is_sized = matches!(phase, MergePhase::Sized(_));
        if waits.is_none() && !is_sized && opcode == Some(Opcode::Read) {
            *phase = MergePhase::Dropping(true);
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: InodeNo = InodeNo(5);
    const OTHER: InodeNo = InodeNo(6);

    /// True if such a request of thread `pid` waits.
    fn waits(merging: &Merging, opcode: Opcode, ino: InodeNo, pid: u32) -> bool {
        merging.pauses(Some(opcode), ino, pid).is_some()
    }

    #[test]
    fn a_file_that_is_read_while_its_pages_are_dropped_is_dropped_again() {
        let merging = Merging::default();
        assert_eq!(merging.validity(7), 7);
        let merge = merging.begin(&[FILE, OTHER]);
        assert_eq!(merging.validity(7), 0);
        assert!(!waits(&merging, Opcode::Read, FILE, 1));
        assert_eq!(merge.pause_unread(&[FILE, OTHER]), [FILE]);
        assert!(waits(&merging, Opcode::Read, OTHER, 1));
        assert!(waits(&merging, Opcode::Getattr, OTHER, 1));
        assert!(!waits(&merging, Opcode::Write, OTHER, 1));
        assert!(!waits(&merging, Opcode::Getattr, FILE, 1));
        assert_eq!(merge.pause_unread(&[FILE]), []);
        assert!(waits(&merging, Opcode::Read, FILE, 1));
        assert!(merge.end().is_empty());
        assert!(!waits(&merging, Opcode::Read, FILE, 1));
        assert_eq!(merging.validity(7), 7);
    }

    #[test]
    fn files_that_were_never_paused_are_dropped_at_the_end() {
        let merging = Merging::default();
        let merge = merging.begin(&[FILE, OTHER]);
        assert!(!waits(&merging, Opcode::Read, FILE, 1));
        merge.pause_unread(&[FILE, OTHER]);
        assert_eq!(merge.end(), [FILE]);
        // A file whose pause was too long counts as never paused.
        let merge = merging.begin(&[FILE]);
        merge.pause_unread(&[FILE]);
        merging.state.lock().until = Some(Instant::now());
        assert!(!waits(&merging, Opcode::Read, FILE, 1));
        assert_eq!(merge.end(), [FILE]);
    }

    #[test]
    fn the_commits_own_thread_waits_for_nothing_and_sets_sizes() {
        let merging = Merging::default();
        let merge = merging.begin(&[FILE]);
        merge.pause_unread(&[FILE]);
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
