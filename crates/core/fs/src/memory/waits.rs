//! Counts of the changes that wait in memory to be appended.
//!
//! Write-back and callers are bounded by the bytes. The numbers of blocks, images and
//! ranges are for layouts, which price the records and the space of each.

use crate::layout::Unwritten;
use crate::memory::overlay::Overlay;
use crate::memory::queues::EPOCH_CHARGE_BYTES;
use crate::memory::vnode::dirty_charge;
use varve_device::sync::atomic::AtomicU64;
use varve_device::sync::atomic::Ordering::Relaxed;

/// The counts of one tree. Each call counts one change.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    bytes: AtomicU64,
    blocks: AtomicU64,
    joined: AtomicU64,
    further: AtomicU64,
    images: AtomicU64,
    ranges: AtomicU64,
    reserved: AtomicU64,
}

impl Waits {
    /// Bytes, including the overhead of each block and image.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// All counts. Other threads may change them meanwhile.
    pub fn now(&self) -> Unwritten {
        Unwritten {
            bytes: self.bytes(),
            blocks: self.blocks.load(Relaxed),
            joined: self.joined.load(Relaxed),
            further: self.further.load(Relaxed),
            images: self.images.load(Relaxed),
            ranges: self.ranges.load(Relaxed),
            reserved: self.reserved.load(Relaxed),
        }
    }

    /// Adds counts.
    pub fn add(&self, more: &Unwritten) {
        for (sum, by) in self.parts(more) {
            sum.fetch_add(by, Relaxed);
        }
    }

    /// Subtracts counts, of changes that no longer wait or are counted elsewhere.
    pub fn subtract(&self, less: &Unwritten) {
        for (sum, by) in self.parts(less) {
            sum.fetch_sub(by, Relaxed);
        }
    }

    fn parts(&self, of: &Unwritten) -> [(&AtomicU64, u64); 7] {
        [
            (&self.bytes, of.bytes),
            (&self.blocks, of.blocks),
            (&self.joined, of.joined),
            (&self.further, of.further),
            (&self.images, of.images),
            (&self.ranges, of.ranges),
            (&self.reserved, of.reserved),
        ]
    }

    /// Counts a dirty block of `bytes`.
    #[inline]
    pub fn block_came(&self, bytes: usize) {
        self.blocks.fetch_add(1, Relaxed);
        self.bytes.fetch_add(dirty_charge(bytes), Relaxed);
    }

    /// Removes a block of `bytes`.
    pub fn block_went(&self, bytes: usize) {
        self.blocks_went(1, dirty_charge(bytes));
    }

    /// Removes `blocks` blocks that counted for `charge` bytes.
    pub fn blocks_went(&self, blocks: u64, charge: u64) {
        if blocks == 0 {
            return;
        }
        self.blocks.fetch_sub(blocks, Relaxed);
        self.bytes.fetch_sub(charge, Relaxed);
    }

    /// Changes the number of a file's blocks that are part of the next group.
    #[inline]
    pub fn joined(&self, before: u64, after: u64) {
        if before < after {
            self.joined.fetch_add(after - before, Relaxed);
        } else if after < before {
            self.joined.fetch_sub(before - after, Relaxed);
        }
    }

    /// Counts a file's dirty extended attributes of `bytes`.
    pub fn attributes_came(&self, bytes: usize, block_bytes: usize) {
        self.block_came(bytes);
        (self.further).fetch_add(further(bytes, block_bytes), Relaxed);
    }

    /// Removes extended attributes of `bytes`.
    pub fn attributes_went(&self, bytes: usize, block_bytes: usize) {
        self.block_went(bytes);
        (self.further).fetch_sub(further(bytes, block_bytes), Relaxed);
    }

    /// Counts a change of a dirty block's length.
    #[inline]
    pub fn block_changed(&self, before: usize, after: usize) {
        let (before, after) = (dirty_charge(before), dirty_charge(after));
        if before < after {
            self.bytes.fetch_add(after - before, Relaxed);
        } else if after < before {
            self.bytes.fetch_sub(before - after, Relaxed);
        }
    }

    /// Counts a member of the epoch, or a file in the queue.
    #[inline]
    pub fn image_came(&self) {
        self.images.fetch_add(1, Relaxed);
        self.bytes.fetch_add(EPOCH_CHARGE_BYTES, Relaxed);
    }

    /// Removes `images` of those.
    #[inline]
    pub fn images_went(&self, images: u64) {
        self.images.fetch_sub(images, Relaxed);
        self.bytes.fetch_sub(EPOCH_CHARGE_BYTES * images, Relaxed);
    }

    /// Changes the pending ranges of a file.
    pub fn pend(&self, pending: &mut Overlay, change: impl FnOnce(&mut Overlay)) {
        let before = (pending.len(), pending.reserved_blocks());
        change(pending);
        let after = (pending.len(), pending.reserved_blocks());
        for (sum, before, after) in [
            (&self.ranges, before.0, after.0),
            (&self.reserved, before.1, after.1),
        ] {
            if before < after {
                sum.fetch_add(after - before, Relaxed);
            } else if after < before {
                sum.fetch_sub(before - after, Relaxed);
            }
        }
    }

    /// Removes ranges that have been appended, with `reserved` blocks.
    pub fn ranges_went(&self, ranges: u64, reserved: u64) {
        if ranges == 0 {
            return;
        }
        self.ranges.fetch_sub(ranges, Relaxed);
        self.reserved.fetch_sub(reserved, Relaxed);
    }
}

/// Number of blocks beyond the first.
fn further(bytes: usize, block_bytes: usize) -> u64 {
    bytes.div_ceil(block_bytes).saturating_sub(1) as u64
}
