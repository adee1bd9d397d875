//! Writing files.
//!
//! Everything that can fail (reading the rest of a block, looking up a block's space)
//! precedes the first change, so a write happens whole or not at all. Data waits in the
//! vnode; it does not join the epoch.

use crate::account::Operation;
use crate::attr::Caller;
use crate::attributes::file_flags::may_write;
use crate::attributes::permission::without_set_id;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::inode::flags;
use crate::isolation::{Access, Outsider, Part};
use crate::layout::{Layout, Purpose, Usage};
use crate::memory::vnode::{State, Vnode, sectors_of};
use crate::statistics::count;
use crate::types::{FileKind, InodeNo};
use crate::via::{HeldTimes, Via};
use std::sync::Arc;

/// Most bytes that are written under one lock; longer writes take it several times.
const CHUNK_BYTES: usize = 1 << 20;

/// The outcome of a write that may be done in pieces.
#[derive(Default)]
pub(crate) struct Written {
    /// Number of bytes written, from the first on.
    pub bytes: usize,
    /// The file occupies more space than before.
    pub grew: bool,
    /// The error that ended the write, if some bytes are missing.
    pub stopped: Option<Error>,
}

/// Outcome of one locked step of a write.
pub(crate) struct Chunk {
    /// Offset at which the step wrote.
    pub offset: u64,
    /// The file occupies more space than before.
    pub grew: bool,
}

impl<L: Layout> FileSystem<L> {
    /// Writes `data` at `offset`, extending the file as needed, and returns the number of
    /// bytes: less than all only if the volume became full during the write. Clears
    /// set-id bits unless the caller is root or checked.
    ///
    /// # Errors
    /// `NoSpace`, `TooLarge`, `ReadOnly`, `IsDirectory`, `Invalid` for other special
    /// files, `Stale`, `Damaged`, device errors.
    pub fn write(&self, caller: &Caller, ino: InodeNo, offset: u64, data: &[u8]) -> Result<usize> {
        let written = self.write_via(caller, ino, offset, data, Via::Caller)?;
        Ok(written.bytes)
    }

    /// [`Self::write`] to a file that was opened before ([`Self::may_open`]): for an
    /// append-only file the offset is not checked.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_opened(
        &self,
        caller: &Caller,
        ino: InodeNo,
        offset: u64,
        data: &[u8],
    ) -> Result<usize> {
        let written = self.write_via(caller, ino, offset, data, Via::Opened)?;
        Ok(written.bytes)
    }

    /// [`Self::write_opened`] that fails unless all of `data` was written, for callers
    /// that cannot report a partial write. The bytes written before the failure remain.
    ///
    /// # Errors
    /// As [`Self::write`], also if a part was written before the failure.
    pub fn write_whole(
        &self,
        caller: &Caller,
        ino: InodeNo,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        let written = self.write_via(caller, ino, offset, data, Via::Opened)?;
        written.stopped.map_or(Ok(()), Err)
    }

    fn write_via(
        &self,
        caller: &Caller,
        ino: InodeNo,
        offset: u64,
        data: &[u8],
        via: Via,
    ) -> Result<Written> {
        let vnode = self.vnode(ino)?;
        let mut all = Written::default();
        for chunk in data.chunks(CHUNK_BYTES) {
            let at = offset.checked_add(all.bytes as u64);
            let at = at.ok_or(Error::TooLarge)?;
            match self.write_or_over(&vnode, caller, at, chunk, via) {
                Ok(written) => {
                    all.bytes += written.bytes;
                    all.stopped = written.stopped;
                }
                Err(error) if all.bytes > 0 => all.stopped = Some(error),
                Err(error) => return Err(error),
            }
            if all.stopped.is_some() {
                break;
            }
        }
        self.dirtied();
        self.settle_file(&vnode)?;
        Ok(all)
    }

    /// Writes all of `data` at the end of the file, atomically, and returns the offset.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn append(&self, caller: &Caller, ino: InodeNo, data: &[u8]) -> Result<u64> {
        let vnode = self.vnode(ino)?;
        let chunk = self.write_chunk(&vnode, caller, None, data, Via::Caller)?;
        self.dirtied();
        self.settle_file(&vnode)?;
        Ok(chunk.offset)
    }

    /// Writes all of `data`, or, if the volume has no space for that at once, in pieces:
    /// as much as possible, and other writes may occur in between.
    pub(crate) fn write_or_over(
        &self,
        vnode: &Arc<Vnode>,
        caller: &Caller,
        at: u64,
        data: &[u8],
        via: Via,
    ) -> Result<Written> {
        match self.write_chunk(vnode, caller, Some(at), data, via) {
            Err(Error::NoSpace) if data.len() > self.store.block_bytes => {
                self.write_in_pieces(vnode, caller, at, data, via)
            }
            other => other.map(|chunk| Written {
                bytes: data.len(),
                grew: chunk.grew,
                stopped: None,
            }),
        }
    }

    /// A write asks for more space than it takes. So a full volume may have space for its
    /// blocks only one at a time, and this provides the last blocks that `statfs`
    /// reports.
    fn write_in_pieces(
        &self,
        vnode: &Arc<Vnode>,
        caller: &Caller,
        at: u64,
        data: &[u8],
        via: Via,
    ) -> Result<Written> {
        let block_bytes = self.store.block_bytes;
        let mut all = Written::default();
        let mut blocks = (data.len() / block_bytes / 2).max(1);
        while all.bytes < data.len() {
            let from = at + all.bytes as u64;
            let within = (from & (block_bytes as u64 - 1)) as usize;
            let piece = (blocks * block_bytes - within).min(data.len() - all.bytes);
            let data = &data[all.bytes..all.bytes + piece];
            match self.write_chunk(vnode, caller, Some(from), data, via) {
                Ok(chunk) => {
                    all.grew |= chunk.grew;
                    all.bytes += piece;
                }
                // Few attempts: each may wait for the cleaner.
                Err(Error::NoSpace) if blocks > 1 => blocks = (blocks / 8).max(1),
                Err(error) if all.bytes > 0 => {
                    all.stopped = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Writes all of `data`, as one operation.
    pub(crate) fn write_chunk(
        &self,
        vnode: &Arc<Vnode>,
        caller: &Caller,
        at: Option<u64>,
        data: &[u8],
        via: Via,
    ) -> Result<Chunk> {
        vnode.regular()?;
        self.uses_for_write(vnode, at, data.len() as u64)?;
        let outside = self.outside_write(vnode, at, data.len() as u64)?;
        loop {
            let operation = self.begin_write(vnode, at, data.len(), via)?;
            let mut state = vnode.write();
            state.live()?;
            let offset = at.unwrap_or(state.inode.size);
            may_write(&state.inode, via, offset)?;
            let end = offset
                .checked_add(data.len() as u64)
                .ok_or(Error::TooLarge)?;
            if end > self.store.geometry.max_file_bytes {
                return Err(Error::TooLarge);
            }
            if end > state.inode.size && state.inode.flags & flags::TRUNCATING != 0 {
                drop(state);
                drop(operation);
                self.finish_truncate(vnode)?;
                continue;
            }
            let (before, size) = (state.usage(), state.inode.size);
            if !data.is_empty() {
                let now = self.now();
                let times = (state.inode.mtime, state.inode.ctime);
                self.notes_write(&mut state, offset..end);
                self.put(vnode, &mut state, offset, data, now)?;
                if via == Via::Held(HeldTimes::HandedOver) {
                    (state.inode.mtime, state.inode.ctime) = times;
                }
                self.clear_set_id(vnode, &mut state, caller);
            }
            count(&self.store.counters.writes, 1);
            count(&self.store.counters.written_bytes, data.len() as u64);
            let after = state.usage();
            let grew = after.sectors > before.sectors || after.blocks > before.blocks;
            let longer = state.inode.size > size;
            let waiting = state.dirty.len() * self.store.block_bytes;
            if outside.is_some() {
                // As a commit does: a transaction that reads the data and commits must
                // not be durable before it.
                state.join_epoch = true;
                self.join(vnode, &mut state);
            } else if state.join_epoch {
                self.count_joined(&mut state);
            }
            drop(state);
            drop(operation);
            if longer {
                self.streamed(waiting as u64);
            }
            return Ok(Chunk { offset, grew });
        }
    }

    /// Range that a write to a protected file locks. A writer outside of transactions
    /// does not know whether the file will end before or after it, so the range includes
    /// the size.
    fn outside_write(
        &self,
        vnode: &Arc<Vnode>,
        at: Option<u64>,
        bytes: u64,
    ) -> Result<Option<Outsider>> {
        let content = match at {
            Some(at) => at..at.saturating_add(bytes),
            None => 0..u64::MAX,
        };
        self.as_outsider(&[
            (vnode, Part::Content(content), Access::Write),
            (vnode, Part::Size, Access::Write),
        ])
    }

    /// Admits a write for its worst growth, or, where that does not fit, for its actual
    /// growth, so that a full volume can be overwritten.
    pub(crate) fn begin_write(
        &self,
        vnode: &Vnode,
        at: Option<u64>,
        bytes: usize,
        via: Via,
    ) -> Result<Operation<'_>> {
        let keep = |growth: Usage| match via {
            Via::Held(_) => Usage::default(),
            Via::Caller | Via::Opened => self.keeps(growth, Purpose::Grow),
        };
        let block_bytes = self.store.block_bytes;
        let end = at
            .unwrap_or_else(|| vnode.read().inode.size)
            .saturating_add(bytes as u64);
        self.space.reaches(end >> self.store.block_shift);
        let worst = (bytes.div_ceil(block_bytes) + 2) as u64;
        let sectors = sectors_of(bytes) + 2 * self.store.sectors_per_block();
        let growth = Usage {
            inodes: 0,
            blocks: worst,
            sectors,
        };
        // No space is made for growth that may not be needed.
        match self.promise_at_once(growth, (bytes + block_bytes) as u64, keep(growth)) {
            Err(Error::NoSpace) => {}
            other => return other.map(|operation| self.enter(operation)),
        }
        let growth = {
            let state = vnode.read();
            let offset = at.unwrap_or(state.inode.size);
            self.growth_of_write(vnode, &state, offset, bytes as u64)?
        };
        let bytes = bytes.max(block_bytes) as u64;
        let operation = self.promise_keeping(growth, bytes, Purpose::Grow, keep(growth))?;
        Ok(self.enter(operation))
    }

    fn growth_of_write(
        &self,
        vnode: &Vnode,
        state: &State,
        offset: u64,
        bytes: u64,
    ) -> Result<Usage> {
        let end = offset.checked_add(bytes).ok_or(Error::TooLarge)?;
        if self.stays_inline(state, end) {
            return Ok(Usage::default());
        }
        let first = offset >> self.store.block_shift;
        let count = self.store.blocks_of(end) - first;
        let mapped = self.store.mapped(vnode, state, first, count)?;
        let mut mapped = mapped.iter().peekable();
        let mut growth = Usage::default();
        for block in first..first + count {
            while mapped.next_if(|m| m.block < block).is_some() {}
            let present = match state.dirty.get(&block) {
                Some(dirty) => Some(sectors_of(dirty.data.len())),
                None => mapped.next_if(|m| m.block == block).map(|m| m.sectors),
            };
            let reach =
                (end - (block << self.store.block_shift)).min(self.store.block_bytes as u64);
            growth.blocks += u64::from(present.is_none());
            growth.sectors += sectors_of(reach as usize).saturating_sub(present.unwrap_or(0));
        }
        Ok(growth)
    }

    /// Clears set-id bits, because the content was changed by a caller other than root.
    pub(crate) fn clear_set_id(&self, vnode: &Arc<Vnode>, state: &mut State, caller: &Caller) {
        if caller.is_root() || caller.checked || vnode.kind != FileKind::Regular {
            return;
        }
        let kept = without_set_id(&state.inode, caller);
        if kept != state.inode.mode {
            state.inode.mode = kept;
            self.join(vnode, state);
        }
    }
}
