//! Putting bytes into a file in memory: inline content, blocks, the tail.
//!
//! It has two halves. Planning does everything that can fail: it reads the blocks at both
//! ends and looks up the space of the blocks between them. Carrying out cannot fail, so
//! content changes whole or not at all.

use crate::error::Result;
use crate::file_system::FileSystem;
use crate::layout::Layout;
use crate::memory::body::Body;
use crate::memory::store::Loaded;
use crate::memory::vnode::{Dirty, State, Vnode, adjust, sectors_of};
use crate::types::Timestamp;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use varve_device::Block;

/// A plan: what had to be read before bytes can be put into a file. It is outdated once
/// the file's lock is released, or its size changes.
#[derive(Default)]
pub(crate) struct Put {
    offset: u64,
    /// Old content of the blocks at both ends, where some of it remains.
    old_first: Option<Loaded>,
    old_last: Option<Loaded>,
    /// Blocks that are not dirty, and the sectors they occupy.
    mapped: Vec<(u64, u64)>,
    tail: Option<Tail>,
}

/// A last block whose stored content extends beyond the end of the file.
pub(crate) struct Tail {
    block: u64,
    /// Bytes of it that belong to the file.
    keep: usize,
    loaded: Loaded,
}

impl<L: Layout> FileSystem<L> {
    /// Puts bytes into a regular file in memory. Times, size, counts and the queue
    /// follow.
    ///
    /// # Errors
    /// Errors of the layout's reads; nothing has changed then.
    pub(crate) fn put(
        &self,
        vnode: &Arc<Vnode>,
        state: &mut State,
        offset: u64,
        data: &[u8],
        now: Timestamp,
    ) -> Result<()> {
        let put = self.plan_put(vnode, state, offset, data.len() as u64)?;
        self.carry_out_put(vnode, state, put, data, now);
        Ok(())
    }

    /// The part of [`Self::put`] that can fail.
    pub(crate) fn plan_put(
        &self,
        vnode: &Vnode,
        state: &mut State,
        offset: u64,
        bytes: u64,
    ) -> Result<Put> {
        let (shift, block_bytes) = (self.store.block_shift, self.store.block_bytes);
        let size = state.inode.size;
        let end = offset + bytes;
        if self.stays_inline(state, end) {
            return Ok(Put {
                offset,
                ..Put::default()
            });
        }
        let (first, last) = (offset >> shift, (end - 1) >> shift);
        // The blocks at both ends may retain a part of their content.
        let keeps = |block: u64| {
            let start = block << shift;
            let held = size.saturating_sub(start).min(block_bytes as u64);
            held > 0 && (offset > start || end < start + held)
        };
        for block in [first, last] {
            if keeps(block) {
                self.bring_back(state, block)?;
            }
        }
        let old_first = self.old_content(vnode, state, first, keeps(first))?;
        let old_last = if last == first {
            None
        } else {
            self.old_content(vnode, state, last, keeps(last))?
        };
        Ok(Put {
            offset,
            old_first,
            old_last,
            mapped: self.old_sectors(vnode, state, first, last)?,
            tail: if offset > size {
                self.tail(vnode, state)?
            } else {
                None
            },
        })
    }

    /// True if a file that is written up to `end` fits its inode.
    pub(crate) fn stays_inline(&self, state: &State, end: u64) -> bool {
        let inline_bytes = self.store.geometry.inline_bytes as u64;
        state.inode.blocks == 0 && end.max(state.inode.size) <= inline_bytes
    }

    /// The rest of [`Self::put`], with as many bytes as were planned for.
    pub(crate) fn carry_out_put(
        &self,
        vnode: &Arc<Vnode>,
        state: &mut State,
        put: Put,
        data: &[u8],
        now: Timestamp,
    ) {
        let before = state.usage();
        let (offset, end) = (put.offset, put.offset + data.len() as u64);
        // The bytes between the old end and the new content change, too.
        let first = offset.min(state.inode.size);
        if self.stays_inline(state, end) {
            let mut content = std::mem::take(&mut state.inode.inline);
            content.resize(end.max(state.inode.size) as usize, 0);
            content[offset as usize..end as usize].copy_from_slice(data);
            state.set_inline(content);
            state.inline_dirty = true;
        } else {
            self.put_blocks(state, put, data, now);
        }
        let inode = &mut state.inode;
        inode.size = inode.size.max(end);
        inode.mtime = now;
        inode.ctime = now;
        let shift = self.store.block_shift;
        state.changes.note(first >> shift..(end >> shift) + 1);
        self.space.settle(before, state.usage());
        self.enqueue(vnode, state);
    }

    fn put_blocks(&self, state: &mut State, put: Put, data: &[u8], now: Timestamp) {
        let (shift, block_bytes) = (self.store.block_shift, self.store.block_bytes);
        let size = state.inode.size;
        let Put {
            offset,
            mut old_first,
            mut old_last,
            mapped,
            tail,
        } = put;
        let end = offset + data.len() as u64;
        let (first, last) = (offset >> shift, (end - 1) >> shift);
        if let Some(tail) = tail {
            self.cut_tail(state, tail);
        }
        self.leave_inline(state, now);
        let mut mapped = mapped.iter().peekable();
        for block in first..=last {
            let start = block << shift;
            let from = offset.max(start);
            let to = end.min(start + block_bytes as u64);
            let piece = &data[(from - offset) as usize..(to - offset) as usize];
            let within = (from - start) as usize;
            let held = size.saturating_sub(start).min(block_bytes as u64) as usize;
            let old = match block {
                _ if block == first => old_first.take(),
                _ if block == last => old_last.take(),
                _ => None,
            };
            while mapped.next_if(|(b, _)| *b < block).is_some() {}
            let mapped = mapped
                .next_if(|(b, _)| *b == block)
                .map_or(0, |(_, sectors)| *sectors);
            self.put_block(state, block, within, piece, held, old, mapped, now);
        }
    }

    /// Content of a block that is not dirty, if some of it remains.
    fn old_content(
        &self,
        vnode: &Vnode,
        state: &State,
        block: u64,
        keep: bool,
    ) -> Result<Option<Loaded>> {
        if !keep || state.dirty.contains_key(&block) {
            return Ok(None);
        }
        self.store.load(vnode, state, block)
    }

    /// Sectors that blocks in `first..=last` occupy in the layout.
    fn old_sectors(
        &self,
        vnode: &Vnode,
        state: &mut State,
        first: u64,
        last: u64,
    ) -> Result<Vec<(u64, u64)>> {
        if state.logged.blocks == 0 || (first == last && state.dirty.contains_key(&first)) {
            return Ok(Vec::new());
        }
        if state.mapped_end.is_none() && first >= self.store.blocks_of(state.logged.size) {
            // Cached, because an appender would ask again at every block.
            let to_come = state.dirty.keys().next_back().map_or(0, |block| block + 1);
            if self
                .store
                .next_existing(vnode, state, first.max(to_come))?
                .is_none()
            {
                state.mapped_end = Some(first.max(to_come));
            }
        }
        let mapped = self.store.mapped(vnode, state, first, last - first + 1)?;
        Ok(mapped.iter().map(|m| (m.block, m.sectors)).collect())
    }

    /// Changes one block in memory. `held` is the number of its bytes that belonged to
    /// the file, `mapped` the sectors it occupied in the layout.
    #[expect(
        clippy::too_many_arguments,
        reason = "the block's whole context, from one caller"
    )]
    fn put_block(
        &self,
        state: &mut State,
        block: u64,
        within: usize,
        piece: &[u8],
        held: usize,
        old: Option<Loaded>,
        mapped: u64,
        now: Timestamp,
    ) {
        let end = within + piece.len();
        let generation = &state.generation;
        match state.dirty.entry(block) {
            Entry::Occupied(mut entry) => {
                let dirty = entry.get_mut();
                let (old_len, old_resident) = (dirty.data.len(), dirty.data.resident());
                let old_sectors = sectors_of(old_len);
                if within == 0 && end >= old_len {
                    let own = match &mut dirty.data {
                        Body::Memory(data) => Arc::get_mut(data),
                        Body::Spilled(_) => None,
                    };
                    match own {
                        Some(data) => {
                            data.clear();
                            data.extend_from_slice(piece);
                        }
                        None => dirty.data = Block::from(piece).into(),
                    }
                } else {
                    overwrite(Arc::make_mut(dirty.data.memory_mut()), within, piece);
                }
                dirty.flying = false;
                dirty.written = now;
                let new_len = dirty.data.len();
                adjust(&mut state.inode.sectors, old_sectors, sectors_of(new_len));
                self.waits.block_changed(old_resident, new_len);
            }
            Entry::Vacant(entry) => {
                if held > 0 {
                    // The cached block becomes outdated, and it can be reused if no
                    // reader shares it.
                    let cached = self.store.cache.take(generation, block);
                    drop(cached);
                }
                let data = match old {
                    None => {
                        let mut data = Block::with_room(end);
                        overwrite(&mut data, within, piece);
                        data
                    }
                    Some(old) => {
                        let mut data = Arc::unwrap_or_clone(old.data);
                        data.truncate(held);
                        overwrite(&mut data, within, piece);
                        data
                    }
                };
                let sectors = sectors_of(data.len());
                adjust(&mut state.inode.blocks, 0, (mapped == 0).into());
                adjust(&mut state.inode.sectors, mapped, sectors);
                self.waits.block_came(data.len());
                entry.insert(Dirty {
                    data: data.into(),
                    logged_sectors: mapped as u32,
                    written: now,
                    flying: false,
                });
            }
        }
    }

    /// Moves inline content into block 0, which is a hole.
    pub(crate) fn leave_inline(&self, state: &mut State, now: Timestamp) {
        if !state.is_inline() {
            return;
        }
        let data = std::mem::take(&mut state.inode.inline);
        state.set_inline(Vec::new());
        state.inline_dirty = false;
        adjust(&mut state.inode.blocks, 0, 1);
        adjust(&mut state.inode.sectors, 0, sectors_of(data.len()));
        self.waits.block_came(data.len());
        let dirty = Dirty {
            data: data.into(),
            logged_sectors: 0,
            written: now,
            flying: false,
        };
        state.dirty.insert(0, dirty);
    }

    /// The last block, if its stored content extends beyond the size, which a truncate
    /// can cause. It has to be cut before the size grows.
    pub(crate) fn tail(&self, vnode: &Vnode, state: &State) -> Result<Option<Tail>> {
        let size = state.inode.size;
        let keep = (size & (self.store.block_bytes as u64 - 1)) as usize;
        let block = size >> self.store.block_shift;
        if keep == 0 || state.is_inline() || state.dirty.contains_key(&block) {
            return Ok(None);
        }
        let Some(loaded) = self.store.load(vnode, state, block)? else {
            return Ok(None);
        };
        if loaded.data.len() <= keep || loaded.data[keep..].iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        Ok(Some(Tail {
            block,
            keep,
            loaded,
        }))
    }

    /// Cuts a tail, so that its old bytes do not reappear. The caller settles the counts.
    pub(crate) fn cut_tail(&self, state: &mut State, tail: Tail) {
        let Tail {
            block,
            keep,
            loaded,
        } = tail;
        self.store.cache.take(&state.generation, block);
        let mut data = Arc::unwrap_or_clone(loaded.data);
        data.truncate(keep);
        adjust(&mut state.inode.sectors, loaded.sectors, sectors_of(keep));
        self.waits.block_came(keep);
        state.changes.note(block..block + 1);
        let dirty = Dirty {
            data: data.into(),
            logged_sectors: loaded.sectors as u32,
            written: state.inode.mtime,
            flying: false,
        };
        state.dirty.insert(block, dirty);
    }
}

/// Writes `piece` at `within`; if `data` is shorter, zeros fill the gap.
fn overwrite(data: &mut Block, within: usize, piece: &[u8]) {
    let end = within + piece.len();
    if within >= data.len() {
        data.resize(within);
        data.extend_from_slice(piece);
        return;
    }
    if data.len() < end {
        data.resize(end);
    }
    data[within..end].copy_from_slice(piece);
}
