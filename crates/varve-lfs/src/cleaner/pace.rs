//! How hard the cleaner works: pure functions of the space that is left.
//!
//! The law is proportional. Between the mark at which cleaning ends (`high`)
//! and that at which it begins (`low`), the share of its time that the cleaner
//! works grows from nothing to all of it; if segments are used up faster than
//! that would give back, it works as much as keeps up. Below `low` it does not
//! rest: the less room there is, the less can be moved for a pair of
//! checkpoints, and the dearer each segment becomes. There is no phase in which everything stops: one step is one
//! segment (or as many as a policy sorts together), and rests lie between
//! steps.
//!
//! Writers are held to the pace of the cleaner from the other side: below
//! `need` each pays, for the bytes that reached the log, a part of the time that
//! the cleaner needs to give as many back. It grows with the fourth power of the
//! way to `floor`, where callers must wait for clean segments; there it is all.
//! A `low` that was set higher than need be does not slow anybody down.

/// Clean segments, and the marks between which they are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauge {
    /// Clean segments now.
    pub clean: u64,
    /// Below this many, callers wait for more.
    pub floor: u64,
    /// Below this many, cleaning begins.
    pub low: u64,
    /// Below this many, writers are held back; no more than `low`.
    pub need: u64,
    /// It goes on until there are this many.
    pub high: u64,
    /// Bytes of the log that users have taken since the mount.
    pub used_bytes: u64,
    /// Nobody has asked for anything for as long as the idle threshold says;
    /// always false if there is none.
    pub idle: bool,
    /// Somebody waits for room at this moment.
    pub waiting: bool,
}

/// Least share of its time that a cleaner works once it has begun.
const LEAST_SHARE: f64 = 0.05;
/// Longest rest between two steps, nanoseconds.
const LONGEST_REST_NS: u64 = 1_000_000_000;
/// How much of a new measurement goes into the average.
const FRESH: f64 = 0.3;
/// What cleaning is assumed to give before it has been measured: bytes of
/// clean segments per second of work.
const ASSUMED_GAIN: f64 = (32 << 20) as f64;

/// Remembers whether the cleaner is at work, and how fast segments come and
/// go.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    segment_bytes: f64,
    working: bool,
    /// Segments that users gain per second of work: what the cleaner itself
    /// writes is taken off.
    gain: f64,
    /// Segments used up per second.
    using: f64,
    last: Option<(u64, Gauge)>,
}

impl Gauge {
    /// How far clean segments have fallen from `high` to `low`, in `[0, 1]`.
    pub fn pressure(&self) -> f64 {
        share_between(self.clean, self.high, self.low)
    }

    /// What part of the cleaner's time a writer must wait for what it writes:
    /// 0 at `need` and above, 1 at `floor`.
    pub fn toll(&self) -> f64 {
        self.way_to_floor().powi(4)
    }

    /// More than half of what lies between need and a standstill is gone.
    pub fn is_pressed(&self) -> bool {
        self.way_to_floor() > 0.5
    }

    fn way_to_floor(&self) -> f64 {
        share_between(self.clean, self.need.min(self.low), self.floor)
    }
}

/// Where `at` lies on the way down from `from` to `to`, in `[0, 1]`.
fn share_between(at: u64, from: u64, to: u64) -> f64 {
    if at >= from {
        return 0.0;
    }
    if at <= to || from <= to {
        return 1.0;
    }
    (from - at) as f64 / (from - to) as f64
}

impl Pacer {
    /// One that has seen nothing yet, for segments of so many bytes.
    pub fn new(segment_bytes: u64) -> Self {
        let segment_bytes = segment_bytes.max(1) as f64;
        Pacer {
            segment_bytes,
            working: false,
            gain: ASSUMED_GAIN / segment_bytes,
            using: 0.0,
            last: None,
        }
    }

    /// A pass begins: there is work until the high mark is reached.
    pub fn begin(&mut self) {
        self.working = true;
    }

    /// The share of its time that the cleaner is to work now: 0 to rest, 1
    /// without a pause.
    pub fn share(&mut self, gauge: &Gauge) -> f64 {
        if gauge.waiting {
            self.working = true;
            return 1.0;
        }
        if gauge.clean >= gauge.high {
            self.working = false;
            return 0.0;
        }
        // Nobody is in the way.
        if gauge.idle {
            return 1.0;
        }
        self.working |= gauge.clean < gauge.low;
        if !self.working {
            return 0.0;
        }
        let keeps_up = self.using / self.gain.max(f64::MIN_POSITIVE);
        gauge.pressure().max(keeps_up).clamp(LEAST_SHARE, 1.0)
    }

    /// Nanoseconds of rest behind a step that took `took_ns` at this share.
    pub fn rest_ns(took_ns: u64, share: f64) -> u64 {
        if share >= 1.0 {
            return 0;
        }
        let rest = took_ns as f64 * (1.0 / share.max(LEAST_SHARE) - 1.0);
        (rest as u64).min(LONGEST_REST_NS)
    }

    /// Learns from what has happened until `now_ns` (monotonic), of which the
    /// cleaner worked `worked_ns`.
    pub fn learn(&mut self, now_ns: u64, worked_ns: u64, gauge: &Gauge) {
        if let Some((then_ns, then)) = self.last {
            let passed = now_ns.saturating_sub(then_ns) as f64 / 1e9;
            let worked = worked_ns as f64 / 1e9;
            let used = gauge.used_bytes.saturating_sub(then.used_bytes) as f64;
            let used = used / self.segment_bytes;
            let gained = (gauge.clean as f64 + used - then.clean as f64).max(0.0);
            if passed > 0.0 {
                self.using += FRESH * (used / passed - self.using);
            }
            if worked > 0.0 {
                self.gain += FRESH * (gained / worked - self.gain);
            }
        }
        self.last = Some((now_ns, *gauge));
    }

    /// Nanoseconds of the cleaner's work that give one segment back.
    pub fn segment_ns(&self) -> f64 {
        let least = ASSUMED_GAIN / self.segment_bytes / 100.0;
        1e9 / self.gain.max(least)
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
        // Once begun it goes on to the high mark, wherever it began.
        let mut begun = Pacer::new(4 << 20);
        begun.begin();
        assert_eq!(begun.share(&gauge(25)), 0.5);
        assert_eq!(pacer.share(&gauge(25)), 0.5);
        assert_eq!(pacer.share(&gauge(29)), 0.1);
        assert_eq!(pacer.share(&gauge(30)), 0.0);
        assert_eq!(pacer.share(&gauge(29)), 0.0);
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
        let mut pacer = Pacer::new(4 << 20);
        pacer.learn(0, 0, &gauge(19));
        // In a second with half of it worked, 6 gained and 8 used.
        let mut now = gauge(17);
        for second in 1..40 {
            now.used_bytes += 8 * (4 << 20);
            now.clean = 17;
            let before = Gauge {
                clean: 19,
                used_bytes: now.used_bytes - 8 * (4 << 20),
                ..now
            };
            pacer.last = Some(((second - 1) * 1_000_000_000, before));
            pacer.learn(second * 1_000_000_000, 500_000_000, &now);
        }
        // 12 a second of work, 8 a second needed.
        pacer.begin();
        let share = pacer.share(&Gauge { clean: 29, ..now });
        assert!((share - 8.0 / 12.0).abs() < 0.01, "{share}");
        assert!((pacer.segment_ns() - 1e9 / 12.0).abs() < 1e6);
    }

    #[test]
    fn rests_follow_from_the_share_and_end() {
        assert_eq!(Pacer::rest_ns(100, 1.0), 0);
        assert_eq!(Pacer::rest_ns(100, 0.5), 100);
        assert_eq!(Pacer::rest_ns(100, 0.25), 300);
        assert_eq!(Pacer::rest_ns(u64::MAX, 0.0), LONGEST_REST_NS);
    }

    #[test]
    fn writers_pay_from_the_low_mark_on_and_all_of_it_at_the_floor() {
        assert_eq!(gauge(20).toll(), 0.0);
        assert_eq!(gauge(15).toll(), 0.0625);
        assert_eq!(
            [14, 15].map(|clean| gauge(clean).is_pressed()),
            [true, false]
        );
        let cautious = Gauge {
            low: 1000,
            high: 2000,
            ..gauge(21)
        };
        assert_eq!(cautious.toll(), 0.0);
        assert_eq!(gauge(10).toll(), 1.0);
        assert_eq!(gauge(0).toll(), 1.0);
        let absurd = Gauge {
            floor: 50,
            high: 12,
            ..gauge(11)
        };
        assert_eq!((absurd.toll(), absurd.pressure()), (1.0, 1.0));
    }
}
