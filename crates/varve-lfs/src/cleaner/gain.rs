//! Making room: by cleaning what needs no checkpoint, by checkpoints, and by
//! cleaning what does.

use super::plan::{Among, Urgency};
use crate::control::state::CleanerState;
use crate::error::Result;
use crate::lfs::Lfs;
use std::sync::atomic::Ordering::Relaxed;

impl Lfs {
    /// Makes clean segments until there are `goal`: first those that need no
    /// checkpoint; if there are none, by checkpoints, if segments only wait for
    /// those, then by moving live blocks, as many as the room allows before the
    /// checkpoints that give theirs back. Returns how many segments were
    /// cleaned on the way.
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
                self.batch_segments().div_ceil(2)
            }
            Urgency::Waiting | Urgency::Starved => 1,
        };
        let waits = || self.waiting_for_checkpoint() >= pays;
        // A verification must not cost anybody room.
        let make_way = || self.segments.lock().let_go_of_withheld();
        make_way();
        let before = self.clean_segments_now();
        let early = self.gain_early(cleaning, urgency, goal)?;
        let clean = self.clean_segments_now();
        if clean > before || clean >= goal {
            return Ok(early);
        }
        let deaths = match lives_early {
            true => self.may_see_more(urgency),
            false => self.pending_deaths(urgency),
        };
        if (deaths || waits()) && self.checkpoint_fits() {
            self.take_checkpoint(false)?;
            make_way();
            if self.clean_segments_now() < goal && waits() && self.checkpoint_fits() {
                self.take_checkpoint(false)?;
            }
        }
        let clean = self.clean_segments_now();
        if clean >= goal {
            return Ok(early);
        }
        let cleaned = self.clean_segments(cleaning, urgency, Among::All, goal - clean)?;
        self.control.reuses_early.store(false, Relaxed);
        for _ in 0..2 {
            make_way();
            self.settle_vacated()?;
            let waiting = self.waiting_for_checkpoint();
            let settles = waiting > 0 && !lives_early || waits();
            if cleaned > 0 && settles && self.checkpoint_fits() {
                self.take_checkpoint(false)?;
            }
        }
        Ok(early + cleaned)
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
        let segments = self.segments.lock();
        let cleaned = segments.iter().filter(|(_, s)| s.cleaned.is_some());
        (empty.count() + cleaned.count()) as u64
    }

    /// Changes that, once folded, may leave segments empty: enough of them to
    /// pay for the checkpoint if nobody waits.
    pub(super) fn pending_deaths(&self, urgency: Urgency) -> bool {
        let batch = self.batch_segments();
        let committed = self.committed.read();
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
