//! Changing a file's size, and removing ranges of blocks.
//!
//! A truncate is a record that waits for the epoch's group. It reads nothing: the last
//! block retains its content beyond the new size, invisible, until the size passes it
//! again ([`FileSystem::tail`]). A truncate that would free more than one step's worth of
//! blocks only sets the size and [`flags::TRUNCATING`]. The reaper then frees the blocks
//! in steps, and so does an operation that extends the file before that is done.

use crate::error::Result;
use crate::file_system::FileSystem;
use crate::inode::flags;
use crate::layout::Layout;
use crate::memory::cache::Generation;
use crate::memory::changes::ALL;
use crate::memory::overlay::Overlay;
use crate::memory::vnode::{State, Vnode, adjust, sectors_of};
use crate::types::Timestamp;
use std::sync::Arc;

/// Blocks looked up at a time.
const WALK_BLOCKS: u64 = 1024;
/// Most cached blocks that are dropped one by one; beyond that, all of the file's are.
const FORGET_MAX: u64 = 1024;

/// Blocks that a removal will remove in addition to dirty ones.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Survey {
    /// This many blocks and sectors of the layout.
    Some { blocks: u64, sectors: u64 },
    /// Every block of the file.
    All,
    /// More blocks than the step allows.
    TooMuch,
}

impl<L: Layout> FileSystem<L> {
    /// Sets the size. Returns false, with nothing changed, if an earlier truncate has to
    /// be finished first.
    ///
    /// # Errors
    /// Errors of the layout's reads; nothing has changed then.
    pub(crate) fn resize(
        &self,
        vnode: &Arc<Vnode>,
        state: &mut State,
        size: u64,
        now: Timestamp,
    ) -> Result<bool> {
        if size > state.inode.size && state.inode.flags & flags::TRUNCATING != 0 {
            return Ok(false);
        }
        let before = state.usage();
        // A truncate to the same size removes blocks reserved beyond it.
        let same = size == state.inode.size && state.inode.blocks > 0;
        if size < state.inode.size || same {
            self.shrink(vnode, state, size)?;
        } else if size > state.inode.size {
            self.extend(vnode, state, size, now)?;
        }
        state.inode.size = size;
        state.inode.mtime = now;
        state.inode.ctime = now;
        // An extension is logged with the epoch's next image, unless data before the new
        // end still waits.
        state.logged.size = if state.has_data() {
            state.logged.size.min(size)
        } else {
            size
        };
        state
            .logged
            .inline
            .truncate(usize::try_from(size).unwrap_or(usize::MAX));
        state.changes.note(ALL);
        self.space.settle(before, state.usage());
        self.join(vnode, state);
        if state.has_data() {
            self.enqueue(vnode, state);
        } else {
            self.dequeue(state);
        }
        Ok(true)
    }

    fn extend(&self, vnode: &Vnode, state: &mut State, size: u64, now: Timestamp) -> Result<()> {
        let inline_bytes = self.store.geometry.inline_bytes as u64;
        if state.is_inline() && size <= inline_bytes {
            let mut content = std::mem::take(&mut state.inode.inline);
            content.resize(size as usize, 0);
            state.set_inline(content);
            state.inline_dirty = true;
            return Ok(());
        }
        if let Some(tail) = self.tail(vnode, state)? {
            self.cut_tail(state, tail);
        }
        self.leave_inline(state, now);
        Ok(())
    }

    fn shrink(&self, vnode: &Arc<Vnode>, state: &mut State, size: u64) -> Result<()> {
        self.bring_back_end(state, size)?;
        if state.is_inline() {
            let mut content = std::mem::take(&mut state.inode.inline);
            content.truncate(size as usize);
            state.set_inline(content);
            state.inline_dirty = true;
            state.join_epoch = true;
            return Ok(());
        }
        let cut = self.store.blocks_of(size);
        let survey = self.survey(vnode, state, cut, u64::MAX, self.settings.step_blocks)?;
        if let Survey::TooMuch = survey {
            self.drop_dirty(state, cut, u64::MAX);
            state.inode.flags |= flags::TRUNCATING;
            self.forget_cached(state, cut);
            self.queues().free_later(Arc::clone(vnode));
        } else {
            self.remove(state, cut, u64::MAX, survey);
        }
        self.cut_dirty_end(state, size);
        Ok(())
    }

    /// Cuts the dirty block in which the file ends. The block is in memory.
    pub(crate) fn cut_dirty_end(&self, state: &mut State, size: u64) {
        let keep = (size & (self.store.block_bytes as u64 - 1)) as usize;
        if keep > 0
            && let Some(dirty) = state.dirty.get_mut(&(size >> self.store.block_shift))
            && dirty.data.len() > keep
        {
            self.waits.block_changed(dirty.data.resident(), keep);
            let sectors = &mut state.inode.sectors;
            adjust(sectors, sectors_of(dirty.data.len()), sectors_of(keep));
            Arc::make_mut(dirty.data.memory_mut()).truncate(keep);
            dirty.flying = false;
        }
    }

    /// Counts the blocks of `from..to` that exist, dirty ones excluded.
    pub(crate) fn survey(
        &self,
        vnode: &Vnode,
        state: &State,
        from: u64,
        to: u64,
        limit: u64,
    ) -> Result<Survey> {
        if from == 0 && to == u64::MAX {
            let few = state.inode.blocks.max(state.logged.blocks) <= limit;
            return Ok(if few { Survey::All } else { Survey::TooMuch });
        }
        let (mut blocks, mut sectors) = (0, 0);
        let mut at = from;
        while let Some(next) = self.store.next_existing(vnode, state, at)? {
            if next >= to {
                break;
            }
            let count = WALK_BLOCKS.min(to - next);
            for m in self.store.mapped(vnode, state, next, count)? {
                if !state.dirty.contains_key(&m.block) {
                    blocks += 1;
                    sectors += m.sectors;
                }
            }
            if blocks > limit {
                return Ok(Survey::TooMuch);
            }
            at = next.saturating_add(count);
        }
        Ok(Survey::Some { blocks, sectors })
    }

    /// Makes `from..to` a hole, as surveyed. The caller settles the usage and joins the
    /// epoch.
    pub(crate) fn remove(&self, state: &mut State, from: u64, to: u64, survey: Survey) {
        let logged_before = state.logged.blocks;
        for (_, dirty) in state.dirty.extract_if(from..to, |_, _| true) {
            adjust(&mut state.inode.blocks, 1, 0);
            adjust(&mut state.inode.sectors, sectors_of(dirty.data.len()), 0);
            adjust(
                &mut state.logged.blocks,
                (dirty.logged_sectors > 0).into(),
                0,
            );
            adjust(&mut state.logged.sectors, dirty.logged_sectors.into(), 0);
            self.waits.block_went(dirty.data.resident());
        }
        match survey {
            Survey::Some { blocks, sectors } => {
                adjust(&mut state.inode.blocks, blocks, 0);
                adjust(&mut state.inode.sectors, sectors, 0);
                adjust(&mut state.logged.blocks, blocks, 0);
                adjust(&mut state.logged.sectors, sectors, 0);
            }
            Survey::All => {
                state.inode.blocks = 0;
                state.inode.sectors = 0;
                state.logged.blocks = 0;
                state.logged.sectors = 0;
                if logged_before > 0 {
                    self.waits
                        .pend(&mut state.pending, |all| *all = Overlay::default());
                }
            }
            Survey::TooMuch => unreachable!("the caller took steps instead"),
        }
        // A cut in a private tree is recorded even where the tree below has no blocks,
        // because it may have some by the time of the merge.
        let cuts = to == u64::MAX && state.private.is_some();
        if state.logged.blocks < logged_before || cuts {
            self.waits
                .pend(&mut state.pending, |all| all.clear(from, to));
        }
        if to == u64::MAX {
            state.mapped_end = state.mapped_end.map(|end| end.min(from));
        }
        if to.saturating_sub(from) <= FORGET_MAX {
            for block in from..to {
                self.store.cache.take(&state.generation, block);
            }
        } else {
            self.forget_cached(state, from);
        }
    }

    /// Drops dirty blocks. The layout's copies are visible again until they are removed
    /// as well.
    fn drop_dirty(&self, state: &mut State, from: u64, to: u64) {
        for (_, dirty) in state.dirty.extract_if(from..to, |_, _| true) {
            let inode = &mut state.inode;
            adjust(&mut inode.blocks, (dirty.logged_sectors == 0).into(), 0);
            adjust(
                &mut inode.sectors,
                sectors_of(dirty.data.len()),
                dirty.logged_sectors.into(),
            );
            self.waits.block_went(dirty.data.resident());
        }
    }

    /// Drops the file's cached blocks from `from` to its end.
    fn forget_cached(&self, state: &mut State, from: u64) {
        let end = self.store.blocks_of(state.inode.size);
        if end.saturating_sub(from) <= FORGET_MAX {
            for block in from..end {
                self.store.cache.take(&state.generation, block);
            }
        } else {
            state.generation = Generation::new(self.store.birth());
        }
    }
}
