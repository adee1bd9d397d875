//! The compactor, which makes empty regions (tracks of a drive) in idle time.
//!
//! It chooses the emptiest region whose content fits in holes elsewhere, reads it at
//! once, and copies the live blocks. The transaction that commits the moves rewrites
//! index nodes and inodes, and map records with them. The region is empty when that
//! transaction is durable and, if the newest checkpoint's tree had a part of it, the
//! next checkpoint is (Wang et al. 1999, §3.3 and §4.2). Correctness does not depend on
//! it. `docs/spec/vlfs.md` has rules and costs.
//!
//! The compactor of the virtual log disk (`varve-vlog/src/vld/compact.rs`) knows the
//! owner of every block and moves it under the disk's lock. This one learns owners from
//! a tree that other threads change meanwhile. Both choose places by the same code.
//!
//! Invariants:
//! - A block is moved only if the tree refers to it at that moment, under the lock that
//!   appends take.
//! - No region is emptied into an empty one.
//! - A request waits for at most one block's move, one step of the walk, or one
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

/// Number of moves that share a transaction.
const BATCH: u32 = 8;
/// Number of blocks that must be free in addition to the reserve. Admission counts the
/// units that wait for a transaction, and moves must not make it refuse a request.
const SPARE_BLOCKS: u64 = 128;
/// A checkpoint is worth its cost if it frees this many times the space that it writes.
const WORTH: u64 = 4;
/// A volume of several windows is walked again once this share of the free space has
/// left empty regions.
const LOST_SHARE: f64 = 0.05;

/// The result of compaction in idle time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compaction {
    /// Number of units moved, including inodes and index nodes.
    pub units_moved: u64,
    /// Number of regions whose whole content was moved.
    pub regions_emptied: u64,
    /// True if there is nothing more to gain.
    pub finished: bool,
}

/// The next step of the compactor.
enum Next {
    Claimed(Claims),
    Again,
    Finished,
}

impl Vlfs {
    /// Compacts until `may` returns false or there is nothing to gain, and moves at
    /// most `most_units` units. `may` is called before each step, with the nanoseconds
    /// of the medium's clock that the step is likely to take, 0 if it has none.
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

    /// Returns the live content of the region that the compactor would empty now, so
    /// that [`Vlfs::move_claims`] can move it later; `None` if there is nothing to
    /// gain.
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

    /// Moves the blocks of `claims`, as far as they are still at their places.
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
                // The space that the fold gives up may make another region worth it.
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

    /// Folds the changes of brief transactions if they have taken `least_slots` slots,
    /// so that the next transaction need not do it. It writes into holes, because the
    /// purpose of the compactor is empty regions.
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

    /// Writes a checkpoint if that frees much space.
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

    /// Returns the region to empty now, with its live content; or makes a step towards
    /// it.
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
        // With several windows the walk begins again; a single window is kept.
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

    /// Returns true if there is enough to gain, and space for moves.
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

    /// Moves the blocks of `claims`; returns false if `may` stopped it.
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

    /// Returns the time of the medium's clock; 0 without one.
    fn device_ns(&self) -> u64 {
        self.store.medium.now_ns().unwrap_or(0)
    }
}
