//! What groups changed since a checkpoint: the committed state above its image.
//!
//! The committed state is a stack of layers: the image of the last completed
//! checkpoint ([`crate::base::Base`]), the *frozen* delta that a running
//! checkpoint is folding into a new image, and the *live* delta that groups
//! append to. A layer answers from its own entries or passes the question
//! down. Appending touches only the live delta and reads nothing from the
//! device; old pointers below it die when the delta is folded.
//!
//! Invariants:
//! - A delta changes only by [`crate::apply`], the same code at append and at
//!   roll-forward.
//! - `usage` is the net live bytes of what this delta added, per segment.

use crate::counts::{Counts, DirtyNodes};
use crate::format::history::Identity;
use crate::format::ifile::InodePlace;
use crate::format::inode::InodeImage;
use crate::format::node::NodeId;
use crate::format::{Mark, Pointer, SECTOR};
use crate::geometry::Geometry;
use crate::ranges::RangeMap;
use foldhash::{HashMap, HashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use varve_fs::planted::{self, Planted};
use varve_fs::{InodeNo, Usage, Version};

/// Pointers by logical block. Few blocks live in a sorted vector, many in a tree.
#[derive(Clone, Debug)]
pub enum BlockMap {
    /// Sorted by block.
    Few(Vec<(u64, Pointer)>),
    /// More than [`BlockMap::FEW`].
    Many(BTreeMap<u64, Pointer>),
}

impl Default for BlockMap {
    fn default() -> Self {
        BlockMap::Few(Vec::new())
    }
}

impl BlockMap {
    const FEW: usize = 32;

    /// The pointer of `block`.
    pub fn get(&self, block: u64) -> Option<Pointer> {
        match self {
            BlockMap::Few(few) => few
                .binary_search_by_key(&block, |e| e.0)
                .ok()
                .map(|i| few[i].1),
            BlockMap::Many(many) => many.get(&block).copied(),
        }
    }

    /// Sets the pointer of `block` and returns the former one.
    pub fn insert(&mut self, block: u64, pointer: Pointer) -> Option<Pointer> {
        match self {
            BlockMap::Few(few) => match few.binary_search_by_key(&block, |e| e.0) {
                Ok(i) => Some(std::mem::replace(&mut few[i].1, pointer)),
                Err(i) => {
                    if few.is_empty() {
                        few.reserve_exact(1); // most files have one
                    }
                    few.insert(i, (block, pointer));
                    if few.len() > Self::FEW {
                        *self = BlockMap::Many(std::mem::take(few).into_iter().collect());
                    }
                    None
                }
            },
            BlockMap::Many(many) => many.insert(block, pointer),
        }
    }

    /// Removes the pointers of `from..to` and hands each to `dead`.
    pub fn remove_range(&mut self, from: u64, to: u64, mut dead: impl FnMut(u64, Pointer)) {
        match self {
            BlockMap::Few(few) => few.retain(|&(block, pointer)| {
                let gone = (from..to).contains(&block);
                if gone {
                    dead(block, pointer);
                }
                !gone
            }),
            BlockMap::Many(many) => {
                let gone: Vec<u64> = many.range(from..to).map(|(&block, _)| block).collect();
                for block in gone {
                    if let Some(pointer) = many.remove(&block) {
                        dead(block, pointer);
                    }
                }
            }
        }
    }

    /// Entries with blocks in `from..to`, ascending.
    pub fn range(&self, from: u64, to: u64) -> Box<dyn Iterator<Item = (u64, Pointer)> + '_> {
        match self {
            BlockMap::Few(few) => {
                let start = few.partition_point(|e| e.0 < from);
                Box::new(few[start..].iter().copied().take_while(move |e| e.0 < to))
            }
            BlockMap::Many(many) => Box::new(many.range(from..to).map(|(&b, &p)| (b, p))),
        }
    }

    /// Entries held.
    pub fn len(&self) -> usize {
        match self {
            BlockMap::Few(few) => few.len(),
            BlockMap::Many(many) => many.len(),
        }
    }

    /// True if no entry is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a range of blocks became, where no block entry says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeState {
    /// No block: whatever a lower layer has is dead.
    Hole,
    /// Reserved by the record with this serial: reads as zeros.
    Unwritten(u64),
}

/// An inode image and where it is stored.
#[derive(Clone, Debug)]
pub struct PlacedImage {
    /// The attributes. A `root` in it spares the next checkpoint from writing
    /// the inode again; blocks are looked up elsewhere.
    pub image: InodeImage,
    /// Its place in the log.
    pub place: InodePlace,
}

/// What a delta knows of one inode.
#[derive(Clone, Debug, Default)]
pub struct InodeDelta {
    /// The version these changes belong to.
    pub version: Version,
    /// The number was freed in this delta and has no inode now; its next
    /// file's version.
    pub freed: Option<Version>,
    /// Nothing below this layer belongs to this inode any more: the number
    /// was freed, or never used, when this version began.
    pub reborn: bool,
    /// The newest image in this layer.
    pub image: Option<PlacedImage>,
    /// Ranges that differ from what lies below.
    pub ranges: RangeMap<RangeState>,
    /// Blocks that differ from both.
    pub blocks: BlockMap,
    /// The extended attributes' pointer, if this layer changed it.
    pub xattrs: Option<Pointer>,
    /// A user changed something of it; false if all of this is the cleaner's moves.
    pub changed: bool,
}

/// What this layer says about one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is here.
    At(Pointer),
    /// There is no such block.
    Hole,
    /// Ask the layer below.
    Pass,
}

impl InodeDelta {
    /// This layer's own word on `block`.
    pub fn block(&self, block: u64, block_sectors: u8) -> Answer {
        if let Some(pointer) = self.blocks.get(block) {
            return Answer::At(pointer);
        }
        match self.ranges.get(block) {
            Some(RangeState::Hole) => Answer::Hole,
            Some(RangeState::Unwritten(birth)) => {
                Answer::At(Pointer::unwritten_block(block_sectors, birth))
            }
            None if self.reborn => Answer::Hole,
            None => Answer::Pass,
        }
    }

    /// True if block entries or ranges await the next checkpoint.
    pub fn has_pending_blocks(&self) -> bool {
        !self.blocks.is_empty() || !self.ranges.is_empty()
    }
}

/// Bytes of memory that an inode takes in a delta: its [`InodeDelta`], the root
/// in its image, its places in the tables.
const INODE_MEMORY: u64 = 640;
/// Bytes of memory that a block entry takes.
const BLOCK_MEMORY: u64 = 64;

/// The changes of one span of the log.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    /// By inode number. Shared with the snapshots that were taken since an entry
    /// changed last: whoever changes one that is, changes a copy.
    pub inodes: HashMap<u64, Arc<InodeDelta>>,
    /// Net live bytes this delta added to each segment.
    pub usage: HashMap<u32, i64>,
    /// Youngest user write this delta put into each segment.
    pub newest_ns: HashMap<u32, i64>,
    /// Blocks that snapshots have and no file leads to, which the cleaner has moved
    /// since the image below was made: by identity and birth.
    pub kept: HashMap<(Identity, u64), Pointer>,
    /// Position of the newest snapshot below this delta, 0 without one: only blocks born
    /// up to it are part of a snapshot.
    pub kept_through: u64,
    /// The checkpoint that folds it is a snapshot, of a volume with so much on it.
    pub(crate) snapshot: Option<Usage>,
    /// Index nodes that folding it may write, by inode number. Those of the ifile itself
    /// are among them only where the cleaner wants them moved.
    pub(crate) dirty: HashMap<u64, DirtyNodes>,
    /// The sum of all these, and what else is known beside what is counted elsewhere.
    pub(crate) counts: Counts,
    /// Blocks of the ifile the cleaner wants moved.
    pub touched_ifile: HashSet<u64>,
    /// Inode-map blocks this delta will dirty.
    pub imap_blocks: HashSet<u64>,
    /// It was replayed, and nobody has looked yet which of its numbers leave the
    /// list of free ones: the blocks of those beside them are not among these.
    pub neighbours_unknown: bool,
    /// Numbers that were given out and in no group when it was frozen.
    pub loose: u64,
    /// Inodes that joined (true) or left (false) the unfinished list.
    unfinished: HashMap<u64, bool>,
    /// Those that joined.
    pub(crate) joined: u64,
    /// One more than the highest inode number seen.
    pub next_ino: u64,
    /// Bytes of log since the delta began.
    pub log_bytes: u64,
    /// Block entries, images and records applied, and blocks that records
    /// cover: a measure of the work of folding.
    pub entries: u64,
    /// Block entries held.
    pub held_blocks: u64,
    /// The height of some index was not known, or so many numbers were skipped
    /// that they were not counted: what is counted may be too little.
    pub guessed: bool,
    /// Files or blocks ended in this delta: folding it may shrink an index.
    pub removes: bool,
    /// Serial of the last partial before it was frozen; 0 while it is live.
    pub boundary: u64,
    /// Where the last group says that a copy stands; the inner none is that it is no
    /// copy. `None` without groups.
    pub replayed: Option<Option<Mark>>,
}

impl Delta {
    /// An empty delta above an image: numbers from `next_ino` on were never used, and the
    /// newest snapshot ends at serial `kept_through`.
    pub fn above(next_ino: u64, kept_through: u64) -> Self {
        Delta {
            next_ino,
            kept_through,
            ..Delta::default()
        }
    }

    /// What it knows of each inode, and nothing else: for who only looks things up.
    /// The entries are shared until they change here.
    pub(crate) fn readable(&self) -> Self {
        Delta {
            inodes: self.inodes.clone(),
            next_ino: self.next_ino,
            ..Delta::default()
        }
    }

    /// The image below has come to know the numbers up to `next_ino`: fewer than
    /// before if it has begun its inode map anew. The blocks of those that this
    /// delta has beyond change with the next.
    pub fn follow_map(&mut self, geometry: &Geometry, next_ino: u64) {
        let highest = self.inodes.keys().max().copied().unwrap_or(0);
        if next_ino < self.next_ino {
            let blocks = geometry.imap_block(next_ino)..=geometry.imap_block(highest);
            self.imap_blocks.extend(blocks);
        }
        self.next_ino = next_ino.max(highest + 1);
    }

    /// What it knows of an inode.
    pub fn inode(&self, ino: u64) -> Option<&InodeDelta> {
        self.inodes.get(&ino).map(Arc::as_ref)
    }

    /// True if the number's present life, or its next, begins in this delta: no
    /// index below belongs to it.
    pub fn begins(&self, ino: InodeNo) -> bool {
        self.inode(ino.0)
            .is_some_and(|entry| entry.reborn || entry.freed.is_some())
    }

    /// True if folding it may change the image of an inode.
    pub fn changes(&self, ino: InodeNo) -> bool {
        self.inodes.contains_key(&ino.0) || self.dirty.contains_key(&ino.0)
    }

    /// True if folding it would change nothing.
    pub fn is_empty(&self) -> bool {
        let unchanged = self.inodes.is_empty() && self.dirty.is_empty();
        unchanged && self.touched_ifile.is_empty() && self.kept.is_empty()
    }

    /// Bytes of memory it takes, by and large.
    pub fn memory_bytes(&self) -> u64 {
        let blocks = self.held_blocks + 2 * self.kept.len() as u64;
        self.inodes.len() as u64 * INODE_MEMORY + blocks * BLOCK_MEMORY
    }

    /// The next checkpoint is to write a node anew; the index it belongs to has
    /// this height.
    pub fn touch(&mut self, geometry: &Geometry, id: NodeId, height: u8) {
        if id.ino != InodeNo::IFILE {
            self.imap_blocks.insert(geometry.imap_block(id.ino.0));
        }
        self.change_nodes(id.ino, |dirty| {
            dirty.touch(geometry, (id.height, id.index), height);
        });
    }

    /// True if folding it may write this node.
    pub(crate) fn is_dirty(&self, id: &NodeId) -> bool {
        let dirty = self.dirty.get(&id.ino.0);
        dirty.is_some_and(|dirty| dirty.contains((id.height, id.index)))
    }

    /// True if the next checkpoint is to write this node anew, or ends it with its file.
    pub fn is_touched(&self, id: &NodeId) -> bool {
        let dirty = self.dirty.get(&id.ino.0);
        let touched = dirty.is_some_and(|dirty| dirty.is_touched((id.height, id.index)));
        touched || self.begins(id.ino)
    }

    /// Nodes of a file that the next checkpoint is to write anew.
    pub(crate) fn touched(&self, ino: InodeNo) -> Vec<NodeId> {
        let dirty = self.dirty.get(&ino.0);
        let touched = dirty.into_iter().flat_map(DirtyNodes::touched);
        touched
            .map(|(height, index)| NodeId { ino, height, index })
            .collect()
    }

    /// The height that the index of a file is known to have, or to reach.
    pub(crate) fn height(&self, ino: InodeNo) -> u8 {
        self.dirty.get(&ino.0).map_or(0, DirtyNodes::height)
    }

    /// An inode joins the unfinished list, or leaves it.
    pub fn set_unfinished(&mut self, ino: u64, joins: bool) {
        let joined = self.unfinished.insert(ino, joins).unwrap_or(false);
        self.joined = self.joined + u64::from(joins) - u64::from(joined);
    }

    /// Makes `list` what has joined, and nothing else.
    pub fn replace_unfinished(&mut self, list: impl IntoIterator<Item = u64>) {
        (self.unfinished, self.joined) = Default::default();
        list.into_iter()
            .for_each(|ino| self.set_unfinished(ino, true));
    }

    /// Inodes that joined (true) or left (false) the unfinished list.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = (u64, bool)> {
        self.unfinished.iter().map(|(&ino, &joined)| (ino, joined))
    }

    /// Makes `list`, the unfinished inodes below, what it is with these changes.
    pub fn change_unfinished(&self, list: &mut BTreeSet<u64>) {
        for (ino, joined) in self.unfinished() {
            match joined {
                true => list.insert(ino),
                false => list.remove(&ino),
            };
        }
    }

    /// Changes the dirty nodes of a file and keeps the sum.
    pub(crate) fn change_nodes(&mut self, ino: InodeNo, change: impl FnOnce(&mut DirtyNodes)) {
        let dirty = self.dirty.entry(ino.0).or_default();
        self.counts -= dirty.counts();
        change(dirty);
        self.counts += dirty.counts();
    }

    /// The file has no dirty nodes any more, and its inode need not be written.
    pub(crate) fn forget_nodes(&mut self, ino: InodeNo) {
        if let Some(dirty) = self.dirty.remove(&ino.0) {
            self.counts -= dirty.counts();
        }
    }

    /// All that folding it may write.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            map_blocks: self.imap_blocks.len() as u64,
            ifile_blocks: self.touched_ifile.len() as u64,
            unfinished: self.joined,
            ..self.counts
        }
    }

    /// Blocks of the inode map with the entries of these files, beyond those that
    /// it changes anyway.
    pub fn further_imap_blocks(
        &self,
        geometry: &Geometry,
        files: impl Iterator<Item = InodeNo>,
    ) -> u64 {
        let files = files.filter(|ino| *ino != InodeNo::IFILE);
        let blocks: HashSet<u64> = files.map(|ino| geometry.imap_block(ino.0)).collect();
        blocks.difference(&self.imap_blocks).count() as u64
    }

    /// Blocks among these of the ifile that are not written again anyway.
    pub fn further_ifile_blocks(&self, touched: impl Iterator<Item = u64>) -> u64 {
        let touched: HashSet<u64> = touched.collect();
        touched.difference(&self.touched_ifile).count() as u64
    }

    /// Counts `bytes` more (or fewer) live bytes in the segment of `sector`.
    pub fn count(&mut self, geometry: &Geometry, sector: u64, bytes: i64) {
        if let Some(segment) = geometry.segment_of(sector) {
            *self.usage.entry(segment).or_default() += bytes;
        }
    }

    /// Counts a block that this delta added, or that it added and lost again.
    pub fn count_block(&mut self, geometry: &Geometry, pointer: &Pointer, sign: i64) {
        if !pointer.is_none() && !pointer.is_unwritten() {
            let bytes = i64::from(pointer.sectors()) * SECTOR as i64;
            self.count(geometry, pointer.sector(), sign * bytes);
        }
    }

    /// The inode's entry, made for `version` if there is none. An entry of an
    /// older version is one whose number was freed: it starts anew.
    pub fn inode_mut(&mut self, ino: InodeNo, version: Version) -> &mut InodeDelta {
        let entry = self.inodes.entry(ino.0).or_insert_with(|| {
            Arc::new(InodeDelta {
                version,
                ..InodeDelta::default()
            })
        });
        let entry = Arc::make_mut(entry);
        if entry.freed.is_some() {
            *entry = InodeDelta {
                version,
                changed: true,
                reborn: !planted::is(Planted::StaleVersion),
                ..InodeDelta::default()
            };
        }
        entry
    }
}
