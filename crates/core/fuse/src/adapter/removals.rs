//! Space that is about to be free.
//!
//! A removed file is freed when the kernel forgets it, which it says a moment after
//! the removal was answered and by another path than the next request comes. Who
//! removes a file of a full volume and writes another at once must not find it still
//! full: as long as the kernel holds a file that was removed just before, a request
//! that is refused for want of space is tried again a little later, and answered then.
//! A thread that serves requests does not wait for that: it puts the request off
//! (`Later::room`), and only a thread that others can do without is patient.
//!
//! A request that may yet be put off must leave nothing behind when it is
//! refused: [`Request::patience`] says that it may.

use super::{Adapter, Outcome};
use crate::errno::Errno;
use crate::protocol::Opcode;
use crate::reply::Reply;
use crate::request::{Patience, Request};
use std::time::{Duration, Instant};
use varve_fs::Layout;

/// After so long a volume is full in earnest.
const WAITS_MAX: Duration = Duration::from_millis(500);
/// Before the second attempt; mostly the kernel has forgotten by then.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// Between two attempts later on.
const PAUSE_MAX: Duration = Duration::from_millis(10);

impl<L: Layout> Adapter<L> {
    /// For how long a request that begins now may be put off.
    pub(super) fn patience(&self) -> Option<Patience> {
        let removal = self.fs.latest_held_removal()?;
        Some(Patience {
            until: Instant::now() + WAITS_MAX,
            removal,
            pause: FIRST_PAUSE,
        })
    }

    /// True if a request that was refused so is to be put off. Questions repeat
    /// what became of others, and put themselves off.
    pub(super) fn puts_off(&self, request: &Request<'_>, errno: Errno) -> bool {
        let asks = matches!(request.opcode(), Some(Opcode::Getattr | Opcode::Statx));
        errno == Errno::NO_SPACE && !asks
    }

    /// Tries a request again that was put off: `request` is all of it. What the kernel
    /// has forgotten before that is free.
    pub(super) fn try_again(
        &self,
        request: &[u8],
        patience: Patience,
        reply: &mut Reply,
    ) -> Outcome {
        let Ok(mut request) = Request::parse(request) else {
            return Outcome::Error(Errno::INVALID); // it was parsed before
        };
        let goes_on = Instant::now() < patience.until && self.fs.awaits_release(patience.removal);
        request.patience = goes_on.then_some(Patience {
            pause: (2 * patience.pause).min(PAUSE_MAX),
            ..patience
        });
        self.attempt(&request, reply)
    }
}
