//! Appending a group: its data is written to the device at once, its metadata is put
//! into the tables, where every read sees it.

use crate::Vlfs;
use crate::change::changes_of;
use crate::error::{Error, Result};
use crate::format::{Change, Extent, Fork, Measures, NodeId, Place};
use crate::owners::Owner;
use crate::prices::{Prices, TRIES};
use crate::stage::{Changes, Stage};
use crate::writer::Writer;
use std::io::IoSlice;
use std::sync::Arc;
use varve_device::Block;
use varve_device::sync::atomic::Ordering::Relaxed;
use varve_format::{SECTOR, crc32c};
use varve_fs::{Group, Item, Position, Unwritten};
use varve_vlog::Access;

/// Maximum number of changed inodes and index nodes in memory.
const OWED_MAX: u64 = 4096;
/// Number of blocks that the last few units of a transaction may break.
const FEW: u64 = 4;

/// An upper bound of the space for a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// Number of blocks, of any kind.
    pub blocks: u64,
    /// Number of units among them that may share blocks with other units.
    pub units: u64,
}

/// The places of a group's data, in the order of its items.
type Written = std::vec::IntoIter<Place>;

impl Vlfs {
    pub(super) fn append_group(&self, group: Group) -> Result<Position> {
        let need = need_of(&group, &self.prices, self.measures());
        let _one;
        let mut writer = self.writer.lock();
        if !self.has_room(&writer, need) {
            // The locks are taken again in their order and are kept, because the space
            // that is freed is for this group.
            drop(writer);
            _one = self.committing.lock();
            writer = self.writer.lock();
            self.relieve(&mut writer, need)?;
        }
        self.writable()?;
        let writer = &mut *writer;
        // The host sends data and inodes to a drive in one command; index, inode and
        // map are written from inside the drive (Wang et al. 1999, §3.3).
        self.store.medium.command(Access::Write);
        self.store.medium.receive(bytes_of(&group));
        let mut extents = Vec::new();
        let written = self.write_data(writer, &group, &mut extents);
        let changes = written.and_then(|written| {
            let tables = self.tables.read();
            let mut stage = Stage::new(&self.store, &tables);
            let said = changes_of(&group, self.measures(), written);
            let applied = said.iter().try_for_each(|change| stage.apply(change));
            applied.map(|()| (stage.changes, said))
        });
        let (changes, said) = match changes {
            Ok(changes) => changes,
            Err(error) => {
                // The data was written, and no tree refers to it.
                for extent in extents {
                    self.release(writer, extent)?;
                }
                return Err(error);
            }
        };
        let owners = said.iter().filter_map(owner_of);
        for (extent, owner) in extents.iter().zip(owners) {
            writer.owners.note(extent.unit, owner);
        }
        said.into_iter()
            .for_each(|change| writer.unfolded.note(change));
        self.adopt(writer, changes)?;
        writer.usage = group.usage;
        writer.appended += 1;
        Ok(Position(writer.appended))
    }

    /// Returns the number of inodes and index nodes that changed and are not yet
    /// written.
    pub(super) fn owed(&self) -> u64 {
        let tables = self.tables.read();
        (tables.images.len() + tables.nodes.len()) as u64
    }

    /// Returns an upper bound of the blocks for the map's records, if `inodes` inodes
    /// and the freed ones are written; 0 if records have a zone of their own.
    pub(super) fn records_for(&self, writer: &Writer, inodes: u64) -> u64 {
        let changed = inodes + writer.dirty.len() as u64;
        match self.measures().zone_blocks {
            0 => self.measures().pieces().min(changed) + 4,
            _ => 0,
        }
    }

    /// Returns true if `need` can be written, in addition to everything that is
    /// pending.
    pub(super) fn has_room(&self, writer: &Writer, need: Need) -> bool {
        self.has_blocks(writer, need.blocks) && self.may_loosen(writer, need.units)
    }

    fn has_blocks(&self, writer: &Writer, need: u64) -> bool {
        let owed = self.owed();
        let free = writer.space.free_blocks();
        let records = self.records_for(writer, owed + need);
        // Space that a checkpoint will free makes the remaining space scarce.
        let each = u64::from(self.measures().units_per_block());
        let pinned = writer.space.pinned_units() / each;
        owed < OWED_MAX && free >= need + owed + records && pinned < (free / 2).max(64)
    }

    /// Returns true if `units` more units may be rewritten before the units that they
    /// replace are free. If free blocks are nearly short, the number is limited to the
    /// margin that growth leaves.
    fn may_loosen(&self, writer: &Writer, units: u64) -> bool {
        if !writer.space.is_nearly_short() {
            return true;
        }
        let loose = self.owed() + writer.space.loose_units();
        let each = u64::from(self.measures().units_per_block());
        loose == 0 || loose + units <= self.prices.broken_max(self.measures()) * each
    }

    /// Commits the pending changes and, if a checkpoint would free much or the space
    /// does not suffice, writes a checkpoint.
    fn relieve(&self, writer: &mut Writer, need: Need) -> Result<()> {
        if self.has_room(writer, need) || (writer.space.lift_all() && self.has_room(writer, need)) {
            // Another thread has made the space meanwhile.
            return Ok(());
        }
        self.counts.reliefs.fetch_add(1, Relaxed);
        self.commit_all(writer)?;
        let each = u64::from(self.measures().units_per_block());
        let pinned = writer.space.pinned_units();
        let much = pinned / each >= writer.space.free_blocks() / 8;
        match much || (pinned > 0 && !self.has_room(writer, need)) {
            true => self.write_checkpoint(writer),
            false => Ok(()),
        }
    }

    /// Writes the blocks of a group, adjacent ones in one request. `extents` are those
    /// written, also if the call fails.
    fn write_data(
        &self,
        writer: &mut Writer,
        group: &Group,
        extents: &mut Vec<Extent>,
    ) -> Result<Written> {
        let measures = *self.measures();
        let mut data = Vec::new();
        for item in &group.items {
            push_blocks(item, &measures, &mut data);
        }
        let units = |data: &Arc<Block>| measures.units_for(sectors_of(data));
        let lengths: Vec<u32> = data.iter().map(units).collect();
        let mut places = Vec::with_capacity(data.len());
        while places.len() < data.len() {
            let from = places.len();
            let taken = self.write_run(writer, &data[from..], &lengths[from..])?;
            for (extent, data) in taken.iter().zip(&data[from..]) {
                places.push(Place {
                    sector: extent.unit * measures.unit_sectors(),
                    sectors: sectors_of(data) as u16,
                    crc: crc_of(data),
                });
            }
            extents.extend(taken);
        }
        Ok(places.into_iter())
    }

    /// Writes as many of `data`, which take `lengths` units, as fit near each other,
    /// and returns their places. If the write fails, it is repeated elsewhere.
    fn write_run(
        &self,
        writer: &mut Writer,
        data: &[Arc<Block>],
        lengths: &[u32],
    ) -> Result<Vec<Extent>> {
        let measures = self.measures();
        let mut failed = None;
        for _ in 0..TRIES {
            let Some(taken) = writer.space.take_data(&self.store.medium, lengths) else {
                return Err(Error::Full);
            };
            let bytes = |extent: &Extent| extent.units as usize * measures.unit_bytes as usize;
            let padded = |(extent, data): (&Extent, _)| (*extent, padded(data, bytes(extent)));
            let mut written: Vec<_> = taken.iter().zip(data).map(padded).collect();
            written.sort_unstable_by_key(|(extent, _)| extent.unit);
            match self.write_row(&written) {
                Ok(()) => {
                    for (extent, data) in &written {
                        writer.runs.data(extent.unit, extent.units, data);
                        writer.since_checkpoint += data.len() as u64;
                    }
                    return Ok(taken);
                }
                Err(error) => {
                    writer.space.spoil_all(&taken);
                    failed = Some(error);
                }
            }
        }
        let error = failed.expect("a try that failed");
        self.stop(format!("a write failed at {TRIES} places: {error}"));
        Err(error.into())
    }

    /// Writes these extents, which ascend, by one request; units in between get zeros.
    fn write_row(&self, row: &[(Extent, Arc<Block>)]) -> varve_device::Result<()> {
        let measures = self.measures();
        let gap = |one: &(Extent, _), next: &(Extent, _)| {
            (next.0.unit - one.0.end()) as usize * measures.unit_bytes as usize
        };
        let gaps = || row.windows(2).map(|pair| gap(&pair[0], &pair[1]));
        let zeros = vec![0; gaps().max().unwrap_or(0)];
        let mut buffers = Vec::with_capacity(row.len());
        for ((_, data), gap) in row.iter().zip(gaps().chain([0])) {
            buffers.push(IoSlice::new(data));
            if gap > 0 {
                buffers.push(IoSlice::new(&zeros[..gap]));
            }
        }
        let at = measures.unit_byte(row[0].0.unit);
        self.store.medium.write(at, &buffers)
    }

    /// Makes a group's changes visible to readers.
    pub(super) fn adopt(&self, writer: &mut Writer, changes: Changes) -> Result<()> {
        let measures = self.measures();
        let pieces = changes.freed.keys().map(|&ino| measures.piece_of(ino));
        writer.dirty.extend(pieces);
        let (freed, images, nodes) = (changes.freed, changes.images, changes.nodes);
        self.tables.write().adopt(freed, images, nodes);
        writer.stored = writer.stored.saturating_add_signed(changes.stored);
        writer.long_xattrs = (writer.long_xattrs).saturating_add_signed(changes.long_xattrs);
        for extent in changes.retired {
            self.retire(writer, extent)?;
        }
        for extent in changes.released {
            self.release(writer, extent)?;
        }
        Ok(())
    }
}

/// Returns the owner of the data that a change has written, if it has any.
fn owner_of(change: &Change) -> Option<Owner> {
    change.place()?;
    let (fork, index) = match change {
        Change::Block { block, .. } => (Fork::Content, *block),
        Change::Xattrs { .. } => (Fork::Attributes, 0),
        Change::XattrBlock { block, .. } => (Fork::Attributes, *block),
        _ => return None,
    };
    Some(Owner::Tree(NodeId {
        ino: change.ino(),
        fork,
        height: 0,
        index,
    }))
}

/// Appends the data of an item, block by block.
fn push_blocks(item: &Item, measures: &Measures, blocks: &mut Vec<Arc<Block>>) {
    match item {
        Item::Block { data, .. } => blocks.push(Arc::clone(data)),
        Item::Xattrs { data, .. } if measures.blocks_of(data.len()) == 1 => {
            blocks.push(Arc::clone(data));
        }
        Item::Xattrs { data, .. } => {
            let parts = data.chunks(measures.block_bytes as usize);
            blocks.extend(parts.map(|part| Arc::new(part.into())));
        }
        _ => {}
    }
}

/// Returns the number of bytes of data that the host sends with a group.
fn bytes_of(group: &Group) -> u64 {
    let bytes = |item: &Item| match item {
        Item::Block { data, .. } | Item::Xattrs { data, .. } => data.len() as u64,
        _ => 0,
    };
    group.items.iter().map(bytes).sum()
}

/// Returns the data with zeros up to `bytes` bytes, which must not be less than its
/// length.
fn padded(data: &Arc<Block>, bytes: usize) -> Arc<Block> {
    debug_assert!(data.len() <= bytes, "longer than a block");
    if data.len() == bytes {
        return Arc::clone(data);
    }
    let mut padded = Block::with_room(bytes);
    padded.extend_from_slice(data);
    padded.resize(bytes);
    Arc::new(padded)
}

/// Returns the number of sectors in which `data` is stored.
fn sectors_of(data: &[u8]) -> u64 {
    (data.len() as u64).div_ceil(SECTOR)
}

/// Returns the checksum of these sectors.
fn crc_of(data: &[u8]) -> u32 {
    let length = data.len().next_multiple_of(SECTOR as usize);
    match length == data.len() {
        true => crc32c(data),
        false => {
            let mut stored = data.to_vec();
            stored.resize(length, 0);
            crc32c(&stored)
        }
    }
}

/// Returns an upper bound of the space for a group, including its inodes and index
/// nodes.
fn need_of(group: &Group, prices: &Prices, measures: &Measures) -> Need {
    let (each, fanout) = (measures.units_per_block(), measures.fanout() as u64);
    let mut kinds = Unwritten::default();
    let (mut reserved, mut short) = (0, 0);
    for item in &group.items {
        match item {
            Item::Block { data, .. } | Item::Xattrs { data, .. } => {
                let blocks = measures.blocks_of(data.len());
                // All blocks but the last are whole.
                let rest = data.len() as u64 % u64::from(measures.block_bytes);
                let units = measures.units_for(rest.div_ceil(SECTOR));
                short += u64::from(if rest > 0 && units < each { units } else { 0 });
                kinds.blocks += 1;
                kinds.further += blocks.saturating_sub(1);
            }
            Item::Truncated { .. } | Item::Punched { .. } => kinds.ranges += 1,
            Item::Reserved {
                from_block,
                to_block,
                ..
            } => {
                kinds.ranges += 1;
                reserved += (to_block - from_block).div_ceil(fanout) * 2;
            }
            Item::Inode(_) => kinds.images += 1,
            // Snapshots, and therefore spilled blocks, do not exist in this layout.
            Item::Freed { .. } | Item::Placed { .. } => {}
        }
    }
    Need {
        blocks: prices.of_unwritten(kinds) + reserved + FEW,
        units: prices.units_of(kinds) + reserved + short,
    }
}
