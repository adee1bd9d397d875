//! Room that is about to come back.
//!
//! A removed file goes when the kernel forgets it, which it says a moment after
//! the removal was answered and by another way than the next request comes.
//! Who removes a file of a full volume and writes another at once must not find
//! it still full: with a removal that recent, a request that is refused for want
//! of room is tried again a little later, and answered then. A thread that
//! serves requests does not wait for that: it puts the request off
//! (`Later::room`), and only a thread that others can do without is patient.
//!
//! A request that may yet be put off must leave nothing behind when it is
//! refused: [`Request::patient_until`] says that it may.

use super::{Adapter, Outcome};
use crate::errno::Errno;
use crate::protocol::Opcode;
use crate::reply::Reply;
use crate::request::Request;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use varve_fs::Layout;

/// A removal is recent for so long.
const RECENT: Duration = Duration::from_secs(1);
/// After so long a volume is full in earnest.
const PATIENCE: Duration = Duration::from_millis(500);

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

    /// True if room may be about to come back.
    fn are_recent(&self) -> bool {
        self.began.elapsed() < Duration::from_millis(self.recent_until_ms.load(Relaxed))
    }

    /// Until when a request that begins now may be put off.
    pub(super) fn patience(&self) -> Option<Instant> {
        self.are_recent().then(|| Instant::now() + PATIENCE)
    }
}

impl<L: Layout> Adapter<L> {
    /// True if a request that was refused so is to be put off. Questions repeat
    /// what became of others, and put themselves off.
    pub(super) fn puts_off(&self, request: &Request<'_>, errno: Errno) -> bool {
        let asks = matches!(request.opcode(), Some(Opcode::Getattr | Opcode::Statx));
        errno == Errno::NO_SPACE && !asks
    }

    /// Tries a request again that was put off: `request` is all of it.
    pub(super) fn try_again(&self, request: &[u8], until: Instant, reply: &mut Reply) -> Outcome {
        let Ok(mut request) = Request::parse(request) else {
            return Outcome::Error(Errno::INVALID); // it was parsed before
        };
        let goes_on = Instant::now() < until && self.removals.are_recent();
        request.patient_until = goes_on.then_some(until);
        self.attempt(&request, reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_after_a_removal_is_there_anything_to_wait_for() {
        let removals = Removals::new();
        assert!(removals.patience().is_none());
        removals.note();
        let until = removals.patience().expect("a removal is recent");
        assert!(until > Instant::now() && until <= Instant::now() + PATIENCE);
    }
}
