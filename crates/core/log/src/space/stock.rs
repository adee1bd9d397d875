//! What the log has for admissions, and the answer to a request: a pure function of both.
//!
//! Every operation asks whether there is space, but what the log has changes only with
//! an append, a checkpoint or a cleaned segment. So the log's side of the comparison is
//! read once for each of its states.
//!
//! Invariants of a [`Stock`], with *c* and *T* of `docs/design/space.md`:
//! - `fold_bytes = c(frozen) + c(live) + T`, `nothing_bytes = c(0)`, `table_bytes = T`.
//! - `T <= fold_bytes`, and `clean` counts no segment of the volume twice.
//! - A kept stock bears the number of the state that it was read from. The number is
//!   read before the state is, and grows while the lock of the committed state is held
//!   for a change; so a stock read from a state that a change has displaced never counts.
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

    /// The answer to a request that counts so much.
    pub fn admit(&self, request: &Request, counts: Counts) -> Answer {
        let grants = self.is_ample(request, counts);
        if request.writes_back
            && (!grants || self.plugs)
            && self.is_short_of(request.waiting.unwritten)
        {
            return Answer::WriteBack;
        }
        match request.purpose {
            _ if grants => Answer::Granted,
            // The worst case of other operations is kept from the cleaner, which needs
            // the space to gain anything.
            Purpose::Shrink
                if self.clean < self.goal(counts, Purpose::Grow) && !request.waiting.alone =>
            {
                Answer::Alone
            }
            _ => Answer::Clean,
        }
    }

    /// True if there is so much space that neither a checkpoint nor cleaning is near.
    fn is_ample(&self, request: &Request, counts: Counts) -> bool {
        !self.overdue
            && self.clean >= self.goal(counts, Purpose::Grow) + self.batch_segments() / 2
            && (request.purpose != Purpose::Grow || self.fits(request.total, counts) == Fit::Yes)
    }
}

/// The stock of the present state, if it has been read.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    state: AtomicU64,
    stock: RwLock<Option<(u64, Stock)>>,
}

impl Kept {
    /// What was read no longer counts. The caller holds the lock of the committed state
    /// for a change.
    pub fn void(&self) {
        self.state.fetch_add(1, AcqRel);
    }
}

impl Lfs {
    /// Answers for [`varve_fs::Layout::admit`].
    pub(crate) fn answer(&self, request: &Request) -> Answer {
        let state = self.kept.state.load(Acquire);
        let kept = *self.kept.stock.read();
        let (stock, is_new) = match kept {
            Some((of, stock)) if of == state && stock.plugs == self.control.plugs.is_expected() => {
                (stock, false)
            }
            _ => (self.stock(), true),
        };
        if is_new {
            *self.kept.stock.write() = Some((state, stock));
        }
        let mut counts = stock.counts_of(request.total, &request.waiting, request.waiting.asked);
        // Each number that was given out since may change a block of the inode map more.
        let loose = self.loose_numbers.load(Relaxed);
        counts.map_blocks += loose.saturating_sub(stock.image.loose);
        let answer = stock.admit(request, counts);
        if answer == Answer::Granted {
            self.segments.lock().waits(counts, is_new);
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
        let waiting = &request.waiting;
        stock.admit(
            request,
            stock.counts_of(request.total, waiting, waiting.asked),
        )
    }

    #[test]
    fn everything_is_granted_while_there_is_ample_space() {
        let ample = stock(900);
        let counts = ample.counts_of(Usage::default(), &request(Purpose::Grow).waiting, 4096);
        let most = ample.goal(counts, Purpose::Grow) + ample.batch_segments() / 2;
        for purpose in [Purpose::Grow, Purpose::Rewrite, Purpose::Shrink] {
            assert_eq!(answer(&stock(most), &request(purpose)), Answer::Granted);
            let less = answer(&stock(most - 1), &request(purpose));
            assert_eq!(less, Answer::Clean, "{purpose:?}");
            let overdue = Stock {
                overdue: true,
                ..ample
            };
            assert_eq!(answer(&overdue, &request(purpose)), Answer::Clean);
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
        // What adds nothing to the tree is not asked whether the tree fits.
        let shrinks = Request {
            total: Usage::default(),
            ..large(Purpose::Shrink)
        };
        assert_eq!(answer(&ample, &shrinks), Answer::Granted);
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
