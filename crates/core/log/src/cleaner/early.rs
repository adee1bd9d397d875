//! Giving segments back ahead of checkpoints (`docs/design/reuse.md`).
//!
//! What holds data alone, and lies before the positions of both retained
//! records, is clean as soon as its moves are durable. So the cleaner takes
//! such segments first, and checkpoints only as often as their nodes are cheap
//! beside what is logged in between.

use super::plan::{Among, Urgency};
use crate::cleaner::Cleaner;
use crate::control::state::CleanerState;
use crate::error::Result;
use std::sync::atomic::Ordering::Relaxed;

/// A checkpoint is taken when this part of the volume has been logged.
const INTERVAL: u64 = 8;
/// Passes over the fullest segments, each of which gains a part of one.
const ROUNDS: u32 = 16;

impl Cleaner {
    /// Cleans what needs no checkpoint. Returns how many segments were cleaned.
    pub(super) fn gain_early(
        &self,
        cleaning: &CleanerState,
        urgency: Urgency,
        goal: u64,
    ) -> Result<u32> {
        self.checkpoints.look_among(false)?;
        if self.logged_since_checkpoint() >= self.interval_bytes()
            && self.checkpoints.checkpoint_fits()
        {
            self.checkpoints.take_checkpoint(false)?;
        }
        let (before, mut cleaned) = (self.space.clean_segments_now(), 0);
        for _ in 0..ROUNDS {
            let clean = self.space.clean_segments_now();
            // Who waits asks again, and may have what he needs.
            let is_waited_for = urgency.is_waited_for() || self.control.somebody_waits();
            let gained = is_waited_for && clean > before;
            if clean >= goal || gained {
                break;
            }
            let clean_among = |among| self.clean_segments(cleaning, urgency, among, goal - clean);
            // What waits for a checkpoint is no help to who waits for room,
            // however little lives in it.
            let waits = self.control.somebody_waits();
            let at_once = match waits {
                true => clean_among(Among::AtOnce)?,
                false => 0,
            };
            let now = match at_once {
                0 => clean_among(Among::Behind)?,
                some => some,
            };
            // A verification must not cost anybody room.
            self.segments.lock().let_go_of_withheld();
            self.checkpoints.settle_vacated()?;
            cleaned += now;
            if now > 0 {
                self.control.reuses_early.store(true, Relaxed);
            }
            if at_once == 0 {
                self.settle_waiting()?;
            }
            if now == 0 || (waits && at_once == 0) {
                break;
            }
        }
        Ok(cleaned)
    }

    /// Segments that must wait for checkpoints before a pair of them is worth
    /// more than it writes, where most need none.
    pub(super) fn worth_checkpoints(&self) -> u64 {
        self.space
            .batch_segments()
            .max(2 * self.space.fold_segments())
    }

    /// Takes the checkpoints that so many segments wait for.
    fn settle_waiting(&self) -> Result<()> {
        for _ in 0..2 {
            let worth = || self.waiting_for_checkpoint() >= self.worth_checkpoints();
            self.checkpoints.take_checkpoint_if(worth)?;
            // A verification must not cost anybody room.
            self.segments.lock().let_go_of_withheld();
        }
        Ok(())
    }

    pub(super) fn logged_since_checkpoint(&self) -> u64 {
        self.layers.read().live.log_bytes
    }

    fn interval_bytes(&self) -> u64 {
        self.geometry.volume_bytes() / INTERVAL
    }

    /// True if most of what could be cleaned needs no checkpoint: then one is
    /// not worth taking for less than this.
    pub(super) fn lives_early(&self) -> bool {
        let candidates = self.all_candidates();
        let segments = self.segments.lock();
        let early = candidates.iter().filter(|c| segments.may_vacate(c.segment));
        2 * early.count() > candidates.len()
    }

    /// True if so much has been logged that another checkpoint may find other
    /// segments worth cleaning; less if writers would soon have to wait for it.
    pub(super) fn may_see_more(&self, urgency: Urgency) -> bool {
        let part = match urgency {
            Urgency::Pressed => 16,
            _ => 2,
        };
        self.logged_since_checkpoint() >= self.interval_bytes() / part
    }
}
