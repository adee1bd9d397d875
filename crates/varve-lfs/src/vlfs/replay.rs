//! Records of changes, applied to the tree of the last fold: in memory, by the
//! code that appends. Nothing is written.
//!
//! A place that a change names may have been given up by a later one and taken
//! again by a third, which stands before it if their slot has been written
//! again. So what is used is judged by the sum of all.

use super::format::{Change, Extent, Image, Measures};
use super::lookup::{Store, Tables};
use super::space::Bits;
use super::stage::{Changes, Stage};
use crate::error::Result;
use crate::format::Malformed;
use std::collections::{BTreeMap, BTreeSet};
use varve_fs::flags;

/// What changes make of a tree.
#[derive(Debug, Default)]
pub(super) struct Replayed {
    pub tables: Tables,
    /// Index nodes and inodes that are given up, and still of the tree's bits.
    pub held: Vec<Extent>,
    /// Pieces of the map with numbers that were freed.
    pub dirty: BTreeSet<u32>,
}

/// Applies `changes` to the tree of `tables`, in their order, and to its bits.
///
/// # Errors
/// If the tree cannot be read, or they contradict it.
pub(super) fn replay(
    store: &Store,
    tables: Tables,
    tree: &mut Bits,
    changes: &[Change],
) -> Result<Replayed> {
    let mut stage = Stage::new(store, &tables);
    changes.iter().try_for_each(|change| stage.apply(change))?;
    let Changes {
        freed,
        images,
        nodes,
        released,
        retired,
        ..
    } = stage.changes;
    for image in images.values().flatten() {
        check(&store.measures, image)?;
    }
    add_up(&store.measures, tree, changes, &released)?;
    if let Some(extent) = retired.iter().find(|extent| !tree.any(**extent)) {
        return Err(contradiction(extent.unit));
    }
    let dirty = freed.keys().map(|&ino| store.measures.piece_of(ino));
    let mut replayed = Replayed {
        dirty: dirty.collect(),
        held: retired,
        tables,
    };
    replayed.tables.adopt(freed, images, nodes);
    Ok(replayed)
}

/// Refuses an inode that would be refused if it were read.
fn check(measures: &Measures, image: &Image) -> Result<()> {
    let ino = image.inode.ino;
    let inline = image.inode.flags & flags::INLINE != 0;
    if image.inode.inline.len() > measures.root_slots() * 12
        || (inline && image.slots.iter().any(|slot| !slot.is_none()))
    {
        let problem = format!("{ino}: content where an index is, or too much of it");
        return Err(Malformed::new("change", problem).into());
    }
    Image::decode(&image.encode(measures), measures, ino)?;
    Ok(())
}

/// Amends the bits by what all changes together take and give up.
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
