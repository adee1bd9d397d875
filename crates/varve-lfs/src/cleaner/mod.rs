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
use crate::space::Refusal;
use policy::{Candidate, Policy, PolicyKind};
use std::sync::atomic::Ordering::Relaxed;

/// Live bytes that are moved together where there are several heads.
const PARTED_BYTES: u64 = 1 << 20;

/// How much a pass may cost for what it gains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Nobody waits: segments are cleaned that give an eighth back at least.
    Background,
    /// Nobody waits, but somebody soon will: a sixteenth at least.
    Ahead,
    /// A caller waits for room: every segment the policy finds worth it.
    Waiting,
}

/// What the cleaner keeps between passes.
#[derive(Debug)]
pub struct CleanerState {
    policy: Box<dyn Policy>,
    /// Serial of the log's end after a pass that gained nothing.
    fruitless_at: Option<u64>,
    /// Clean segments when cleaning ahead of need last ended.
    pub(crate) rested_at: Option<u64>,
    /// The last refusal for want of clean segments.
    pub(crate) refused: Option<Refusal>,
}

/// Segments whose survivors are moved together.
#[derive(Debug, Default)]
struct Batch {
    /// Each with the incarnation that was judged.
    segments: Vec<(u32, u32)>,
    found: Found,
    live_bytes: u64,
}

impl Batch {
    fn add(&mut self, segment: u32, incarnation: u32, live_bytes: u64, found: Found) {
        self.segments.push((segment, incarnation));
        self.live_bytes += live_bytes;
        self.found.append(found);
    }
}

impl CleanerState {
    /// Before the first pass.
    pub(crate) fn new(policy: PolicyKind) -> Self {
        CleanerState {
            policy: policy.policy(),
            fruitless_at: None,
            rested_at: None,
            refused: None,
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
                    && !log.end.stands_in(*number)
            })
            .map(|(number, segment)| Candidate {
                segment: number,
                live_bytes: (i64::from(segment.live_bytes) + added(number)).max(0) as u64,
                segment_bytes: self.dependable_bytes(),
                newest_ns: segment.newest_ns,
            })
            .collect()
    }

    /// Makes clean segments until there are `goal`: first by checkpoints, if
    /// segments only wait for those, then by moving live blocks, as many as
    /// the room allows before the checkpoints that give theirs back. Returns
    /// how many segments were cleaned on the way.
    pub(crate) fn gain_segments(
        &self,
        cleaning: &CleanerState,
        urgency: Urgency,
        goal: u64,
    ) -> Result<u32> {
        let pays = match urgency {
            Urgency::Background | Urgency::Ahead => self.batch_segments().div_ceil(2),
            Urgency::Waiting => 1,
        };
        let waits = || self.waiting_for_checkpoint() >= pays;
        // A verification must not cost anybody room.
        let make_way = || self.segments.lock().let_go_of_withheld();
        make_way();
        if (self.pending_deaths(urgency) || waits()) && self.checkpoint_fits() {
            self.take_checkpoint(false)?;
            make_way();
            if self.clean_segments_now() < goal && waits() && self.checkpoint_fits() {
                self.take_checkpoint(false)?;
            }
        }
        let clean = self.clean_segments_now();
        if clean >= goal {
            return Ok(0);
        }
        let cleaned = self.clean_segments(cleaning, urgency, goal - clean)?;
        for _ in 0..2 {
            make_way();
            if cleaned > 0 && self.waiting_for_checkpoint() > 0 && self.checkpoint_fits() {
                self.take_checkpoint(false)?;
            }
        }
        Ok(cleaned)
    }

    /// Segments that are empty, or will be once the running changes are folded,
    /// and only wait for checkpoints to say so twice.
    fn waiting_for_checkpoint(&self) -> u64 {
        let empty = self.candidates_with(|segment| !segment.suspect && segment.cleaned.is_none());
        let empty = empty.iter().filter(|candidate| candidate.live_bytes == 0);
        let segments = self.segments.lock();
        let cleaned = segments.iter().filter(|(_, s)| s.cleaned.is_some());
        (empty.count() + cleaned.count()) as u64
    }

    /// Changes that, once folded, may leave segments empty: enough of them to
    /// pay for the checkpoint if nobody waits.
    fn pending_deaths(&self, urgency: Urgency) -> bool {
        let batch = self.batch_segments();
        let committed = self.committed.read();
        let live = &committed.live;
        let segment_bytes = u64::from(self.geometry.segment_bytes);
        match urgency {
            Urgency::Background | Urgency::Ahead => {
                live.log_bytes >= batch.max(8) * segment_bytes
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
        let cleaning = self.cleaning.lock();
        self.clean_segments(&cleaning, Urgency::Waiting, u64::MAX)
    }

    /// Cleans until what is freed adds up to `wanted` segments.
    fn clean_segments(
        &self,
        cleaning: &CleanerState,
        urgency: Urgency,
        wanted: u64,
    ) -> Result<u32> {
        let candidates = self.candidates();
        let chosen = cleaning
            .policy
            .choose(&candidates, self.clock.now_ns(), usize::MAX);
        let mut sorted_bytes = cleaning.policy.sorted_segments() * self.dependable_bytes();
        if self.heads > 1 {
            // Enough that there is something to part between the heads.
            sorted_bytes = sorted_bytes.max(PARTED_BYTES);
        }
        let mut wanted_bytes = wanted.saturating_mul(self.dependable_bytes());
        let mut batch = Batch::default();
        let mut cleaned = 0;
        for candidate in chosen.segments {
            let Candidate {
                segment,
                live_bytes,
                segment_bytes,
                ..
            } = candidate;
            let freed = segment_bytes.saturating_sub(live_bytes);
            let dear = match urgency {
                Urgency::Background => freed * 8 < segment_bytes,
                Urgency::Ahead => freed * 16 < segment_bytes,
                Urgency::Waiting => false,
            };
            if dear {
                continue;
            }
            if wanted_bytes == 0 || !self.may_move(batch.live_bytes + live_bytes) {
                break;
            }
            let Some((incarnation, found)) = self.judge(segment)? else {
                continue;
            };
            wanted_bytes = wanted_bytes.saturating_sub(freed);
            batch.add(segment, incarnation, live_bytes, found);
            if batch.live_bytes >= sorted_bytes {
                cleaned += self.move_out(std::mem::take(&mut batch))?;
            }
        }
        cleaned += self.move_out(batch)?;
        Ok(cleaned)
    }

    /// Moves every live block out of one segment. False if something in it is
    /// damaged, or changed underfoot more than once: it is kept.
    ///
    /// # Errors
    /// Device errors.
    pub fn clean_segment(&self, segment: u32) -> Result<bool> {
        for _ in 0..3 {
            let Some((incarnation, found)) = self.judge(segment)? else {
                return Ok(false);
            };
            if let Some(checkpoint) = self.markv(found)? {
                self.cleaned(segment, incarnation, checkpoint);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads a segment and finds what lives in it, and its incarnation. `None`
    /// if it is to be left alone: something in it is damaged, or the log has
    /// come back to it.
    fn judge(&self, segment: u32) -> Result<Option<(u32, Found)>> {
        let Some(incarnation) = self.settled(segment) else {
            return Ok(None);
        };
        let judged = self
            .read_segment(segment)
            .and_then(|contents| self.bmapv(&contents.blocks));
        match judged {
            Ok(found) if found.damaged == 0 => Ok(Some((incarnation, found))),
            Ok(_) => {
                self.distrust(segment, incarnation);
                Ok(None)
            }
            Err(error) if !error.is_of_the_medium() => Err(error),
            Err(error) => {
                tracing::error!(%error, segment, "the cleaner leaves a segment alone");
                self.distrust(segment, incarnation);
                Ok(None)
            }
        }
    }

    /// Moves what lives in several segments, oldest first. Returns how many
    /// were cleaned; if the image changed since they were judged, each is
    /// judged once more by itself.
    fn move_out(&self, mut batch: Batch) -> Result<u32> {
        let mut cleaned = 0;
        match batch.segments.len() {
            0 => return Ok(0),
            1 => {}
            _ => batch.found.sort_by_age(),
        }
        match self.markv(batch.found)? {
            Some(checkpoint) => {
                for (segment, incarnation) in batch.segments {
                    self.cleaned(segment, incarnation, checkpoint);
                    cleaned += 1;
                }
            }
            None => {
                for (segment, _) in batch.segments {
                    cleaned += u32::from(self.clean_segment(segment)?);
                }
            }
        }
        Ok(cleaned)
    }

    fn cleaned(&self, segment: u32, incarnation: u32, checkpoint: u64) {
        self.segclean(segment, incarnation, checkpoint);
        self.log.lock().placement.cleaned(segment);
        self.counters.segments_cleaned.fetch_add(1, Relaxed);
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
            && !log.end.stands_in(segment);
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
        let (low, goal) = self.background_goal();
        if self.clean_segments_now() >= low {
            return Ok(());
        }
        let mut cleaning = self.cleaning.lock();
        // On a full volume nothing may be gained however often we try: rest
        // until something has been written since.
        let end = || self.log.lock().end.serial();
        if cleaning.fruitless_at == Some(end()) {
            return Ok(());
        }
        let before = self.clean_segments_now();
        self.gain_segments(&cleaning, Urgency::Background, goal)?;
        if self.clean_segments_now() <= before {
            cleaning.fruitless_at = Some(end());
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
