//! Reserving, punching and zeroing ranges.

use crate::account::Coming;
use crate::attr::Caller;
use crate::attributes::file_flags::{may_change, may_rewrite};
use crate::content::put::Put;
use crate::content::truncate::Survey;
use crate::epochs::capture::Take;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::inode::flags;
use crate::isolation::{Access, Part};
use crate::layout::{Cause, Layout, Purpose, Usage};
use crate::memory::changes::ALL;
use crate::memory::overlay::Overlay;
use crate::memory::vnode::{State, Vnode, adjust};
use crate::types::{InodeNo, Timestamp};
use std::sync::Arc;

const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;

impl<L: Layout> FileSystem<L> {
    /// `fallocate(2)`: mode 0 and `KEEP_SIZE` (1) reserve the range's holes, `PUNCH_HOLE
    /// | KEEP_SIZE` (3) makes the range a hole, `ZERO_RANGE` (16), with or without
    /// `KEEP_SIZE`, makes it read as zeros and reserves it.
    ///
    /// Ranges of more blocks than one step may contain are done in several steps, each
    /// atomic.
    ///
    /// # Errors
    /// `NotSupported` for other modes, `Invalid` for an empty range or anything but a
    /// regular file, `TooLarge`, `NoSpace`, `ReadOnly`, `Stale`, `Damaged`, device
    /// errors.
    pub fn fallocate(
        &self,
        caller: &Caller,
        ino: InodeNo,
        mode: i32,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        let vnode = self.vnode(ino)?;
        vnode.regular()?;
        if length == 0 {
            return Err(Error::Invalid("an empty range"));
        }
        let end = offset.checked_add(length).ok_or(Error::TooLarge)?;
        if end > self.store.geometry.max_file_bytes {
            return Err(Error::TooLarge);
        }
        self.uses(&vnode, Part::Size, Access::Write)?;
        self.uses(&vnode, Part::Content(0..u64::MAX), Access::Write)?;
        let _outside = self.as_outsider(&[
            (&vnode, Part::Size, Access::Write),
            (&vnode, Part::Content(0..u64::MAX), Access::Write),
        ])?;
        let keep_size = mode & KEEP_SIZE != 0;
        // Flags are checked before any step is done.
        match mode & !KEEP_SIZE {
            0 => may_change(&vnode.read().inode)?,
            _ => may_rewrite(&vnode.read().inode)?,
        }
        match mode & !KEEP_SIZE {
            0 => self.reserve_range(&vnode, caller, offset, end, keep_size)?,
            PUNCH_HOLE if keep_size => self.punch_range(&vnode, caller, offset, end)?,
            ZERO_RANGE => {
                // Checked before the zeros are made, because the reservation must not
                // fail after them.
                let first = offset >> self.store.block_shift;
                self.admit_range(&vnode, first, self.store.blocks_of(end))?;
                self.punch_range(&vnode, caller, offset, end)?;
                self.reserve_range(&vnode, caller, offset, end, keep_size)?;
            }
            _ => return Err(Error::NotSupported),
        }
        self.settle_file(&vnode)
    }

    fn reserve_range(
        &self,
        vnode: &Arc<Vnode>,
        caller: &Caller,
        offset: u64,
        end: u64,
        keep_size: bool,
    ) -> Result<()> {
        let (mut block, last) = (offset >> self.store.block_shift, self.store.blocks_of(end));
        self.admit_range(vnode, block, last)?;
        while block < last {
            let to = last.min(block.saturating_add(self.settings.step_blocks));
            let reach = if to == last {
                end
            } else {
                to << self.store.block_shift
            };
            let size = if keep_size { 0 } else { reach };
            self.reserve_step(vnode, caller, block, to, size)?;
            if to < last {
                self.seal_step()?;
            }
            block = to;
        }
        self.dirtied();
        Ok(())
    }

    /// Checks that a range fits before any part of it is reserved.
    ///
    /// # Errors
    /// As admission.
    fn admit_range(&self, vnode: &Vnode, from: u64, to: u64) -> Result<()> {
        self.space.reaches(to);
        let promised = |blocks: u64| {
            let blocks = blocks.min(1 << 50);
            let growth = Usage {
                inodes: 0,
                blocks,
                sectors: self.store.sectors_per_block().saturating_mul(blocks),
            };
            let coming = Coming::reserving(self.end_bytes(), blocks);
            self.promise(growth, coming, Purpose::Grow)
        };
        let worst = promised(to - from);
        if !matches!(worst, Err(Error::NoSpace)) {
            return worst.map(|_| ());
        }
        let holes = {
            let state = vnode.read();
            state.live()?;
            let present = self.present(vnode, &state, from, to)?;
            to - from - present
        };
        promised(holes).map(|_| ())
    }

    /// Dirty bytes that a range of blocks may cause at its two ends.
    fn end_bytes(&self) -> u64 {
        2 * self.store.block_bytes as u64
    }

    /// Number of blocks of the range that exist.
    fn present(&self, vnode: &Vnode, state: &State, from: u64, to: u64) -> Result<u64> {
        let dirty = state.dirty.range(from..to).count() as u64;
        match self.survey(vnode, state, from, to, u64::MAX)? {
            Survey::Some { blocks, .. } => Ok(blocks + dirty),
            Survey::All | Survey::TooMuch => Ok(state.inode.blocks),
        }
    }

    /// Reserves one step's worth of blocks; `size` is the least size of the file
    /// afterwards.
    fn reserve_step(
        &self,
        vnode: &Arc<Vnode>,
        caller: &Caller,
        from: u64,
        to: u64,
        size: u64,
    ) -> Result<()> {
        loop {
            let holes = {
                let state = vnode.read();
                to - from - self.present(vnode, &state, from, to)?.min(to - from)
            };
            let sectors = self.store.sectors_per_block();
            // One more for a tail that is cut when the size passes it.
            let growth = Usage {
                inodes: 0,
                blocks: holes + 1,
                sectors: (holes + 1) * sectors,
            };
            let coming = Coming::reserving(self.end_bytes(), growth.blocks);
            let operation = self.begin(growth, coming, Purpose::Grow)?;
            let mut state = vnode.write();
            state.live()?;
            may_change(&state.inode)?;
            if state.inode.flags & flags::TRUNCATING != 0 {
                drop(state);
                drop(operation);
                self.finish_truncate(vnode)?;
                continue;
            }
            let now = self.now();
            let holes = self.holes(vnode, &state, from, to)?;
            // An image never has both inline content and blocks.
            let was_inline = state.is_inline() || !state.logged.inline.is_empty();
            if size > state.inode.size {
                self.resize(vnode, &mut state, size, now)?;
            }
            // Nothing fails from here on.
            self.reserve_holes(vnode, &mut state, &holes, was_inline, now);
            state.inode.ctime = now;
            self.join(vnode, &mut state);
            self.clear_set_id(vnode, &mut state, caller);
            return Ok(());
        }
    }

    pub(crate) fn reserve_holes(
        &self,
        vnode: &Arc<Vnode>,
        state: &mut State,
        holes: &[(u64, u64)],
        was_inline: bool,
        now: Timestamp,
    ) {
        let before = state.usage();
        if was_inline {
            self.leave_inline(state, now);
            state.join_epoch = true;
            self.enqueue(vnode, state);
        }
        for &(start, end) in holes {
            let start = start + u64::from(state.dirty.contains_key(&start));
            if start >= end {
                continue; // block 0 was just moved out of the inode
            }
            let (blocks, sectors) = (end - start, (end - start) * self.store.sectors_per_block());
            let reserve = |all: &mut Overlay| all.reserve(start, end);
            self.waits.pend(&mut state.pending, reserve);
            adjust(&mut state.inode.blocks, 0, blocks);
            adjust(&mut state.inode.sectors, 0, sectors);
            adjust(&mut state.logged.blocks, 0, blocks);
            adjust(&mut state.logged.sectors, 0, sectors);
            state.mapped_end = state.mapped_end.map(|mapped| mapped.max(end));
        }
        state.changes.note(ALL);
        self.space.settle(before, state.usage());
    }

    /// The parts of `from..to` in which no block exists.
    pub(crate) fn holes(
        &self,
        vnode: &Vnode,
        state: &State,
        from: u64,
        to: u64,
    ) -> Result<Vec<(u64, u64)>> {
        let mut holes = Vec::new();
        let mut at = from;
        while at < to {
            let next = self
                .store
                .next_existing(vnode, state, at)?
                .map_or(to, |next| next.min(to));
            if next > at {
                holes.push((at, next));
            }
            // Skips blocks that exist, a run at a time.
            let mapped = self.store.mapped(vnode, state, next, 1024.min(to - next))?;
            let mut mapped = mapped.iter().peekable();
            at = next;
            while at < to {
                while mapped.next_if(|m| m.block < at).is_some() {}
                let exists = mapped.peek().is_some_and(|m| m.block == at);
                if !exists && !state.dirty.contains_key(&at) {
                    break;
                }
                at += 1;
            }
        }
        Ok(holes)
    }

    fn punch_range(
        &self,
        vnode: &Arc<Vnode>,
        caller: &Caller,
        offset: u64,
        end: u64,
    ) -> Result<()> {
        let block_bytes = self.store.block_bytes as u64;
        let (first, last) = (self.store.blocks_of(offset), end >> self.store.block_shift);
        let operation = self.begin(
            Usage {
                inodes: 0,
                blocks: 2,
                sectors: 2 * self.store.sectors_per_block(),
            },
            2 * block_bytes,
            Purpose::Shrink,
        )?;
        let mut next = {
            let mut state = vnode.write();
            state.live()?;
            may_rewrite(&state.inode)?;
            let limit = state.inode.size.min(end);
            let edges = if state.is_inline() || first > last {
                [(offset, limit), (0, 0)]
            } else {
                let head = limit.min(first * block_bytes);
                let tail = offset.max(last * block_bytes);
                [(offset, head), (tail, limit)]
            };
            // Every step that can fail precedes the first change.
            let mut zeroed = Vec::new();
            for (from, to) in edges {
                if let Some(put) = self.plan_zeros(vnode, &mut state, from, to)? {
                    zeroed.push((put, vec![0; (to - from) as usize]));
                }
            }
            let step = if first < last {
                Some(self.survey_step(vnode, &state, first, last)?)
            } else {
                None
            };
            let now = self.now();
            for (put, zeros) in zeroed {
                self.carry_out_put(vnode, &mut state, put, &zeros, now);
            }
            let next = step.and_then(|step| self.take_out(vnode, &mut state, first, step));
            state.inode.mtime = now;
            state.inode.ctime = now;
            self.join(vnode, &mut state);
            self.clear_set_id(vnode, &mut state, caller);
            next
        };
        drop(operation);
        while let Some(at) = next {
            self.seal_step()?;
            next = self.punch_step(vnode, at, last)?;
        }
        self.dirtied();
        Ok(())
    }

    /// Plan to zero part of a block, or `None` if the block is a hole.
    fn plan_zeros(
        &self,
        vnode: &Vnode,
        state: &mut State,
        from: u64,
        to: u64,
    ) -> Result<Option<Put>> {
        if from >= to {
            return Ok(None);
        }
        let block = from >> self.store.block_shift;
        let exists = state.is_inline()
            || state.dirty.contains_key(&block)
            || self.store.mapped_one(vnode, state, block)?.is_some();
        if !exists {
            return Ok(None);
        }
        self.plan_put(vnode, state, from, to - from).map(Some)
    }

    /// Removes one step's worth of blocks from `from` on. Returns where to continue if
    /// more are left before `to`.
    pub(crate) fn punch_step(&self, vnode: &Arc<Vnode>, from: u64, to: u64) -> Result<Option<u64>> {
        let _operation = self.begin(Usage::default(), 0, Purpose::Shrink)?;
        let mut state = vnode.write();
        let step = self.survey_step(vnode, &state, from, to)?;
        Ok(self.take_out(vnode, &mut state, from, step))
    }

    /// Removes the surveyed blocks from `from` on. Returns as [`Self::punch_step`].
    fn take_out(
        &self,
        vnode: &Arc<Vnode>,
        state: &mut State,
        from: u64,
        (end, survey, next): (u64, Survey, Option<u64>),
    ) -> Option<u64> {
        if end > from {
            let before = state.usage();
            self.remove(state, from, end, survey);
            state.changes.note(from..end);
            self.space.settle(before, state.usage());
            self.join(vnode, state);
            if !state.has_data() {
                self.dequeue(state);
            }
        }
        next
    }

    /// End of a step from `from` on, the blocks it removes, and the start of the next
    /// one.
    fn survey_step(
        &self,
        vnode: &Vnode,
        state: &State,
        from: u64,
        to: u64,
    ) -> Result<(u64, Survey, Option<u64>)> {
        let (mut blocks, mut sectors) = (0, 0);
        let mut at = from;
        loop {
            let next = self
                .store
                .next_existing(vnode, state, at)?
                .filter(|next| *next < to);
            let Some(next) = next else {
                // No block is left, so the record may cover the rest of the range.
                return Ok((to, Survey::Some { blocks, sectors }, None));
            };
            if blocks >= self.settings.step_blocks {
                return Ok((at, Survey::Some { blocks, sectors }, Some(next)));
            }
            let count = 1024.min(to - next).min(self.settings.step_blocks);
            for m in self.store.mapped(vnode, state, next, count)? {
                if !state.dirty.contains_key(&m.block) {
                    blocks += 1;
                    sectors += m.sectors;
                }
            }
            at = next + count;
        }
    }

    /// Puts each step of a large operation into a group of its own.
    pub(crate) fn seal_step(&self) -> Result<()> {
        if self.below.is_some() {
            return Ok(());
        }
        let mut writer = self.writer();
        self.capture(&mut writer, Take::Wanted, Cause::WriteBack)?;
        Ok(())
    }
}
