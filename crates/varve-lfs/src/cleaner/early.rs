//! Giving segments back ahead of checkpoints (`docs/reuse.md`).
//!
//! What holds data alone, and lies before the positions of both retained
//! records, is clean as soon as its moves are durable. So the cleaner takes
//! such segments first, and checkpoints only as often as their nodes are cheap
//! beside what is logged in between.

use super::plan::{Among, Urgency};
use crate::control::state::CleanerState;
use crate::error::{Error, Result};
use crate::format::ifile::ImapState;
use crate::lfs::Lfs;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_fs::InodeNo;
use varve_fs::planted::{self, Planted};

/// A checkpoint is taken when this part of the volume has been logged.
const INTERVAL: u64 = 8;
/// Passes over the fullest segments, each of which gains a part of one.
const ROUNDS: u32 = 16;
/// Segments looked at again between two looks at whether that suffices.
const LOOKS: u32 = 16;

impl Lfs {
    /// Cleans what needs no checkpoint. Returns how many segments were cleaned.
    pub(super) fn gain_early(
        &self,
        cleaning: &CleanerState,
        urgency: Urgency,
        goal: u64,
    ) -> Result<u32> {
        self.look_among(false)?;
        if self.logged_since_checkpoint() >= self.interval_bytes() && self.checkpoint_fits() {
            self.take_checkpoint(false)?;
        }
        let (before, mut cleaned) = (self.clean_segments_now(), 0);
        for _ in 0..ROUNDS {
            let clean = self.clean_segments_now();
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
            self.settle_vacated()?;
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
        self.batch_segments().max(2 * self.fold_segments())
    }

    /// Takes the checkpoints that so many segments wait for.
    fn settle_waiting(&self) -> Result<()> {
        for _ in 0..2 {
            let worth = |lfs: &Lfs| lfs.waiting_for_checkpoint() >= lfs.worth_checkpoints();
            self.take_checkpoint_if(worth)?;
            // A verification must not cost anybody room.
            self.segments.lock().let_go_of_withheld();
        }
        Ok(())
    }

    pub(super) fn logged_since_checkpoint(&self) -> u64 {
        self.committed.read().live.log_bytes
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

    /// Gives back what a replayed log has left empty (rule E5): to the table
    /// such segments are as the record had them. First those that moves were
    /// made from; if a checkpoint still does not fit, any.
    pub(crate) fn look_for_room(&self) {
        let looked = self.find_neighbours().and_then(|()| self.look_among(false));
        let looked = looked.and_then(|()| {
            match self.checkpoints_fit_now(1) || !self.segments.lock().stale {
                true => Ok(()),
                false => self.look_among(true),
            }
        });
        if let Err(error) = looked {
            tracing::warn!(%error, "segments that the replayed log has left empty were not found");
        }
    }

    /// Finds which numbers of a replayed log leave the list of free ones, and puts
    /// down the blocks of their neighbours there: until that is known, a fold is
    /// priced for two of them each.
    fn find_neighbours(&self) -> Result<()> {
        let (base, numbers) = {
            let committed = self.committed.read();
            if !committed.live.neighbours_unknown {
                return Ok(());
            }
            let numbers: Vec<u64> = committed.live.inodes.keys().copied().collect();
            (Arc::clone(&committed.base), numbers)
        };
        let mut blocks = Vec::new();
        for ino in numbers {
            if let ImapState::Free { previous, next, .. } =
                base.imap(&self.reader, &self.geometry, InodeNo(ino))?
            {
                let beside = [previous, next].into_iter().filter(|&beside| beside != 0);
                blocks.extend(beside.map(|beside| self.geometry.imap_block(beside)));
            }
        }
        let mut committed = self.change_committed();
        if committed.base.serial == base.serial {
            committed.live.imap_blocks.extend(blocks);
            committed.live.neighbours_unknown = false;
        }
        Ok(())
    }

    fn look_among(&self, all: bool) -> Result<()> {
        let which = {
            let mut segments = self.segments.lock();
            segments.let_go_of_withheld();
            segments.to_look_at(all)
        };
        for (nth, segment) in (1..).zip(which) {
            if let Some((edition, found)) = self.judge(segment, &|| true)? {
                let data = found.is_all_data();
                if found.is_empty()
                    && data
                    && let Some(checkpoint) = self.markv(found)?
                {
                    self.segclean(segment, edition, checkpoint, data);
                }
            }
            self.segments.lock().moved_from.remove(&segment);
            if nth % LOOKS == 0 {
                self.settle_vacated()?;
                if self.checkpoints_fit_now(1) {
                    return Ok(()); // what is left is looked at when it is needed
                }
            }
        }
        if all {
            self.segments.lock().stale = false;
        }
        self.settle_vacated()
    }

    /// Gives back the segments that have been vacated, having made durable what
    /// says so. After a write that failed for good, a checkpoint must come
    /// first, and does.
    ///
    /// # Errors
    /// As a commit.
    pub fn settle_vacated(&self) -> Result<()> {
        if !self.segments.lock().has_vacated() {
            return Ok(());
        }
        let mut end = self.log.lock().end.serial();
        if planted::is(Planted::ReuseUnsettled) {
            end = 0;
        }
        match self.durability.commit(end, &*self.device) {
            Ok(flushed) => self.counters.flushes.fetch_add(flushed.into(), Relaxed),
            Err(Error::Unwritten(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let durable = match planted::is(Planted::ReuseUnsettled) {
            true => u64::MAX,
            false => self.durability.durable(),
        };
        let mut segments = self.segments.lock();
        let hold = self.options.discard && !segments.is_pinned();
        let freed = segments.settle(durable, hold);
        drop(segments);
        self.counters
            .segments_vacated
            .fetch_add(freed.len() as u64, Relaxed);
        self.gained(&freed, hold);
        Ok(())
    }
}
