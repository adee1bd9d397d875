//! The compactor: makes empty regions (tracks of a drive) while nobody waits.
//!
//! It takes the emptiest region whose content fits into holes elsewhere, reads
//! it at once, and copies what lives there; index nodes and inodes are written
//! anew by the transaction that commits the moves, and map records with it. The
//! region is empty when that is durable and, where the newest checkpoint's tree
//! had a part of it, the next checkpoint is (Wang et al. 1999, §3.3 and §4.2).
//! Nothing depends on it. `docs/spec/vlfs.md` has rules and costs.
//!
//! The compactor of the virtual log disk (`varve-vlog/src/vld/compact.rs`) knows the
//! owner of every block and moves it under the disk's lock; this one learns owners
//! from a tree that others change meanwhile. They share where things go.
//!
//! Invariants:
//! - A move is made only of what the tree leads to in that moment, under the
//!   lock of those who append.
//! - No region is emptied into an empty one.
//! - Nobody waits for more than one block's move, a step of the walk, or a
//!   transaction or checkpoint that has begun.

mod claims;
mod learn;
mod moves;

pub use claims::Claims;

use crate::Vlfs;
use crate::compactor::{Compactor, Took};
use crate::error::Result;
use crate::writer::Writer;
use varve_device::sync::atomic::Ordering::Relaxed;

/// Moves that share a transaction.
const BATCH: u32 = 8;
/// Blocks that must be left besides the reserve: admission counts what waits
/// for a transaction, and must not refuse anybody because of moves.
const SPARE_BLOCKS: u64 = 128;
/// Room that waits for a checkpoint is worth one if it is so many times what
/// that writes.
const WORTH: u64 = 4;
/// A volume of several windows is walked again once this share of what is free
/// has left empty regions.
const LOST_SHARE: f64 = 0.05;

/// What idle time was used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compaction {
    /// Units moved, inodes and index nodes included.
    pub units_moved: u64,
    /// Regions that everything was moved off.
    pub regions_emptied: u64,
    /// There is nothing (more) to gain.
    pub finished: bool,
}

/// What comes next.
enum Next {
    Claimed(Claims),
    Again,
    Finished,
}

impl Vlfs {
    /// Compacts until `may` says no or nothing is to be gained, and moves
    /// `most_units` units at most. `may` is asked before each step, with the
    /// nanoseconds of the medium's clock that the step is likely to take, 0 if
    /// it has none.
    ///
    /// # Errors
    /// If the device fails. A volume that takes no writes is not compacted.
    pub fn compact(&self, most_units: u64, may: &dyn Fn(u64) -> bool) -> Result<Compaction> {
        let mut done = Compaction::default();
        if self.stopped().is_some() {
            done.finished = true;
            return Ok(done);
        }
        let mut compactor = self.compactor.lock();
        let worked = self.compact_with(&mut compactor, (most_units, may), &mut done);
        worked.map(|()| done)
    }

    /// What lives in the region that the compactor would empty now, so that
    /// [`Vlfs::move_claims`] can move it, whatever happens meanwhile; `None` if
    /// there is nothing to gain.
    ///
    /// # Errors
    /// If the device fails, or the volume takes no writes.
    pub fn claim_region(&self) -> Result<Option<Claims>> {
        let mut compactor = self.compactor.lock();
        loop {
            match self.next_region(&mut compactor)? {
                Next::Claimed(claims) => return Ok(Some(claims)),
                Next::Again => {}
                Next::Finished => return Ok(None),
            }
        }
    }

    /// Moves what was claimed, as far as it is still where it was.
    ///
    /// # Errors
    /// As [`Vlfs::compact`].
    pub fn move_claims(&self, claims: Claims) -> Result<()> {
        let mut compactor = self.compactor.lock();
        let mut done = Compaction::default();
        self.empty_region(&mut compactor, claims, (u64::MAX, &|_| true), &mut done)?;
        Ok(())
    }

    fn compact_with(
        &self,
        compactor: &mut Compactor,
        (most_units, may): (u64, &dyn Fn(u64) -> bool),
        done: &mut Compaction,
    ) -> Result<()> {
        let mut looked_again = false;
        self.checkpoint_if_worth(compactor, may)?;
        self.fold_if_worth(compactor, may, (self.measures().slots / 2).max(1))?;
        while done.units_moved < most_units && may(compactor.took.claim_ns) {
            match self.next_region(compactor)? {
                Next::Claimed(claims) => {
                    if !self.empty_region(compactor, claims, (most_units, may), done)? {
                        break;
                    }
                }
                Next::Again => {}
                Next::Finished if self.checkpoint_if_worth(compactor, may)? => {}
                // What the fold gives up may make room for more.
                Next::Finished => {
                    let folded = self.fold_if_worth(compactor, may, 1)?;
                    if !folded || std::mem::replace(&mut looked_again, true) {
                        done.finished = true;
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Folds what brief transactions said, if that has taken so many slots: who
    /// comes next need not wait for it. Into holes, as empty regions are what
    /// the compactor works for.
    fn fold_if_worth(
        &self,
        compactor: &mut Compactor,
        may: &dyn Fn(u64) -> bool,
        least_slots: u64,
    ) -> Result<bool> {
        let _one = self.committing.lock();
        let mut writer = self.writer.lock();
        if writer.unfolded.used() < least_slots || !may(compactor.took.fold_ns) {
            return Ok(false);
        }
        let begun_ns = self.device_ns();
        writer.space.plug(true);
        let outcome = self.commit_all(&mut writer);
        writer.space.plug(false);
        outcome?;
        compactor.took.fold_ns = self.device_ns() - begun_ns;
        compactor.rested = None;
        Ok(true)
    }

    /// Frees what waits for a checkpoint, if that is much.
    fn checkpoint_if_worth(
        &self,
        compactor: &mut Compactor,
        may: &dyn Fn(u64) -> bool,
    ) -> Result<bool> {
        let _one = self.committing.lock();
        let mut writer = self.writer.lock();
        let measures = self.measures();
        let map = self.tables.read().map.len() as u64 * 8;
        let price = (1 + measures.bits_blocks()) * u64::from(measures.block_bytes) + map;
        let pinned = writer.space.pinned_units() * u64::from(measures.unit_bytes);
        if pinned < WORTH * price || !may(compactor.took.checkpoint_ns) {
            return Ok(false);
        }
        let begun_ns = self.device_ns();
        self.write_checkpoint(&mut writer)?;
        compactor.took.checkpoint_ns = self.device_ns() - begun_ns;
        compactor.rested = None;
        Ok(true)
    }

    /// The region to empty now, with what lives there; or a step towards it.
    fn next_region(&self, compactor: &mut Compactor) -> Result<Next> {
        let _one = self.committing.lock();
        let mut writer = self.writer.lock();
        let writer = &mut *writer;
        self.writable()?;
        if writer.owners.progress.is_some() {
            self.commit_all(writer)?;
            self.learn(writer);
            return Ok(Next::Again);
        }
        if !self.is_worth_it(compactor, writer) {
            return Ok(Next::Finished);
        }
        let among = writer.space.regions_in(writer.owners.window());
        if let Some(region) = writer.space.emptiest(among, &compactor.tried) {
            return self.claim_in(compactor, writer, region);
        }
        let eager = self.measures().eager_units();
        let last = writer.owners.window().end;
        if last < eager.end {
            let first = last.max(eager.start);
            let region = (first + self.options.owners_units.max(1)).min(eager.end) - 1;
            let end = writer.space.units_of(writer.space.region_of(region)).end;
            writer.owners.begin(first..end.min(eager.end));
            return Ok(Next::Again);
        }
        // Several windows are begun anew, one is kept.
        if writer.owners.window().start > eager.start {
            writer.owners.begin(0..0);
            writer.owners.progress = None;
        }
        compactor.tried.clear();
        if !std::mem::take(&mut compactor.emptied) {
            compactor.rested = Some((writer.appended, writer.space.empty_share()));
            return Ok(Next::Finished);
        }
        Ok(Next::Again)
    }

    /// Whether there is enough to gain, and room for moves.
    fn is_worth_it(&self, compactor: &mut Compactor, writer: &Writer) -> bool {
        let share = writer.space.empty_share();
        if let Some((appended, rested)) = compactor.rested {
            let one_window = writer.owners.window().end >= self.measures().eager_units().end;
            if appended == writer.appended || (!one_window && share > rested - LOST_SHARE) {
                return false;
            }
        }
        compactor.rested = None;
        let measures = self.measures();
        let reserved = writer.usage.blocks.saturating_sub(writer.stored);
        let taken = writer.space.live_blocks() + reserved + measures.reserve_blocks;
        let spare = measures.capacity_blocks().saturating_sub(taken);
        compactor.wants(self.options.compaction, share) && spare >= SPARE_BLOCKS
    }

    fn claim_in(
        &self,
        compactor: &mut Compactor,
        writer: &mut Writer,
        region: u32,
    ) -> Result<Next> {
        let begun_ns = self.device_ns();
        let claims = self.claim(writer, region);
        if claims.unknown > 0 {
            self.counts
                .units_immovable
                .fetch_add(claims.unknown, Relaxed);
            compactor.tried.insert(region);
            return Ok(Next::Again);
        }
        writer.space.fence(region);
        compactor.took.claim_ns = self.device_ns() - begun_ns;
        Ok(Next::Claimed(claims))
    }

    /// Moves what was claimed; false if it was told to stop.
    fn empty_region(
        &self,
        compactor: &mut Compactor,
        claims: Claims,
        (most_units, may): (u64, &dyn Fn(u64) -> bool),
        done: &mut Compaction,
    ) -> Result<bool> {
        let region = claims.region;
        let mut uncommitted = 0;
        let mut goes_on = true;
        for claim in claims.list {
            let Took {
                move_ns, commit_ns, ..
            } = compactor.took;
            goes_on = done.units_moved < most_units && may(move_ns + commit_ns);
            if !goes_on {
                break;
            }
            let begun_ns = self.device_ns();
            match self.move_claim(&claim)? {
                moves::Moved::Done => {
                    uncommitted += 1;
                    done.units_moved += u64::from(claim.extent.units);
                    compactor.took.move_ns = self.device_ns() - begun_ns;
                }
                moves::Moved::Gone => {}
                moves::Moved::Unreadable => _ = compactor.tried.insert(region),
                moves::Moved::NoRoom => {
                    compactor.tried.insert(region);
                    break;
                }
            }
            if uncommitted == BATCH {
                self.commit_timed(compactor)?;
                uncommitted = 0;
            }
        }
        if self.release_records(region) || uncommitted > 0 {
            self.commit_timed(compactor)?;
        }
        let emptied = {
            let space = &mut self.writer.lock().space;
            let emptied = space.live_in(region) == 0;
            if !emptied {
                space.lift(region);
            }
            emptied
        };
        done.regions_emptied += u64::from(emptied);
        compactor.emptied |= emptied;
        self.counts
            .regions_emptied
            .fetch_add(u64::from(emptied), Relaxed);
        Ok(goes_on)
    }

    fn commit_timed(&self, compactor: &mut Compactor) -> Result<()> {
        let begun_ns = self.device_ns();
        self.commit_moves()?;
        compactor.took.commit_ns = self.device_ns() - begun_ns;
        Ok(())
    }

    /// The medium's clock; 0 without one.
    fn device_ns(&self) -> u64 {
        self.store.medium.now_ns().unwrap_or(0)
    }
}
