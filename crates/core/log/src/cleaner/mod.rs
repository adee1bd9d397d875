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

use crate::checkpoint::Checkpoints;
use crate::control::Control;
use crate::control::state::CleanerState;
use crate::durability::Durability;
use crate::geometry::Geometry;
use crate::layers::Layers;
use crate::locks::{Rank, Ranked, RankedMutex};
use crate::log::LogState;
use crate::mechanism::{Mechanism, judged_through};
use crate::newest::Newest;
use crate::options::MountOptions;
use crate::policy::Candidate;
use crate::reader::Reader;
use crate::segments::{SegmentState, SegmentTable};
use crate::space::Space;
use crate::statistics::Counters;
use crate::volume::Volume;
use crate::writer::Writer;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use varve_device::sync::MutexGuard;
use varve_device::{Clock, Device};

/// Chooses segments, and empties them when and as far as the mount's pace says.
pub struct Cleaner {
    /// State of the mount's own cleaner between passes: one pass at a time.
    cleaning: RankedMutex<CleanerState>,
    /// Locked while live blocks are moved, so that space which one cleaner was granted
    /// is not used by another.
    moving: RankedMutex<()>,
    /// True while a thread looks for holes.
    finding_holes: AtomicBool,
    writer: Arc<Writer>,
    mechanism: Arc<Mechanism>,
    checkpoints: Arc<Checkpoints>,
    layers: Arc<Layers>,
    space: Arc<Space>,
    clock: Arc<dyn Clock>,
    control: Arc<Control>,
    counters: Arc<Counters>,
    durability: Arc<Durability>,
    device: Arc<dyn Device>,
    geometry: Arc<Newest<Geometry>>,
    log: Arc<RankedMutex<LogState>>,
    options: Arc<MountOptions>,
    reader: Arc<Reader>,
    segments: Arc<RankedMutex<SegmentTable>>,
    volume_tag: u64,
}

impl Cleaner {
    /// The cleaner of a volume.
    pub(crate) fn new(
        volume: &Volume,
        writer: &Arc<Writer>,
        mechanism: &Arc<Mechanism>,
        checkpoints: &Arc<Checkpoints>,
    ) -> Self {
        Cleaner {
            cleaning: RankedMutex::new(Rank::Cleaning, CleanerState::new(volume.options.policy)),
            moving: RankedMutex::new(Rank::Moving, ()),
            finding_holes: AtomicBool::new(false),
            writer: Arc::clone(writer),
            mechanism: Arc::clone(mechanism),
            checkpoints: Arc::clone(checkpoints),
            layers: Arc::clone(&volume.layers),
            space: Arc::clone(&volume.space),
            clock: Arc::clone(&volume.clock),
            control: Arc::clone(&volume.control),
            counters: Arc::clone(&volume.counters),
            durability: Arc::clone(&volume.durability),
            device: Arc::clone(&volume.device),
            geometry: Arc::clone(&volume.geometry),
            log: Arc::clone(&volume.log),
            options: Arc::clone(&volume.options),
            reader: Arc::clone(&volume.reader),
            segments: Arc::clone(&volume.segments),
            volume_tag: volume.volume_tag,
        }
    }

    /// Blocks are moved by the caller, or by none.
    pub(crate) fn moving(&self) -> Ranked<MutexGuard<'_, ()>> {
        self.moving.lock()
    }

    /// The segments a policy may choose from: used, whole, not being cleaned.
    pub fn candidates(&self) -> Vec<Candidate> {
        self.candidates_for(CleanerId::OWN)
    }

    /// As [`Cleaner::candidates`], without those that cleaners other than `id`
    /// have claimed.
    pub fn candidates_for(&self, id: CleanerId) -> Vec<Candidate> {
        self.candidates_among(id, 0..self.geometry.segment_count)
    }

    /// As [`Cleaner::candidates_for`], of these segments.
    fn candidates_among(&self, id: CleanerId, which: Range<u32>) -> Vec<Candidate> {
        let mut candidates = self.idle_segments(which);
        let mut shared = self.control.shared();
        shared.claims.expire(self.clock.monotonic_ns());
        candidates.retain(|c| shared.claims.is_free_for(id, c.segment));
        candidates
    }

    /// As [`Cleaner::candidates`], claimed or not.
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
