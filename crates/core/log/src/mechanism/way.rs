//! Priority of users over the cleaner: a request that was delayed by one of the cleaner's
//! portions is finished before the next portion begins, within a time limit.
//!
//! User requests are counted by generation. Before a portion a new generation starts, and
//! the cleaner waits for the requests of the former one. New requests do not delay the
//! cleaner, so users without a pause do not stop it: a portion follows one request of
//! each.

use crate::control::pace::{Gauge, Pacer};
use crate::mechanism::Mechanism;
use std::sync::atomic::Ordering::Relaxed as Counted;

/// Nanoseconds of a portion below which it delays no user noticeably.
const LEAST_NS: u64 = 1_000_000;
/// Longest wait, regardless of the portion, in nanoseconds.
const PATIENCE_NS: u64 = 100_000_000;
/// Interval of the checks whether all requests are finished, in nanoseconds.
const LOOK_NS: u64 = 500_000;

/// Longest time that a portion waits for users: as long as the portion takes. That may
/// double the cleaner's time, so it must have as much to spare, and half of the distance
/// to a standstill must be left.
fn patience_ns(portion_ns: u64, gauge: &Gauge, pacer: &Pacer) -> u64 {
    match portion_ns {
        0..LEAST_NS => 0,
        _ if gauge.is_pressed() || !pacer.has_time() => 0,
        _ => portion_ns.min(PATIENCE_NS),
    }
}

impl Mechanism {
    /// Waits for running user requests before a portion of work for which no caller
    /// waits.
    pub(crate) fn give_way(&self) {
        let control = &self.control;
        // On another thread, its caller waits for the portion.
        if !control.is_cleaner() {
            return;
        }
        let speed = &self.counters.speed;
        let portion_ns = speed.request_ns(speed.portion_bytes());
        let gauge = self.space.cleaning_gauge();
        let patience_ns = patience_ns(portion_ns, &gauge, &control.shared().pacer);
        if patience_ns == 0 {
            return;
        }
        let in_the_way = control.way.turn();
        let begun_ns = self.clock.monotonic_ns();
        let mut waited_ns = 0;
        while in_the_way()
            && waited_ns < patience_ns
            && !control.somebody_waits()
            && !control.is_closing()
        {
            control.wait(LOOK_NS.min(patience_ns - waited_ns));
            waited_ns = self.clock.monotonic_ns().saturating_sub(begun_ns);
        }
        self.counters.cleaner_way_ns.fetch_add(waited_ns, Counted);
    }
}
