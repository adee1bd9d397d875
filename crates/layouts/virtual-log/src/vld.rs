//! The virtual log disk: a device that places every write near the head.
//!
//! Invariants (`docs/spec/virtual-log.md` has each rule and what breaks without it):
//! - Reads use the map in memory. On the medium the map changes only by transactions:
//!   data first, then one map record for each piece changed, then one flush. A
//!   transaction counts when all its records and all data that it wrote are present, by
//!   checksum.
//! - Blocks that the durable map or a kept record uses are not overwritten: the space
//!   of replaced blocks is free when the transaction's flush has returned.
//! - After a failed flush, or a map record that could not be written anywhere, nothing
//!   more is written; durable data can be read.
//!
//! Locks: one, over map, free space and log. Reads share it while they read, so that no
//! block is reused meanwhile; all other operations take it exclusively.

mod checkpoint;
mod compact;
mod held;
mod realign;
mod recovery;
mod requests;
mod state;
mod statistics;

use std::io::{ErrorKind, IoSlice};

use parking_lot::RwLock;
use varve_device::{
    Device, DeviceError, Extent, Geometry, Operation, Result, check_request, total_length,
};
use varve_disk::Access;
use zerocopy::IntoBytes;

use crate::eager::Policy;
use crate::error::VldError;
use crate::format::{CheckpointHeader, FormatError, Layout};
use crate::map::Map;
use crate::medium::Medium;

pub use compact::{Compaction, Granularity};
pub use recovery::{Recovery, Source};
pub use statistics::VldStatistics;

use state::State;

/// The options of a new volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormatOptions {
    /// Size of a block, in bytes; default 4096. A multiple of the medium's physical
    /// block, at most eight of them.
    pub block_bytes: u32,
    /// Number of bytes to offer, rounded down to blocks; default all that fit.
    pub logical_bytes: Option<u64>,
    /// Identifier of the volume, which should be random.
    pub volume: u64,
    /// True if a block that is overwritten, and committed before the next one, may
    /// begin at any unit, not only at the beginning of a block of the medium, as long
    /// as there is space; see `docs/spec/virtual-log.md`. Units must be smaller than
    /// blocks. Default false.
    pub anywhere: bool,
}

/// The options with which a volume is opened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Track-switch threshold and other parameters of eager writing.
    pub policy: Policy,
    /// True if every write and discard is durable when it returns, as in a drive
    /// without a write cache. Default false: a flush makes them durable.
    pub synchronous: bool,
    /// True if nothing on the medium is changed, not even by recovery. Default false.
    pub read_only: bool,
    /// Seed of the compactor's choice of tracks; default 1.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            policy: Policy::default(),
            synchronous: false,
            read_only: false,
            seed: 1,
        }
    }
}

/// An open virtual log disk.
#[derive(Debug)]
pub struct Vld<M: Medium> {
    medium: M,
    layout: Layout,
    options: Options,
    state: RwLock<State>,
}

impl<M: Medium> Vld<M> {
    /// Makes a volume on `medium`, which loses its former content.
    ///
    /// # Errors
    /// If the sizes are impossible, the medium is too small, or it fails.
    pub fn format(medium: &M, options: FormatOptions) -> std::result::Result<Layout, VldError> {
        let geometry = medium.geometry();
        let unit_bytes = geometry.physical_block.max(geometry.logical_block);
        let logical = options
            .logical_bytes
            .map(|bytes| bytes / u64::from(options.block_bytes.max(1)));
        let layout = Layout::choose(
            options.volume,
            unit_bytes,
            options.block_bytes,
            geometry.size / u64::from(options.block_bytes.max(1)),
            logical,
            options.anywhere,
        )
        .map_err(|source| VldError::Measures {
            device: medium.name(),
            source,
        })?;
        let mut block = vec![0; options.block_bytes as usize];
        let mut put = |at: u64, bytes: &[u8]| {
            block.fill(0);
            block[..bytes.len()].copy_from_slice(bytes);
            medium.write(layout.block_byte(at), &[IoSlice::new(&block)])
        };
        // The old volume is invalid before the new one is valid.
        put(0, &[])?;
        put(layout.last_block(), &[])?;
        put(layout.tail_block(), &[])?;
        medium.flush()?;
        for region in 0..2 {
            let empty = CheckpointHeader {
                crc: 0.into(),
                magic: 0.into(),
                volume: layout.volume.into(),
                serial: (region as u64 + 1).into(),
                seq: 0.into(),
                entries: 0.into(),
                body_crc: 0.into(),
                reserved: 0.into(),
            };
            put(layout.checkpoint_block(region), empty.seal().as_bytes())?;
        }
        medium.flush()?;
        put(layout.last_block(), layout.superblock().as_bytes())?;
        put(0, layout.superblock().as_bytes())?;
        medium.flush()?;
        Ok(layout)
    }

    /// Opens the volume on `medium`, and recovers its map. Returns a report of the
    /// recovery.
    ///
    /// # Errors
    /// If there is no volume, if its map cannot be recovered completely, if the medium
    /// fails, or if it has larger physical blocks than the one on which the volume was
    /// made: such a copy can be opened read-only.
    pub fn open(medium: M, options: Options) -> std::result::Result<(Self, Recovery), VldError> {
        let (layout, recovered) = recovery::recover(&medium)?;
        let report = recovered.report;
        let (unit, physical) = (layout.unit_bytes, medium.geometry().physical_block);
        if unit < physical && !options.read_only {
            // A write would affect neighbouring units.
            let source = FormatError::Field(format!(
                "units of {unit} bytes on physical blocks of {physical}: open it read-only"
            ));
            let device = medium.name();
            return Err(VldError::Measures { device, source });
        }
        let state = State::from_recovered(&medium, layout, options, recovered)?;
        let vld = Vld {
            medium,
            layout,
            options,
            state: RwLock::new(state),
        };
        Ok((vld, report))
    }

    /// Returns the medium.
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// Returns the sizes of the volume.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the counts since the volume was opened, and its present state.
    pub fn statistics(&self) -> VldStatistics {
        self.state.read().statistics()
    }

    /// Returns the number of map records written, one of the counts of
    /// [`Vld::statistics`].
    pub fn records_written(&self) -> u64 {
        self.state.read().counts.records_written
    }

    /// Returns a copy of the map.
    pub fn map(&self) -> Map {
        self.state.read().map.clone()
    }

    /// Parks the volume: commits, and records the place of the log's tail, so that the
    /// next opening need not search for it. The volume takes no writes afterwards, not
    /// even if that record fails.
    ///
    /// # Errors
    /// If the medium fails.
    pub fn park(&self) -> Result<()> {
        let mut state = self.state.write();
        self.writable(&state, Operation::Flush, 0, 0)?;
        state.commit(self)?;
        // A tail record whose write failed may nevertheless be on the medium, now or
        // later.
        state.stopped = Some("it was parked; open it again".to_owned());
        state.write_tail(self)
    }

    /// Writes the whole map to one place and truncates the log: an opening reads the
    /// map and the records since.
    ///
    /// # Errors
    /// If the medium fails.
    pub fn checkpoint(&self) -> Result<()> {
        let mut state = self.state.write();
        self.writable(&state, Operation::Flush, 0, 0)?;
        state.checkpoint(self)
    }

    /// Refuses changes if the volume takes none.
    fn writable(
        &self,
        state: &State,
        operation: Operation,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        let reason = match (&state.stopped, self.options.read_only) {
            (Some(reason), _) => reason.clone(),
            (None, true) => "it was opened read-only".to_owned(),
            (None, false) => return Ok(()),
        };
        let source = std::io::Error::new(ErrorKind::ReadOnlyFilesystem, reason);
        Err(DeviceError::new(self, operation, offset, length, source))
    }
}

impl<M: Medium> Device for Vld<M> {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.layout.logical_blocks * u64::from(self.layout.block_bytes),
            logical_block: 512.min(self.layout.block_bytes),
            physical_block: self.layout.block_bytes,
        }
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_request(self, Operation::Read, offset, buffer.len() as u64)?;
        self.medium.command(Access::Read);
        let begun_ns = self.medium.now_ns().unwrap_or(0);
        self.state.read().read(self, offset, buffer)?;
        self.medium.deliver(begun_ns, buffer.len() as u64);
        Ok(())
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        let length = total_length(buffers);
        check_request(self, Operation::Write, offset, length)?;
        let mut state = self.state.write();
        self.writable(&state, Operation::Write, offset, length)?;
        self.medium.command(Access::Write);
        self.medium.receive(length);
        state.write(self, offset, buffers)?;
        match self.options.synchronous {
            true => state.commit(self),
            false => Ok(()),
        }
    }

    fn flush(&self) -> Result<()> {
        let mut state = self.state.write();
        if self.options.read_only {
            return Ok(());
        }
        self.writable(&state, Operation::Flush, 0, 0)?;
        state.commit(self)
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_request(self, Operation::Discard, offset, length)?;
        let mut state = self.state.write();
        self.writable(&state, Operation::Discard, offset, length)?;
        state.discard(self, offset, length)?;
        match self.options.synchronous {
            true => state.commit(self),
            false => Ok(()),
        }
    }

    /// Discards whole blocks, which then read as zeros.
    fn zero(&self, offset: u64, length: u64) -> Result<bool> {
        check_request(self, Operation::Write, offset, length)?;
        let block = u64::from(self.layout.block_bytes);
        if !offset.is_multiple_of(block) || !length.is_multiple_of(block) {
            return Ok(false);
        }
        self.discard(offset, length).map(|()| true)
    }

    /// Reports as holes the blocks that were never written, or were discarded since.
    fn extent(&self, offset: u64, length: u64) -> Result<Extent> {
        check_request(self, Operation::Read, offset, length)?;
        Ok(self.state.read().extent(offset, length))
    }

    fn name(&self) -> String {
        format!("virtual log disk on {}", self.medium.name())
    }
}

#[cfg(test)]
mod tests;
