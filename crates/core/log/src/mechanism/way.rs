//! The cleaner gives way: whoever has met one of its portions at the device is
//! through before the next one comes, though nobody is waited for for ever.
//!
//! Requests of users are counted by turns. Before a portion the turn changes,
//! and what began in the former one is waited for. New requests do not make the
//! cleaner wait, so users without a pause do not stop it: a portion goes behind
//! one request of each.

use crate::control::pace::{Gauge, Pacer};
use crate::lfs::Lfs;
use std::sync::atomic::Ordering::Relaxed as Counted;

/// Portions that take less are in nobody's way.
const LEAST_NS: u64 = 1_000_000;
/// Longest wait, however long a portion takes.
const PATIENCE_NS: u64 = 100_000_000;
/// How often it is looked whether everybody is through.
const LOOK_NS: u64 = 500_000;

/// How long a portion that takes so long waits for users: as long as it takes.
/// That may double what the cleaner needs, so it must have so much time to
/// spare, and half of what lies before a standstill must be left.
fn patience_ns(portion_ns: u64, gauge: &Gauge, pacer: &Pacer) -> u64 {
    match portion_ns {
        0..LEAST_NS => 0,
        _ if gauge.is_pressed() || !pacer.has_time() => 0,
        _ => portion_ns.min(PATIENCE_NS),
    }
}

impl Lfs {
    /// Before a portion of work that nobody waits for.
    pub(crate) fn give_way(&self) {
        let control = &self.control;
        // On somebody else's thread it is he who waits for the portion.
        if !control.is_cleaner() {
            return;
        }
        let speed = &self.counters.speed;
        let portion_ns = speed.request_ns(speed.portion_bytes());
        let gauge = self.cleaning_gauge();
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
