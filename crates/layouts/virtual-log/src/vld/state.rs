//! The map, free space and log of an open volume, and its transactions.

use std::collections::BTreeSet;
use std::io::IoSlice;

use varve_device::{DeviceError, Operation, Result};
use zerocopy::IntoBytes;

use super::held::Held;
use super::recovery::Recovered;
use super::statistics::VldStatistics;
use super::{Options, Vld};
use crate::eager::{Avoid, Eager, Want};
use crate::error::VldError;
use crate::format::{Entry, Layout, MapRecord, TailRecord};
use crate::free_space::FreeSpace;
use crate::map::Map;
use crate::medium::Medium;
use crate::virtual_log::{Transaction, VirtualLog};

/// Number of places tried for one map record, or one block.
pub(super) const TRIES: usize = 3;

/// The state that the lock protects.
#[derive(Debug)]
pub(super) struct State {
    pub map: Map,
    pub free: FreeSpace,
    pub log: VirtualLog,
    pub eager: Eager,
    /// The sizes of the volume.
    pub layout: Layout,
    /// For each place the logical block there, plus 1; 0 for none.
    pub owners: Vec<u32>,
    /// Number of logical blocks that have a place.
    pub mapped: u64,
    /// Places in use that extend over two blocks.
    pub astride: BTreeSet<u32>,
    /// Places astride that could not be read when they were to be moved.
    pub unreadable: BTreeSet<u32>,
    /// Pieces changed since the last commit.
    pub dirty: BTreeSet<u32>,
    /// Logical blocks written since the last commit.
    pub fresh: BTreeSet<u32>,
    /// Places that the durable map uses and the present one does not.
    pub replaced: Vec<u32>,
    /// Serial and last record of the two checkpoints; `None` if damaged.
    pub checkpoints: [Option<(u64, u64)>; 2],
    /// The reason why nothing is written any more, if there is one.
    pub stopped: Option<String>,
    pub counts: VldStatistics,
    pub compacting: Option<super::compact::Target>,
    pub random: u64,
    /// True if short runs are buffered.
    pub holds: bool,
    pub held: Held,
}

impl State {
    /// Creates the state of a recovered volume. Unless it is read-only, the records
    /// that recovery discarded are destroyed and the tail record is cleared, durably,
    /// before anything else can be written.
    pub fn from_recovered<M: Medium>(
        medium: &M,
        layout: Layout,
        options: Options,
        recovered: Recovered,
    ) -> std::result::Result<State, VldError> {
        let blocks = layout.physical_blocks as u32;
        let regions = medium.regions(blocks, layout.block_bytes);
        let unit_sectors = u64::from(layout.unit_bytes) / varve_device::SECTOR;
        let mut free = FreeSpace::new(regions, layout.units_per_block(), unit_sectors);
        let damaged = |what: String| VldError::Damaged {
            device: medium.name(),
            what,
        };
        for block in (0..layout.eager_start()).chain([layout.last_block()]) {
            free.take_block(block as u32);
        }
        for unit in recovered.log.units() {
            let (block, bit) = free.place(unit);
            if !layout.is_eager(u64::from(block)) || free.mask(block) & bit != 0 {
                return Err(damaged(format!("unit {unit} cannot hold a map record")));
            }
            free.take(block, bit);
        }
        let mut owners = vec![0; layout.places() as usize];
        let (mut mapped, mut astride) = (0, BTreeSet::new());
        for (logical, Entry { place, .. }) in recovered.map.mapped() {
            let (unit, units) = (layout.place_unit(place), layout.units_per_block());
            if !free.are_free(unit, units) {
                return Err(damaged(format!(
                    "place {place} is claimed by logical block {logical} and by something else"
                )));
            }
            free.take_units(unit, units);
            owners[place as usize] = logical + 1;
            mapped += 1;
            astride.extend(layout.is_astride(place).then_some(place));
        }
        let mut state = State {
            map: recovered.map,
            free,
            log: recovered.log,
            eager: Eager::new(options.policy),
            layout,
            owners,
            mapped,
            astride,
            unreadable: BTreeSet::new(),
            dirty: BTreeSet::new(),
            fresh: BTreeSet::new(),
            replaced: Vec::new(),
            checkpoints: recovered.checkpoints,
            stopped: None,
            counts: VldStatistics::default(),
            compacting: None,
            random: options.seed,
            holds: medium.head().is_none() && layout.unit_bytes == layout.block_bytes,
            held: Held::default(),
        };
        if !options.read_only {
            // An unreadable unit that is not needed may hide a record. If it cannot be
            // destroyed, its number is nevertheless not assigned again.
            let zeros = vec![0; layout.unit_bytes as usize];
            for &unit in &recovered.unreadable {
                let (block, bit) = state.free.place(unit);
                if state.free.mask(block) & bit == 0 {
                    let at = layout.unit_byte(unit);
                    medium.write(at, &[IoSlice::new(&zeros)]).ok();
                }
            }
            settle(medium, &layout, &recovered.discarded, recovered.checkpoints)?;
            state.give_back_records();
        }
        Ok(state)
    }

    pub fn statistics(&self) -> VldStatistics {
        VldStatistics {
            blocks_mapped: self.mapped,
            blocks_astride: self.astride.iter().filter(|&&at| self.is_owned(at)).count() as u64,
            blocks_free: self.free.free_blocks(),
            tracks_empty: self.free.empty_regions().len() as u64,
            records_waiting: self.log.waiting() as u64,
            ..self.counts
        }
    }

    /// Returns the first unit of the nearest space, without taking it.
    pub fn choose<M: Medium>(&mut self, medium: &M, want: Want, avoid: Avoid) -> Option<u64> {
        let head = medium.head();
        self.eager.choose(&self.free, head.as_ref(), want, avoid)
    }

    /// Records that a logical block has the new entry `entry`, whose space is taken.
    pub fn remap(&mut self, logical: u32, entry: Entry) {
        let old = self.map.set(logical, entry);
        if old == entry {
            return;
        }
        self.dirty.insert(self.map.piece_of(logical));
        let committed = !self.fresh.remove(&logical);
        if entry.place != 0 {
            self.fresh.insert(logical);
            self.owners[entry.place as usize] = logical + 1;
            self.mapped += 1;
        }
        if old.place != 0 {
            self.owners[old.place as usize] = 0;
            self.mapped -= 1;
            match committed {
                // The durable map still needs the old place.
                true => self.replaced.push(old.place),
                false => self.give_place(old.place),
            }
        }
    }

    /// Returns true if a place has data that is needed.
    pub fn is_owned(&self, place: u32) -> bool {
        self.owners[place as usize] > 0
    }

    /// Takes the space of a block at a place.
    pub fn take_place(&mut self, place: u32) {
        let unit = self.layout.place_unit(place);
        self.free.take_units(unit, self.layout.units_per_block());
        if self.layout.is_astride(place) {
            self.astride.insert(place);
        }
    }

    /// Releases the space of a block at a place.
    pub fn give_place(&mut self, place: u32) {
        let unit = self.layout.place_unit(place);
        self.free.give_units(unit, self.layout.units_per_block());
        self.astride.remove(&place);
        self.unreadable.remove(&place);
    }

    /// Returns true if the space of a block at a place is free.
    pub fn is_free(&self, place: u32) -> bool {
        let unit = self.layout.place_unit(place);
        self.free.are_free(unit, self.layout.units_per_block())
    }

    /// Returns the number of blocks that a commit would settle.
    pub fn uncommitted(&self) -> u64 {
        (self.fresh.len() + self.replaced.len()) as u64
    }

    /// Makes the present map durable: one record for each piece changed, and one flush.
    /// The replaced places are free afterwards.
    pub fn commit<M: Medium>(&mut self, vld: &Vld<M>) -> Result<()> {
        if self.dirty.is_empty() {
            return Ok(());
        }
        let avoid = Avoid {
            region: self.compacting.map(|target| target.region),
            empty: false,
            ..Avoid::default()
        };
        let pieces: Vec<u32> = std::mem::take(&mut self.dirty).into_iter().collect();
        let transaction = self.log.begin(pieces.len() as u32);
        for &piece in &pieces {
            if let Err(error) = self.write_record(vld, piece, transaction, avoid) {
                // Half a transaction is on the medium, and does not count.
                self.stopped = Some(format!("a map record could not be written: {error}"));
                return Err(error);
            }
        }
        // A record written after data was moved includes that move, because none was
        // written before.
        self.dirty.clear();
        assert!(
            self.held.is_empty(),
            "a commit writes what it makes durable"
        );
        if let Err(error) = vld.medium.flush() {
            self.stopped = Some(format!("a flush failed: {error}"));
            return Err(error);
        }
        self.counts.commits += 1;
        self.fresh.clear();
        for place in std::mem::take(&mut self.replaced) {
            self.give_place(place);
        }
        self.give_back_records();
        Ok(())
    }

    fn give_back_records(&mut self) {
        for unit in self.log.reclaim() {
            self.free.give_unit(unit);
        }
    }

    /// Writes one record of a transaction near the head, or elsewhere if that fails.
    fn write_record<M: Medium>(
        &mut self,
        vld: &Vld<M>,
        piece: u32,
        transaction: Transaction,
        avoid: Avoid,
    ) -> Result<()> {
        let layout = self.layout;
        let mut unit = match self.take_beside_held(avoid) {
            Some(unit) => unit,
            None => self.take_unit(vld, avoid)?,
        };
        // The number stays the same at whichever place the record is written.
        let appended = self.log.append(piece, unit);
        for attempt in 1.. {
            let at = layout.unit_byte(unit);
            if self.held.covers(&layout, at) {
                // The buffer is written before the record is encoded, because this may
                // change the map.
                self.release(vld)?;
            }
            let stored = (piece, &appended);
            let header = self.log.header(layout.volume, transaction, stored, unit);
            let entries = self.map.piece(piece, &self.fresh);
            let bytes = MapRecord { header, entries }.encode(layout.unit_bytes);
            let written = match self.held.is_empty() {
                true => vld.medium.write(at, &[IoSlice::new(&bytes)]),
                false => self.release_with(vld, unit, &bytes),
            };
            match written {
                Ok(()) => break,
                Err(error) if attempt == TRIES || self.stopped.is_some() => return Err(error),
                // The place that failed stays taken until the next opening.
                Err(_) => unit = self.take_unit(vld, avoid)?,
            }
            self.counts.records_retried += 1;
            self.log.moved(appended.seq, unit);
        }
        self.counts.records_written += 1;
        Ok(())
    }

    fn take_unit<M: Medium>(&mut self, vld: &Vld<M>, avoid: Avoid) -> Result<u64> {
        let unit = self.choose(&vld.medium, Want::Unit, avoid);
        let unit = unit.or_else(|| self.choose(&vld.medium, Want::Unit, Avoid::default()));
        let unit = unit.ok_or_else(|| full(vld, Operation::Flush, 0, 0))?;
        self.free.take_unit(unit);
        Ok(unit)
    }

    /// Writes the tail record with the place of the root.
    pub fn write_tail<M: Medium>(&mut self, vld: &Vld<M>) -> Result<()> {
        let layout = self.layout;
        let record = self.log.tail_record(layout.volume);
        let mut block = vec![0; layout.block_bytes as usize];
        block[..size_of::<TailRecord>()].copy_from_slice(record.as_bytes());
        let at = layout.block_byte(layout.tail_block());
        vld.medium.write(at, &[IoSlice::new(&block)])?;
        vld.medium.flush()
    }
}

/// Creates the error of a full medium, which the layout's reserve should prevent.
pub(super) fn full<M: Medium>(
    vld: &Vld<M>,
    operation: Operation,
    offset: u64,
    length: u64,
) -> DeviceError {
    let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
    DeviceError::new(vld, operation, offset, length, source)
}

/// Makes recovery's decisions durable. The records that it discarded are destroyed,
/// because another recovery could accept them. So is the header of a checkpoint whose
/// map is incomplete, because a torn write could complete it. The tail record is
/// cleared, because it will soon be out of date. The records on which recovery relied
/// may still be in the medium's cache, if only the server process died: the flush is
/// for them as well.
fn settle<M: Medium>(
    medium: &M,
    layout: &Layout,
    discarded: &[u64],
    checkpoints: [Option<(u64, u64)>; 2],
) -> Result<()> {
    let zeros = vec![0; layout.block_bytes as usize];
    let unit = &zeros[..layout.unit_bytes as usize];
    for &at in discarded {
        medium.write(layout.unit_byte(at), &[IoSlice::new(unit)])?;
    }
    for region in (0..2).filter(|&region| checkpoints[region].is_none()) {
        let head = layout.block_byte(layout.checkpoint_block(region));
        // If no attempt succeeds, the other checkpoint suffices, and this region takes
        // no checkpoint before its header can be written.
        let write = |_| medium.write(head, &[IoSlice::new(&zeros)]);
        (0..TRIES).map(write).find(Result::is_ok);
    }
    let tail = layout.block_byte(layout.tail_block());
    medium.write(tail, &[IoSlice::new(&zeros)])?;
    medium.flush()
}
