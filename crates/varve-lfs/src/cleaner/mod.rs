//! The cleaner: mechanism here, policy behind one trait.
//!
//! The mechanism is the four calls of the thesis (table 6-4): [`Lfs::bmapv`]
//! says which blocks are live, [`Lfs::markv`] appends copies of them,
//! [`Lfs::segwait`] waits until segments have been used up, and
//! [`Lfs::segclean`] declares a segment done. A move counts only if the block
//! still is where it was read when its copy is appended (protocol rules 18
//! and 19). Index nodes and ifile blocks are not moved but *touched*: the next
//! checkpoint rewrites them. A segment becomes clean when two checkpoints have
//! found it empty (rule 20).

mod mechanism;
pub mod policy;
#[cfg(test)]
mod tests;

pub use mechanism::{BlockInfo, Found, SegmentContents};

use crate::committed::Committed;
use crate::error::Result;
use crate::lfs::Lfs;
use crate::segments::{Segment, SegmentState};
use policy::{Candidate, Greedy, Policy};
use std::sync::atomic::Ordering::Relaxed;

/// How much a pass may cost for what it gains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Nobody waits: segments are cleaned that give an eighth back at least.
    Background,
    /// A caller waits for room: every segment the policy finds worth it.
    Waiting,
}

/// What the cleaner keeps between passes.
#[derive(Debug)]
pub struct CleanerState {
    policy: Box<dyn Policy>,
    /// Serial of the log's end after a pass that gained nothing.
    fruitless_at: Option<u64>,
}

impl Default for CleanerState {
    fn default() -> Self {
        CleanerState {
            policy: Box::new(Greedy),
            fruitless_at: None,
        }
    }
}

impl Lfs {
    /// The segments a policy may choose from: used, whole, not being cleaned.
    pub fn candidates(&self) -> Vec<Candidate> {
        self.candidates_with(|segment| !segment.suspect && segment.cleaned.is_none())
    }

    fn candidates_with(&self, wanted: impl Fn(&Segment) -> bool) -> Vec<Candidate> {
        // Under the log's lock, or the log may enter and leave a segment
        // between one question and the next.
        let log = self.log.lock();
        let log_segment = log.position.segment.get();
        // What is still on its way cannot be read whole.
        let landed = self.durability.oldest_in_flight().unwrap_or(u64::MAX);
        let committed = self.committed.read();
        let known = judged_through(&committed);
        let segments = self.segments.lock();
        let added = |number: u32| {
            let frozen = committed.frozen.as_ref().and_then(|f| f.usage.get(&number));
            committed.live.usage.get(&number).unwrap_or(&0) + frozen.unwrap_or(&0)
        };
        segments
            .iter()
            .filter(|(number, segment)| {
                segment.state == SegmentState::Used
                    && segment.last_serial < landed
                    && segment.last_serial <= known
                    && wanted(segment)
                    && *number != log_segment
            })
            .map(|(number, segment)| Candidate {
                segment: number,
                live_bytes: (i64::from(segment.live_bytes) + added(number)).max(0) as u64,
                segment_bytes: self.dependable_bytes(),
                newest_ns: segment.newest_ns,
            })
            .collect()
    }

    /// Makes clean segments: first by checkpoints, if segments only wait for
    /// those, then by moving live blocks. Returns whether more are clean than
    /// before, and how many segments were cleaned on the way.
    pub(crate) fn gain_segments(&self, urgency: Urgency) -> Result<(bool, u32)> {
        let before = self.segments.lock().clean_count();
        let gained = || self.segments.lock().clean_count() > before;
        let fits = self.checkpoint_fits();
        if fits && (self.pending_deaths(urgency) || self.waiting_for_checkpoint()) {
            self.take_checkpoint(false)?;
            if !gained() && self.waiting_for_checkpoint() && self.checkpoint_fits() {
                self.take_checkpoint(false)?;
            }
            if gained() {
                return Ok((true, 0));
            }
        }
        let cleaned = self.clean_segments(urgency)?;
        if cleaned > 0 && self.checkpoint_fits() {
            self.take_checkpoint(false)?;
            if !gained() && self.checkpoint_fits() {
                self.take_checkpoint(false)?;
            }
        }
        Ok((gained(), cleaned))
    }

    /// True if a segment is empty, or will be once the running changes are
    /// folded, and only waits for checkpoints to say so twice.
    fn waiting_for_checkpoint(&self) -> bool {
        self.candidates_with(|segment| !segment.suspect)
            .iter()
            .any(|candidate| candidate.live_bytes == 0)
            || self
                .segments
                .lock()
                .iter()
                .any(|(_, segment)| segment.cleaned.is_some())
    }

    /// Changes that, once folded, may leave segments empty: enough of them to
    /// pay for the checkpoint if nobody waits.
    fn pending_deaths(&self, urgency: Urgency) -> bool {
        let committed = self.committed.read();
        let live = &committed.live;
        match urgency {
            Urgency::Background => {
                live.log_bytes >= 8 * u64::from(self.geometry.segment_bytes)
                    || (live.removes && live.entries > 1000)
            }
            Urgency::Waiting => live.entries > 0,
        }
    }

    /// Cleans as many segments as pay, within the space the cleaner may use.
    /// Returns how many were cleaned.
    ///
    /// # Errors
    /// Device errors; a damaged block keeps its segment and is no error.
    pub fn clean_batch(&self) -> Result<u32> {
        self.clean_segments(Urgency::Waiting)
    }

    fn clean_segments(&self, urgency: Urgency) -> Result<u32> {
        let cleaning = self.cleaning.lock();
        let candidates = self.candidates();
        let chosen = cleaning.policy.choose(&candidates, self.clock.now_ns());
        let mut budget = self.cleaner_budget();
        let mut cleaned = 0;
        for segment in chosen {
            let Some(candidate) = candidates.iter().find(|c| c.segment == segment) else {
                continue;
            };
            let dear = candidate.live_bytes * 8 > candidate.segment_bytes * 7;
            if urgency == Urgency::Background && dear {
                continue;
            }
            if candidate.live_bytes > budget {
                break;
            }
            budget -= candidate.live_bytes;
            if self.clean_segment(segment)? {
                cleaned += 1;
            }
        }
        Ok(cleaned)
    }

    /// Moves every live block out of one segment. False if something in it is
    /// damaged, or changed underfoot more than once: it is kept.
    ///
    /// # Errors
    /// Device errors.
    pub fn clean_segment(&self, segment: u32) -> Result<bool> {
        for _ in 0..3 {
            let Some(incarnation) = self.settled(segment) else {
                return Ok(false);
            };
            let judged = self
                .read_segment(segment)
                .and_then(|contents| self.bmapv(&contents.blocks));
            let found = match judged {
                Ok(found) => found,
                Err(error) if !error.is_of_the_medium() => return Err(error),
                Err(error) => {
                    tracing::error!(%error, segment, "the cleaner leaves a segment alone");
                    self.distrust(segment, incarnation);
                    return Ok(false);
                }
            };
            if found.damaged > 0 {
                self.distrust(segment, incarnation);
                return Ok(false);
            }
            if let Some(checkpoint) = self.markv(found)? {
                self.segclean(segment, incarnation, checkpoint);
                self.counters.segments_cleaned.fetch_add(1, Relaxed);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The incarnation of a used segment, all of which has reached the device
    /// and can be judged.
    fn settled(&self, segment: u32) -> Option<u32> {
        let log = self.log.lock();
        let landed = self.durability.oldest_in_flight().unwrap_or(u64::MAX);
        let known = judged_through(&self.committed.read());
        let segments = self.segments.lock();
        let entry = segments.get(segment);
        let settled = entry.state == SegmentState::Used
            && entry.last_serial < landed
            && entry.last_serial <= known
            && segment != log.position.segment.get();
        settled.then_some(entry.incarnation)
    }

    /// Something in a segment was damaged when it was read in this
    /// incarnation: it is kept.
    fn distrust(&self, segment: u32, incarnation: u32) {
        let mut segments = self.segments.lock();
        let entry = segments.get_mut(segment);
        // If it has been written anew meanwhile, what was read is no damage.
        if entry.state == SegmentState::Used && entry.incarnation == incarnation {
            entry.suspect = true;
        }
    }

    /// Background work: cleans one batch when clean segments run low and
    /// cleaning pays.
    pub(crate) fn clean_if_due(&self) -> Result<()> {
        let clean = self.segments.lock().clean_count();
        let low = self.geometry.reserve_segments + (self.geometry.segment_count / 32).max(2);
        if clean >= low {
            return Ok(());
        }
        // On a full volume nothing may be gained however often we try: rest
        // until something has been written since.
        let written = self.log.lock().position.serial.get();
        if self.cleaning.lock().fruitless_at == Some(written) {
            return Ok(());
        }
        let (gained, _) = self.gain_segments(Urgency::Background)?;
        if !gained {
            let written = self.log.lock().position.serial.get();
            self.cleaning.lock().fruitless_at = Some(written);
        }
        Ok(())
    }
}

/// Serial of the last partial of which the newest image tells: what a running
/// checkpoint writes looks dead until it is complete.
fn judged_through(committed: &Committed) -> u64 {
    committed
        .frozen
        .as_ref()
        .map_or(u64::MAX, |frozen| frozen.boundary)
}
