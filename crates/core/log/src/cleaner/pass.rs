//! The mount's own cleaner: passes of it, on its thread or on that of a caller
//! who finds no room.

use super::plan::{Among, Goal, Plan, SegmentStanding, Urgency};
use crate::cleaner::Cleaner;
use crate::control::claims::CleanerId;
use crate::control::contents::SegmentContents;
use crate::control::state::CleanerState;
use crate::counts::Counts;
use crate::error::Result;
use crate::locks::Ranked;
use crate::mechanism::Found;
use crate::policy::Candidate;
use crate::segments::Edition;
use crate::statistics::step_of;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::sync::MutexGuard;

/// Live bytes that are moved together where there are several heads.
const PARTED_BYTES: u64 = 1 << 20;
/// Bytes of segments that are given back behind a step, which takes a flush, if
/// writers pay but nobody waits; less on a slow device.
const SETTLED_BYTES: u64 = 1 << 20;

/// A segment that has been judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged {
    pub segment: u32,
    pub edition: Edition,
    pub live_bytes: u64,
    /// All that lives in it is known, and data.
    pub data: bool,
}

/// Segments whose survivors are moved together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    segments: Vec<Judged>,
    found: Found,
    live_bytes: u64,
    /// What it may cost a fold, beside.
    fold: Counts,
}

impl Batch {
    /// Takes in a segment; what all of it may cost a fold is then `fold`.
    pub(super) fn add(&mut self, (segment, edition): (u32, Edition), found: Found, fold: Counts) {
        self.segments.push(Judged {
            segment,
            edition,
            live_bytes: found.live_bytes,
            data: found.is_all_data(),
        });
        self.live_bytes += found.live_bytes;
        self.fold = fold;
        self.found.append(found);
    }
}

impl Cleaner {
    /// Cleans as many segments as pay, within the space the cleaner may use.
    /// Returns how many were cleaned.
    ///
    /// # Errors
    /// Device errors; a damaged block keeps its segment and is no error.
    pub fn clean_batch(&self) -> Result<u32> {
        let cleaning = self.lock_cleaning();
        self.clean_segments(&cleaning, Urgency::Waiting, Among::All, u64::MAX)
    }

    /// The right to a pass, under the policy that is set now.
    pub(crate) fn lock_cleaning(&self) -> Ranked<MutexGuard<'_, CleanerState>> {
        let mut cleaning = self.cleaning.lock();
        self.follow(&mut cleaning);
        cleaning
    }

    /// As [`Cleaner::lock_cleaning`] if the lock is free.
    pub(crate) fn try_lock_cleaning(&self) -> Option<Ranked<MutexGuard<'_, CleanerState>>> {
        let mut cleaning = self.cleaning.try_lock()?;
        self.follow(&mut cleaning);
        Some(cleaning)
    }

    fn follow(&self, cleaning: &mut CleanerState) {
        let kind = self.control.shared().settings.policy;
        if cleaning.kind != kind {
            (cleaning.kind, cleaning.policy) = (kind, kind.policy());
            (cleaning.fruitless_at, cleaning.barren) = (None, 0);
        }
    }

    /// Cleans until what is freed adds up to `wanted` segments.
    pub(super) fn clean_segments(
        &self,
        cleaning: &CleanerState,
        urgency: Urgency,
        among: Among,
        wanted: u64,
    ) -> Result<u32> {
        let outcome = self.clean_chosen(cleaning, urgency, among, wanted);
        self.control.shared().claims.release_all(CleanerId::OWN);
        outcome
    }

    fn clean_chosen(
        &self,
        cleaning: &CleanerState,
        urgency: Urgency,
        among: Among,
        wanted: u64,
    ) -> Result<u32> {
        // A claim never takes room from anybody.
        let heeds_claims = !urgency.is_waited_for();
        let segment_bytes = self.space.dependable_bytes();
        let mut plan = Plan::new(
            (urgency, among),
            Goal {
                bytes: wanted.saturating_mul(segment_bytes),
                for_checkpoints: self.worth_checkpoints(),
                share_bytes: self.space.batch_segments() * segment_bytes / 2,
            },
        );
        let candidates = match heeds_claims {
            true => self.candidates(),
            false => self.all_candidates(),
        };
        let standings = self.standings(candidates);
        let chosen = plan.choose(&standings, &*cleaning.policy, self.clock.now_ns());
        let together = self.moved_together(cleaning);
        let requests = self.control.requests();
        let go_on = || urgency != Urgency::Idle || self.control.requests() == requests;
        let rests = matches!(urgency, Urgency::Background | Urgency::Pressed)
            && self.control.shared().settings.pace.threaded;
        let mut batch = Batch::default();
        let mut cleaned = 0;
        for candidate in chosen {
            if plan.is_dear(&candidate) {
                continue;
            }
            if plan.has_enough(|| self.control.somebody_waits()) || !go_on() {
                break;
            }
            if !self
                .space
                .may_move(batch.live_bytes + candidate.live_bytes, batch.fold)
            {
                break;
            }
            let segment = candidate.segment;
            if !self.claim_own(segment) && heeds_claims {
                continue;
            }
            let Some((edition, found)) = self.mechanism.judge(segment, &go_on)? else {
                continue;
            };
            if found.interrupted {
                break;
            }
            // A checkpoint between two steps may have given it away, and others
            // have filled it since.
            let candidate = Candidate {
                live_bytes: found.live_bytes,
                ..candidate
            };
            let fold = self.mechanism.fold_of(&[&batch.found, &found]);
            if !self
                .space
                .may_move(batch.live_bytes + candidate.live_bytes, fold)
            {
                break;
            }
            let standing = SegmentStanding::of(&self.segments.lock(), segment);
            if plan.is_dear(&candidate) || !among.includes(standing) {
                continue;
            }
            plan.gain(&candidate, standing);
            batch.add((segment, edition), found, fold);
            if batch.live_bytes >= together {
                cleaned += self.move_out(std::mem::take(&mut batch))?;
                if rests {
                    self.step_is_over()?;
                    self.rest(self.work_is_done());
                }
            }
        }
        if go_on() {
            cleaned += self.move_out(batch)?;
        }
        Ok(cleaned)
    }

    /// How each of them stands with the retained records, of one moment.
    fn standings(&self, candidates: Vec<Candidate>) -> Vec<(Candidate, SegmentStanding)> {
        let segments = self.segments.lock();
        let standing = |c: Candidate| (c, SegmentStanding::of(&segments, c.segment));
        candidates.into_iter().map(standing).collect()
    }

    /// Live bytes that are moved together: what the policy sorts, and as many as
    /// make a group, since a small one leaves its segment's rest to another
    /// partial segment, with a summary of its own.
    fn moved_together(&self, cleaning: &CleanerState) -> u64 {
        let group = match self.space.heads() {
            1 => self.mechanism.group_bytes() as u64,
            // Enough that there is something to part between the heads.
            _ => PARTED_BYTES,
        };
        let sorted = cleaning.policy.sorted_segments() * self.space.dependable_bytes();
        sorted.max(group)
    }

    /// Between two steps of a pass: writers who pay need not wait for the rest of
    /// it to be given what it has gained, nor take the checkpoint that so many
    /// changes have made due.
    pub(super) fn step_is_over(&self) -> Result<()> {
        let gauge = self.space.cleaning_gauge();
        let vacated = self.segments.lock().vacated_count() * self.space.dependable_bytes();
        let enough = self.counters.speed.portion_bytes().min(SETTLED_BYTES);
        if gauge.waiting || (gauge.clean < gauge.need && vacated >= enough) {
            self.checkpoints.settle_vacated()?;
        }
        self.checkpoints
            .take_checkpoint_if(|| self.checkpoints.delta_due())
    }

    /// Claims a segment for the mount's own cleaner, unless another has it.
    fn claim_own(&self, segment: u32) -> bool {
        let nothing = Arc::new(SegmentContents::default());
        let mut shared = self.control.shared();
        shared.claims.expire(self.clock.monotonic_ns());
        shared
            .claims
            .claim(CleanerId::OWN, segment, nothing)
            .is_ok()
    }

    /// Moves every live block out of one segment. False if something in it is
    /// damaged, or changed underfoot more than once: it is kept.
    ///
    /// # Errors
    /// Device errors.
    pub fn clean_segment(&self, segment: u32) -> Result<bool> {
        for _ in 0..3 {
            let Some((edition, found)) = self.mechanism.judge(segment, &|| true)? else {
                return Ok(false);
            };
            let live_bytes = found.live_bytes;
            let _one_at_a_time = self.moving.lock();
            if !self
                .space
                .may_move(live_bytes, self.mechanism.fold_of(&[&found]))
            {
                return Ok(false);
            }
            let judged = Judged {
                segment,
                edition,
                live_bytes,
                data: found.is_all_data(),
            };
            if let Some(checkpoint) = self.mechanism.markv(found)? {
                self.cleaned(judged, checkpoint);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves what lives in several segments, oldest first. Returns how many
    /// were cleaned; if the image changed since they were judged, each is
    /// judged once more by itself.
    pub(super) fn move_out(&self, mut batch: Batch) -> Result<u32> {
        let mut cleaned = 0;
        match batch.segments.len() {
            0 => return Ok(0),
            1 => {}
            _ => batch.found.sort_by_age(),
        }
        let moved = {
            // Others may have used the room since it was asked for.
            let _one_at_a_time = self.moving.lock();
            if !self
                .space
                .may_move(batch.live_bytes, self.mechanism.fold_of(&[&batch.found]))
            {
                return Ok(0);
            }
            self.mechanism.markv(batch.found)?
        };
        match moved {
            Some(checkpoint) => {
                for judged in batch.segments {
                    self.cleaned(judged, checkpoint);
                    cleaned += 1;
                }
            }
            None => {
                for judged in batch.segments {
                    cleaned += u32::from(self.clean_segment(judged.segment)?);
                }
            }
        }
        Ok(cleaned)
    }

    pub(super) fn cleaned(&self, judged: Judged, checkpoint: u64) {
        let Judged {
            segment,
            edition,
            live_bytes,
            data,
        } = judged;
        let room = self.geometry.payload_bytes(segment).into();
        self.counters.cleaned_by_utilisation[step_of(live_bytes, room)].fetch_add(1, Relaxed);
        self.mechanism.segclean(segment, edition, checkpoint, data);
        self.log.lock().placement.cleaned(segment);
        self.counters.segments_cleaned.fetch_add(1, Relaxed);
    }
}
