//! What the log has for admissions, read once for each of its states.
//!
//! Every operation asks whether there is space, but what the log has changes only with
//! an append, a checkpoint or a cleaned segment. So the log's side of the comparison is
//! kept, and [`Stock::grants`] compares a request with it: a pure function.
//!
//! Invariants:
//! - A stock bears the number of the state that it was read from. The number is read
//!   before the state is, and grows while the lock of the committed state is held for a
//!   change; so a stock read from a state that a change has displaced never counts.
//! - A stock grants only what [`Lfs::make_room`] would admit without a checkpoint and
//!   without cleaning.

use crate::counts::{Counts, Image};
use crate::geometry::Geometry;
use crate::lfs::Lfs;
use varve_device::sync::RwLock;
use varve_device::sync::atomic::AtomicU64;
use varve_device::sync::atomic::Ordering::{AcqRel, Acquire};
use varve_fs::{Purpose, Request, Usage};

/// Inodes beyond those that exist for which the inode map of a stock is large enough.
const MORE_INODES: u64 = 4096;

/// What the log has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stock {
    state: u64,
    image: Option<Image>,
    /// Height of the tallest index.
    tallest: u8,
    /// Blocks of the tree as it is logged.
    logged_blocks: u64,
    /// Bytes of log that waiting changes and their fold may take before the cleaner works.
    ample_bytes: u64,
    /// Inodes that the tree may have.
    inodes: u64,
    /// Bytes that the tree may take, metadata of the log left aside.
    living_bytes: u64,
}

impl Stock {
    /// What waits, with all that is asked for, while `loose` numbers have been given out
    /// and are in no group: each that the stock does not know may change a block of the
    /// inode map more.
    pub fn counts_of(&self, request: &Request, loose: u64, geometry: &Geometry) -> Counts {
        let waiting = &request.waiting;
        let unlogged = request.total.blocks.saturating_sub(self.logged_blocks);
        let tallest = self.tallest;
        let mut counts = Counts::of_waiting(waiting, waiting.asked, unlogged, tallest, geometry);
        let known = self.image.map_or(0, |image| image.loose);
        counts.map_blocks += loose.saturating_sub(known);
        counts
    }

    /// True if there is space for the tree `total` while so much waits.
    pub fn grants(&self, total: Usage, waiting: &Counts, geometry: &Geometry) -> bool {
        let Some(image) = &self.image else {
            return false;
        };
        let takes = Counts::default().further_bytes(waiting, geometry, image);
        let lives = super::fit::price(total, geometry).saturating_add(waiting.added);
        takes <= self.ample_bytes && total.inodes <= self.inodes && lives <= self.living_bytes
    }
}

/// The stock of the present state, if it has been read.
#[derive(Debug, Default)]
pub(crate) struct Stocked {
    state: AtomicU64,
    read: RwLock<Stock>,
}

impl Stocked {
    /// What was read no longer counts. The caller holds the lock of the committed state
    /// for a change.
    pub fn void(&self) {
        self.state.fetch_add(1, AcqRel);
    }

    /// The number of the present state.
    fn state(&self) -> u64 {
        self.state.load(Acquire) + 1
    }
}

impl Lfs {
    /// The stock of the present state, and whether it has just been read.
    pub(crate) fn stock(&self) -> (Stock, bool) {
        let state = self.stocked.state();
        let kept = *self.stocked.read.read();
        if kept.state == state {
            return (kept, false);
        }
        let stock = self.read_stock(state);
        *self.stocked.read.write() = stock;
        (stock, true)
    }

    fn read_stock(&self, state: u64) -> Stock {
        let nothing = Counts::default();
        let kept = self.goal(nothing, Purpose::Grow) + self.batch_segments() / 2;
        let clean = self.clean_segments_now();
        let usage = self.committed.read().usage;
        let inodes = usage.inodes.saturating_add(MORE_INODES);
        let total = Usage { inodes, ..usage };
        let is_ample = clean >= kept && !self.delta_overdue();
        let living_bytes = self.living_bytes(total);
        let committed = self.committed.read();
        Stock {
            state,
            image: is_ample.then(|| self.image_below(&committed)),
            tallest: committed.tallest(),
            logged_blocks: committed.usage.blocks,
            ample_bytes: clean.saturating_sub(kept) * self.dependable_bytes(),
            inodes,
            living_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_fs::Waiting;

    fn usage(inodes: u64, blocks: u64) -> Usage {
        Usage {
            inodes,
            blocks,
            sectors: 8 * blocks,
        }
    }

    #[test]
    fn a_stock_grants_up_to_what_it_has_in_every_measure() {
        let geometry = crate::geometry::tests::volume(1 << 30, 4096, true);
        let image = Image {
            stored: 0,
            map_blocks: 10,
            map_blocks_for_each: 1,
            loose: 0,
            unfinished: 0,
        };
        let waiting = Waiting {
            operations: 1,
            promised: 4096,
            ..Waiting::default()
        };
        let counts = Counts::of_waiting(&waiting, 0, 0, 1, &geometry);
        let most = usage(10, 100);
        let stock = Stock {
            image: Some(image),
            tallest: 1,
            ample_bytes: Counts::default().further_bytes(&counts, &geometry, &image),
            inodes: 10,
            living_bytes: crate::space::fit::price(most, &geometry) + counts.added,
            ..Stock::default()
        };
        let grants = |total, counts: &Counts| stock.grants(total, counts, &geometry);
        assert!(grants(most, &counts) && grants(usage(9, 99), &counts));
        assert!(!grants(usage(11, 90), &counts) && !grants(usage(9, 101), &counts));
        let mut more = counts;
        more.bytes += 1;
        assert!(!grants(most, &more));
        let empty = Stock {
            image: None,
            ..stock
        };
        assert!(!empty.grants(Usage::default(), &Counts::default(), &geometry));
    }
}
