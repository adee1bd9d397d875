//! Marks among the clean segments: how many of them make the cleaner begin, have
//! writers pay or wait, and have what waits in memory written.

use crate::control::Pace;
use crate::control::pace::Gauge;
use crate::counts::{Counts, with_summaries};
use crate::policy::Measures;
use crate::space::{Space, Stock};
use varve_device::sync::atomic::Ordering::Relaxed;
use varve_fs::{Purpose, Unwritten, Waiting};

/// Most bytes the cleaner tries to have in hand ahead of need.
const BATCH_BYTES: u64 = 32 << 20;
/// What there is at least between where a thread begins to clean and where
/// writers would have to wait for it: enough for what they write while it takes
/// a checkpoint. But no more than a 32nd of the volume, and half of what is to
/// spare.
const SLOPE_BYTES: u64 = 8 << 20;
const SLOPE_SEGMENTS: u64 = 4;
/// Bytes that may wait in memory before they are written, where clean segments
/// are short: a part of what is to spare, but a segment or so in any case.
const WAITING_PART: u64 = 64;
const LEAST_WAITING: u64 = 256 << 10;

impl Stock {
    /// Segments the cleaner tries to have in hand beyond what is needed, so
    /// that one pair of checkpoints pays for many of them: a quarter of what
    /// is neither live nor reserved.
    pub fn batch_segments(&self) -> u64 {
        let segments = u64::from(self.geometry.segment_count);
        // Without checkpoints to pay for, a few at a time will do.
        let few = self.reuses_early || self.plugs;
        let part = if few { 512 } else { 32 };
        let most = (segments / part).min(BATCH_BYTES / u64::from(self.geometry.segment_bytes));
        (self.spare_segments() / 4).clamp(2, most.max(2))
    }

    /// Segments' worth of space that is neither live nor kept from users.
    fn spare_segments(&self) -> u64 {
        u64::from(self.geometry.segment_count).saturating_sub(self.watermark + self.live)
    }

    /// True if the changes that wait in memory should be written first: the cleaner is
    /// at work, or soon will be, to make clean segments for them and for all that they
    /// might cost, while what they displace counts as live. So each byte takes two or
    /// three of the space that cleaning lives on, and on a full volume little may wait.
    pub fn is_short_of(&self, dirty: Unwritten) -> bool {
        let alone = Waiting {
            unwritten: Unwritten {
                bytes: dirty.bytes,
                images: dirty.images,
                blocks: dirty.blocks,
                ..Unwritten::default()
            },
            ..Waiting::default()
        };
        let waiting = Counts::of_waiting(&alone, 0, 0, self.tallest, &self.geometry);
        // What takes most of the space by its upper bound leaves the cleaner none to
        // work in. Once it is appended, its cost is known, and mostly small.
        if !self.may_wait(waiting) {
            return true;
        }
        let segment = u64::from(self.geometry.segment_bytes);
        if dirty.bytes <= segment.max(LEAST_WAITING) {
            return false;
        }
        let goal = self.goal(waiting, Purpose::Grow);
        let part = self.spare_segments() * self.dependable / WAITING_PART;
        let may_wait = match self.clean < goal {
            _ if self.plugs => 2 * segment,
            true => part.min(2 * segment),
            false => part,
        };
        let ample = goal + self.slope_segments(self.threaded) + self.batch_segments();
        dirty.bytes > may_wait && self.clean <= ample
    }

    /// Segments between where the background begins to clean and where callers
    /// wait for it.
    fn slope_segments(&self, threaded: bool) -> u64 {
        let batch = self.batch_segments();
        // Segments are gained one at a time, while survivors take nearly as many: in
        // fewer than this there would be no slope to slow down on.
        match threaded {
            // Where blocks are written into holes, few segments are used up.
            true if !self.plugs => {
                let bytes = SLOPE_BYTES / u64::from(self.geometry.segment_bytes);
                let segments = u64::from(self.geometry.segment_count);
                let most = (segments / 32).min(self.spare_segments() / 2);
                batch.max(most.min(bytes.max(SLOPE_SEGMENTS)))
            }
            _ => batch,
        }
    }
}

impl Space {
    /// [`Stock::batch_segments`] of the present state.
    pub(crate) fn batch_segments(&self) -> u64 {
        self.stock().batch_segments()
    }

    /// Clean segments below which callers wait, below which they are held back,
    /// below which the background cleans ahead, and how many it then tries to
    /// reach.
    pub(crate) fn cleaning_marks(&self, pace: &Pace) -> (u64, u64, u64, u64) {
        // Between two writes nothing waits, but the next one will.
        let next = match pace.threaded {
            true => u64::from(self.geometry.block_bytes),
            false => 0,
        };
        let mut waiting = self.segments.lock().waiting;
        waiting.bytes = waiting.bytes.max(with_summaries(next));
        let stock = self.stock();
        let floor = stock.goal(waiting, Purpose::Grow);
        let batch = stock.batch_segments();
        let segments = u64::from(self.geometry.segment_count);
        let percent = |mark: Option<u8>| segments * u64::from(mark.unwrap_or(0)) / 100;
        let slope = stock.slope_segments(pace.threaded);
        let low = percent(pace.low_percent).max(floor + slope);
        let high = percent(pace.high_percent).max(low + batch);
        assert!(floor + slope <= low && low <= high, "marks {low} to {high}");
        (floor, floor + slope, low, high)
    }

    /// Clean segments and their marks.
    pub fn cleaning_gauge(&self) -> Gauge {
        let now_ns = self.clock.monotonic_ns();
        let idle_ns = self.control.idle_ns(now_ns);
        let pace = self.control.shared().settings.pace;
        let (floor, need, low, high) = self.cleaning_marks(&pace);
        Gauge {
            clean: self.clean_segments_now(),
            open_percent: self.control.open_percent.load(Relaxed),
            floor,
            need,
            low,
            high,
            used_bytes: self.bytes_logged(),
            idle: pace.idle_ns.is_some_and(|least| idle_ns >= least),
            waiting: self.control.somebody_waits(),
        }
    }

    /// Bytes that users' groups have taken in the log.
    pub(crate) fn bytes_logged(&self) -> u64 {
        self.counters.user_log_bytes.load(Relaxed)
    }

    /// What placement wants to know of the volume.
    pub(crate) fn measures(&self) -> Measures {
        let segments = u64::from(self.geometry.segment_count);
        let live = self.segments.lock().live_bytes() / self.dependable_bytes();
        let spare = segments.saturating_sub(self.reserve() + live);
        Measures {
            spare_segments: spare as u32,
            segment_blocks: (self.dependable_bytes() / u64::from(self.geometry.block_bytes)) as u32,
        }
    }
}
