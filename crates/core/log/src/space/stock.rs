//! What the log has for admissions, and the answer to a request: a pure function of both.
//!
//! Every operation asks whether there is space, and while there is ample the answer is
//! the same for thousands of them. So a grant is given for more than was asked, and
//! holds for every request that measures no more, until an append or a checkpoint
//! changes what it follows from. (Asked of a kept stock each time, a create takes 1.12
//! and a write 1.28 of the instructions.)
//!
//! Invariants, with *c* and *T* of `docs/design/space.md`:
//! - `fold_bytes = c(frozen) + c(live) + T`, `nothing_bytes = c(0)`, `table_bytes = T`.
//! - `clean + live <= segment_count`, up to what a running cleaner has moved.
//! - A grant bears the number of the state that it was derived from. The number is read
//!   before the state is, and grows while the lock of the committed state is held for a
//!   change; so a grant derived from a state that a change has displaced never counts.
//! - `admit` grants only what [`Lfs::make_room`] would admit without a checkpoint and
//!   without cleaning.

use super::fit::{Fit, Lives};
use crate::counts::{Counts, Image};
use crate::geometry::Geometry;
use crate::lfs::Lfs;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::sync::RwLock;
use varve_device::sync::atomic::AtomicU64;
use varve_device::sync::atomic::Ordering::{AcqRel, Acquire};
use varve_fs::{Answer, Purpose, Request, Usage, Waiting};

/// What the log has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stock {
    pub geometry: Geometry,
    /// Bytes of a segment that can be counted on.
    pub dependable: u64,
    pub heads: u64,
    /// The image below the live delta.
    pub image: Image,
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
    pub lives: Lives,
    /// Most data is written into holes.
    pub plugs: bool,
    /// Cleaned segments are reused before their checkpoints.
    pub reuses_early: bool,
    /// A thread cleans.
    pub threaded: bool,
    /// A checkpoint has to be taken before anything else.
    pub overdue: bool,
}

impl Stock {
    /// What waits, with `asked` bytes of operations that are to be admitted.
    pub fn counts_of(&self, total: Usage, waiting: &Waiting, asked: u64) -> Counts {
        let unlogged = total.blocks.saturating_sub(self.logged_blocks);
        Counts::of_waiting(waiting, asked, unlogged, self.tallest, &self.geometry)
    }

    /// The answer to a request, which is [`Answer::Granted`] only if `most` could be
    /// granted, which is no less than the request.
    pub fn admit(&self, request: &Request, most: &Grant) -> Answer {
        let grants = self.is_ample(most);
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
        !self.overdue
            && self.clean >= self.goal(counts, Purpose::Rewrite) + self.batch_segments() / 2
            && self.fits(most.total, counts) == Fit::Yes
    }

    /// What a grant counts at most: blocks that it has as scattered may be reserved, and
    /// each number that is given out may change a block of the inode map more.
    fn counts_of_grant(&self, most: &Grant) -> Counts {
        let mut total = most.total;
        total.blocks = total.blocks.saturating_add(most.waiting.unwritten.blocks);
        let mut counts = self.counts_of(total, &most.waiting, most.waiting.asked);
        counts.map_blocks += most.loose.saturating_sub(self.image.loose);
        counts
    }
}

/// Granted beyond what is asked.
const MORE_BYTES: u64 = 4 << 20;
const MORE_FILES: u64 = 1024;
const MORE_BLOCKS: u64 = 2048;
const MORE_OF_TREE: u64 = 8192;

/// A request that was granted: all that measure no more are granted, too.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Grant {
    state: u64,
    total: Usage,
    waiting: Waiting,
    /// Inode numbers given out and in no group.
    loose: u64,
}

impl Grant {
    /// More than the request.
    fn beyond(state: u64, request: &Request, loose: u64) -> Self {
        let mut grant = Grant {
            state,
            total: request.total,
            waiting: request.waiting,
            loose: loose + MORE_FILES,
        };
        let (total, waiting) = (&mut grant.total, &mut grant.waiting);
        for (measure, more) in [
            (&mut total.inodes, MORE_FILES),
            (&mut total.blocks, MORE_OF_TREE),
            (&mut total.sectors, 8 * MORE_OF_TREE),
            (&mut waiting.unwritten.bytes, MORE_BYTES),
            (&mut waiting.unwritten.blocks, MORE_BLOCKS),
            (&mut waiting.unwritten.images, MORE_FILES),
            (&mut waiting.unwritten.ranges, MORE_FILES / 16),
            (&mut waiting.operations, MORE_FILES / 64),
            (&mut waiting.promised, MORE_BYTES / 4),
            (&mut waiting.asked, MORE_BYTES / 16),
            (&mut waiting.highest_block, MORE_OF_TREE),
        ] {
            *measure = measure.saturating_add(more);
        }
        grant
    }

    /// True if the request is no larger in any measure.
    fn covers(&self, request: &Request, loose: u64) -> bool {
        let (most, asked) = (&self.waiting, &request.waiting);
        let (unwritten, total) = (&asked.unwritten, &request.total);
        total.inodes <= self.total.inodes
            && total.blocks <= self.total.blocks
            && total.sectors <= self.total.sectors
            && unwritten.bytes <= most.unwritten.bytes
            && unwritten.blocks <= most.unwritten.blocks
            && unwritten.further <= most.unwritten.further
            && unwritten.images <= most.unwritten.images
            && unwritten.ranges <= most.unwritten.ranges
            && asked.promised <= most.promised
            && asked.promised_attributes <= most.promised_attributes
            && asked.asked <= most.asked
            && asked.asked_attributes <= most.asked_attributes
            && asked.operations <= most.operations
            && asked.highest_block <= most.highest_block
            && loose <= self.loose
    }
}

/// The last grant, and the number of the present state.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    state: AtomicU64,
    last: RwLock<Grant>,
}

impl Granted {
    /// What was granted no longer counts. The caller holds the lock of the committed state
    /// for a change.
    pub fn void(&self) {
        self.state.fetch_add(1, AcqRel);
    }

    /// The number of the present state, which no grant has at the beginning.
    fn state(&self) -> u64 {
        self.state.load(Acquire) + 1
    }
}

impl Lfs {
    /// Answers for [`varve_fs::Layout::admit`].
    pub(crate) fn answer(&self, request: &Request) -> Answer {
        let state = self.granted.state();
        let loose = self.loose_numbers.load(Relaxed);
        let asks_anyway = request.writes_back && self.control.plugs.is_expected();
        {
            let last = self.granted.last.read();
            if last.state == state && !asks_anyway && last.covers(request, loose) {
                return Answer::Granted;
            }
        }
        let stock = self.stock();
        let most = Grant::beyond(state, request, loose);
        let answer = stock.admit(request, &most);
        if answer == Answer::Granted {
            self.segments.lock().waiting = stock.counts_of_grant(&most);
            *self.granted.last.write() = most;
        }
        answer
    }

    /// What the log has now.
    pub(crate) fn stock(&self) -> Stock {
        let overdue = self.delta_overdue();
        let threaded = self.control.shared().settings.pace.threaded;
        let (clean, live_bytes) = {
            let segments = self.segments.lock();
            (u64::from(segments.clean_count()), segments.live_bytes())
        };
        let committed = self.committed.read();
        let (image, table_bytes) = (
            self.image_below(&committed),
            self.table_bytes(committed.live.next_ino),
        );
        let mut stock = Stock {
            geometry: **self.geometry,
            dependable: self.dependable_bytes(),
            heads: self.heads as u64,
            image,
            tallest: committed.tallest(),
            logged_blocks: committed.usage.blocks,
            clean,
            live: live_bytes / self.dependable_bytes(),
            nothing_bytes: Counts::default().fold_bytes(&self.geometry, &image),
            table_bytes,
            fold_bytes: self.folds_bytes(&committed) + table_bytes,
            watermark: 0,
            lives: self.lives(&committed),
            plugs: self.control.plugs.is_expected(),
            reuses_early: self.control.reuses_early.load(Relaxed),
            threaded,
            overdue,
        };
        stock.watermark = stock.low_watermark(committed.usage.inodes);
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
        let image = Image {
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
            lives: Lives::of_nothing(30, &geometry),
            plugs: false,
            reuses_early: false,
            threaded: false,
            overdue: false,
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
        stock.admit(request, &Grant::beyond(1, request, 0))
    }

    #[test]
    fn everything_is_granted_while_there_is_ample_space() {
        for purpose in [Purpose::Grow, Purpose::Rewrite, Purpose::Shrink] {
            let (ample, request) = (stock(900), request(purpose));
            let counts = ample.counts_of_grant(&Grant::beyond(1, &request, 0));
            let most = ample.goal(counts, Purpose::Grow) + ample.batch_segments() / 2;
            assert_eq!(answer(&stock(most), &request), Answer::Granted);
            assert_eq!(answer(&stock(most - 1), &request), Answer::Clean);
            let overdue = Stock {
                overdue: true,
                ..ample
            };
            assert_eq!(answer(&overdue, &request), Answer::Clean);
        }
    }

    #[test]
    fn a_grant_covers_no_more_than_it_has_of_any_measure() {
        let asked = request(Purpose::Grow);
        assert!(!Grant::default().covers(&asked, 0));
        let grant = Grant::beyond(1, &asked, 5);
        assert!(grant.covers(&asked, 5) && grant.covers(&asked, 5 + MORE_FILES));
        assert!(!grant.covers(&asked, 6 + MORE_FILES));
        let mut most = asked;
        (most.total, most.waiting) = (grant.total, grant.waiting);
        assert!(grant.covers(&most, 0));
        let measures: [fn(&mut Request) -> &mut u64; 14] = [
            |r| &mut r.total.inodes,
            |r| &mut r.total.blocks,
            |r| &mut r.total.sectors,
            |r| &mut r.waiting.unwritten.bytes,
            |r| &mut r.waiting.unwritten.blocks,
            |r| &mut r.waiting.unwritten.further,
            |r| &mut r.waiting.unwritten.images,
            |r| &mut r.waiting.unwritten.ranges,
            |r| &mut r.waiting.promised,
            |r| &mut r.waiting.promised_attributes,
            |r| &mut r.waiting.asked,
            |r| &mut r.waiting.asked_attributes,
            |r| &mut r.waiting.operations,
            |r| &mut r.waiting.highest_block,
        ];
        for (nth, measure) in measures.iter().enumerate() {
            let mut more = most;
            *measure(&mut more) += 1;
            assert!(!grant.covers(&more, 0), "measure {nth}");
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
    fn a_change_voids_grants_derived_before_it() {
        let granted = Granted::default();
        assert_ne!(granted.state(), Grant::default().state);
        let before = granted.state();
        granted.void();
        assert_ne!(granted.state(), before);
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
