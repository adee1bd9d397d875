//! The pace of the cleaner: pure functions of the space that is left.
//!
//! The law is proportional. Between the mark at which cleaning ends (`high`) and that at
//! which it begins (`low`), the share of its time that the cleaner works grows from
//! nothing to all of it. If segments are used up faster than that would produce, it works
//! as much as necessary to keep up. Below `low` it does not rest: the less space there
//! is, the less can be moved for a pair of checkpoints, and the more expensive each
//! segment becomes. There is no phase in which everything stops: one step is one segment
//! (or as many as a policy sorts together), with rests between steps.
//!
//! Writers are throttled to the pace of the cleaner: below `need` each pays, for the
//! bytes that reached the log, a part of the time that the cleaner needs to produce as
//! many. The part grows with the third power of the fraction of the distance from `need`
//! to `floor`, the low watermark at which callers must wait for clean segments; one
//! segment before that it is the whole time. A `low` that was set higher than necessary
//! throttles no writer.

/// Clean segments, and the marks between which they are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauge {
    /// Number of clean segments now.
    pub clean: u64,
    /// Percentage left of the open segment, with several heads the mean. If this is
    /// omitted, the toll of writers would grow in steps.
    pub open_percent: u8,
    /// Low watermark: below this many, callers wait for more.
    pub floor: u64,
    /// Below this many, cleaning begins.
    pub low: u64,
    /// Below this many, writers are throttled; no more than `low`.
    pub need: u64,
    /// Cleaning continues until there are this many.
    pub high: u64,
    /// Bytes of the log that users have taken since the mount.
    pub used_bytes: u64,
    /// There was no request for the idle threshold; always false if none is set.
    pub idle: bool,
    /// A caller waits for space at this moment.
    pub waiting: bool,
}

/// Least share of its time that a cleaner works once it has begun.
const LEAST_SHARE: f64 = 0.05;
/// Longest rest between two steps, in nanoseconds.
const LONGEST_REST_NS: u64 = 1_000_000_000;
/// Power of the distance with which the toll of writers grows.
const TOLL_POWER: i32 = 3;
/// Seconds over which the rate of use is averaged.
const USE_SECONDS: f64 = 1.0;
/// Number of gained segments over which the time for one is averaged.
const GAINS: f64 = 8.0;
/// Segments before the low watermark at which writers pay the whole time, if they begin
/// to pay at least the second number before it: folds need, and cleaning gains, whole
/// segments.
const AHEAD: u64 = 1;
const LEAST_SLOPE: u64 = 4;
/// Assumed gain before any measurement: bytes of clean segments per second of work.
const ASSUMED_GAIN: f64 = (32 << 20) as f64;
/// Upper bound of a gain's cost, in writes of the same size: that of segments that are
/// 31/32 full, whose survivors are read and written.
const DEAREST: u64 = 64;
/// The same bound in nanoseconds for devices that take next to no time, because
/// processors have work, too.
const DEAREST_NS: u64 = 100_000_000;

/// Net loss of segments, written by a checkpoint, before others are gained.
const MOST_LOST: f64 = -64.0;

fn dearest_ns(write_ns: u64) -> f64 {
    DEAREST.saturating_mul(write_ns).max(DEAREST_NS) as f64
}

/// Whether the cleaner is at work, and the rates at which segments are gained and used.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    segment_bytes: f64,
    working: bool,
    /// Segments gained recently, and the seconds of work for them.
    gained: f64,
    worked: f64,
    /// Segments used up per second.
    using: f64,
    /// Time of the last measurement, and the bytes that users had taken by then.
    last: Option<(u64, u64)>,
}

impl Gauge {
    /// Fraction by which clean segments have fallen from `high` to `low`, in `[0, 1]`.
    pub fn pressure(&self) -> f64 {
        share_between(self.clean as f64, self.high, self.low)
    }

    /// Fraction of the cleaner's time that a writer must wait for its bytes: 0 at `need`
    /// and above, 1 at one segment before `floor`.
    pub fn toll(&self) -> f64 {
        self.way_to_floor().powi(TOLL_POWER)
    }

    /// True if more than half of the distance from `need` to a standstill is used up.
    pub fn is_pressed(&self) -> bool {
        self.way_to_floor() > 0.5
    }

    /// Clean segments, and the rest of the open one.
    pub fn at_hand(&self) -> f64 {
        self.clean as f64 + f64::from(self.open_percent) / 100.0
    }

    fn way_to_floor(&self) -> f64 {
        let from = self.need.min(self.low);
        let slope = from.saturating_sub(self.floor);
        let ahead = if slope >= LEAST_SLOPE { AHEAD } else { 0 };
        share_between(self.at_hand(), from, self.floor + ahead)
    }
}

/// Position of `at` on the distance from `from` down to `to`, in `[0, 1]`.
fn share_between(at: f64, from: u64, to: u64) -> f64 {
    let (from, to) = (from as f64, to as f64);
    if at >= from {
        return 0.0;
    }
    if at <= to {
        return 1.0;
    }
    (from - at) / (from - to)
}

impl Pacer {
    /// A pacer without measurements, for segments of this size.
    pub fn new(segment_bytes: u64) -> Self {
        let segment_bytes = segment_bytes.max(1) as f64;
        Pacer {
            segment_bytes,
            working: false,
            gained: 1.0,
            worked: segment_bytes / ASSUMED_GAIN,
            using: 0.0,
            last: None,
        }
    }

    /// Segments that users gain per second of work.
    fn gain(&self) -> f64 {
        self.gained / self.worked
    }

    /// True if the cleaner would keep up with the use in half of its time.
    pub fn has_time(&self) -> bool {
        2.0 * self.using <= self.gain()
    }

    /// Starts a pass: there is work until the high mark is reached.
    pub fn begin(&mut self) {
        self.working = true;
    }

    /// The share of its time that the cleaner should work now: 0 to rest, 1 without a
    /// pause.
    pub fn share(&mut self, gauge: &Gauge) -> f64 {
        if gauge.waiting {
            self.working = true;
            return 1.0;
        }
        if gauge.clean >= gauge.high {
            self.working = false;
            return 0.0;
        }
        // No request is delayed by it.
        if gauge.idle {
            return 1.0;
        }
        self.working |= gauge.clean < gauge.low;
        if !self.working {
            return 0.0;
        }
        let keeps_up = self.using / self.gain().max(f64::MIN_POSITIVE);
        gauge.pressure().max(keeps_up).clamp(LEAST_SHARE, 1.0)
    }

    /// Nanoseconds of rest after a step that took `took_ns` at this share.
    pub fn rest_ns(took_ns: u64, share: f64) -> u64 {
        if share >= 1.0 {
            return 0;
        }
        let rest = took_ns as f64 * (1.0 / share.max(LEAST_SHARE) - 1.0);
        (rest as u64).min(LONGEST_REST_NS)
    }

    /// Records work that ended at `now_ns` (monotonic) and took `worked_ns`. Its gain is
    /// in bytes of clean segments, minus the bytes written by it and by checkpoints. A
    /// step with a checkpoint may have lost, and the following ones then gain. Users have
    /// taken `used_bytes` since the mount. Writing a segment takes `write_ns`.
    pub fn learn(
        &mut self,
        now_ns: u64,
        worked_ns: u64,
        gained_bytes: i64,
        used_bytes: u64,
        write_ns: u64,
    ) {
        if let Some((then_ns, then_bytes)) = self.last {
            let passed = now_ns.saturating_sub(then_ns) as f64 / 1e9;
            let used = used_bytes.saturating_sub(then_bytes) as f64 / self.segment_bytes;
            if passed > 0.0 {
                let fresh = passed / (passed + USE_SECONDS);
                self.using += fresh * (used / passed - self.using);
            }
        }
        self.last = Some((now_ns, used_bytes));
        self.worked += worked_ns as f64 / 1e9;
        self.gained = (self.gained + gained_bytes as f64 / self.segment_bytes).max(MOST_LOST);
        if self.gained > GAINS {
            self.worked *= GAINS / self.gained;
            self.gained = GAINS;
        }
        // Bounded by the largest accepted cost, because barren hours would otherwise be
        // remembered.
        self.worked = self.worked.min(GAINS * dearest_ns(write_ns) / 1e9);
    }

    /// Nanoseconds of the cleaner's work for one clean segment, where writing one takes
    /// `write_ns`.
    pub fn segment_ns(&self, write_ns: u64) -> f64 {
        let dearest = dearest_ns(write_ns);
        match self.gain() {
            gain if gain > 0.0 => (1e9 / gain).clamp(write_ns as f64, dearest),
            _ => dearest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauge(clean: u64) -> Gauge {
        Gauge {
            clean,
            floor: 10,
            low: 20,
            need: 20,
            high: 30,
            ..Gauge::default()
        }
    }

    #[test]
    fn the_closer_to_full_the_harder_it_works() {
        let mut pacer = Pacer::new(4 << 20);
        assert_eq!(pacer.share(&gauge(30)), 0.0);
        assert_eq!(pacer.share(&gauge(20)), 0.0, "not begun above the low mark");
        assert_eq!(
            [19, 10, 0].map(|clean| pacer.share(&gauge(clean))),
            [1.0; 3]
        );
        let shares = [28, 26, 24, 22, 20].map(|clean| pacer.share(&gauge(clean)));
        assert!(shares.is_sorted(), "{shares:?}");
        assert_eq!((shares[1], shares[4]), (0.4, 1.0));
        // Once begun it continues to the high mark, regardless of where it began.
        let mut begun = Pacer::new(4 << 20);
        begun.begin();
        assert_eq!(begun.share(&gauge(25)), 0.5);
        assert_eq!(pacer.share(&gauge(25)), 0.5);
        assert_eq!(pacer.share(&gauge(29)), 0.1);
        assert_eq!(pacer.share(&gauge(30)), 0.0);
        assert_eq!(pacer.share(&gauge(29)), 0.0);
    }

    #[test]
    fn what_is_left_of_the_open_segment_counts() {
        let toll = |clean, open_percent| {
            let gauge = Gauge {
                open_percent,
                ..gauge(clean)
            };
            gauge.toll()
        };
        let tolls = [(19, 99), (13, 50), (13, 0), (12, 50), (11, 99), (11, 1)]
            .map(|(clean, open)| toll(clean, open));
        assert!(tolls.is_sorted(), "{tolls:?}");
        assert!(tolls[5] < 1.0 && toll(11, 0) == 1.0);
        assert!((toll(12, 0) - toll(11, 99)).abs() < 0.01, "a leap");
    }

    #[test]
    fn somebody_who_waits_and_an_idle_volume_take_all_of_it() {
        let mut pacer = Pacer::new(4 << 20);
        let waiting = Gauge {
            waiting: true,
            ..gauge(40)
        };
        assert_eq!(pacer.share(&waiting), 1.0);
        let idle = Gauge {
            idle: true,
            ..gauge(25)
        };
        assert_eq!(Pacer::new(4 << 20).share(&idle), 1.0);
        let enough = Gauge {
            idle: true,
            ..gauge(30)
        };
        assert_eq!(Pacer::new(4 << 20).share(&enough), 0.0);
    }

    #[test]
    fn it_keeps_up_with_what_is_used() {
        const SEGMENT: i64 = 4 << 20;
        let mut pacer = Pacer::new(SEGMENT as u64);
        // In a second with half of it worked, 6 gained and 8 used.
        for second in 0..40 {
            let used = second * 8 * SEGMENT as u64;
            pacer.learn(second * 1_000_000_000, 500_000_000, 6 * SEGMENT, used, 0);
        }
        // 12 a second of work, 8 a second needed.
        pacer.begin();
        let share = pacer.share(&gauge(29));
        assert!((share - 8.0 / 12.0).abs() < 0.01, "{share}");
        assert!((pacer.segment_ns(0) - 1e9 / 12.0).abs() < 1e6);
        // Moving survivors before anything was gained counts for little.
        let used = 320 * SEGMENT as u64;
        pacer.learn(40_000_000_000, 50_000_000, -SEGMENT / 2, used, 0);
        assert!(pacer.segment_ns(0) < 1.2e9 / 12.0);
        pacer.learn(40_100_000_000, 50_000_000, SEGMENT + SEGMENT / 2, used, 0);
        assert!((pacer.segment_ns(0) - 1e9 / 12.0).abs() < 3e6);
    }

    #[test]
    fn what_a_segment_costs_is_believed_within_bounds() {
        let mut pacer = Pacer::new(1 << 20);
        // An hour without gain.
        for pass in 0..3600 {
            pacer.learn(pass, 1_000_000_000, 0, 0, 1_000_000);
        }
        let dearest = pacer.segment_ns(1_000_000);
        assert_eq!(dearest, DEAREST_NS as f64);
        // Soon outweighed, once each segment is gained for 2 ms again.
        for pass in 0..80 {
            pacer.learn(pass, 2_000_000, 1 << 20, 0, 1_000_000);
        }
        assert!((pacer.segment_ns(1_000_000) - 2e6).abs() < 1e6);
        for pass in 0..80 {
            pacer.learn(pass, 2_000, 1 << 20, 0, 1_000_000);
        }
        assert_eq!(pacer.segment_ns(1_000_000), 1e6, "to clean is to write");
        pacer.learn(0, 1, -(100 << 20), 0, 1_000_000);
        assert_eq!(pacer.segment_ns(1_000_000), DEAREST_NS as f64);
    }

    #[test]
    fn rests_follow_from_the_share_and_end() {
        assert_eq!(Pacer::rest_ns(100, 1.0), 0);
        assert_eq!(Pacer::rest_ns(100, 0.5), 100);
        assert_eq!(Pacer::rest_ns(100, 0.25), 300);
        assert_eq!(Pacer::rest_ns(u64::MAX, 0.0), LONGEST_REST_NS);
    }

    #[test]
    fn writers_pay_from_the_low_mark_on_and_all_of_it_before_the_floor() {
        assert_eq!(gauge(20).toll(), 0.0);
        assert!((gauge(17).toll() - 1.0 / 27.0).abs() < 1e-9);
        assert_eq!(
            [15, 16].map(|clean| gauge(clean).is_pressed()),
            [true, false]
        );
        let cautious = Gauge {
            low: 1000,
            high: 2000,
            ..gauge(21)
        };
        assert_eq!(cautious.toll(), 0.0);
        assert_eq!(gauge(11).toll(), 1.0, "a segment ahead");
        assert_eq!(gauge(0).toll(), 1.0);
        let absurd = Gauge {
            floor: 50,
            high: 12,
            ..gauge(11)
        };
        assert_eq!((absurd.toll(), absurd.pressure()), (1.0, 1.0));
    }

    /// A steep slope leaves no segment ahead of the low watermark.
    #[test]
    fn on_a_slope_of_three_segments_all_is_paid_at_the_floor_alone() {
        let toll = |slope: u64, clean| {
            let gauge = Gauge {
                need: 10 + slope,
                low: 10 + slope,
                ..gauge(clean)
            };
            gauge.toll()
        };
        assert_eq!((toll(3, 13), toll(3, 10), toll(3, 9)), (0.0, 1.0, 1.0));
        assert!((toll(3, 11) - 8.0 / 27.0).abs() < 1e-9);
        assert_eq!((toll(4, 14), toll(4, 11)), (0.0, 1.0));
        assert!((toll(4, 12) - 8.0 / 27.0).abs() < 1e-9);
    }
}
