//! The time, for all layers below the command line.
//!
//! No part of the library reads the host's clock directly: it asks a `Clock`. The host
//! clock serves mounts. The virtual one serves tests, the crash explorer and the
//! simulated disks, where the same seed must give the same instants.

use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// A source of time, shared by all parts of one volume.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Returns the wall-clock time in nanoseconds since 1970-01-01 UTC. It may be
    /// negative, and it may jump when the host's clock is set.
    fn now_ns(&self) -> i64;

    /// Returns the nanoseconds since an arbitrary origin; the value never decreases.
    fn monotonic_ns(&self) -> u64;
}

/// The host's clocks.
///
/// The wall-clock time advances with the kernel's tick, because the kernel stamps files
/// with that clock. Under write-back the kernel stamps a file that is written, and the
/// file system one that is created. With a finer clock here, a file written after
/// another one was created could appear to be the older one.
#[derive(Debug)]
pub struct HostClock {
    origin: std::time::Instant,
}

impl Default for HostClock {
    fn default() -> Self {
        HostClock {
            origin: std::time::Instant::now(),
        }
    }
}

impl Clock for HostClock {
    fn now_ns(&self) -> i64 {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        now.tv_sec
            .saturating_mul(1_000_000_000)
            .saturating_add(now.tv_nsec)
    }

    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A clock that advances only on request, or by a fixed step at every reading.
#[derive(Debug)]
pub struct VirtualClock {
    now_ns: AtomicI64,
    step_ns: i64,
}

impl VirtualClock {
    /// Creates a clock that starts at `start_ns` (nanoseconds since 1970) and advances
    /// by `step_ns` at every reading, so that successive events differ.
    pub fn new(start_ns: i64, step_ns: i64) -> Self {
        VirtualClock {
            now_ns: AtomicI64::new(start_ns),
            step_ns,
        }
    }

    /// Moves the clock forward by the given time.
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        self.now_ns.fetch_add(by, Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now_ns(&self) -> i64 {
        self.now_ns.fetch_add(self.step_ns, Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed).max(0) as u64
    }
}
