//! Applying records of changes to the tree of the last fold: in memory, by the code
//! that appends. Nothing is written.
//!
//! A place that a change names may have been given up by a later change and taken again
//! by a third one, which is stored before it if their slot has been rewritten. The use
//! of units is therefore computed from the sum of all changes.

use crate::error::Result;
use crate::format::{Change, Extent, Fork, Image, Measures, Node, NodeId};
use crate::lookup::{Store, Tables};
use crate::numbers::{in_use, not_sparse};
use crate::space::Bits;
use crate::stage::{Changes, Stage};
use std::collections::{BTreeMap, BTreeSet};
use varve_format::Malformed;
use varve_fs::flags;
use varve_fs::planted::{self, Planted};

/// Maximum number of inodes and index nodes that changes may leave in memory. A
/// transaction that leaves more than an eighth of it is not brief, but may exceed that
/// temporarily.
const STAGED_MAX: usize = 8192;

/// The result of applying changes to a tree.
#[derive(Debug, Default)]
pub(super) struct Replayed {
    pub tables: Tables,
    /// Index nodes and inodes that are given up and still in the tree's bits.
    pub held: Vec<Extent>,
    /// Pieces of the map with numbers that were freed.
    pub dirty: BTreeSet<u32>,
    /// Growth of the number of blocks of extended attributes that take more than a
    /// unit.
    pub long_xattrs: i64,
}

/// Applies `changes` in their order to the tree of `tables` and to its bits.
///
/// # Errors
/// If the tree cannot be read, or the changes contradict it.
pub(super) fn replay(
    store: &Store,
    tables: Tables,
    tree: &mut Bits,
    changes: &[Change],
) -> Result<Replayed> {
    let last = changes.iter().map(Change::ino).max().unwrap_or(0);
    let known = in_use(&tables.map) + changes.len() as u64;
    not_sparse(known, last.saturating_add(1))?;
    let staged = apply(store, &tables, changes)?;
    let Changes {
        freed,
        mut images,
        nodes,
        released,
        retired,
        long_xattrs,
        ..
    } = staged;
    for image in images.values_mut().flatten() {
        check(&store.measures, image, &nodes)?;
    }
    add_up(&store.measures, tree, changes, &released)?;
    if let Some(extent) = retired.iter().find(|extent| !tree.any(**extent)) {
        return Err(contradiction(extent.unit));
    }
    let dirty = freed.keys().map(|&ino| store.measures.piece_of(ino));
    let mut replayed = Replayed {
        dirty: dirty.collect(),
        held: retired,
        long_xattrs,
        tables,
    };
    replayed.tables.adopt(freed, images, nodes);
    Ok(replayed)
}

/// Applies the changes to the tree, as long as the result is no larger than the memory
/// of the program that wrote them could have been.
fn apply(store: &Store, tables: &Tables, changes: &[Change]) -> Result<Changes> {
    let measures = &store.measures;
    let too_much = |what: &str| {
        let problem = format!("more {what} than may wait for a fold");
        Err(Malformed::new("changes", problem).into())
    };
    let reserved = changes.iter().map(Change::reserved);
    if reserved.fold(0, u64::saturating_add) > measures.reserved_max() {
        return too_much("blocks reserved");
    }
    let most = STAGED_MAX.max(measures.unit_bytes as usize);
    let mut stage = Stage::new(store, tables);
    let mut look_at = most;
    for change in changes {
        stage.apply(change)?;
        let Changes { images, nodes, .. } = &stage.changes;
        let staged = images.len() + nodes.len();
        if staged > look_at {
            let left = images.values().flatten().count() + nodes.values().flatten().count();
            if left > most {
                return too_much("inodes and index nodes");
            }
            look_at = staged + most;
        }
    }
    Ok(stage.changes)
}

/// Refuses an inode that would be refused when it is read, and limits its counts as a
/// read does.
fn check(
    measures: &Measures,
    image: &mut Image,
    nodes: &BTreeMap<NodeId, Option<Node>>,
) -> Result<()> {
    let ino = image.inode.ino;
    let inline = image.inode.flags & flags::INLINE != 0;
    let mut indexed = image.slots.iter().any(|slot| !slot.is_none());
    if inline && !indexed {
        let id = |fork| NodeId {
            ino: ino.0,
            fork,
            height: 0,
            index: 0,
        };
        let mut staged = nodes.range(id(Fork::Content)..id(Fork::Attributes));
        indexed = staged.any(|(_, node)| node.is_some());
    }
    if image.inode.inline.len() > measures.root_slots() * 12 || (inline && indexed) {
        let problem = format!("{ino}: content where an index is, or too much of it");
        return Err(Malformed::new("change", problem).into());
    }
    let read = Image::decode(&image.encode(measures), measures, ino)?.inode;
    (image.inode.blocks, image.inode.sectors) = (read.blocks, read.sectors);
    Ok(())
}

/// Amends the bits by the units that all changes together take and give up.
fn add_up(
    measures: &Measures,
    tree: &mut Bits,
    changes: &[Change],
    released: &[Extent],
) -> Result<()> {
    let mut sums: BTreeMap<u64, i64> = BTreeMap::new();
    let mut add = |extent: Extent, by: i64| {
        for unit in extent.unit..extent.end() {
            *sums.entry(unit).or_default() += by;
        }
    };
    let places = changes.iter().filter_map(Change::place);
    places.for_each(|place| add(measures.extent_of(place), 1));
    released.iter().for_each(|&extent| add(extent, -1));
    if planted::is(Planted::ChangesOneByOne) {
        let mut places = changes.iter().filter_map(Change::place);
        let taken = places.all(|place| tree.set(measures.extent_of(place)));
        return match taken && released.iter().all(|&extent| tree.clear(extent)) {
            true => Ok(()),
            false => Err(contradiction(0)),
        };
    }
    for (unit, sum) in sums {
        let extent = Extent { unit, units: 1 };
        let stands = match sum {
            0 => true,
            1 => tree.set(extent),
            -1 => tree.clear(extent),
            _ => false,
        };
        if !stands {
            return Err(contradiction(unit));
        }
    }
    Ok(())
}

fn contradiction(unit: u64) -> crate::error::Error {
    let problem = format!("unit {unit} is taken or given up twice by what was changed last");
    Malformed::new("tree", problem).into()
}
