//! Blocks of the layout and the cache, as seen below a vnode's overlays.
//!
//! Shared by all trees, their operations and the read-ahead threads.

use crate::directory::Key;
use crate::error::{Error, Result};
use crate::layout::{BlockPointer, Layout, LayoutGeometry, Mapping};
use crate::memory::cache::BlockCache;
use crate::memory::overlay::Cover;
use crate::memory::vnode::{Ground, SECTOR_BYTES, State, Vnode, sectors_of};
use crate::options::{Options, ReadAheadWindow};
use crate::statistics::{Counters, count};
use std::ops::Range;
use std::sync::Arc;
use varve_device::sync::atomic::{AtomicU64, Ordering::Relaxed};
use varve_device::{Block, Lanes};

/// Number of times that a block which moved while it was read is looked up again.
const MOVED_TRIES: usize = 4;

/// The layout, the clean blocks, and the counters of a volume.
pub(crate) struct Store<L: Layout> {
    pub layout: Arc<L>,
    pub cache: BlockCache,
    pub counters: Lanes<Counters>,
    pub geometry: LayoutGeometry,
    pub block_bytes: usize,
    pub block_shift: u32,
    births: AtomicU64,
    pub read_ahead_window: ReadAheadWindow,
}

/// An existing block that is not dirty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapped<P> {
    pub block: u64,
    pub sectors: u64,
    pub content: Content<P>,
}

/// Place of a block's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content<P> {
    /// The block reads as zeros.
    Zeros,
    /// In the layout.
    At(P),
    /// In the memory of the tree below.
    Below,
}

impl<P: Copy> Mapped<P> {
    /// True if the block has been written.
    pub fn is_written(&self) -> bool {
        !matches!(self.content, Content::Zeros)
    }

    /// Its place in the layout, if it has one.
    pub fn pointer(&self) -> Option<P> {
        match self.content {
            Content::At(pointer) => Some(pointer),
            Content::Zeros | Content::Below => None,
        }
    }
}

impl<P: BlockPointer> Mapped<P> {
    fn of(mapping: Mapping<P>) -> Self {
        let content = match mapping.pointer.unwritten() {
            true => Content::Zeros,
            false => Content::At(mapping.pointer),
        };
        Mapped {
            block: mapping.block,
            sectors: u64::from(mapping.pointer.sectors()),
            content,
        }
    }
}

impl<L: Layout> Store<L> {
    /// A store over `layout`. The options may bound groups further than the layout does.
    pub fn new(layout: Arc<L>, options: &Options) -> Self {
        let mut geometry = layout.geometry();
        geometry.group_bytes = geometry.group_bytes.min(options.group_bytes());
        assert!(
            geometry.block_bytes.is_power_of_two(),
            "a layout checks its geometry"
        );
        Store {
            layout,
            cache: BlockCache::new(options.clean_block_bytes()),
            counters: Lanes::default(),
            block_bytes: geometry.block_bytes as usize,
            block_shift: geometry.block_bytes.trailing_zeros(),
            births: AtomicU64::new(1),
            read_ahead_window: options.read_ahead_window,
            geometry,
        }
    }

    /// Parameters of a directory for the directory module.
    pub fn key(&self, vnode: &Vnode) -> Key {
        Key {
            hash_seed: self.geometry.hash_seed,
            case_fold: self.geometry.case_fold,
            ino: vnode.ino,
            version: vnode.version,
        }
    }

    /// A number that no vnode and no cache generation of any tree has had.
    pub fn birth(&self) -> u64 {
        self.births.fetch_add(1, Relaxed)
    }

    pub fn sectors_per_block(&self) -> u64 {
        self.block_bytes as u64 / SECTOR_BYTES
    }

    /// Least number of bytes for which a block counts against a group's size: a whole
    /// block where its index entries take more than its data.
    pub fn least_charge(&self) -> u64 {
        match self.geometry.bounds_groups {
            true => self.block_bytes as u64,
            false => 0,
        }
    }

    /// Number of blocks that `bytes` occupy.
    pub fn blocks_of(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.block_bytes as u64)
    }

    /// The part of a file's range `bytes` that is in a block, relative to the block's
    /// start.
    pub fn within(&self, block: u64, bytes: &Range<u64>) -> Range<u64> {
        let start = block << self.block_shift;
        let place = |at: u64| at.saturating_sub(start).min(self.block_bytes as u64);
        place(bytes.start)..place(bytes.end)
    }

    /// The blocks in `first..first + count` that exist according to overlays and layout,
    /// ascending. It is not valid for dirty blocks, which the caller checks first.
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
        let mut all = self.mapped_below(vnode, first, count)?;
        if state.pending.is_empty() && state.flying.is_empty() {
            return Ok(all);
        }
        let covered = |block| state.pending.at(block).or_else(|| state.flying.at(block));
        all.retain(|m| covered(m.block).is_none());
        let to = first.saturating_add(count);
        let reserved = |block| Mapped {
            block,
            sectors: self.sectors_per_block(),
            content: Content::Zeros,
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

    /// The blocks that exist below a private tree.
    pub fn mapped_below(
        &self,
        vnode: &Vnode,
        first: u64,
        count: u64,
    ) -> Result<Vec<Mapped<L::Pointer>>> {
        let below = match &vnode.ground {
            Ground::Vnode(below) => below,
            Ground::Layout(view) => {
                return match self.layout.map(*view, vnode.ino, first, count) {
                    Ok(found) => Ok(found.into_iter().map(Mapped::of).collect()),
                    Err(Error::NotFound) => Ok(Vec::new()), // its first group is not appended yet
                    Err(error) => Err(error),
                };
            }
        };
        let state = below.read();
        let mut all = self.mapped(below, &state, first, count)?;
        let dirty = state.dirty.range(first..first.saturating_add(count));
        let dirty = dirty.map(|(block, dirty)| Mapped {
            block: *block,
            sectors: sectors_of(dirty.data.len()),
            content: Content::Below,
        });
        all.retain(|m| !state.dirty.contains_key(&m.block));
        all.extend(dirty);
        all.sort_unstable_by_key(|m| m.block);
        Ok(all)
    }

    /// The first block at or after `from` that exists below a private tree.
    pub fn next_below(&self, vnode: &Vnode, from: u64) -> Result<Option<u64>> {
        match &vnode.ground {
            Ground::Vnode(below) => self.next_existing(below, &below.read(), from),
            Ground::Layout(view) => match self.layout.next_mapped(*view, vnode.ino, from) {
                Err(Error::NotFound) => Ok(None),
                answer => answer,
            },
        }
    }

    /// Content of a block below a private tree; it is not cached.
    pub fn load_below(&self, vnode: &Vnode, block: u64) -> Result<Option<Loaded>> {
        if let Ground::Vnode(below) = &vnode.ground {
            return self.load_newest(below, block);
        }
        let Some(mapped) = self.mapped_below(vnode, block, 1)?.pop() else {
            return Ok(None);
        };
        let Some(pointer) = mapped.pointer() else {
            return Ok(Some(self.zeros()));
        };
        let mut data = self.fetch(vnode, &[Mapping { block, pointer }])?;
        let data = data.pop().expect("one block was asked for");
        Ok(Some(Loaded {
            data,
            sectors: mapped.sectors,
        }))
    }

    /// Content of a block in the tree below.
    pub fn load_newest(&self, below: &Vnode, block: u64) -> Result<Option<Loaded>> {
        self.load_of(below, &below.read(), block)
    }

    /// Content of a block of a file, cut at the file's size.
    pub fn load_of(&self, below: &Vnode, state: &State, block: u64) -> Result<Option<Loaded>> {
        let loaded = match state.dirty.get(&block) {
            Some(dirty) => Some(Loaded {
                data: self.content_of(below.ino, block, dirty)?,
                sectors: sectors_of(dirty.data.len()),
            }),
            None => self.load(below, state, block)?,
        };
        // Bytes beyond the size below must not be visible here.
        let keep = state.inode.size.saturating_sub(block << self.block_shift);
        Ok(loaded.map(|mut loaded| {
            if loaded.data.len() as u64 > keep {
                loaded.data = Arc::new(loaded.data[..keep as usize].into());
            }
            loaded
        }))
    }

    /// The extended attributes of a file that has none of its own in memory.
    pub fn xattrs_below(&self, vnode: &Vnode) -> Result<Arc<Block>> {
        match &vnode.ground {
            Ground::Layout(view) => self
                .layout
                .read_xattrs(*view, vnode.ino)
                .map(|blob| Arc::new(blob.into())),
            Ground::Vnode(below) => self.xattrs(below, &below.read()),
        }
    }

    /// The attribute blob, loaded once.
    pub fn xattrs(&self, vnode: &Vnode, state: &State) -> Result<Arc<Block>> {
        if let Some(blob) = state.xattrs.get() {
            return Ok(Arc::clone(blob));
        }
        let blob = match state.inode.xattr_bytes {
            0 => Arc::default(),
            _ => self.xattrs_below(vnode)?,
        };
        Ok(Arc::clone(state.xattrs.get_or_init(|| blob)))
    }

    /// The one block, if it exists and is not dirty.
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
        // A reserved range may have been punched in part: find a remaining block.
        for (start, end) in flying {
            if let Some(left) = uncovered(state, start, end) {
                consider(left);
                break;
            }
        }
        let mut at = from;
        loop {
            let Some(block) = self.next_below(vnode, at)? else {
                return Ok(next);
            };
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

    /// Reads mapped blocks, and counts the request.
    pub fn fetch(&self, vnode: &Vnode, blocks: &[Mapping<L::Pointer>]) -> Result<Vec<Arc<Block>>> {
        count(&self.counters.layout_reads, 1);
        self.layout.read(vnode.ino, blocks)
    }

    /// Counts and logs damage that a second look-up did not cure.
    pub fn report(&self, vnode: &Vnode, block: u64, error: &Error) {
        if matches!(error, Error::Damaged { .. }) {
            count(&self.counters.damaged_blocks, 1);
            let offset = block << self.block_shift;
            tracing::error!(ino = vnode.ino.0, offset, %error, "a block could not be read");
        }
    }

    /// A block's content, dirty content ignored: `None` for a hole, empty if it reads as
    /// zeros. The caller keeps the state's lock throughout.
    pub fn load(&self, vnode: &Vnode, state: &State, block: u64) -> Result<Option<Loaded>> {
        match state.pending.at(block).or_else(|| state.flying.at(block)) {
            None => {}
            Some((Cover::Hole, _)) => return Ok(None),
            Some((Cover::Reserved { .. }, _)) => return Ok(Some(self.zeros())),
        }
        if let Ground::Vnode(below) = &vnode.ground {
            return self.load_newest(below, block);
        }
        for attempt in 1.. {
            let Some(mapped) = self.mapped_one(vnode, state, block)? else {
                return Ok(None);
            };
            let Some(pointer) = mapped.pointer() else {
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
                    if attempt == MOVED_TRIES || now.is_some_and(|m| m.pointer() == Some(pointer)) {
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
            data: Arc::default(),
            sectors: self.sectors_per_block(),
        }
    }
}

/// Content of a block before it became dirty.
pub(crate) struct Loaded {
    pub data: Arc<Block>,
    /// Sectors it occupies in the layout.
    pub sectors: u64,
}

/// The first block of `start..end` that `pending` does not cover.
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
