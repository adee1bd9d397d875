//! Both forms of block accounting, and the reserve (thesis §6.2.2).
//!
//! The first form asks whether everything on the volume fits: the price of
//! what lives, metadata included, against the segments outside the reserve.
//! It is exact after each checkpoint and pessimistic in between, so a refusal
//! takes a checkpoint first. The second form asks whether the *clean* segments
//! can take what waits in memory; if not, the caller helps to clean.

use crate::error::{Error, Result};
use crate::lfs::Lfs;
use varve_fs::{Purpose, StatFs, Usage};

/// Summary bytes charged for a block.
const BLOCK_OVERHEAD: u64 = 48;
/// Bytes charged for an inode beside its image: entry, map entry, padding.
const INODE_OVERHEAD: u64 = 80;
/// Metadata bytes assumed for a change that no checkpoint has folded yet.
const PENDING_ENTRY: u64 = 48;
/// Rounds of cleaning one caller helps with before giving up.
const MAX_ROUNDS: u32 = 256;

impl Lfs {
    /// Bytes of a segment that can be counted on: what is lost to a superblock
    /// copy, the tail and padding is left out.
    fn dependable_bytes(&self) -> u64 {
        u64::from(self.geometry.segment_bytes) - 4 * u64::from(self.geometry.write_unit)
    }

    fn capacity(&self) -> u64 {
        let segments = self.geometry.segment_count - self.geometry.reserve_segments;
        u64::from(segments) * self.dependable_bytes()
    }

    /// The price of what lives, without metadata.
    fn price(&self, usage: Usage) -> u64 {
        usage.sectors * 512
            + usage.blocks * BLOCK_OVERHEAD
            + usage.inodes * (u64::from(self.geometry.inode_bytes) + INODE_OVERHEAD)
    }

    /// Metadata bytes: as the last checkpoint counted them, and an estimate
    /// for what has changed since.
    fn metadata(&self) -> (u64, u64) {
        let committed = self.committed.read();
        let frozen = committed.frozen.as_ref().map_or(0, |frozen| frozen.entries);
        let pending = (committed.live.entries + frozen) * PENDING_ENTRY;
        (committed.base.metadata_bytes, pending)
    }

    fn fits(&self, total: Usage) -> bool {
        let (counted, pending) = self.metadata();
        self.price(total) + counted + pending <= self.capacity()
    }

    pub(crate) fn make_room(&self, total: Usage, dirty_bytes: u64, purpose: Purpose) -> Result<()> {
        if self.delta_overdue() {
            self.take_checkpoint(false)?;
        }
        if purpose == Purpose::Grow && !self.fits(total) {
            if self.metadata().1 > 0 {
                self.take_checkpoint(false)?;
            }
            if !self.fits(total) {
                return Err(Error::OutOfSegments);
            }
        }
        for round in 0..MAX_ROUNDS {
            if self.has_room(dirty_bytes, purpose) {
                return Ok(());
            }
            let progress = self.gain_segments()?;
            if !progress && round > 1 {
                break;
            }
        }
        if self.has_room(dirty_bytes, purpose) || purpose == Purpose::Shrink {
            Ok(())
        } else {
            Err(Error::OutOfSegments)
        }
    }

    /// True if clean segments can take `dirty_bytes` and leave the floor.
    fn has_room(&self, dirty_bytes: u64, purpose: Purpose) -> bool {
        let clean = u64::from(self.segments.lock().clean_count());
        let floor = match purpose {
            Purpose::Grow => u64::from(self.geometry.reserve_segments),
            Purpose::Shrink => u64::from(self.geometry.reserve_segments) / 2 + 1,
        };
        let wanted = (dirty_bytes + dirty_bytes / 16).div_ceil(self.dependable_bytes());
        clean >= floor + wanted
    }

    /// Clean segments the cleaner may fill and still leave a checkpoint's room.
    pub(crate) fn cleaner_budget(&self) -> u64 {
        let clean = u64::from(self.segments.lock().clean_count());
        let checkpoint = u64::from(self.geometry.reserve_segments).saturating_sub(4);
        clean.saturating_sub(checkpoint.min(clean / 2)) * self.dependable_bytes()
    }

    pub(crate) fn answer_statfs(&self, total: Usage) -> StatFs {
        let block = u64::from(self.geometry.block_bytes);
        let (counted, pending) = self.metadata();
        let used = self.price(total) + counted + pending.min(counted);
        let capacity = self.capacity();
        let free = capacity.saturating_sub(used);
        let per_inode = u64::from(self.geometry.inode_bytes) + INODE_OVERHEAD;
        StatFs {
            blocks: capacity / block,
            free: free / block,
            files: total.inodes,
            files_free: free / per_inode,
        }
    }
}
