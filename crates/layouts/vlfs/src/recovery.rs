//! Recovery at a mount: the inode map, and the units that it leads to.
//!
//! The map is the newest checkpoint's, amended by the log's newest records. The bits of
//! used units are the checkpoint's, without the units that only its tree has, and with
//! those that only the present tree has. Of a file that did not change nothing is read,
//! of one that did the index nodes that differ. If the older tree cannot be read, all
//! inodes and indexes are walked instead.

use crate::checkpoint::{read_body, read_head};
use crate::error::{Error, Result};
use crate::format::{
    Change, CheckpointHeader, Delta, Entry, Extent, Fork, Image, Measures, Node, NodeId, Place,
    Totals,
};
use crate::logged::Logged;
use crate::lookup::{Store, Tables};
use crate::numbers::{in_use, not_sparse};
use crate::replay::replay;
use crate::space::Bits;
use crate::unfolded::Unfolded;
use crate::vlfs::VlfsRecovery;
use crate::walk::Tree;
use std::collections::BTreeSet;
use std::sync::Arc;
use varve_format::Malformed;
use varve_format::index::Index;
use varve_vlog::recovery::{Found, Source, find};

/// The result of recovery.
pub(super) struct Recovered {
    pub tables: Tables,
    /// Extents that changes have given up and that are still in the tree's bits.
    pub held: Vec<Extent>,
    pub dirty: BTreeSet<u32>,
    pub unfolded: Unfolded,
    pub tree: Bits,
    pub base: Bits,
    pub totals: Totals,
    /// Number of blocks of extended attributes that take more than a unit.
    pub long_xattrs: u64,
    pub checkpoints: [Option<(u64, u64)>; 2],
    pub found: Found<Logged>,
    pub report: VlfsRecovery,
}

/// A checkpoint that was read.
struct Base {
    bits: Bits,
    map: Vec<Entry>,
    totals: Totals,
    /// The number in the checkpoint's head, if known.
    long_xattrs: Option<u64>,
}

/// Recovers a volume; writes nothing.
pub(super) fn recover(store: &Store) -> Result<Recovered> {
    let heads = [0, 1].map(|region| read_head(store, region));
    let mut order = [0, 1];
    order.sort_by_key(|&region| std::cmp::Reverse(heads[region].map(|head| head.serial.get())));
    let mut whole = heads;
    let mut base = None;
    for region in order {
        let Some(head) = heads[region] else {
            continue;
        };
        match read_body(store, region, &head) {
            Ok((bits, map)) => {
                base = Some(Base {
                    bits,
                    map,
                    totals: head.totals,
                    long_xattrs: head.long_xattrs(),
                });
                break;
            }
            Err(_) => whole[region] = None,
        }
    }
    let numbers = |head: CheckpointHeader| (head.serial.get(), head.seq.get());
    let checkpoints = whole.map(|head| head.map(numbers));
    let found = find(store, checkpoints)?;
    let damaged = checkpoints.iter().filter(|found| found.is_none()).count() as u32;
    let mut report = VlfsRecovery {
        tail_record: found.source == Source::Tail,
        records_read: found.records_read,
        records_discarded: found.discarded.len() as u64,
        checkpoints_damaged: damaged,
        ..VlfsRecovery::default()
    };
    let known = base.is_some();
    let base = base.unwrap_or_else(|| Base {
        bits: Bits::new(&store.measures),
        map: Vec::new(),
        totals: Totals::default(),
        long_xattrs: None,
    });
    let (map, totals) = amended(&store.measures, &base, &found)?;
    let difference = match known {
        true => difference(store, &base, &map, &mut report),
        false => Err(Malformed::new("checkpoint", "none is left").into()),
    };
    let tables = Tables {
        map,
        ..Tables::default()
    };
    let (mut tree, long_xattrs) = match difference {
        Ok((tree, more)) => {
            let long = match base.long_xattrs {
                Some(known) => known.saturating_add_signed(more),
                None => count_long_xattrs(store, &tables),
            };
            (tree, long)
        }
        Err(reason) => {
            tracing::warn!("looking at every inode to find what is free: {reason}");
            report.walked = true;
            walk(store, &tables)?
        }
    };
    let (changes, unfolded) = unfolded(&store.measures, &found);
    report.changes = changes.len() as u64;
    let replayed = replay(store, tables, &mut tree, &changes)?;
    Ok(Recovered {
        tables: replayed.tables,
        held: replayed.held,
        long_xattrs: long_xattrs.saturating_add_signed(replayed.long_xattrs),
        dirty: replayed.dirty,
        unfolded,
        tree,
        base: base.bits,
        totals,
        checkpoints,
        found,
        report,
    })
}

/// Returns the inode map, amended by the log's records.
fn amended(
    measures: &Measures,
    base: &Base,
    found: &Found<Logged>,
) -> Result<(Vec<Entry>, Totals)> {
    let mut map = base.map.clone();
    let mut known = in_use(&map);
    let records = found.newest.iter().filter_map(|logged| match logged {
        Logged::Map(record) => Some(record),
        Logged::Changes(_) => None,
    });
    for record in records.clone() {
        known += in_use(&record.entries);
    }
    for record in records {
        let first = record.header.piece.get() as usize * measures.entries_per_record();
        let used = record.entries.iter().rposition(|e| *e != Entry::default());
        let end = used.map_or(0, |last| first + last + 1);
        not_sparse(known, end as u64)?;
        if map.len() < end {
            map.resize(end, Entry::default());
        }
        // A number that is free now may have been used at the time of the checkpoint.
        let slots = map.iter_mut().skip(first);
        for (slot, entry) in slots.zip(&record.entries) {
            *slot = *entry;
        }
    }
    // The youngest record is the root's and is the first.
    let totals = found.newest.first().map_or(base.totals, Logged::totals);
    Ok((map, totals))
}

/// Returns the changes since the last fold, in order, and the state of their slots.
fn unfolded(measures: &Measures, found: &Found<Logged>) -> (Vec<Change>, Unfolded) {
    // The youngest record is the first.
    let deltas = found.newest.iter().rev();
    let deltas: Vec<&Delta> = deltas.filter_map(Logged::changes).collect();
    let slot = |delta: &&Delta| u64::from(delta.header.piece.get()) - measures.pieces();
    let used = deltas.iter().map(slot).max().map_or(0, |last| last + 1);
    let folded = deltas
        .last()
        .map_or(found.log.reached(), |last| last.folded);
    let all = deltas.into_iter().flat_map(|delta| &delta.changes);
    let all: Vec<Change> = all.map(|(change, _)| change.clone()).collect();
    let reserved = all.iter().map(Change::reserved).sum();
    let unfolded = Unfolded::new(measures, used, folded).with_reserved(reserved);
    (all, unfolded)
}

/// Marks an extent that a tree uses; refuses one that is used twice.
fn mark(bits: &mut Bits, extent: Extent) -> Result<()> {
    match bits.set(extent) {
        true => Ok(()),
        false => {
            let problem = format!("{} units at {} are used twice", extent.units, extent.unit);
            Err(Malformed::new("tree", problem).into())
        }
    }
}

/// Returns the bits of the present tree, from the checkpoint's and the differences; and
/// by how much the number of blocks of extended attributes that take more than a unit
/// has grown.
fn difference(
    store: &Store,
    base: &Base,
    map: &[Entry],
    report: &mut VlfsRecovery,
) -> Result<(Bits, i64)> {
    let mut both = Difference {
        store,
        gone: Bits::new(&store.measures),
        come: Bits::new(&store.measures),
        long_xattrs: 0,
    };
    let entry = |map: &[Entry], ino: usize| map.get(ino).copied().unwrap_or_default();
    for ino in 0..map.len().max(base.map.len()) {
        let (old, new) = (entry(&base.map, ino), entry(map, ino));
        if old.unit() != new.unit() || (old.unit().is_some() && old != new) {
            report.inodes_changed += 1;
            both.inode(ino as u64, &old, &new)?;
        }
    }
    let mut tree = base.bits.clone();
    let contradicts = || Malformed::new("checkpoint", "its bits contradict its tree").into();
    for (byte, (gone, come)) in tree.0.iter_mut().zip(both.gone.0.iter().zip(&both.come.0)) {
        if *byte & gone != *gone {
            return Err(contradicts());
        }
        *byte &= !gone;
        if *byte & come != 0 {
            return Err(contradicts());
        }
        *byte |= come;
    }
    Ok((tree, both.long_xattrs))
}

/// One side of a comparison: the place at one height and number of an index.
#[derive(Clone)]
enum Side<'a> {
    Nothing,
    Place(Place),
    /// Above the root: a node that would have the root below it.
    Above(&'a Image),
}

impl<'a> Side<'a> {
    /// Returns the side of a whole index, beginning above its root.
    fn above(image: &'a Option<Arc<Image>>) -> Self {
        match image {
            Some(image) => Side::Above(image),
            None => Side::Nothing,
        }
    }
}

struct Difference<'a> {
    store: &'a Store,
    gone: Bits,
    come: Bits,
    long_xattrs: i64,
}

impl Difference<'_> {
    fn inode(&mut self, ino: u64, old: &Entry, new: &Entry) -> Result<()> {
        let image = |entry: &Entry| -> Result<Option<Arc<Image>>> {
            match entry.unit() {
                Some(_) => self.store.image(entry, ino).map(Some),
                None => Ok(None),
            }
        };
        let (before, after) = (image(old)?, image(new)?);
        self.unit(old, new)?;
        for fork in Fork::ALL {
            let height = |image: &Option<Arc<Image>>| {
                let image = image.as_ref();
                image.map_or(0, |image| image.root(fork).0)
            };
            let top = NodeId {
                ino,
                fork,
                height: height(&before).max(height(&after)) + 1,
                index: 0,
            };
            let (old, new) = (Side::above(&before), Side::above(&after));
            self.compare(top, &old, &new)?;
        }
        Ok(())
    }

    /// Adds or removes the place of one side, if it takes space.
    fn place(&mut self, id: NodeId, place: &Place, come: bool) -> Result<()> {
        if !place.is_stored() {
            return Ok(());
        }
        let measures = &self.store.measures;
        if id.fork == Fork::Attributes && id.height == 0 && measures.is_long(place) {
            self.long_xattrs += if come { 1 } else { -1 };
        }
        let bits = match come {
            true => &mut self.come,
            false => &mut self.gone,
        };
        mark(bits, measures.extent_of(place))
    }

    fn unit(&mut self, old: &Entry, new: &Entry) -> Result<()> {
        if old.unit() == new.unit() {
            return Ok(());
        }
        for (bits, entry) in [(&mut self.gone, old), (&mut self.come, new)] {
            if let Some(unit) = entry.unit() {
                mark(bits, Extent { unit, units: 1 })?;
            }
        }
        Ok(())
    }

    fn compare(&mut self, id: NodeId, old: &Side<'_>, new: &Side<'_>) -> Result<()> {
        match (old, new) {
            (Side::Nothing, Side::Nothing) => return Ok(()),
            (Side::Place(old), Side::Place(new)) if old == new => return Ok(()),
            _ => {}
        }
        for (side, come) in [(old, false), (new, true)] {
            if let Side::Place(place) = side {
                self.place(id, place, come)?;
            }
        }
        if id.height == 0 {
            return Ok(());
        }
        let node = |side: &Side<'_>| -> Result<Option<Arc<Node>>> {
            match side {
                Side::Place(place) if place.is_stored() => self.store.node(place, id).map(Some),
                _ => Ok(None),
            }
        };
        let nodes = [node(old)?, node(new)?];
        // At most one level is wider than a node: the one below the top.
        let measures = &self.store.measures;
        let count = measures.fanout().max(measures.root_slots());
        for slot in 0..count {
            let below = id.at(measures.index().below(id.spot(), slot));
            let sides = [(old, &nodes[0]), (new, &nodes[1])];
            let in_root = |image: &Image| image.root(id.fork).0 == below.height;
            let at = |slots: &[Place]| match slots.get(slot) {
                Some(place) => Side::Place(*place),
                None => Side::Nothing,
            };
            let [old, new] = sides.map(|(side, node)| match (side, node) {
                (_, Some(node)) => at(&node.slots),
                (Side::Above(image), None) if in_root(image) => at(image.root(id.fork).1),
                (Side::Above(image), None) if slot == 0 => Side::Above(image),
                _ => Side::Nothing,
            });
            let nothing = |side: &Side<'_>| matches!(side, Side::Place(place) if place.is_none());
            let old = if nothing(&old) { Side::Nothing } else { old };
            let new = if nothing(&new) { Side::Nothing } else { new };
            self.compare(below, &old, &new)?;
        }
        Ok(())
    }
}

/// Returns the bits of a tree, computed from all its inodes and indexes; and the number
/// of blocks of extended attributes that take more than a unit.
pub(super) fn walk(store: &Store, tables: &Tables) -> Result<(Bits, u64)> {
    let (mut bits, mut long) = (Bits::new(&store.measures), 0);
    for ino in (0..tables.end()).filter(|&ino| tables.has(ino)) {
        if let Some(unit) = tables.entry(ino).unit() {
            mark(&mut bits, Extent { unit, units: 1 })?;
        }
        let image = tables.image(store, ino)?;
        for fork in Fork::ALL {
            let tree = Tree {
                measures: &store.measures,
                image: &image,
                fork,
                fetch: &|id, place| tables.node(store, id, place),
            };
            tree.places(0, &mut |at, place| {
                if place.is_stored() {
                    mark(&mut bits, store.measures.extent_of(&place))?;
                }
                let counts = fork == Fork::Attributes && at.height == 0;
                long += u64::from(counts && store.measures.is_long(&place));
                Ok(place.is_stored())
            })?;
        }
    }
    Ok((bits, long))
}

/// Returns the second result of [`walk`], computed from the inodes and their attributes
/// alone. Attributes that cannot be read count once, because their number is unknown.
fn count_long_xattrs(store: &Store, tables: &Tables) -> u64 {
    let measures = &store.measures;
    if !measures.parts {
        return 0;
    }
    let count = |ino: u64| -> Result<u64> {
        let image = tables.image(store, ino)?;
        let tree = Tree {
            measures,
            image: &image,
            fork: Fork::Attributes,
            fetch: &|id, place| tables.node(store, id, place),
        };
        let mut long = 0;
        tree.blocks(0, u64::MAX, &mut |_, place| {
            long += u64::from(measures.is_long(&place));
            true
        })?;
        Ok(long)
    };
    let all = (0..tables.end()).filter(|&ino| tables.has(ino));
    all.map(|ino| count(ino).unwrap_or(1)).sum()
}

/// Creates the error for a volume whose bits cannot be trusted.
pub(super) fn twice(unit: u64) -> Error {
    let problem = format!("unit {unit} is used twice, or by what it cannot hold");
    Malformed::new("tree", problem).into()
}
