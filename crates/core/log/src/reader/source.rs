//! Sectors from the device: aligned as it requires, and read again if it fails.

use crate::error::Result;
use crate::failures::{FailureKind, FailureOutcome};
use crate::format::SECTOR;
use crate::geometry::Geometry;
use crate::locks::assert_may_wait;
use crate::newest::Newest;
use crate::reader::windows::WINDOW_BYTES;
use crate::statistics::Counters;
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use varve_device::{BufferPool, Device, DeviceError, PooledBuffer};
use varve_fs::InodeNo;

/// Most bytes that one request reads.
pub(super) const RUN_BYTES: u64 = (1 << 20) + (64 << 10);
/// Request buffers that are kept for reuse.
const POOLED: usize = 8;
/// Attempts at a failing read before it is given up.
const ATTEMPTS: u32 = 3;

/// The reason for which the device is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadCause {
    /// Blocks of files and directories.
    Data,
    /// Index nodes, inodes, attributes, the ifile.
    Metadata,
    /// Segments for the cleaner.
    Cleaner,
    /// Segments for coalescing.
    Coalescing,
    /// The log itself, for recovery and checks.
    Recovery,
}

impl ReadCause {
    /// The cause for a block that belongs to `ino`.
    pub(super) fn of(ino: InodeNo) -> Self {
        match ino {
            InodeNo::IFILE => ReadCause::Metadata,
            _ => ReadCause::Data,
        }
    }

    fn counter(self, counters: &Counters) -> &AtomicU64 {
        match self {
            ReadCause::Data => &counters.data_read_bytes,
            ReadCause::Metadata => &counters.metadata_read_bytes,
            ReadCause::Cleaner => &counters.cleaner_read_bytes,
            ReadCause::Coalescing => &counters.coalesced_read_bytes,
            ReadCause::Recovery => &counters.recovery_read_bytes,
        }
    }
}

/// The device, with buffers and counters for reading it.
pub(super) struct DeviceSource {
    device: Arc<dyn Device>,
    geometry: Arc<Newest<Geometry>>,
    /// Alignment of requests, in bytes.
    pub align: u64,
    /// Buffers for runs, and for windows.
    pools: [Arc<BufferPool>; 2],
    pub counters: Arc<Counters>,
}

impl DeviceSource {
    pub fn new(
        device: Arc<dyn Device>,
        geometry: Arc<Newest<Geometry>>,
        counters: Arc<Counters>,
    ) -> Self {
        let align = u64::from(device.geometry().logical_block).max(SECTOR);
        DeviceSource {
            device,
            geometry,
            align,
            pools: [
                BufferPool::new(RUN_BYTES as usize + 8192, POOLED),
                BufferPool::new(WINDOW_BYTES as usize + 8192, POOLED),
            ],
            counters,
        }
    }

    /// Reads whole sectors from the device, again if it fails.
    pub fn read(&self, cause: ReadCause, sector: u64, bytes: &mut [u8]) -> Result<()> {
        self.patiently(cause, sector, bytes.len() as u64, |offset| {
            self.device.read(offset, bytes)
        })
    }

    /// Reads adjacent whole sectors into several buffers, again if it fails. All are
    /// aligned as the device requires.
    pub fn read_vectored(
        &self,
        cause: ReadCause,
        sector: u64,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Result<()> {
        let bytes = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        self.patiently(cause, sector, bytes, |offset| {
            self.device.read_vectored(offset, buffers)
        })
    }

    /// Calls `read` for `length` bytes at an offset, a few times if it fails.
    fn patiently(
        &self,
        cause: ReadCause,
        sector: u64,
        length: u64,
        mut read: impl FnMut(u64) -> std::result::Result<(), DeviceError>,
    ) -> Result<()> {
        assert_may_wait();
        let mut attempt = 1;
        let mut failed = None;
        loop {
            self.counters.device_reads.fetch_add(1, Relaxed);
            let tried = self.counters.moving(length, || read(sector * SECTOR));
            let place = (sector * SECTOR, length);
            let segment = self.geometry.segment_of(sector);
            let log = &self.counters.failures;
            match tried {
                Ok(()) => {
                    self.counters.bytes_read.fetch_add(length, Relaxed);
                    cause.counter(&self.counters).fetch_add(length, Relaxed);
                    if let Some(error) = failed {
                        self.counters.reads_cured.fetch_add(1, Relaxed);
                        let cured = FailureOutcome::Cured;
                        log.note(FailureKind::Read, cured, place, segment, error);
                    }
                    return Ok(());
                }
                Err(error) if attempt == ATTEMPTS => {
                    self.counters.reads_failed.fetch_add(1, Relaxed);
                    let lost = FailureOutcome::Failed;
                    log.note(FailureKind::Read, lost, place, segment, &error.source);
                    return Err(error.into());
                }
                Err(error) => {
                    self.counters.read_retries.fetch_add(1, Relaxed);
                    tracing::warn!(%error, attempt, "read failed, trying again");
                    failed = Some(error.source);
                    attempt += 1;
                }
            }
        }
    }

    /// Reads whole sectors from several places, given by their first sector, in parallel
    /// where the device gains from it. It makes one attempt: if it fails, the caller
    /// reads each by itself.
    pub fn read_many(&self, cause: ReadCause, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        assert_may_wait();
        let mut bytes = 0;
        let mut places = Vec::with_capacity(reads.len());
        for (sector, into) in &mut *reads {
            bytes += into.len() as u64;
            places.push((*sector * SECTOR, &mut **into));
        }
        self.counters
            .device_reads
            .fetch_add(places.len() as u64, Relaxed);
        if let Err(error) = self.counters.using(|| self.device.read_many(&mut places)) {
            self.counters.read_retries.fetch_add(1, Relaxed);
            tracing::warn!(%error, "one of several reads failed, each is tried by itself");
            return Err(error.into());
        }
        self.counters.bytes_read.fetch_add(bytes, Relaxed);
        cause.counter(&self.counters).fetch_add(bytes, Relaxed);
        Ok(())
    }

    /// Reads sectors that were not asked for: once, and a failure has no consequence.
    /// Returns `None`, too, if alignment would require more sectors.
    pub fn read_unasked(
        &self,
        cause: ReadCause,
        sector: u64,
        sectors: u64,
    ) -> Option<PooledBuffer> {
        let (offset, length) = (sector * SECTOR, sectors * SECTOR);
        if !offset.is_multiple_of(self.align) || !length.is_multiple_of(self.align) {
            return None;
        }
        let mut buffer = self.pools[1].take(length as usize);
        let read = || self.device.read(offset, &mut buffer);
        self.counters.device_reads.fetch_add(1, Relaxed);
        self.counters.moving(length, read).ok()?;
        self.counters.bytes_read.fetch_add(length, Relaxed);
        cause.counter(&self.counters).fetch_add(length, Relaxed);
        Some(buffer)
    }

    /// Reads `sectors` sectors from `sector`, aligned as the device requires. The
    /// returned range of the buffer contains them.
    pub fn read_aligned(
        &self,
        cause: ReadCause,
        sector: u64,
        sectors: u64,
    ) -> Result<(PooledBuffer, Range<usize>)> {
        let step = self.align / SECTOR;
        let first = sector - sector % step;
        let end = (sector + sectors).next_multiple_of(step);
        let bytes = ((end - first) * SECTOR) as usize;
        let pool = usize::from(bytes <= WINDOW_BYTES as usize + 8192);
        let mut buffer = self.pools[pool].take(bytes);
        self.read(cause, first, &mut buffer)?;
        let start = ((sector - first) * SECTOR) as usize;
        Ok((buffer, start..start + (sectors * SECTOR) as usize))
    }
}
