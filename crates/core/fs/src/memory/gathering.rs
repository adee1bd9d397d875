//! Commits that wait for company: the thresholds of group commit.
//!
//! Without an interval, the default, nobody waits: whoever arrives while a flush runs
//! goes with the next one, and the flush itself is the interval. With one, the first
//! that comes opens a *batch*, and waits; the batch is closed when the interval is
//! over, when it has enough commits, or when these changed enough. All of it goes on
//! then: the first captures for all, or finds that somebody has, and flushes. Who is
//! durable by somebody else's flush, a sync's, has no more reason to wait, and leaves
//! the batch. A capture alone is none: each begin of a snapshot makes one.
//!
//! Nobody waits longer than the interval, and nothing is acknowledged here: it delays
//! a flush, no more.
//!
//! Source: Seltzer 1992, §5.2.4 (interval, number of commits, bytes).

use crate::options::GroupCommit;
use std::time::Duration;
use varve_device::Clock;
use varve_device::sync::{Condvar, Mutex};

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    batch: Mutex<Batch>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Batch {
    /// How many have been closed.
    closed: u64,
    /// Commits that wait in this one.
    commits: u32,
    /// What they changed.
    bytes: u64,
    /// When the first of them came.
    since_ns: u64,
}

impl Batch {
    fn is_full(&self, limits: &GroupCommit) -> bool {
        let reached = |limit: u64, now: u64| limit > 0 && now >= limit;
        reached(limits.commits.into(), self.commits.into()) || reached(limits.bytes, self.bytes)
    }
}

impl Gathering {
    /// A commit that changed so many bytes waits for company, or until it need not:
    /// it is durable, or cannot become so.
    pub fn wait(
        &self,
        limits: &GroupCommit,
        clock: &dyn Clock,
        bytes: u64,
        is_over: impl Fn() -> bool,
    ) {
        let interval_ns = u64::try_from(limits.interval.as_nanos()).unwrap_or(u64::MAX);
        let mut batch = self.batch.lock();
        if batch.commits == 0 {
            batch.since_ns = clock.monotonic_ns();
        }
        batch.commits += 1;
        batch.bytes += bytes;
        let mine = batch.closed;
        let end_ns = batch.since_ns.saturating_add(interval_ns);
        while batch.closed == mine {
            if is_over() {
                batch.commits -= 1;
                batch.bytes -= bytes;
                return;
            }
            let left_ns = end_ns.saturating_sub(clock.monotonic_ns());
            if left_ns == 0 || batch.is_full(limits) {
                *batch = Batch {
                    closed: mine + 1,
                    ..Batch::default()
                };
                self.changed.notify_all();
                return;
            }
            let left = Duration::from_nanos(left_ns);
            self.changed.wait_for(&mut batch, left);
        }
    }

    /// More is durable than before, or nothing more will be: those that wait look.
    pub fn flushed(&self) {
        // With the lock: nobody is between his look and his wait.
        drop(self.batch.lock());
        self.changed.notify_all();
    }

    /// Commits that wait now.
    #[cfg(test)]
    pub fn waiting(&self) -> u32 {
        self.batch.lock().commits
    }
}
