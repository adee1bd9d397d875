//! Rebuilds metadata from the evidence in the log.

use super::evidence::{Evidence, Partial};
use super::placed::PlacedBlocks;
use std::collections::{BTreeMap, HashMap, HashSet};
use varve_fs::{InodeNo, Version};
use varve_lfs::Geometry;
use varve_lfs::format::Pointer;
use varve_lfs::format::ifile::InodePlace;
use varve_lfs::format::node::{FANOUT, Node, NodeId};
use varve_lfs::internal::{ChainItem, Reader, Record};

/// Largest number of images remembered per inode.
const MAX_IMAGES: usize = 16;
/// Largest number of blocks remembered for rebuilding index roots, over all files.
const MAX_BLOCKS: usize = 1 << 20;

/// The part of the log that a checkpoint's image includes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Horizon {
    /// Last serial of ordinary groups: the record's position.
    pub(crate) boundary: u64,
    /// Last serial written by the checkpoint itself.
    pub(crate) limit: u64,
}

impl Horizon {
    fn covers(&self, partial: &Partial) -> bool {
        let last = if partial.of_checkpoint() {
            self.limit
        } else {
            self.boundary
        };
        partial.serial <= last
    }

    /// Returns true for a block that was moved after the boundary and born before it: its
    /// former place may have been overwritten (`docs/design/reuse.md`).
    fn covers_move(&self, item: &ChainItem, born: u64) -> bool {
        item.source_sector().is_some() && born <= self.boundary
    }
}

/// Position of an entry in the order of the log: its birth, whether it is a block (which
/// follows the records of its own group), and the serial at which it was last stored,
/// because moves keep the birth.
type Order = (u64, bool, u64);

/// Queries over the evidence.
pub(crate) struct Witness<'a> {
    pub(crate) evidence: &'a Evidence,
    pub(crate) reader: &'a Reader,
    pub(crate) geometry: &'a Geometry,
    pub(crate) volume_tag: u64,
    pub(crate) horizon: Horizon,
}

/// An index node to be rebuilt.
pub(crate) struct WantedNode {
    pub(crate) id: NodeId,
    pub(crate) version: Version,
}

/// The slots of the wanted nodes found so far.
struct Children<'w> {
    wanted: &'w [WantedNode],
    slots: Vec<Vec<(Order, Pointer)>>,
    by_id: HashMap<NodeId, usize>,
    /// Wanted nodes of height 1 by inode, because records name blocks.
    leaves: HashMap<u64, Vec<usize>>,
}

impl<'w> Children<'w> {
    fn new(wanted: &'w [WantedNode]) -> Self {
        let none = ((0, false, 0), Pointer::NONE);
        let ids = wanted.iter().map(|wanted| wanted.id);
        let mut leaves: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, wanted) in wanted.iter().enumerate().filter(|(_, w)| w.id.height == 1) {
            leaves.entry(wanted.id.ino.0).or_default().push(at);
        }
        Children {
            wanted,
            slots: vec![vec![none; FANOUT as usize]; wanted.len()],
            by_id: ids.zip(0..).collect(),
            leaves,
        }
    }

    /// Records that a child was stored: number `index` of the height below `parent`.
    fn stored(
        &mut self,
        parent: NodeId,
        version: Version,
        index: u64,
        order: Order,
        pointer: Pointer,
    ) {
        if let Some(&at) = self.by_id.get(&parent)
            && self.wanted[at].version == version
        {
            let slot = (index % FANOUT) as usize;
            newest(&mut self.slots[at][slot], order, pointer);
        }
    }

    /// Records that blocks `from..to` were set to `pointer`.
    fn recorded(
        &mut self,
        ino: InodeNo,
        version: Version,
        (from, to, pointer): (u64, u64, Pointer),
        order: Order,
    ) {
        for &at in self.leaves.get(&ino.0).into_iter().flatten() {
            if self.wanted[at].version != version {
                continue;
            }
            let first = self.wanted[at].id.index * FANOUT;
            for (block, slot) in (first..).zip(&mut self.slots[at]) {
                if (from..to).contains(&block) {
                    newest(slot, order, pointer);
                }
            }
        }
    }

    fn into_nodes(self) -> Vec<Node> {
        let node_of = |slots: Vec<(Order, Pointer)>| {
            let mut node = Node::default();
            for (slot, (_, pointer)) in slots.into_iter().enumerate() {
                node.set(slot, pointer);
            }
            node
        };
        self.slots.into_iter().map(node_of).collect()
    }
}

/// Entries of the log for one inode number.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// Places of its images, the newest last.
    pub(crate) images: Vec<(Version, InodePlace, u64)>,
    /// Highest version that a `Freed` record gave to the next file.
    pub(crate) freed: Option<Version>,
}

impl Trace {
    fn note(&mut self, version: Version, place: InodePlace, serial: u64) {
        let key =
            |&(version, place, serial): &(Version, InodePlace, u64)| (version, place.birth, serial);
        let image = (version, place, serial);
        let at = self.images.partition_point(|old| key(old) < key(&image));
        self.images.insert(at, image);
        if self.images.len() > MAX_IMAGES {
            self.images.remove(0);
        }
    }
}

/// Entries of the log for the content of one file.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) blocks: BTreeMap<u64, (Order, Option<Pointer>)>,
    pub(crate) nodes: BTreeMap<(u8, u64), (Order, Pointer)>,
    pub(crate) xattrs: Option<(Order, Pointer)>,
    /// True if there were more blocks than can be remembered.
    pub(crate) too_many: bool,
}

impl Witness<'_> {
    fn visit(&self, see: &mut dyn FnMut(&Partial, &ChainItem)) {
        self.evidence
            .visit(self.reader, self.geometry, self.volume_tag, see);
    }

    /// Visits all items except for spilled blocks; a block that was placed is visited as
    /// a block. Each block is accompanied by the serial at which it became part of its
    /// file.
    fn each(&self, see: &mut dyn FnMut(&Partial, &ChainItem, u64)) {
        let horizon = self.horizon;
        let mut placed = PlacedBlocks::default();
        if self.evidence.has_spilled() {
            self.visit(&mut |partial, item| {
                if let ChainItem::Placed {
                    ino,
                    block,
                    pointer,
                    ..
                } = item
                {
                    placed.note(*ino, *block, pointer.birth(), partial.serial);
                }
            });
        }
        self.visit(&mut |partial, item| {
            let (item, born) = match *item {
                ChainItem::Block { spilled: true, .. } => return,
                ChainItem::Placed {
                    ino,
                    version,
                    block,
                    pointer,
                    written_ns,
                } => {
                    let item = ChainItem::Block {
                        ino,
                        version,
                        block,
                        pointer,
                        written_ns,
                        source: None,
                        kept: false,
                        xattrs: false,
                        spilled: false,
                    };
                    (item, partial.serial)
                }
                ChainItem::Block {
                    ino,
                    block,
                    pointer,
                    xattrs: false,
                    ..
                } => (*item, placed.since(ino, block, pointer.birth())),
                other => (other, other.pointer().map_or(0, |p| p.birth())),
            };
            let moved = matches!(item, ChainItem::Block { .. }) && horizon.covers_move(&item, born);
            if horizon.covers(partial) || moved {
                see(partial, &item, born);
            }
        });
    }

    /// Returns each wanted node with the newest pointer of every child.
    pub(crate) fn nodes(&self, wanted: &[WantedNode]) -> Vec<Node> {
        let mut children = Children::new(wanted);
        let block_sectors = (self.geometry.block_bytes / 512) as u8;
        self.each(&mut |partial, item, born| match *item {
            ChainItem::Block {
                ino,
                version,
                block,
                pointer,
                xattrs: false,
                ..
            } => {
                let order = (born, true, partial.serial);
                let parent = parent_of(ino, 0, block);
                children.stored(parent, version, block, order, pointer);
            }
            ChainItem::Node {
                id,
                version,
                pointer,
            } => {
                let order = (born, true, partial.serial);
                let parent = parent_of(id.ino, id.height, id.index);
                children.stored(parent, version, id.index, order, pointer);
            }
            ChainItem::Record {
                ino,
                version,
                record,
            } => {
                if let Some(range) = range_of(record, block_sectors) {
                    let order = (partial.serial, false, partial.serial);
                    children.recorded(ino, version, range, order);
                }
            }
            _ => {}
        });
        children.into_nodes()
    }

    /// Returns the entries of the log for these numbers.
    pub(crate) fn traces(&self, wanted: &HashSet<u64>) -> HashMap<u64, Trace> {
        let mut traces: HashMap<u64, Trace> = HashMap::new();
        self.each(&mut |partial, item, _| match *item {
            ChainItem::Inode {
                ino,
                version,
                place,
                ..
            } if wanted.contains(&ino.0) => {
                let trace = traces.entry(ino.0).or_default();
                trace.note(version, place, partial.serial);
            }
            ChainItem::Record {
                ino,
                record: Record::Freed(next_version),
                ..
            } if wanted.contains(&ino.0) => {
                let trace = traces.entry(ino.0).or_default();
                trace.freed = trace.freed.max(Some(next_version));
            }
            _ => {}
        });
        traces
    }

    /// Returns the entries of the log for the content of these files.
    pub(crate) fn contents(&self, wanted: &HashMap<u64, Version>) -> HashMap<u64, Content> {
        let mut contents: HashMap<u64, Content> = HashMap::new();
        let is_wanted = |ino: InodeNo, version| wanted.get(&ino.0) == Some(&version);
        let block_sectors = (self.geometry.block_bytes / 512) as u8;
        let mut left = MAX_BLOCKS;
        self.each(&mut |partial, item, born| match *item {
            ChainItem::Block {
                ino,
                version,
                block,
                pointer,
                xattrs,
                ..
            } if is_wanted(ino, version) => {
                let order = (born, true, partial.serial);
                let content = contents.entry(ino.0).or_default();
                if xattrs {
                    let slot = content.xattrs.get_or_insert((order, pointer));
                    newest(slot, order, pointer);
                } else {
                    content.block(block, order, Some(pointer), &mut left);
                }
            }
            ChainItem::Node {
                id,
                version,
                pointer,
            } if is_wanted(id.ino, version) => {
                let order = (born, true, partial.serial);
                let content = contents.entry(id.ino.0).or_default();
                let slot = content
                    .nodes
                    .entry((id.height, id.index))
                    .or_insert((order, pointer));
                newest(slot, order, pointer);
            }
            ChainItem::Record {
                ino,
                version,
                record,
            } if is_wanted(ino, version) => {
                if let Some((from, to, pointer)) = range_of(record, block_sectors) {
                    let order = (partial.serial, false, partial.serial);
                    let content = contents.entry(ino.0).or_default();
                    content.range(from, to, order, pointer, &mut left);
                }
            }
            _ => {}
        });
        contents
    }
}

impl Content {
    /// Records a block. `left` is the number of further blocks that may be remembered.
    fn block(&mut self, block: u64, order: Order, pointer: Option<Pointer>, left: &mut usize) {
        if !self.blocks.contains_key(&block) {
            let Some(fewer) = left.checked_sub(1) else {
                self.too_many = true;
                return;
            };
            *left = fewer;
        }
        let slot = self.blocks.entry(block).or_insert((order, pointer));
        if order >= slot.0 {
            *slot = (order, pointer);
        }
    }

    fn range(&mut self, from: u64, to: u64, order: Order, pointer: Pointer, left: &mut usize) {
        if pointer.is_unwritten() {
            if to - from > *left as u64 {
                self.too_many = true;
                return;
            }
            for block in from..to {
                self.block(block, order, Some(pointer), left);
            }
            return;
        }
        for (_, slot) in self.blocks.range_mut(from..to) {
            if order >= slot.0 {
                *slot = (order, None);
            }
        }
    }
}

fn parent_of(ino: InodeNo, height: u8, index: u64) -> NodeId {
    NodeId {
        ino,
        height: height.saturating_add(1),
        index: index / FANOUT,
    }
}

fn newest(slot: &mut (Order, Pointer), order: Order, pointer: Pointer) {
    if order >= slot.0 {
        *slot = (order, pointer);
    }
}

/// Returns the blocks that a record changes, and their new pointer.
fn range_of(record: Record, block_sectors: u8) -> Option<(u64, u64, Pointer)> {
    match record {
        Record::Freed(_) => None,
        Record::Truncated(from) => Some((from, u64::MAX, Pointer::NONE)),
        Record::Punched(from, to) => Some((from, to, Pointer::NONE)),
        Record::Reserved(from, to, birth) => {
            let pointer = Pointer::unwritten_block(block_sectors, birth);
            Some((from, to, pointer))
        }
    }
}
