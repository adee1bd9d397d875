//! How the cleaner and the writers wait for each other (`docs/design/cleaner.md`, "Pace" and
//! "Waiting").

use crate::cleaner::Cleaner;
use crate::control::pace::Pacer;
use crate::control::state::CleanerState;
use crate::locks::Ranked;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use varve_device::sync::MutexGuard;

/// Longest that a writer waits at once for the cleaner to keep pace; on a slow
/// device a quarter of a segment's write, [`PATIENCE_NS`] at most.
const TOLL_AT_ONCE_NS: u64 = 20_000_000;
/// Less than this is not worth waiting for.
const TOLL_AT_LEAST_NS: u64 = 1_000_000;
/// Most that is owed: what was let pass while nobody came to pay.
const TOLL_AT_MOST_NS: u64 = 1_000_000_000;
/// How often a rest looks whether it is still in order.
const LOOK_NS: u64 = 50_000_000;
/// How often one who waits for the cleaner looks by himself.
const LOOK: Duration = Duration::from_millis(10);
/// How long one waits for the cleaner's thread while it gains nothing.
pub(crate) const PATIENCE_NS: u64 = 500_000_000;

impl Cleaner {
    /// Somebody cleans ahead of need, and gains by it: the mount's own thread,
    /// or a process.
    fn somebody_cleans(&self) -> bool {
        let now_ns = self.clock.monotonic_ns();
        let mut shared = self.control.shared();
        shared.claims.expire(now_ns);
        let threaded = shared.settings.pace.threaded;
        shared.own_thread_gains() || (threaded && shared.claims.gains(now_ns))
    }

    /// Waits until the thread that cleans has gained so much that `enough`, and
    /// no longer than it goes on gaining; then for the pass that is going on, as
    /// long as there is not enough. Returns the right to a pass if the caller
    /// must clean. One without patience waits for a pass at most.
    pub(crate) fn wait_for_cleaner(
        &self,
        patience_ns: u64,
        enough: impl Fn() -> bool,
    ) -> Option<Ranked<MutexGuard<'_, CleanerState>>> {
        let control = &self.control;
        let (mut most, mut since_ns) = (0, self.clock.monotonic_ns());
        let mut next = None;
        loop {
            if enough() {
                return None;
            }
            let now_ns = self.clock.monotonic_ns();
            let clean = self.space.clean_segments_now();
            if clean > most {
                (most, since_ns) = (clean, now_ns);
            }
            if !control.cleans_elsewhere() {
                return Some(self.lock_cleaning());
            }
            let patient = now_ns.saturating_sub(since_ns) < patience_ns;
            if !patient || !control.shared().own_thread_gains() || control.is_closing() {
                // The cleaner's thread begins no pass before he has had his.
                next.get_or_insert_with(|| control.comes_next());
                if let Some(cleaning) = self.try_lock_cleaning() {
                    return Some(cleaning);
                }
            } else {
                control.summon();
            }
            let mut bell = control.bell.0.lock();
            if self.space.clean_segments_now() == clean {
                control.gained.wait_for(&mut bell, LOOK);
            }
        }
    }

    /// A writer waits its part of the time that the cleaner needs to give back
    /// what reached the log. False if nobody cleans: the caller must.
    pub(crate) fn pay_toll(&self) -> bool {
        if !self.somebody_cleans() {
            return false;
        }
        let gauge = self.space.cleaning_gauge();
        let control = &self.control;
        // It may have gone to sleep when nothing was written.
        if gauge.clean < gauge.low {
            control.summon();
        }
        let written = self.space.bytes_logged();
        let taxed = control.taxed_bytes.swap(written, Relaxed);
        let toll = gauge.toll();
        if toll == 0.0 {
            control.owed_ns.store(0, Relaxed);
            return true;
        }
        let segments = written.saturating_sub(taxed) as f64 / self.space.dependable_bytes() as f64;
        let write_ns = self
            .counters
            .speed
            .request_ns(self.space.dependable_bytes());
        let segment_ns = control.shared().pacer.segment_ns(write_ns);
        let fresh = (segments * segment_ns * toll) as u64;
        let owed = control
            .owed_ns
            .fetch_add(fresh, Relaxed)
            .saturating_add(fresh);
        let at_once_ns = (write_ns / 4).clamp(TOLL_AT_ONCE_NS, PATIENCE_NS);
        let part = owed.min(at_once_ns);
        if part < TOLL_AT_LEAST_NS {
            return true;
        }
        // Two may pay for the same; what is left over is not carried for ever.
        let left = owed.saturating_sub(part).min(TOLL_AT_MOST_NS);
        control.owed_ns.store(left, Relaxed);
        self.counters.toll_ns.fetch_add(part, Relaxed);
        control.wait(part);
        true
    }

    /// What the mount's own thread does from now on is work of its pace.
    pub(super) fn work_begins(&self) {
        let now_ns = self.clock.monotonic_ns();
        let gained = self.gained_bytes();
        let mut shared = self.control.shared();
        shared.pacer.begin();
        shared.learnt = (now_ns, gained);
    }

    /// Some of that is done: the pace learns what it has gained. Returns how long
    /// it took, nanoseconds.
    pub(super) fn work_is_done(&self) -> u64 {
        let now_ns = self.clock.monotonic_ns();
        let (gained, used) = (self.gained_bytes(), self.space.bytes_logged());
        let mut shared = self.control.shared();
        let (then_ns, before) = std::mem::replace(&mut shared.learnt, (now_ns, gained));
        let took_ns = now_ns.saturating_sub(then_ns);
        let write_ns = self
            .counters
            .speed
            .request_ns(self.space.dependable_bytes());
        let gained = gained - before;
        shared.pacer.learn(now_ns, took_ns, gained, used, write_ns);
        took_ns
    }

    /// Bytes of clean segments that the cleaner and checkpoints have given back
    /// since the mount, what they wrote taken off.
    pub(super) fn gained_bytes(&self) -> i64 {
        let counters = &self.counters;
        let emptied = counters.segments_emptied.load(Relaxed) * self.space.dependable_bytes();
        let logged =
            counters.cleaner_log_bytes.load(Relaxed) + counters.checkpoint_log_bytes.load(Relaxed);
        emptied as i64 - logged as i64
    }

    /// Rests behind a step of cleaning that took `took_ns`, for as long as the
    /// pace says.
    pub(super) fn rest(&self, took_ns: u64) {
        let begun_ns = self.clock.monotonic_ns();
        loop {
            let gauge = self.space.cleaning_gauge();
            let share = self.control.shared().pacer.share(&gauge);
            let rested_ns = self.clock.monotonic_ns().saturating_sub(begun_ns);
            // Enough already: the pass is about to end.
            let enough = share == 0.0 || rested_ns >= Pacer::rest_ns(took_ns, share);
            if enough || self.control.is_closing() {
                break;
            }
            let rest_ns = Pacer::rest_ns(took_ns, share) - rested_ns;
            self.control.wait(rest_ns.min(LOOK_NS));
            let now_ns = self.clock.monotonic_ns();
            let waited_ns = now_ns.saturating_sub(begun_ns + rested_ns);
            self.counters.cleaner_rest_ns.fetch_add(waited_ns, Relaxed);
        }
        // That was no work.
        let now_ns = self.clock.monotonic_ns();
        self.control.shared().learnt.0 = now_ns;
    }
}
