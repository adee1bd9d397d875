//! Appends whose offset is decided at the commit.
//!
//! An appender does not state the offset. So in a locking transaction it does not lock
//! the size but takes an intention to write it, which all appenders share. Its bytes wait
//! separately from the content, and the merge writes them at the end that the file has
//! then. *If this is omitted, the size is locked from an append to its merge, and
//! transactions that append to one file run one at a time.*
//!
//! - Before any other operation of the tree reads the end, or writes content of the file,
//!   the bytes are *placed*: the size is locked, as by an ordinary append.
//! - So a file has waiting bytes or content of the tree's own, never both.
//! - Up to one block for each file waits, in [`FILES_MAX`] files; more is placed at once.
//! - No bytes wait in a transaction with a nested one, or in a nested one.
//! - A transaction that locks a file's last block as a whole, to write it, locks the size
//!   as well (`uses/locking.rs`). *If this is omitted, its copy of the block overwrites
//!   the bytes that others append.*

use super::Below;
use crate::attr::Caller;
use crate::attributes::file_flags::may_write;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::inode::flags;
use crate::isolation::{Access, Kind, Locking, Part};
use crate::layout::Layout;
use crate::memory::private::Appending;
use crate::memory::vnode::{Ground, State, Vnode};
use crate::statistics::count;
use crate::types::{FileKind, InodeNo};
use crate::via::Via;
use std::sync::Arc;
use varve_device::sync::atomic::Ordering::Relaxed;

/// Most files of a transaction with waiting bytes.
const FILES_MAX: u32 = 16;

/// Offset of appended bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The bytes begin at this offset.
    At(u64),
    /// The bytes will be at the end that the file has at the commit. This many bytes of
    /// the transaction wait, these the last of them ([`FileSystem::end_of_appended`]).
    AtCommit(u64),
}

impl<L: Layout> FileSystem<L> {
    /// Writes all of `data` at the end of the file, atomically; in a locking transaction
    /// perhaps at the end that the file has at the commit.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn append_in_turn(&self, caller: &Caller, ino: InodeNo, data: &[u8]) -> Result<Appended> {
        let vnode = self.vnode(ino)?;
        match self.append_at_commit(&vnode, caller, data)? {
            Some(waiting) => {
                self.dirtied();
                Ok(Appended::AtCommit(waiting))
            }
            None => self.append(caller, ino, data).map(Appended::At),
        }
    }

    /// The end offset of the first `waiting` bytes that waited for the commit. They are
    /// placed by this call.
    ///
    /// # Errors
    /// As locking the size and writing the bytes.
    pub fn end_of_appended(&self, ino: InodeNo, waiting: u64) -> Result<u64> {
        let vnode = self.vnode(ino)?;
        self.uses(&vnode, Part::Size, Access::Read)?;
        let state = vnode.read();
        let begin = state.private.as_ref().map(|private| &private.appending);
        Ok(match begin {
            Some(Appending::Placed(begin)) => begin + waiting,
            _ => state.inode.size,
        })
    }

    /// Adds bytes that wait for the commit, and returns the total that waits; `None` if
    /// they cannot wait.
    fn append_at_commit(
        &self,
        vnode: &Arc<Vnode>,
        caller: &Caller,
        data: &[u8],
    ) -> Result<Option<u64>> {
        let Some(below) = &self.below else {
            return Ok(None);
        };
        let Kind::Locking(locking) = &below.kind else {
            return Ok(None);
        };
        let outermost = below.target.below.is_none();
        if !outermost || !self.may_wait(vnode, &vnode.read(), locking, data) {
            return Ok(None);
        }
        self.uses(vnode, Part::End, Access::Write)?;
        let _operation = self.begin_write(vnode, None, data.len(), Via::Caller)?;
        let mut state = vnode.write();
        state.live()?;
        may_write(&state.inode, Via::Caller, state.inode.size)?;
        // Another thread of the transaction may have changed this in between.
        below.goes_on()?;
        if !self.may_wait(vnode, &state, locking, data) {
            return Ok(None);
        }
        let private = state.private.as_mut().expect("a file of the ground");
        let (before, waiting) = private.appending.take_in(data);
        match before {
            0 => {
                locking.appending.fetch_add(1, Relaxed);
                self.waits.block_came(waiting);
            }
            _ => self.waits.block_changed(before, waiting),
        }
        let now = self.now();
        (state.inode.mtime, state.inode.ctime) = (now, now);
        self.clear_set_id(vnode, &mut state, caller);
        self.join(vnode, &mut state);
        count(&self.store.counters.writes, 1);
        count(&self.store.counters.written_bytes, data.len() as u64);
        Ok(Some(waiting as u64))
    }

    fn may_wait(&self, vnode: &Vnode, state: &State, locking: &Locking, data: &[u8]) -> bool {
        let Some(private) = &state.private else {
            return false;
        };
        let fits = match &private.appending {
            Appending::Nothing => {
                let untouched = state.dirty.is_empty()
                    && state.pending.is_empty()
                    && !state.inline_dirty
                    && state.inode.size == private.origin.size
                    && state.inode.flags & flags::TRUNCATING == 0;
                untouched && locking.appending.load(Relaxed) < FILES_MAX
            }
            Appending::AtCommit(_) => true,
            Appending::Placed(_) => false,
        };
        let bytes = private.appending.bytes().len() + data.len();
        let of_ground = matches!(vnode.ground, Ground::Vnode(_));
        let regular = vnode.kind == FileKind::Regular && !data.is_empty();
        fits && of_ground && regular && bytes <= self.store.block_bytes
    }

    /// Places the waiting bytes of a file if the use of this part depends on their
    /// offset.
    pub(crate) fn place_before(
        &self,
        locking: &Locking,
        vnode: &Arc<Vnode>,
        part: &Part<'_>,
        access: Access,
    ) -> Result<()> {
        let asks = match part {
            Part::Size | Part::All => true,
            Part::Content(_) => access == Access::Write,
            _ => false,
        };
        match asks && locking.appending.load(Relaxed) > 0 {
            true => self.place(locking, vnode),
            false => Ok(()),
        }
    }

    /// Places the waiting bytes of all files, because a nested transaction is about to
    /// begin.
    pub(super) fn place_all(&self, locking: &Locking) -> Result<()> {
        if locking.appending.load(Relaxed) == 0 {
            return Ok(());
        }
        let all = self.table.all();
        all.iter().try_for_each(|vnode| self.place(locking, vnode))
    }

    /// True if bytes of any file wait.
    pub(super) fn has_appending(&self, below: &Below<L>) -> bool {
        let Kind::Locking(locking) = &below.kind else {
            return false;
        };
        let waits = |vnode: &Arc<Vnode>| !vnode.read().appending().is_empty();
        locking.appending.load(Relaxed) > 0 && self.table.all().iter().any(waits)
    }

    /// Makes the waiting bytes content at the file's end, in one step: a reader finds
    /// them in either place.
    fn place(&self, locking: &Locking, vnode: &Arc<Vnode>) -> Result<()> {
        let waiting = vnode.read().appending().len();
        if waiting == 0 {
            return Ok(());
        }
        self.lock_end(locking, vnode, waiting as u64)?;
        let operation = self.begin_write(vnode, None, waiting, Via::Caller)?;
        let mut state = vnode.write();
        state.live()?;
        let data = state.appending().to_vec();
        match data.len() {
            // Another thread of the transaction has placed them,
            0 => return Ok(()),
            now if now <= waiting => {}
            // or has appended more than was locked and admitted.
            _ => {
                drop(state);
                drop(operation);
                return self.place(locking, vnode);
            }
        }
        let begin = state.inode.size;
        let end = self.end_with(begin, &data)?;
        // Their time is that at which they began to wait.
        let times = (state.inode.mtime, state.inode.ctime);
        self.notes_write(&mut state, begin..end);
        self.put(vnode, &mut state, begin, &data, self.now())?;
        (state.inode.mtime, state.inode.ctime) = times;
        self.waits.block_went(data.len());
        let private = state.private.as_mut().expect("a file of the ground");
        private.appending = Appending::Placed(begin);
        if state.join_epoch {
            self.count_joined(&mut state);
        }
        Ok(())
    }

    /// The file's end after the waiting bytes.
    ///
    /// # Errors
    /// `TooLarge`.
    pub(super) fn end_with(&self, size: u64, waiting: &[u8]) -> Result<u64> {
        let end = size.checked_add(waiting.len() as u64);
        let end = end.filter(|&end| end <= self.store.geometry.max_file_bytes);
        end.ok_or(Error::TooLarge)
    }
}

impl State {
    /// The bytes that wait for the end that the file has at the commit.
    pub(super) fn appending(&self) -> &[u8] {
        let private = self.private.as_ref();
        private.map_or(&[], |private| private.appending.bytes())
    }
}
