//! R4: admitting operations, and making room for them.

use crate::cleaner::{PATIENCE_NS, Urgency};
use crate::control::state::LastRefusal;
use crate::counts::Counts;
use crate::error::{Error, Result};
use crate::grants::Grant;
use crate::lfs::Lfs;
use crate::space::Fit;
use std::sync::atomic::Ordering::Relaxed;
use varve_fs::planted::{self, Planted};
use varve_fs::{Answer, Purpose, Request, Usage, Waiting};

/// Rounds of cleaning one caller helps with before giving up.
const MAX_ROUNDS: u32 = 64;
/// Rounds without gain after which the volume counts as full.
const MAX_IDLE_ROUNDS: u32 = 3;

impl Lfs {
    /// Answers for [`varve_fs::Layout::admit`].
    pub(crate) fn answer(&self, request: &Request) -> Answer {
        let state = self.layers.grants.state();
        let loose = self.space.loose_numbers();
        let asks_anyway = request.writes_back && self.control.plugs.is_expected();
        if !asks_anyway && self.layers.grants.covers(request, loose) {
            return Answer::Granted;
        }
        let stock = self.space.stock();
        let most = Grant::beyond(state, request, loose);
        let answer = stock.admit(request, &most, self.checkpoints.delta_overdue());
        if answer == Answer::Granted {
            self.segments.lock().waiting = stock.counts_of_grant(&most);
            self.layers.grants.grant(most);
        }
        answer
    }

    /// Makes space for what is asked, if there is none.
    ///
    /// # Errors
    /// `OutOfSegments`, or what a checkpoint or the cleaner failed with.
    pub(crate) fn make_room(&self, total: Usage, waiting: Waiting, purpose: Purpose) -> Result<()> {
        let stock = self.space.stock();
        let pending = stock.counts_of(total, &waiting, waiting.asked);
        self.control.asked();
        self.checkpoints
            .take_checkpoint_if(|| self.checkpoints.delta_overdue())?;
        // What a snapshot has is displaced by a rewrite, and not given up.
        let keeps = stock.lives.history > 0;
        if purpose == Purpose::Grow || purpose == Purpose::Rewrite && keeps {
            self.fit(total, pending)?;
        }
        self.segments.lock().waiting = stock.counts_of(total, &waiting, 0);
        if !self.space.has_room(pending, purpose) {
            return self.gain_room(pending, purpose);
        }
        self.segments.lock().waiting = pending;
        if purpose == Purpose::Shrink && planted::is(Planted::RemovalsCarefree) {
            return Ok(());
        }
        if purpose == Purpose::Shrink || !self.cleaner.pay_toll() {
            self.clean_ahead(pending, purpose)?;
        }
        Ok(())
    }

    /// Waits for the cleaner, or does its work, until there is room.
    fn gain_room(&self, pending: Counts, purpose: Purpose) -> Result<()> {
        let _in_need = self.control.in_need();
        let patience_ns = match purpose {
            Purpose::Grow | Purpose::Rewrite => PATIENCE_NS,
            Purpose::Shrink => 0,
        };
        let waited = self
            .cleaner
            .wait_for_cleaner(patience_ns, || self.space.has_room(pending, purpose));
        let Some(mut cleaning) = waited else {
            return Ok(());
        };
        let refusal = LastRefusal {
            bytes: pending.bytes,
            data_bytes: self.counters.data_bytes.load(Relaxed),
            sectors: self.layers.read().usage.sectors,
        };
        let again = cleaning
            .refused
            .is_some_and(|last| self.nothing_changed(last, refusal));
        if again && purpose != Purpose::Shrink && !self.space.has_room(pending, purpose) {
            return Err(Error::OutOfSegments);
        }
        let (mut idle, mut most) = (0, self.space.clean_segments_now());
        for _ in 0..MAX_ROUNDS {
            self.await_checkpoint();
            if self.space.has_room(pending, purpose) {
                cleaning.refused = None;
                return Ok(());
            }
            // A round may only prepare the next one's gain: copies and nodes
            // displaced now come back two checkpoints later.
            let stock = self.space.stock();
            let goal = stock.goal(pending, purpose) + stock.batch_segments();
            let urgency = match idle {
                0 if purpose != Purpose::Shrink => Urgency::Waiting,
                _ => Urgency::Starved,
            };
            let cleaned = self.cleaner.gain_segments(&cleaning, urgency, goal)?;
            let clean = self.space.clean_segments_now();
            idle = if clean > most { 0 } else { idle + 1 };
            most = most.max(clean);
            if idle > MAX_IDLE_ROUNDS || (idle > 1 && cleaned == 0) {
                break;
            }
        }
        if self.space.has_room(pending, purpose) {
            return Ok(());
        }
        if purpose == Purpose::Shrink {
            tracing::warn!(room = %self.space.told(pending), "a removal finds no room");
        }
        cleaning.refused = Some(refusal);
        Err(Error::OutOfSegments)
    }

    /// While a checkpoint runs, all that it may write is kept for it, also what it
    /// has written already: whoever finds no room beside it waits for its end.
    fn await_checkpoint(&self) {
        if self.layers.read().frozen.is_some() {
            drop(self.checkpoints.schedule());
        }
    }

    /// R3: `total` fits, folded if need be.
    fn fit(&self, total: Usage, pending: Counts) -> Result<()> {
        // A refusal costs nothing, however often it is asked for.
        let unsure = || self.space.stock().fits(total, pending) == Fit::PerhapsFolded;
        if unsure() {
            let _in_need = self.control.in_need();
            let _one_at_a_time = self.cleaner.wait_for_cleaner(0, || !unsure());
            self.checkpoints.take_checkpoint_if(unsure)?;
        }
        match self.space.stock().fits(total, pending) {
            Fit::Yes => Ok(()),
            Fit::PerhapsFolded | Fit::No => Err(Error::OutOfSegments),
        }
    }

    fn nothing_changed(&self, last: LastRefusal, now: LastRefusal) -> bool {
        let segment = u64::from(self.geometry.segment_bytes);
        now.bytes >= last.bytes
            && now.data_bytes - last.data_bytes < segment
            && now.sectors + segment / 2048 > last.sectors
    }

    /// Cleans before it is needed, if nobody else does and enough has been
    /// used up since the last time.
    fn clean_ahead(&self, pending: Counts, purpose: Purpose) -> Result<()> {
        let stock = self.space.stock();
        let (goal, clean) = (stock.goal(pending, Purpose::Grow), stock.clean);
        let batch = match purpose {
            Purpose::Grow | Purpose::Rewrite => stock.batch_segments() / 2,
            // Only what has been taken from the reserve is made good.
            Purpose::Shrink => 0,
        };
        if clean >= goal + batch {
            return Ok(());
        }
        // Removals must not use up what the cleaner needs to gain anything, nor change
        // again what its checkpoints have just written: they wait for whoever cleans.
        let turn = match purpose {
            Purpose::Shrink => self
                .cleaner
                .wait_for_cleaner(0, || self.space.clean_segments_now() >= goal),
            Purpose::Grow | Purpose::Rewrite => self.cleaner.try_lock_cleaning(),
        };
        let Some(mut cleaning) = turn else {
            return Ok(());
        };
        let clean = self.space.clean_segments_now();
        let step = (batch / 2).max(1);
        if cleaning
            .rested_at
            .is_some_and(|at| clean.abs_diff(at) < step)
        {
            return Ok(());
        }
        let is_short = clean < goal / 2 + self.space.fold_segments();
        let urgency = match purpose {
            Purpose::Shrink if is_short => Urgency::Starved,
            _ => Urgency::Ahead,
        };
        let outcome = self
            .cleaner
            .gain_segments(&cleaning, urgency, goal + 2 * batch + 1);
        cleaning.rested_at = Some(self.space.clean_segments_now());
        outcome.map(|_| ())
    }
}
