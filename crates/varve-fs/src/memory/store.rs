//! Blocks as the layout and the cache have them, under a vnode's overlays.
//!
//! Shared by the operations and the read-ahead threads.

use crate::error::{Error, Result};
use crate::layout::{BlockPointer, Layout, LayoutGeometry, Mapping};
use crate::memory::cache::BlockCache;
use crate::memory::overlay::Cover;
use crate::memory::vnode::{SECTOR_BYTES, State, Vnode};
use crate::statistics::{Counters, count};
use crate::types::View;
use std::sync::Arc;
use varve_device::Lanes;

/// How often a block that moved while it was read is looked up again.
const MOVED_TRIES: usize = 4;

/// See the module's head.
pub(crate) struct Store<L: Layout> {
    pub layout: L,
    pub cache: BlockCache,
    pub counters: Lanes<Counters>,
    pub geometry: LayoutGeometry,
    pub block_bytes: usize,
    pub block_shift: u32,
}

/// A block that exists besides the dirty ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapped<P> {
    pub block: u64,
    pub sectors: u64,
    /// Where its content is; nowhere if it reads as zeros.
    pub pointer: Option<P>,
}

impl<P: BlockPointer> Mapped<P> {
    fn of(mapping: Mapping<P>) -> Self {
        let pointer = (!mapping.pointer.unwritten()).then_some(mapping.pointer);
        Mapped {
            block: mapping.block,
            sectors: u64::from(mapping.pointer.sectors()),
            pointer,
        }
    }
}

impl<L: Layout> Store<L> {
    /// `group_bytes` bounds groups further than the layout does.
    pub fn new(layout: L, cache_bytes: u64, group_bytes: u64) -> Self {
        let mut geometry = layout.geometry();
        geometry.group_bytes = geometry.group_bytes.min(group_bytes);
        assert!(
            geometry.block_bytes.is_power_of_two(),
            "a layout checks its geometry"
        );
        Store {
            layout,
            cache: BlockCache::new(cache_bytes),
            counters: Lanes::default(),
            block_bytes: geometry.block_bytes as usize,
            block_shift: geometry.block_bytes.trailing_zeros(),
            geometry,
        }
    }

    pub fn sectors_per_block(&self) -> u64 {
        self.block_bytes as u64 / SECTOR_BYTES
    }

    /// Blocks that `bytes` reach into.
    pub fn blocks_of(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.block_bytes as u64)
    }

    /// The blocks in `first..first + count` that exist according to overlays
    /// and layout, ascending. Of a dirty block it says nothing reliable: ask
    /// for that first.
    pub fn mapped(
        &self,
        vnode: &Vnode,
        state: &State,
        first: u64,
        count: u64,
    ) -> Result<Vec<Mapped<L::Pointer>>> {
        if state.logged.blocks == 0 || state.mapped_end.is_some_and(|end| first >= end) {
            return Ok(Vec::new());
        }
        let found = match self.layout.map(View::Live, vnode.ino, first, count) {
            Ok(found) => found,
            Err(Error::NotFound) => Vec::new(), // its first group is on its way
            Err(error) => return Err(error),
        };
        let found = found.into_iter().map(Mapped::of);
        if state.pending.is_empty() && state.flying.is_empty() {
            return Ok(found.collect());
        }
        let covered = |block| state.pending.at(block).or_else(|| state.flying.at(block));
        let mut all: Vec<_> = found.filter(|m| covered(m.block).is_none()).collect();
        let to = first.saturating_add(count);
        let reserved = |block| Mapped {
            block,
            sectors: self.sectors_per_block(),
            pointer: None,
        };
        for (start, end) in state.pending.reserved(first, to) {
            all.extend((start..end).map(reserved));
        }
        for (start, end) in state.flying.reserved(first, to) {
            all.extend(
                (start..end)
                    .filter(|b| state.pending.at(*b).is_none())
                    .map(reserved),
            );
        }
        all.sort_unstable_by_key(|m| m.block);
        Ok(all)
    }

    /// The one block, if it exists besides the dirty ones.
    pub fn mapped_one(
        &self,
        vnode: &Vnode,
        state: &State,
        block: u64,
    ) -> Result<Option<Mapped<L::Pointer>>> {
        Ok(self.mapped(vnode, state, block, 1)?.pop())
    }

    /// The first block at or after `from` that exists, dirty ones included.
    pub fn next_existing(&self, vnode: &Vnode, state: &State, from: u64) -> Result<Option<u64>> {
        let mut next = state.dirty.range(from..).next().map(|(block, _)| *block);
        if state.logged.blocks == 0 {
            return Ok(next);
        }
        let mut consider = |block: u64| next = Some(next.map_or(block, |n| n.min(block)));
        if let Some((start, _)) = state.pending.reserved(from, u64::MAX).next() {
            consider(start);
        }
        let flying = state.flying.reserved(from, u64::MAX);
        // A reserved range may be punched in part again: find what is left.
        for (start, end) in flying {
            if let Some(left) = uncovered(state, start, end) {
                consider(left);
                break;
            }
        }
        let mut at = from;
        loop {
            let found = match self.layout.next_mapped(View::Live, vnode.ino, at) {
                Ok(found) => found,
                Err(Error::NotFound) => None,
                Err(error) => return Err(error),
            };
            let Some(block) = found else { return Ok(next) };
            if next.is_some_and(|n| n <= block) {
                return Ok(next);
            }
            match state.pending.at(block).or_else(|| state.flying.at(block)) {
                None => return Ok(Some(block)),
                Some((_, u64::MAX)) => return Ok(next),
                Some((_, end)) => at = end,
            }
        }
    }

    /// Reads mapped blocks, noting what it costs.
    pub fn fetch(
        &self,
        vnode: &Vnode,
        blocks: &[Mapping<L::Pointer>],
    ) -> Result<Vec<Arc<Vec<u8>>>> {
        count(&self.counters.layout_reads, 1);
        self.layout.read(vnode.ino, blocks)
    }

    /// Notes damage that looking again did not cure.
    pub fn report(&self, vnode: &Vnode, block: u64, error: &Error) {
        if matches!(error, Error::Damaged { .. }) {
            count(&self.counters.damaged_blocks, 1);
            let offset = block << self.block_shift;
            tracing::error!(ino = vnode.ino.0, offset, %error, "a block could not be read");
        }
    }

    /// A block's content without regard to the dirty ones: `None` for a hole,
    /// empty for what reads as zeros. The state's lock is held throughout.
    pub fn load(&self, vnode: &Vnode, state: &State, block: u64) -> Result<Option<Loaded>> {
        match state.pending.at(block).or_else(|| state.flying.at(block)) {
            None => {}
            Some((Cover::Hole, _)) => return Ok(None),
            Some((Cover::Reserved { .. }, _)) => return Ok(Some(self.zeros())),
        }
        for attempt in 1.. {
            let Some(mapped) = self.mapped_one(vnode, state, block)? else {
                return Ok(None);
            };
            let Some(pointer) = mapped.pointer else {
                return Ok(Some(Loaded {
                    sectors: mapped.sectors,
                    ..self.zeros()
                }));
            };
            if let Some(data) = self.cache.get(&state.generation, block) {
                count(&self.counters.hits, 1);
                return Ok(Some(Loaded {
                    data,
                    sectors: mapped.sectors,
                }));
            }
            count(&self.counters.misses, 1);
            match self.fetch(vnode, &[Mapping { block, pointer }]) {
                Ok(mut data) => {
                    let data = data.pop().expect("one block was asked for");
                    self.cache
                        .insert(&state.generation, block, Arc::clone(&data));
                    return Ok(Some(Loaded {
                        data,
                        sectors: mapped.sectors,
                    }));
                }
                Err(error) => {
                    let now = self.mapped_one(vnode, state, block)?;
                    if attempt == MOVED_TRIES || now.is_some_and(|m| m.pointer == Some(pointer)) {
                        self.report(vnode, block, &error);
                        return Err(error);
                    }
                }
            }
        }
        unreachable!("the last attempt returns")
    }

    fn zeros(&self) -> Loaded {
        Loaded {
            data: Arc::new(Vec::new()),
            sectors: self.sectors_per_block(),
        }
    }
}

/// What a block held before it became dirty.
pub(crate) struct Loaded {
    pub data: Arc<Vec<u8>>,
    /// Sectors it occupies in the layout.
    pub sectors: u64,
}

/// The first block of `start..end` that `pending` leaves alone.
fn uncovered(state: &State, start: u64, end: u64) -> Option<u64> {
    let mut at = start;
    while at < end {
        match state.pending.at(at) {
            None => return Some(at),
            Some((_, covered)) => at = covered,
        }
    }
    None
}
