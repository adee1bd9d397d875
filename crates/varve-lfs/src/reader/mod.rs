//! Reading stored blocks: retries and checksums.
//!
//! Every byte that leaves here has matched the checksum of the pointer that
//! led to it, but for [`Reader::read_uncached`], whose callers check. Bytes that are still on their way to the device are served from
//! the segment writer's buffers, so a reader never waits for a write.

mod blocks;
mod metadata;
mod patches;
mod windows;

use crate::durability::Durability;
use crate::error::Result;
use crate::failures::{FailureKind, FailureOutcome};
use crate::format::{SECTOR, crc32c};
use crate::geometry::Geometry;
use crate::locks::assert_may_wait;
use crate::statistics::Counters;
use metadata::{ByBytes, Meta, MetaKey};
use patches::Patches;
use quick_cache::sync::Cache;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::sync::Mutex;
use varve_device::{BufferPool, Device, PooledBuffer};
use varve_fs::planted::{self, Planted};
use windows::{WINDOW_BYTES, Windows};

/// Most bytes one request reads.
const RUN_BYTES: u64 = (1 << 20) + (64 << 10);
/// Buffers for requests that are kept for the next one.
const POOLED: usize = 8;
/// Attempts at a failing read before giving up.
const ATTEMPTS: u32 = 3;

/// Reads stored blocks of one volume.
pub struct Reader {
    device: Arc<dyn Device>,
    geometry: Geometry,
    align: u64,
    meta: Cache<MetaKey, Meta, ByBytes>,
    /// For runs, and for windows.
    pools: [Arc<BufferPool>; 2],
    windows: Mutex<Windows>,
    durability: Arc<Durability>,
    counters: Arc<Counters>,
    patches: Patches,
}

impl Reader {
    /// A reader that keeps at most `cache_bytes` of decoded metadata.
    pub fn new(
        device: Arc<dyn Device>,
        geometry: Geometry,
        cache_bytes: u64,
        durability: Arc<Durability>,
        counters: Arc<Counters>,
    ) -> Self {
        let align = u64::from(device.geometry().logical_block).max(SECTOR);
        let meta = Cache::with_weighter((cache_bytes / 4096) as usize + 16, cache_bytes, ByBytes);
        Reader {
            device,
            geometry,
            align,
            meta,
            pools: [
                BufferPool::new(RUN_BYTES as usize + 8192, POOLED),
                BufferPool::new(WINDOW_BYTES as usize + 8192, POOLED),
            ],
            windows: Mutex::default(),
            durability,
            counters,
            patches: Patches::default(),
        }
    }

    /// A reader of a volume that nobody writes meanwhile.
    pub fn offline(device: Arc<dyn Device>, geometry: Geometry, cache_bytes: u64) -> Self {
        let durability = Arc::new(Durability::default());
        let counters = Arc::new(Counters::default());
        Reader::new(device, geometry, cache_bytes, durability, counters)
    }

    /// Reads whole sectors from the device, trying again if it fails.
    fn device_read(&self, sector: u64, bytes: &mut [u8]) -> Result<()> {
        assert_may_wait();
        let mut attempt = 1;
        let mut failed = None;
        loop {
            self.counters.device_reads.fetch_add(1, Relaxed);
            self.counters
                .bytes_read
                .fetch_add(bytes.len() as u64, Relaxed);
            let read = || self.device.read(sector * SECTOR, bytes);
            let tried = self.counters.using(read);
            let place = (sector * SECTOR, bytes.len() as u64);
            let segment = self.geometry.segment_of(sector);
            let log = &self.counters.failures;
            match tried {
                Ok(()) => {
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

    /// Reads `sectors` sectors from `sector`, aligned as the device needs.
    /// The returned range holds them.
    fn read_aligned(
        &self,
        sector: u64,
        sectors: u64,
    ) -> Result<(PooledBuffer, std::ops::Range<usize>)> {
        let step = self.align / SECTOR;
        let first = sector - sector % step;
        let end = (sector + sectors).next_multiple_of(step);
        let bytes = ((end - first) * SECTOR) as usize;
        let pool = usize::from(bytes <= WINDOW_BYTES as usize + 8192);
        let mut buffer = self.pools[pool].take(bytes);
        self.device_read(first, &mut buffer)?;
        let start = ((sector - first) * SECTOR) as usize;
        Ok((buffer, start..start + (sectors * SECTOR) as usize))
    }

    /// Bytes straight from the device, for recovery, the cleaner and fsck.
    ///
    /// # Errors
    /// If the range is outside the segments or the device fails.
    pub fn read_uncached(&self, sector: u64, bytes: &mut [u8]) -> Result<()> {
        let sectors = (bytes.len() as u64).div_ceil(SECTOR);
        if self.durability.serve(sector, bytes) {
            return Ok(());
        }
        if (sector * SECTOR).is_multiple_of(self.align)
            && (bytes.len() as u64).is_multiple_of(self.align)
        {
            return self.device_read(sector, bytes);
        }
        let (buffer, range) = self.read_aligned(sector, sectors)?;
        bytes.copy_from_slice(&buffer[range][..bytes.len()]);
        Ok(())
    }

    /// Reads stored sectors that must have the checksum `crc`.
    fn read_checked(
        &self,
        sector: u64,
        bytes: &mut [u8],
        crc: u32,
    ) -> Result<std::result::Result<(), u32>> {
        if self.durability.serve(sector, bytes) && crc32c(bytes) == crc {
            return Ok(Ok(()));
        }
        if self.take_from_window(sector, bytes) && crc32c(bytes) == crc {
            self.counters.window_hits.fetch_add(1, Relaxed);
            return Ok(Ok(()));
        }
        self.miss(sector, bytes)?;
        if planted::is(Planted::UncheckedRead) {
            return Ok(Ok(()));
        }
        let mut found = crc32c(bytes);
        if found != crc {
            // The first answer may be a stale window or a transient fault.
            self.counters.checksum_retries.fetch_add(1, Relaxed);
            let first = found;
            self.read_uncached(sector, bytes)?;
            found = crc32c(bytes);
            self.tell_mismatch(sector, bytes.len(), crc, first, found);
        }
        Ok(if found == crc { Ok(()) } else { Err(found) })
    }

    /// Counts and notes a checksum that was `first` and, read again, `found`.
    pub(crate) fn tell_mismatch(
        &self,
        sector: u64,
        bytes: usize,
        want: u32,
        first: u32,
        found: u32,
    ) {
        let (counter, outcome) = if found == want {
            (&self.counters.checksums_cured, FailureOutcome::Cured)
        } else {
            (&self.counters.checksum_failures, FailureOutcome::Failed)
        };
        counter.fetch_add(1, Relaxed);
        let place = (sector * SECTOR, bytes as u64);
        let segment = self.geometry.segment_of(sector);
        let text = format!("checksum {first:#010x}, want {want:#010x}");
        let log = &self.counters.failures;
        log.note(FailureKind::Checksum, outcome, place, segment, text);
    }

    /// Drops everything that could be read again.
    pub fn forget_all(&self) {
        self.meta.clear();
        self.windows.lock().clear();
    }
}
