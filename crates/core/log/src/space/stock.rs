//! What the log has for admissions, and the answer to a request: a pure function of both.
//!
//! Invariants, with *c* and *T* of `docs/design/space.md`:
//! - `fold_bytes = c(frozen) + c(live) + T + H`, with *H* of `history.rs`, `nothing_bytes = c(0)`, `table_bytes = T`.
//! - `clean + live <= segment_count`, up to what a running cleaner has moved.
//! - `admit` grants only what [`Space::make_room`] would admit without a checkpoint and
//!   without cleaning.

use super::fit::{Fit, LiveCounts};
use crate::counts::{Counts, ImageCounts};
use crate::geometry::Geometry;
use crate::grants::Grant;
use crate::space::Space;
use std::sync::atomic::Ordering::Relaxed;
use varve_fs::{Answer, Purpose, Request, Usage, Waiting};

/// What the log has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stock {
    pub geometry: Geometry,
    /// Bytes of a segment that can be counted on.
    pub dependable: u64,
    pub heads: u64,
    /// The image below the live delta.
    pub image: ImageCounts,
    /// Height of the tallest index.
    pub tallest: u8,
    /// Blocks of the tree as it is logged.
    pub logged_blocks: u64,
    /// Clean segments.
    pub clean: u64,
    /// Segments' worth of live bytes.
    pub live: u64,
    /// Bytes that a fold of no counts takes.
    pub nothing_bytes: u64,
    /// Bytes of one usage table.
    pub table_bytes: u64,
    /// Bytes that folding all that is logged may write.
    pub fold_bytes: u64,
    /// Clean segments that growth leaves, folds and waiting changes left aside (R2).
    pub watermark: u64,
    /// What lives, and its metadata (R3).
    pub lives: LiveCounts,
    /// Most data is written into holes.
    pub plugs: bool,
    /// Cleaned segments are reused before their checkpoints.
    pub reuses_early: bool,
    /// A thread cleans.
    pub threaded: bool,
}

impl Stock {
    /// What waits, with `asked` bytes of operations that are to be admitted.
    pub fn counts_of(&self, total: Usage, waiting: &Waiting, asked: u64) -> Counts {
        let unlogged = total.blocks.saturating_sub(self.logged_blocks);
        Counts::of_waiting(waiting, asked, unlogged, self.tallest, &self.geometry)
    }

    /// The answer to a request, which is [`Answer::Granted`] only if `most` could be
    /// granted, which is no less than the request, and no checkpoint is `overdue`.
    pub fn admit(&self, request: &Request, most: &Grant, overdue: bool) -> Answer {
        let grants = !overdue && self.is_ample(most);
        if request.writes_back
            && (!grants || self.plugs)
            && self.is_short_of(request.waiting.unwritten)
        {
            return Answer::WriteBack;
        }
        let waiting = &request.waiting;
        let counts = || self.counts_of(request.total, waiting, waiting.asked);
        match request.purpose {
            _ if grants => Answer::Granted,
            // The worst case of other operations is kept from the cleaner, which needs
            // the space to gain anything.
            Purpose::Shrink
                if !waiting.alone && self.clean < self.goal(counts(), Purpose::Grow) =>
            {
                Answer::Alone
            }
            _ => Answer::Clean,
        }
    }

    /// True if there is so much space that neither a checkpoint nor cleaning is near.
    fn is_ample(&self, most: &Grant) -> bool {
        let counts = self.counts_of_grant(most);
        self.clean >= self.goal(counts, Purpose::Rewrite) + self.batch_segments() / 2
            && self.fits(most.total, counts) == Fit::Yes
    }

    /// What a grant counts at most: blocks that it has as scattered may be reserved, and
    /// each number that is given out may change a block of the inode map more.
    pub fn counts_of_grant(&self, most: &Grant) -> Counts {
        let mut total = most.total;
        total.blocks = total.blocks.saturating_add(most.waiting.unwritten.blocks);
        let mut counts = self.counts_of(total, &most.waiting, most.waiting.asked);
        counts.map_blocks += most.loose.saturating_sub(self.image.loose);
        counts
    }
}

impl Space {
    /// What the log has now.
    pub(crate) fn stock(&self) -> Stock {
        let threaded = self.control.shared().settings.pace.threaded;
        let (clean, live_bytes) = {
            let segments = self.segments.lock();
            (u64::from(segments.clean_count()), segments.live_bytes())
        };
        let committed = self.layers.read();
        let (image, table_bytes) = (
            self.image_below(&committed),
            self.table_bytes(committed.live.next_ino),
        );
        let mut stock = Stock {
            geometry: **self.geometry,
            dependable: self.dependable_bytes(),
            heads: self.heads() as u64,
            image,
            tallest: committed.tallest(),
            logged_blocks: committed.usage.blocks,
            clean,
            live: live_bytes / self.dependable_bytes(),
            nothing_bytes: Counts::default().fold_bytes(&self.geometry, &image),
            table_bytes,
            fold_bytes: self.folds_bytes(&committed) + self.history_of(&committed) + table_bytes,
            watermark: 0,
            lives: self.lives(&committed),
            plugs: self.control.plugs.is_expected(),
            reuses_early: self.control.reuses_early.load(Relaxed),
            threaded,
        };
        stock.watermark = stock.low_watermark(committed.usage.inodes);
        assert!(
            stock.fold_bytes >= stock.nothing_bytes,
            "a fold costs nothing"
        );
        assert!(stock.heads >= 1, "a log has a head");
        stock
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use varve_fs::Unwritten;

    /// A volume of 1 GiB with so many clean segments, on which nothing lives.
    fn stock(clean: u64) -> Stock {
        let geometry = crate::geometry::tests::volume(1 << 30, 4096, true);
        let image = ImageCounts {
            stored: 0,
            map_blocks: 10,
            map_blocks_for_each: 1,
            loose: 0,
            unfinished: 0,
        };
        let nothing_bytes = Counts::default().fold_bytes(&geometry, &image);
        Stock {
            geometry,
            dependable: u64::from(geometry.segment_bytes) - 4 * 4096,
            heads: 1,
            image,
            tallest: 1,
            logged_blocks: 0,
            clean,
            live: 0,
            nothing_bytes,
            table_bytes: 1 << 16,
            fold_bytes: nothing_bytes + (1 << 16),
            watermark: 20,
            lives: LiveCounts::of_nothing(30, &geometry),
            plugs: false,
            reuses_early: false,
            threaded: false,
        }
    }

    fn request(purpose: Purpose) -> Request {
        let waiting = Waiting {
            operations: 1,
            asked: 4096,
            ..Waiting::default()
        };
        Request::new(Usage::default(), waiting, purpose)
    }

    fn answer(stock: &Stock, request: &Request) -> Answer {
        stock.admit(request, &Grant::beyond(1, request, 0), false)
    }

    #[test]
    fn everything_is_granted_while_there_is_ample_space() {
        for purpose in [Purpose::Grow, Purpose::Rewrite, Purpose::Shrink] {
            let (ample, request) = (stock(900), request(purpose));
            let counts = ample.counts_of_grant(&Grant::beyond(1, &request, 0));
            let most = ample.goal(counts, Purpose::Grow) + ample.batch_segments() / 2;
            assert_eq!(answer(&stock(most), &request), Answer::Granted);
            assert_eq!(answer(&stock(most - 1), &request), Answer::Clean);
            let grant = Grant::beyond(1, &request, 0);
            assert_eq!(ample.admit(&request, &grant, true), Answer::Clean);
        }
    }

    /// Each request that a grant covers counts no more than the grant.
    #[test]
    fn counts_of_a_grant_are_an_upper_bound() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        for _ in 0..3000 {
            let stock = Stock {
                tallest: rng.random_range(0..3),
                ..stock(900)
            };
            let mut drawn = |most: u64| rng.random_range(0..=most);
            let mut asked = request(Purpose::Grow);
            asked.total.blocks = drawn(20_000);
            asked.waiting.unwritten.blocks = drawn(3000).min(asked.total.blocks);
            asked.waiting.highest_block = drawn(9000);
            let grant = Grant::beyond(1, &asked, 0);
            let mut other = asked;
            other.total.blocks = drawn(grant.total.blocks);
            other.waiting.unwritten.blocks = drawn(grant.waiting.unwritten.blocks);
            other.waiting.unwritten.images = drawn(grant.waiting.unwritten.images);
            other.waiting.unwritten.bytes = drawn(grant.waiting.unwritten.bytes);
            other.waiting.promised = drawn(grant.waiting.promised);
            assert!(grant.covers(&other, 0));
            let counts = stock.counts_of(other.total, &other.waiting, other.waiting.asked);
            let most = stock.counts_of_grant(&grant);
            assert!(
                stock.with_fold(counts) <= stock.with_fold(most),
                "{other:?}"
            );
            assert!(counts.added <= most.added, "{other:?}");
        }
    }

    #[test]
    fn growth_is_granted_only_if_the_tree_fits() {
        let ample = stock(900);
        let large = |purpose| Request {
            total: Usage {
                inodes: 1,
                blocks: 1 << 18,
                sectors: 8 << 18,
            },
            ..request(purpose)
        };
        assert_eq!(answer(&ample, &large(Purpose::Grow)), Answer::Clean);
        assert_eq!(answer(&ample, &request(Purpose::Grow)), Answer::Granted);
    }

    #[test]
    fn removals_below_the_low_watermark_are_admitted_one_at_a_time() {
        let short = stock(10);
        let removal = request(Purpose::Shrink);
        assert_eq!(answer(&short, &removal), Answer::Alone);
        let mut alone = removal;
        alone.waiting.alone = true;
        assert_eq!(answer(&short, &alone), Answer::Clean);
        assert_eq!(answer(&short, &request(Purpose::Rewrite)), Answer::Clean);
    }

    #[test]
    fn a_caller_that_writes_back_is_asked_to_while_space_is_short() {
        let short = stock(21);
        let mut waits = request(Purpose::Grow);
        waits.waiting.unwritten = Unwritten {
            bytes: 64 << 20,
            blocks: 16 << 10,
            images: 1,
            ..Unwritten::default()
        };
        assert_eq!(answer(&short, &waits), Answer::Clean);
        waits.writes_back = true;
        assert_eq!(answer(&short, &waits), Answer::WriteBack);
        waits.waiting.unwritten.bytes = 4096;
        waits.waiting.unwritten.blocks = 1;
        assert_eq!(answer(&short, &waits), Answer::Clean);
    }
}
