//! Both forms of block accounting, and the reserve (thesis §6.2.2).
//!
//! The first form asks whether everything on the volume fits: the price of
//! what lives, metadata included, against the segments outside the reserve.
//! It is exact after each checkpoint and pessimistic in between, so a refusal
//! takes a checkpoint first. The second form asks whether the *clean* segments
//! can take what waits in memory; if not, the caller helps to clean.

use crate::cleaner::Urgency;
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

/// Whether everything on the volume fits into its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Yes,
    /// Not by the estimate of what has not been folded; a checkpoint will tell.
    PerhapsFolded,
    No,
}

impl Lfs {
    /// Bytes of a segment that can be counted on: what is lost to a superblock
    /// copy, the tail and padding is left out.
    pub(crate) fn dependable_bytes(&self) -> u64 {
        u64::from(self.geometry.segment_bytes) - 4 * u64::from(self.geometry.write_unit)
    }

    fn capacity(&self) -> u64 {
        let segments = self.geometry.segment_count - self.geometry.reserve_segments;
        u64::from(segments) * self.dependable_bytes()
    }

    /// The price of what lives, without metadata.
    fn price(&self, usage: Usage) -> u64 {
        let inode = u64::from(self.geometry.inode_bytes) + INODE_OVERHEAD;
        let sectors = usage.sectors.saturating_mul(512);
        let blocks = usage.blocks.saturating_mul(BLOCK_OVERHEAD);
        sectors
            .saturating_add(blocks)
            .saturating_add(usage.inodes.saturating_mul(inode))
    }

    /// Metadata bytes: as the last checkpoint counted them, and an estimate
    /// for what has changed since.
    fn metadata(&self) -> (u64, u64) {
        let committed = self.committed.read();
        let frozen = committed.frozen.as_ref().map_or(0, |frozen| frozen.entries);
        let pending = (committed.live.entries + frozen) * PENDING_ENTRY;
        (committed.base.metadata_bytes, pending)
    }

    fn fits(&self, total: Usage) -> Fit {
        let (counted, pending) = self.metadata();
        let folded = self.price(total).saturating_add(counted);
        if folded.saturating_add(pending) <= self.capacity() {
            return Fit::Yes;
        }
        // Only an index that lost blocks can become smaller.
        let committed = self.committed.read();
        let frozen = committed.frozen.as_ref().is_some_and(|f| f.removes);
        if folded <= self.capacity() || committed.live.removes || frozen {
            Fit::PerhapsFolded
        } else {
            Fit::No
        }
    }

    /// Bytes of the usage table and the index above it, written anew by every
    /// checkpoint at worst.
    fn table_bytes(&self) -> u64 {
        let table = u64::from(self.geometry.segment_count) * 32;
        table + (table / (4096 * 64) + 8) * 4096
    }

    /// Segments that folding what has changed so far may fill.
    fn fold_segments(&self) -> u64 {
        let committed = self.committed.read();
        let frozen = committed
            .frozen
            .as_ref()
            .map_or(0, |frozen| frozen.fold_bytes());
        let bytes = committed.live.fold_bytes() + frozen + self.table_bytes();
        bytes.div_ceil(self.dependable_bytes()) + 1
    }

    /// True if a checkpoint taken now is sure to find room.
    pub(crate) fn checkpoint_fits(&self) -> bool {
        // Not in one expression: the lock of the committed state comes first.
        let clean = u64::from(self.segments.lock().clean_count());
        clean + 1 >= self.fold_segments()
    }

    /// True if what a checkpoint may write has begun to eat into the clean
    /// segments that users could fill.
    pub(crate) fn checkpoint_presses(&self) -> bool {
        let fold = self.fold_segments();
        let clean = u64::from(self.segments.lock().clean_count());
        fold > 3 && clean < self.floor() + fold
    }

    /// The reserve without the cleaner's slack: segments users may not fill.
    fn floor(&self) -> u64 {
        let reserve = u64::from(self.geometry.reserve_segments);
        reserve
            - crate::mkfs::slack_segments(u64::from(self.geometry.segment_count)).min(reserve / 2)
    }

    pub(crate) fn make_room(&self, total: Usage, dirty_bytes: u64, purpose: Purpose) -> Result<()> {
        if self.delta_overdue() && self.checkpoint_fits() {
            self.take_checkpoint(false)?;
        }
        if purpose == Purpose::Grow {
            // A refusal costs nothing, however often it is asked for.
            if self.fits(total) == Fit::PerhapsFolded && self.checkpoint_fits() {
                self.take_checkpoint(false)?;
            }
            if self.fits(total) != Fit::Yes {
                return Err(Error::OutOfSegments);
            }
        }
        if purpose == Purpose::Shrink && self.has_room(dirty_bytes, purpose) {
            // Not yet: but clean up in good time, once there is enough to gain.
            let written = self.committed.read().live.log_bytes;
            if written >= u64::from(self.geometry.segment_bytes)
                && !self.has_room(dirty_bytes, Purpose::Grow)
            {
                self.gain_segments(Urgency::Waiting)?;
            }
            return Ok(());
        }
        let mut idle = 0;
        for _ in 0..MAX_ROUNDS {
            if self.has_room(dirty_bytes, purpose) {
                return Ok(());
            }
            // A round may only prepare the next one's gain: copies and nodes
            // displaced now come back two checkpoints later.
            let (gained, cleaned) = self.gain_segments(Urgency::Waiting)?;
            idle = if gained { 0 } else { idle + 1 };
            if idle > 3 || (idle > 1 && cleaned == 0) {
                break;
            }
        }
        if self.has_room(dirty_bytes, purpose) {
            Ok(())
        } else {
            Err(Error::OutOfSegments)
        }
    }

    /// True if the cleaner would have to run for `dirty_bytes` that may well
    /// need less: more than two segments.
    pub(crate) fn is_short_of(&self, dirty_bytes: u64) -> bool {
        dirty_bytes > 2 * u64::from(self.geometry.segment_bytes)
            && !self.has_room(dirty_bytes, Purpose::Grow)
    }

    /// True if clean segments can take `dirty_bytes`, what folding them later
    /// may write, and what folding everything so far may write, and still
    /// leave what the purpose must leave.
    fn has_room(&self, dirty_bytes: u64, purpose: Purpose) -> bool {
        let clean = u64::from(self.segments.lock().clean_count());
        let fold = self.fold_segments();
        let floor = match purpose {
            Purpose::Grow => self.floor().max(4 + fold),
            Purpose::Shrink => 2 + fold,
        };
        let wanted = (dirty_bytes * 2 + dirty_bytes / 4).div_ceil(self.dependable_bytes());
        clean >= floor + wanted
    }

    /// Bytes the cleaner may append now: moving a block may cost a node in the
    /// next fold, and the fold of what is there already must fit.
    pub(crate) fn cleaner_budget(&self) -> u64 {
        let clean = u64::from(self.segments.lock().clean_count());
        let free = clean.saturating_sub(self.fold_segments());
        // One segment at least, if that and its fold surely fit.
        let least = if free >= 2 {
            self.dependable_bytes()
        } else {
            0
        };
        (free * self.dependable_bytes() / 2).max(least)
    }

    pub(crate) fn answer_statfs(&self, total: Usage) -> StatFs {
        let block = u64::from(self.geometry.block_bytes);
        let (counted, pending) = self.metadata();
        let used = self
            .price(total)
            .saturating_add(counted + pending.min(counted));
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
