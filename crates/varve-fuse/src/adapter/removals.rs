//! Room that is about to come back.
//!
//! A removed file goes when the kernel forgets it, which it says a moment after
//! the removal was answered and by another way than the next request comes.
//! Who removes a file of a full volume and writes another at once must not find
//! it still full: with a removal that recent, whoever needs room waits a little
//! and tries again.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// A removal is recent for so long.
const RECENT: Duration = Duration::from_secs(1);
/// A wait for what it frees.
const PAUSE: Duration = Duration::from_millis(10);
/// So many of them before a volume is full in earnest.
const PAUSES: usize = 50;

/// When something was last removed.
pub(super) struct Removals {
    began: Instant,
    /// Milliseconds from `began` to the end of the last one's time, or 0.
    recent_until_ms: AtomicU64,
}

impl Removals {
    pub(super) fn new() -> Self {
        Removals {
            began: Instant::now(),
            recent_until_ms: AtomicU64::new(0),
        }
    }

    /// A name was removed.
    pub(super) fn note(&self) {
        let until = self.began.elapsed() + RECENT;
        let until_ms = until.as_millis() as u64;
        self.recent_until_ms.store(until_ms, Relaxed);
    }

    /// Tries until there is room, or nothing is left to wait for.
    pub(super) fn retry<T>(
        &self,
        mut work: impl FnMut() -> T,
        lacks_room: impl Fn(&T) -> bool,
    ) -> T {
        for _ in 0..PAUSES {
            let answer = work();
            let recent_until = Duration::from_millis(self.recent_until_ms.load(Relaxed));
            if !lacks_room(&answer) || self.began.elapsed() >= recent_until {
                return answer;
            }
            thread::sleep(PAUSE);
        }
        work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tries_until(removals: &Removals, enough: usize) -> usize {
        let mut tries = 0;
        let work = || {
            tries += 1;
            tries
        };
        removals.retry(work, |&n| n < enough)
    }

    #[test]
    fn only_after_a_removal_is_there_anything_to_wait_for() {
        let removals = Removals::new();
        assert_eq!(tries_until(&removals, 3), 1);
        removals.note();
        assert_eq!(tries_until(&removals, 1), 1);
        assert_eq!(tries_until(&removals, 3), 3);
        // On a busy host the removal ceases to be recent before that.
        let tries = tries_until(&removals, usize::MAX);
        assert!((2..=PAUSES + 1).contains(&tries), "{tries}");
    }
}
