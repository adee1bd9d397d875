//! The decision whether a request is served by the thread that received it.
//!
//! Only this thread receives. Before a request that takes time it hands the role of
//! receiving over to another thread, so that the device gets several requests at once.
//! But waking a thread costs more than a request of memory or of a page cache. Requests
//! are therefore timed by kind, and kinds that were lately faster than a wake-up are
//! served by the receiving thread.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::request::{Action, Request};

/// Time in ns from which a request is worth another thread.
const QUICK_NS: u64 = 60_000;
/// Maximum value of a single sample, in ns, so that one delay does not change the
/// decision.
const SAMPLE_NS_MAX: u64 = 4 * QUICK_NS;
/// Length in bytes above which requests are timed separately.
const SMALL_BYTES: u32 = 16 << 10;

/// The recent durations of requests, by kind: a decaying mean.
#[derive(Debug)]
pub(crate) struct Pace {
    mean_ns: [AtomicU64; 6],
}

impl Pace {
    pub(crate) fn new() -> Self {
        // A kind counts as slow until it was measured.
        Pace {
            mean_ns: [const { AtomicU64::new(2 * QUICK_NS) }; 6],
        }
    }

    fn mean(&self, request: &Request) -> &AtomicU64 {
        let long = usize::from(request.length > SMALL_BYTES);
        let kind = match request.action {
            _ if request.fua => 4,
            Action::Read { .. } => long,
            Action::Write => 2 + long,
            Action::Flush => 4,
            Action::Trim | Action::Zero { .. } | Action::Status { .. } => 5,
        };
        &self.mean_ns[kind]
    }

    /// Returns true if a request of this kind is served faster than another thread is
    /// woken.
    pub(crate) fn is_quick(&self, request: &Request) -> bool {
        self.mean(request).load(Relaxed) < QUICK_NS
    }

    /// Records the duration of a request.
    pub(crate) fn took(&self, request: &Request, time: Duration) {
        let sample =
            u64::try_from(time.as_nanos()).map_or(SAMPLE_NS_MAX, |ns| ns.min(SAMPLE_NS_MAX));
        let mean = self.mean(request);
        let old = mean.load(Relaxed);
        // Two threads may lose one of their samples, which is one of many.
        mean.store((7 * old + sample) / 8, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn habits_count_and_single_delays_do_not() {
        let pace = Pace::new();
        let request = Request {
            action: Action::Read { whole: false },
            cookie: 0,
            offset: 0,
            length: 4096,
            fua: false,
        };
        assert!(!pace.is_quick(&request));
        (0..20).for_each(|_| pace.took(&request, Duration::from_micros(3)));
        assert!(pace.is_quick(&request));
        pace.took(&request, Duration::from_secs(1));
        assert!(pace.is_quick(&request));
        let large = Request {
            length: 1 << 20,
            ..request
        };
        assert!(!pace.is_quick(&large), "kinds are apart");
        (0..20).for_each(|_| pace.took(&request, Duration::from_millis(1)));
        assert!(!pace.is_quick(&request));
    }
}
