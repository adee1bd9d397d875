//! Making room: by cleaning what needs no checkpoint, by checkpoints, and by
//! cleaning what does.

use super::plan::{Among, Urgency};
use crate::cleaner::Cleaner;
use crate::control::state::CleanerState;
use crate::error::Result;
use std::sync::atomic::Ordering::Relaxed;

impl Cleaner {
    /// Makes clean segments until there are `goal`: first those that need no
    /// checkpoint; if there are none, by moving live blocks, as many as the room
    /// allows, and by the checkpoints that give their places back. Of those there is
    /// one pair a round, behind the moves: what it costs is what a round must gain,
    /// and twice that is more than a nearly full volume has. Only where what is to be
    /// folded leaves no room to move anything it is folded before. Who must not fail
    /// goes on as long as that gains. Returns how many segments were cleaned on the
    /// way.
    pub(crate) fn gain_segments(
        &self,
        cleaning: &CleanerState,
        urgency: Urgency,
        goal: u64,
    ) -> Result<u32> {
        let goal = self.goal_beside_snapshots(urgency, goal);
        let lives_early = !urgency.is_waited_for() && self.lives_early();
        let pays = match urgency {
            // Its own nodes are what such a checkpoint leaves behind.
            _ if lives_early => self.worth_checkpoints(),
            Urgency::Background | Urgency::Idle | Urgency::Pressed | Urgency::Ahead => {
                self.space.batch_segments().div_ceil(2)
            }
            Urgency::Waiting | Urgency::Starved => 1,
        };
        // A verification must not cost anybody room.
        let make_way = || self.segments.lock().let_go_of_withheld();
        make_way();
        let before = self.space.clean_segments_now();
        let early = self.gain_early(cleaning, urgency, goal)?;
        let clean = self.space.clean_segments_now();
        if clean > before || clean >= goal {
            return Ok(early);
        }
        let move_some = || {
            let wanted =
                goal.saturating_sub(self.space.clean_segments_now() + self.cleaned_before());
            self.clean_segments(cleaning, urgency, Among::All, wanted)
        };
        let mut cleaned = early;
        loop {
            let spare = self.space.spare_bytes();
            let mut moved = move_some()?;
            if moved == 0
                && self.has_deaths(urgency, lives_early)
                && self.checkpoints.checkpoint_fits()
            {
                // What is to be folded had the room that moves need. What it kills may
                // leave segments empty, too.
                self.checkpoints.take_checkpoint(false)?;
                make_way();
                self.checkpoints.settle_vacated()?;
                moved = move_some()?;
            }
            cleaned += moved;
            self.control.reuses_early.store(false, Relaxed);
            for _ in 0..2 {
                make_way();
                self.checkpoints.settle_vacated()?;
                let waiting = self.waiting_for_checkpoint();
                let settles = moved > 0 && waiting > 0 && !lives_early || waiting >= pays;
                if settles
                    && self.space.clean_segments_now() < goal
                    && self.checkpoints.checkpoint_fits()
                {
                    self.checkpoints.take_checkpoint(false)?;
                }
            }
            // Nothing is to be folded now, so this is the time to move more: before
            // others take the room that this has made.
            let goes_on = urgency == Urgency::Starved && self.space.clean_segments_now() < goal;
            if !goes_on || self.space.spare_bytes() <= spare {
                return Ok(cleaned);
            }
        }
    }

    /// What has changed since the last checkpoint may leave segments empty, and is worth
    /// one.
    fn has_deaths(&self, urgency: Urgency, lives_early: bool) -> bool {
        match lives_early {
            true => self.may_see_more(urgency),
            false => self.pending_deaths(urgency),
        }
    }

    /// What snapshots keep comes back with them, so nothing is moved for it. Where
    /// clean segments run short they are broken; and where cleaning has given nothing
    /// to somebody who waits, what transactions have spilled.
    fn goal_beside_snapshots(&self, urgency: Urgency, goal: u64) -> u64 {
        let mut segments = self.segments.lock();
        match urgency {
            Urgency::Background | Urgency::Idle | Urgency::Ahead => {
                goal.saturating_sub(segments.kept_count())
            }
            Urgency::Pressed | Urgency::Waiting | Urgency::Starved => {
                segments.break_snapshots();
                if urgency == Urgency::Starved {
                    segments.break_spills();
                }
                goal
            }
        }
    }

    /// Segments that are empty, or will be once the running changes are folded,
    /// and only wait for checkpoints to say so twice.
    pub(super) fn waiting_for_checkpoint(&self) -> u64 {
        let empty = self.all_candidates();
        let empty = empty.iter().filter(|candidate| candidate.live_bytes == 0);
        empty.count() as u64 + self.cleaned_before()
    }

    /// Segments that were cleaned, and only wait for checkpoints.
    fn cleaned_before(&self) -> u64 {
        let segments = self.segments.lock();
        segments.iter().filter(|(_, s)| s.cleaned.is_some()).count() as u64
    }

    /// Changes that, once folded, may leave segments empty: enough of them to
    /// pay for the checkpoint if nobody waits.
    pub(super) fn pending_deaths(&self, urgency: Urgency) -> bool {
        let batch = self.space.batch_segments();
        let committed = self.layers.read();
        let live = &committed.live;
        let segment_bytes = u64::from(self.geometry.segment_bytes);
        match urgency {
            Urgency::Background | Urgency::Idle | Urgency::Pressed | Urgency::Ahead => {
                live.log_bytes >= batch.max(8) * segment_bytes
                    || (live.removes && live.entries > 1000)
            }
            Urgency::Waiting | Urgency::Starved => live.entries > 0,
        }
    }
}
