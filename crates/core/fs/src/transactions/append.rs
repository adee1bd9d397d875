//! Appends that find their place at the commit.
//!
//! Who appends does not say where. So in a locking transaction he takes no lock of the
//! size but an intention to write it, which all who append share; his bytes wait beside
//! the file, and the merge writes them at the end that the file has then. *Without: the
//! size is locked from an append to its merge, and transactions that write one history
//! go one at a time.*
//!
//! - Whatever else of the tree looks at the end, or writes content of the file, has the
//!   bytes *placed* first: with the size locked, as by an ordinary append.
//! - So a file has bytes that wait or content of the tree's own, never both.
//! - A block for each file waits, in [`FILES_MAX`] files; more is placed at once.
//! - Nothing waits in or below a transaction that another lies within.
//! - Who has the block in which a file ends as a whole, to write it, locks the size as
//!   well (`uses/locking.rs`). *Without: his copy of the block lies over what others append.*

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

/// Files of a transaction whose bytes wait.
const FILES_MAX: u32 = 16;

/// Where bytes went that were appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// They begin at this offset.
    At(u64),
    /// Where the file ends at the commit. So many bytes of the transaction's wait there,
    /// these the last of them ([`FileSystem::end_of_appended`]).
    AtCommit(u64),
}

impl<L: Layout> FileSystem<L> {
    /// Writes all of `data` at the end of the file, at once; in a locking transaction
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

    /// The offset at which the first `waiting` bytes end that waited for the commit. They
    /// wait no longer.
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

    /// Has bytes wait for the commit, and answers how many do then; none if they cannot.
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
        // Other threads of the transaction may have come in between.
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

    /// A part is about to be used: places what waits, if that has to know its place.
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

    /// Places what waits in any file. A transaction is about to begin within this one.
    pub(super) fn place_all(&self, locking: &Locking) -> Result<()> {
        if locking.appending.load(Relaxed) == 0 {
            return Ok(());
        }
        let all = self.table.all();
        all.iter().try_for_each(|vnode| self.place(locking, vnode))
    }

    /// True if something waits.
    pub(super) fn has_appending(&self, below: &Below<L>) -> bool {
        let Kind::Locking(locking) = &below.kind else {
            return false;
        };
        let waits = |vnode: &Arc<Vnode>| !vnode.read().appending().is_empty();
        locking.appending.load(Relaxed) > 0 && self.table.all().iter().any(waits)
    }

    /// What waits becomes content at the file's end, in one step: whoever looks finds it
    /// there or waiting.
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
            // Another thread of the transaction's has been here,
            0 => return Ok(()),
            now if now <= waiting => {}
            // or has appended more than is locked and asked for.
            _ => {
                drop(state);
                drop(operation);
                return self.place(locking, vnode);
            }
        }
        let begin = state.inode.size;
        let end = self.end_with(begin, &data)?;
        // They were written when they began to wait.
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

    /// The file's end with what a transaction has waiting for it.
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
    /// What waits for the end that the file has at the commit.
    pub(super) fn appending(&self) -> &[u8] {
        let private = self.private.as_ref();
        private.map_or(&[], |private| private.appending.bytes())
    }
}
