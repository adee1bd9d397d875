//! Reading stored blocks: retries and checksums.
//!
//! Every byte that is returned has matched the checksum of its pointer, except for
//! [`Reader::read_uncached`], whose callers check. Bytes that are still being written are
//! served from the segment writer's buffers, so a reader never waits for a write.

mod ahead;
mod blocks;
mod metadata;
mod patches;
mod plugged;
mod scattered;
mod source;
mod tree;
mod windows;

pub use tree::Tree;

use crate::durability::Durability;
use crate::error::Result;
use crate::failures::{FailureKind, FailureOutcome};
use crate::format::{Pointer, SECTOR, crc32c};
use crate::geometry::Geometry;
use crate::newest::{Newest, PerSegment};
use crate::statistics::Counters;
use ahead::Fetch;
pub use metadata::Obsolete;
use metadata::{ByBytes, LastPage, Meta, MetaKey};
use patches::Patches;
use plugged::Plugged;
use source::DeviceSource;
pub use source::ReadCause;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use varve_device::{Device, Workers};
use varve_fs::caches::{Cache, MOSTLY_HOT, cache};
use varve_fs::planted::{self, Planted};
use windows::Windows;

/// Reads stored blocks of one volume.
pub struct Reader {
    source: Arc<DeviceSource>,
    pub(crate) geometry: Arc<Newest<Geometry>>,
    meta: Cache<MetaKey, Meta, ByBytes>,
    last_page: LastPage,
    windows: Arc<Windows>,
    ahead: Workers<Fetch>,
    durability: Arc<Durability>,
    counters: Arc<Counters>,
    patches: Patches,
    /// Incarnation under which each segment was opened since the mount; 0 if it was not.
    opened: PerSegment,
    plugged: Plugged,
}

impl Reader {
    /// A reader that caches at most `cache_bytes` of decoded metadata.
    pub fn new(
        device: Arc<dyn Device>,
        geometry: Geometry,
        cache_bytes: u64,
        durability: Arc<Durability>,
        counters: Arc<Counters>,
    ) -> Self {
        let geometry = Arc::new(Newest::new(geometry));
        let source = DeviceSource::new(device, Arc::clone(&geometry), Arc::clone(&counters));
        let source = Arc::new(source);
        let windows = Arc::new(Windows::default());
        let entries = (cache_bytes / 4096) as usize + 16;
        let meta = cache(entries, cache_bytes, MOSTLY_HOT, ByBytes);
        Reader {
            ahead: ahead::workers(&source, 0),
            source,
            geometry,
            meta,
            last_page: LastPage::default(),
            windows,
            durability,
            counters,
            patches: Patches::default(),
            opened: PerSegment::none(),
            plugged: Plugged::default(),
        }
    }

    /// Starts up to `threads` threads that read ahead.
    pub fn reading_ahead(mut self, threads: usize) -> Self {
        self.ahead = ahead::workers(&self.source, threads);
        self
    }

    /// A reader of a volume that is not written meanwhile.
    pub fn offline(device: Arc<dyn Device>, geometry: Geometry, cache_bytes: u64) -> Self {
        let durability = Arc::new(Durability::default());
        let counters = Arc::new(Counters::default());
        Reader::new(device, geometry, cache_bytes, durability, counters)
    }

    /// Reads bytes from the device, for recovery and fsck.
    ///
    /// # Errors
    /// If the range is outside the segments or the device fails.
    pub fn read_uncached(&self, sector: u64, bytes: &mut [u8]) -> Result<()> {
        self.read_for(ReadCause::Recovery, sector, bytes)
    }

    /// Reads bytes from the device, counted under `cause`.
    ///
    /// # Errors
    /// If the range is outside the segments or the device fails.
    pub fn read_for(&self, cause: ReadCause, sector: u64, bytes: &mut [u8]) -> Result<()> {
        let sectors = (bytes.len() as u64).div_ceil(SECTOR);
        if self.durability.serve(sector, bytes) {
            return Ok(());
        }
        if (sector * SECTOR).is_multiple_of(self.source.align)
            && (bytes.len() as u64).is_multiple_of(self.source.align)
        {
            return self.source.read(cause, sector, bytes);
        }
        let (buffer, range) = self.source.read_aligned(cause, sector, sectors)?;
        bytes.copy_from_slice(&buffer[range][..bytes.len()]);
        Ok(())
    }

    /// As [`Reader::read_for`], from several places, given by their first sector; in
    /// parallel where the device gains from it.
    ///
    /// # Errors
    /// The first one's; the others have been read.
    pub fn read_many_for(&self, cause: ReadCause, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        let whole = |n: u64| n.is_multiple_of(self.source.align);
        let mut alone = Vec::new();
        let mut together: Vec<(u64, &mut [u8])> = Vec::new();
        for (sector, bytes) in reads {
            let bytes = &mut **bytes;
            if self.durability.serve(*sector, bytes) {
                continue;
            }
            match whole(*sector * SECTOR) && whole(bytes.len() as u64) {
                true => together.push((*sector, bytes)),
                false => alone.push((*sector, bytes)),
            }
        }
        if self.source.read_many(cause, &mut together).is_err() {
            // Reading each one separately shows which of them fails.
            alone.append(&mut together);
        }
        let read = |(sector, bytes): (u64, &mut [u8])| self.read_for(cause, sector, bytes);
        alone.into_iter().map(read).fold(Ok(()), Result::and)
    }

    /// Makes the reader track segments that are opened while it reads.
    pub fn follow_openings(self) -> Self {
        self.opened.add(self.geometry.segment_count);
        self
    }

    /// Applies the geometry of a volume that has grown. No pointer to the new part exists
    /// yet.
    pub(crate) fn grow(&self, geometry: Geometry) {
        if self.opened.is_kept() {
            let before = self.geometry.segment_count;
            self.opened.add(geometry.segment_count - before);
        }
        self.geometry.put(geometry);
    }

    /// Notes that a segment was opened under this incarnation, which invalidates its
    /// earlier contents.
    pub fn opened(&self, segment: u32, incarnation: u32) {
        if let Some(opened) = self.opened.get(segment) {
            opened.store(incarnation, Release);
        }
        self.forget_segment(segment);
    }

    /// True if the pointer was read before its segment was opened again, or its place
    /// overwritten: a newer copy exists, and nothing is damaged.
    pub(crate) fn is_stale(&self, pointer: &Pointer) -> bool {
        let segment = self.geometry.segment_of(pointer.sector());
        let opened = segment.and_then(|segment| self.opened.get(segment));
        let opened = opened.map_or(0, |opened| opened.load(Acquire));
        opened != 0 && opened != pointer.incarnation() || self.plugged.covers(pointer)
    }

    /// Notes that partial `serial` is about to write into these holes of a segment.
    pub fn plugs(&self, (segment, incarnation): (u32, u32), sectors: &[u64], serial: u64) {
        let length = u64::from(self.geometry.block_bytes) / SECTOR;
        self.plugged.note(sectors, length, serial, incarnation);
        self.forget_segment(segment);
    }

    /// Reads the stored sectors of a block.
    fn read_checked(
        &self,
        cause: ReadCause,
        pointer: &Pointer,
        bytes: &mut [u8],
    ) -> Result<std::result::Result<(), u32>> {
        let (sector, crc) = (pointer.sector(), pointer.crc());
        if self.durability.serve(sector, bytes) && crc32c(bytes) == crc {
            return Ok(Ok(()));
        }
        if self.take_from_windows(sector, bytes) == bytes.len() && crc32c(bytes) == crc {
            self.counters.window_hits.fetch_add(1, Relaxed);
            return Ok(Ok(()));
        }
        self.miss(cause, sector, bytes)?;
        if planted::is(Planted::UncheckedRead) {
            return Ok(Ok(()));
        }
        let mut found = crc32c(bytes);
        if found != crc && !self.is_stale(pointer) {
            // The first answer may be a stale window or a transient fault.
            self.counters.checksum_retries.fetch_add(1, Relaxed);
            let first = found;
            self.read_for(cause, sector, bytes)?;
            found = crc32c(bytes);
            self.tell_mismatch(sector, bytes.len(), crc, first, found);
        }
        Ok(if found == crc { Ok(()) } else { Err(found) })
    }

    /// Counts and logs a checksum that was `first` and, read again, `found`.
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
        self.forget_page();
        self.windows.clear();
    }
}
