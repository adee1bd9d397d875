//! The cleaner: how a segment is emptied is in `crate::mechanism`, the policy behind one
//! trait (`crate::policy`), what is kept between passes and shared with others in
//! `crate::control`. Here is when it works and what for.
//!
//! | file | its part |
//! |---|---|
//! | `holes.rs`, `maps.rs` | finding holes to write into |
//! | `due.rs`, `pass.rs`, `plan.rs`, `gain.rs`, `early.rs` | the mount's own cleaner: when, one pass, and what makes room |
//! | `settings.rs`, `waits.rs` | how it is told to work, and who waits for whom |
//! | `coalesce.rs` | files in pieces are put in order |
//! | `remote.rs`, `wire.rs`, `client.rs` | the four calls for other processes, and such a process |

pub mod client;
mod coalesce;
mod due;
mod early;
mod gain;
mod holes;
mod maps;
mod pass;
mod plan;
mod remote;
mod settings;
#[cfg(test)]
mod tests;
mod waits;
pub mod wire;

pub use crate::control::claims::{CleanerId, CleanerInfo, LEASE_NS};
pub use crate::control::contents::{BlockInfo, SegmentContents};
pub use crate::control::{CleanerSettings, CleanerStatus, Pace, pace};
pub use crate::mechanism::Found;
pub use coalesce::Coalesced;
pub(crate) use plan::Urgency;
pub use remote::CallError;
pub(crate) use waits::PATIENCE_NS;

use crate::lfs::Lfs;
use crate::mechanism::judged_through;
use crate::policy::Candidate;
use crate::segments::SegmentState;
use std::ops::Range;

impl Lfs {
    /// The segments a policy may choose from: used, whole, not being cleaned.
    pub fn candidates(&self) -> Vec<Candidate> {
        self.candidates_for(CleanerId::OWN)
    }

    /// As [`Lfs::candidates`], without those that cleaners other than `id`
    /// have claimed.
    pub fn candidates_for(&self, id: CleanerId) -> Vec<Candidate> {
        self.candidates_among(id, 0..self.geometry.segment_count)
    }

    /// As [`Lfs::candidates_for`], of these segments.
    fn candidates_among(&self, id: CleanerId, which: Range<u32>) -> Vec<Candidate> {
        let mut candidates = self.idle_segments(which);
        let mut shared = self.control.shared();
        shared.claims.expire(self.clock.monotonic_ns());
        candidates.retain(|c| shared.claims.is_free_for(id, c.segment));
        candidates
    }

    /// As [`Lfs::candidates`], claimed or not.
    fn all_candidates(&self) -> Vec<Candidate> {
        self.idle_segments(0..self.geometry.segment_count)
    }

    /// Those of these segments that are used, whole and not being cleaned.
    fn idle_segments(&self, which: Range<u32>) -> Vec<Candidate> {
        // Under the log's lock, or the log may enter and leave a segment
        // between one question and the next.
        let log = self.log.lock();
        // What is still on its way cannot be read whole.
        let landed = self.durability.oldest_in_flight().unwrap_or(u64::MAX);
        let committed = self.layers.read();
        let known = judged_through(&committed);
        let segments = self.segments.lock();
        which
            .map(|number| (number, segments.get(number)))
            .filter(|(number, segment)| {
                segment.state == SegmentState::Used
                    && segment.last_serial < landed
                    && segment.last_serial <= known
                    && !segment.suspect
                    && segment.cleaned.is_none()
                    && !segments.has_spilled(*number)
                    && !log.end.stands_in(*number)
            })
            .map(|(number, segment)| Candidate {
                segment: number,
                live_bytes: (i64::from(segment.live_bytes) + committed.added(number)).max(0) as u64,
                segment_bytes: self.space.dependable_bytes(),
                newest_ns: segment.newest_ns,
            })
            .collect()
    }
}
