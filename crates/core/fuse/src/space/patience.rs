//! Space that a removed file will free in a moment.
//!
//! The file is freed when the kernel forgets it. The kernel says so a moment after the removal
//! was answered, and over another path than the next request. A program that removes a file of
//! a full volume and then writes another one must not be refused. Therefore, while the kernel
//! holds a file that was removed recently, a request that is refused for space is repeated a
//! little later, and answered then. A thread that serves requests does not wait for that:
//! the request becomes a [`crate::Later`].
//!
//! A request that may be repeated must have no effect when it is refused;
//! `Request::patience` says that it may.
//!
//! Invariant: `FIRST_PAUSE ≤ pause ≤ PAUSE_MAX`, and the last attempt begins by
//! `until + PAUSE_MAX`.

use std::time::{Duration, Instant};

/// Longest time for which a request waits. After that the volume counts as full.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// Time before the second attempt. In most cases the kernel has forgotten the file by then.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// Longest time between two attempts.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// How long a request may still be repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    until: Instant,
    /// The newest removal when the request arrived.
    removal: u64,
    pause: Duration,
}

impl Patience {
    /// Patience with the removals up to number `removal`.
    pub(crate) fn with_removals(removal: u64) -> Self {
        Patience {
            removal,
            ..Patience::until(Instant::now() + WAIT_MAX)
        }
    }

    /// Patience until a time, for a request that waits for the end of a merge.
    pub(crate) fn until(until: Instant) -> Self {
        Patience {
            until,
            removal: 0,
            pause: FIRST_PAUSE,
        }
    }

    /// Time to wait before the next attempt.
    pub(crate) fn pause(&self) -> Duration {
        self.pause
    }

    /// Makes the next attempt the last one.
    pub(crate) fn end(&mut self) {
        self.until = Instant::now();
    }

    /// The patience of the next attempt; nothing if it is the last one. `is_awaited` says
    /// whether the kernel still holds a file of the removals up to a number.
    pub(crate) fn next(self, is_awaited: impl FnOnce(u64) -> bool) -> Option<Self> {
        assert!((FIRST_PAUSE..=PAUSE_MAX).contains(&self.pause));
        let goes_on = Instant::now() < self.until && is_awaited(self.removal);
        goes_on.then_some(Patience {
            pause: (2 * self.pause).min(PAUSE_MAX),
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_until_the_file_is_forgotten() {
        let mut patience = Patience::with_removals(7);
        let mut pauses = vec![patience.pause()];
        for _ in 0..6 {
            patience = patience.next(|removal| removal == 7).unwrap();
            pauses.push(patience.pause());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 10, 10, 10].map(Duration::from_millis));
        assert!(patience.next(|_| false).is_none());
        patience.end();
        assert!(patience.next(|_| true).is_none());
    }
}
