//! What the tree in memory takes, and what running operations may add.
//!
//! Every operation promises its worst growth before it takes a lock, and the
//! layout is asked whether the volume could hold everything at once. So an
//! operation that was admitted fits, whatever runs beside it. One that was
//! refused asks again when nobody is beside it (`account/crowd.rs`).

mod numbers;
mod private;
mod spill;

pub(crate) use numbers::Number;

use crate::account::crowd::Turn;
use crate::account::refusals::{Moment, Refused};
use crate::account::{Coming, Operation, difference, sum};
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::inode::flags;
use crate::layout::{Admission, Cause, Layout, Purpose, StatFs, Usage, Waiting};
use crate::locks::{Lock, Ranked, assert_none};
use crate::memory::vnode::Life;
use crate::statistics::count;
use std::cell::Cell;
use varve_device::sync::atomic::Ordering::Relaxed;

/// What somebody asks for.
struct Demand {
    /// What it adds to the tree at most.
    growth: Usage,
    /// The same of what waits in memory.
    coming: Coming,
    purpose: Purpose,
    /// What it leaves besides.
    keep: Usage,
    /// How often it has been asked for.
    tries: Cell<u64>,
}

impl Demand {
    /// The record of its refusal, once it is refused.
    fn refused(&self) -> Refused {
        Refused {
            growth: sum(self.growth, self.keep),
            coming: self.coming,
        }
    }
}

/// What an operation is told; nothing if it is to ask again alone.
type Answer<'a> = Result<Option<Operation<'a>>>;

impl<L: Layout> FileSystem<L> {
    /// Admits an operation that adds at most `growth` to the tree and `coming`
    /// to what waits in memory, and passes it through the gate.
    ///
    /// # Errors
    /// `ReadOnly`, `NoSpace`.
    #[inline]
    pub(crate) fn begin(
        &self,
        growth: Usage,
        coming: impl Into<Coming>,
        purpose: Purpose,
    ) -> Result<Operation<'_>> {
        let operation = self.promise(growth, coming, purpose)?;
        Ok(self.enter(operation))
    }

    /// The first half of [`Self::begin`]: no lock is held when it returns.
    pub(crate) fn promise(
        &self,
        growth: Usage,
        coming: impl Into<Coming>,
        purpose: Purpose,
    ) -> Result<Operation<'_>> {
        let keep = self.keeps(growth, purpose);
        self.promise_keeping(growth, coming, purpose, keep)
    }

    /// What an operation leaves besides: what adds nothing takes no room from
    /// anybody.
    pub(crate) fn keeps(&self, growth: Usage, purpose: Purpose) -> Usage {
        match purpose {
            Purpose::Grow if growth != Usage::default() => self.kept(),
            _ => Usage::default(),
        }
    }

    /// The room that is kept for held writes (`content/held.rs`), as the layout prices it.
    pub(crate) fn kept(&self) -> Usage {
        let bytes = self.space.kept_bytes.load(Relaxed);
        let blocks = bytes.div_ceil(self.store.block_bytes as u64);
        Usage {
            inodes: 0,
            blocks,
            sectors: blocks * self.store.sectors_per_block(),
        }
    }

    /// [`Self::promise`], if there is room for `keep` beside it.
    pub(crate) fn promise_keeping(
        &self,
        growth: Usage,
        coming: impl Into<Coming>,
        purpose: Purpose,
        keep: Usage,
    ) -> Result<Operation<'_>> {
        if let Some(below) = &self.below {
            return self.promise_private(below, growth, coming.into(), purpose);
        }
        let purpose = match purpose {
            Purpose::Grow if growth == Usage::default() => Purpose::Rewrite,
            other => other,
        };
        let demand = Demand {
            growth,
            coming: coming.into(),
            purpose,
            keep,
            tries: Cell::new(0),
        };
        self.prepare(&demand)?;
        match self.ask_until_it_fits(&demand) {
            Err(Error::NoSpace) if purpose == Purpose::Grow => self.refuse(&demand),
            answer => answer,
        }
    }

    /// [`Self::promise_keeping`] of what makes the tree larger, if there is room
    /// already: none is made.
    pub(crate) fn promise_at_once(
        &self,
        growth: Usage,
        bytes: u64,
        keep: Usage,
    ) -> Result<Operation<'_>> {
        if let Some(below) = &self.below {
            return self.promise_private(below, growth, bytes.into(), Purpose::Grow);
        }
        let demand = Demand {
            growth,
            coming: bytes.into(),
            purpose: Purpose::Grow,
            keep,
            tries: Cell::new(0),
        };
        self.prepare(&demand)?;
        self.ask(&demand, None)?.ok_or(Error::NoSpace)
    }

    /// Before anything is asked for.
    fn prepare(&self, demand: &Demand) -> Result<()> {
        assert_none();
        self.check_writable()?;
        if !self.space.refusals.is_empty() && self.is_refused(demand) {
            return Err(Error::NoSpace);
        }
        if self.waits.bytes() > self.settings.stop_access_bytes {
            count(&self.store.counters.stalls, 1);
            self.relieve()?;
        }
        self.relieve_layout()?;
        self.space.crowd.give_way();
        Ok(())
    }

    /// Asks, and makes room if there is none; alone, if others beside it are in the
    /// way, or may have been.
    fn ask_until_it_fits(&self, demand: &Demand) -> Result<Operation<'_>> {
        let seen = self.space.crowd.look();
        let answer = match self.ask_and_write_back(demand, None) {
            Err(Error::NoSpace) if demand.purpose != Purpose::Shrink => {
                self.free_until_it_fits(demand)
            }
            answer => answer,
        };
        match answer {
            Ok(Some(operation)) => Ok(operation),
            Ok(None) => self.ask_alone(demand),
            Err(Error::NoSpace) if !self.space.crowd.was_alone(seen, demand.tries.get()) => {
                self.ask_alone(demand)
            }
            Err(error) => Err(error),
        }
    }

    /// Asks while nobody else is under way: the answer is about the volume.
    fn ask_alone(&self, demand: &Demand) -> Result<Operation<'_>> {
        let mut is_durable = false;
        loop {
            let turn = self.space.crowd.turn();
            demand.tries.set(0);
            let seen = self.space.crowd.look();
            let answer = self.ask_and_write_back(demand, Some(&turn));
            let alone = self.space.crowd.was_alone(seen, demand.tries.get());
            drop(turn);
            match answer {
                Ok(Some(operation)) => return Ok(operation),
                // Somebody had come too far to give way.
                Ok(None) => {}
                Err(Error::NoSpace) if !alone => {}
                // Others may be in the middle of an fsync; what that displaces is
                // free once it is durable.
                Err(Error::NoSpace) if !is_durable => {
                    self.sync()?;
                    is_durable = true;
                }
                // Steps ask, too, and so not within the turn.
                Err(Error::NoSpace) if demand.purpose != Purpose::Shrink && self.must_reap() => {
                    if let Some(operation) = self.free_until_it_fits(demand)? {
                        return Ok(operation);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// True if as much was refused, and nothing has been freed since.
    #[cold]
    fn is_refused(&self, demand: &Demand) -> bool {
        let refusals = &self.space.refusals;
        demand.purpose == Purpose::Grow
            && refusals.knows(self.moment(), &demand.refused())
            && !self.must_reap()
    }

    /// What a refusal depends on.
    fn moment(&self) -> Moment {
        Moment {
            freed: self.space.refusals.times_freed(),
            gained: self.store.layout.gains(),
        }
    }

    /// Refuses growth, after asking once more while no other operation is under way and
    /// nothing waits: that answer is the same until something is freed.
    fn refuse(&self, demand: &Demand) -> Result<Operation<'_>> {
        let turn = self.space.crowd.turn();
        if self.waits.bytes() > 0 {
            self.append_all(Cause::WriteBack)?;
        }
        demand.tries.set(0);
        let (seen, moment) = (self.space.crowd.look(), self.moment());
        let answer = self.ask(demand, Some(&turn));
        if let Ok(Some(operation)) = answer {
            return Ok(operation);
        }
        let alone = self.space.crowd.was_alone(seen, demand.tries.get());
        if alone && self.waits.bytes() == 0 && moment == self.moment() {
            self.space.refusals.note(moment, demand.refused());
        }
        Err(answer.err().unwrap_or(Error::NoSpace))
    }

    /// Asks, and asks again when nothing waits in memory: that may be what would
    /// make room, deletes, or new copies of blocks whose old ones could go.
    fn ask_and_write_back(&self, demand: &Demand, turn: Option<&Turn<'_>>) -> Answer<'_> {
        match self.ask(demand, turn) {
            Err(Error::NoSpace) if self.waits.bytes() > 0 => {
                self.append_all(Cause::WriteBack)?;
                self.ask(demand, turn)
            }
            answer => answer,
        }
    }

    /// What has been deleted counts as free although it is freed in steps:
    /// whoever needs it takes the steps, and has the last of them appended, as
    /// layouts give room back with what is appended.
    fn free_until_it_fits(&self, demand: &Demand) -> Answer<'_> {
        loop {
            let freed = self.reap_step()?;
            match self.ask(demand, None) {
                Err(Error::NoSpace) if freed => {}
                Err(Error::NoSpace) if self.reaping.load(Relaxed) > 0 => {
                    varve_device::sync::thread::yield_now()
                }
                Err(Error::NoSpace) => return self.ask_and_write_back(demand, None),
                answer => return answer,
            }
        }
    }

    /// True if something that was deleted is not freed yet.
    fn must_reap(&self) -> bool {
        self.reaping.load(Relaxed) > 0 || !self.queues().reap.is_empty()
    }

    /// Asks the layout once whether all that is there, promised and to be kept
    /// fits beside what is asked for. Who has the turn is alone.
    fn ask(&self, demand: &Demand, turn: Option<&Turn<'_>>) -> Answer<'_> {
        let (account, growth, coming) = (&self.space, demand.growth, demand.coming);
        demand.tries.set(demand.tries.get() + 1);
        account.crowd.enter();
        account.asked.add(growth);
        account.asked_coming.add(coming);
        let answer = self.admits(demand, turn.is_some());
        // Promised before it is no longer asked for.
        let admitted = answer.map(|answer| match answer {
            Admission::Granted => Some(Operation::admitted(account, growth, coming)),
            Admission::Alone => None,
        });
        account.asked.subtract(growth);
        account.asked_coming.subtract(coming);
        if !matches!(admitted, Ok(Some(_))) {
            account.crowd.leave();
        }
        admitted
    }

    fn admits(&self, demand: &Demand, alone: bool) -> Result<Admission> {
        let account = &self.space;
        let (asked, coming) = match demand.purpose {
            // Nobody may be admitted into what another was promised.
            Purpose::Grow | Purpose::Rewrite => (account.asked.get(), account.asked_coming.get()),
            // Those who grow the tree may be refused; this one may not, and
            // does not wait for them.
            Purpose::Shrink => (demand.growth, demand.coming),
        };
        let total = sum(sum(account.present.get(), account.promised.get()), asked);
        let mut unwritten = self.waits.now();
        if account.merging.bytes() > 0 {
            unwritten.add(&account.merging.now());
        }
        let promised = account.promised_coming.get();
        let waiting = Waiting {
            unwritten,
            promised: promised.bytes,
            promised_attributes: promised.attributes,
            asked: coming.bytes,
            asked_attributes: coming.attributes,
            reserving: promised.reserved.saturating_add(coming.reserved),
            operations: account.crowd.under_way(),
            highest_block: account.highest_block.load(Relaxed),
            alone,
        };
        let layout = &self.store.layout;
        layout.admit(sum(total, demand.keep), waiting, demand.purpose)
    }

    /// The second half of [`Self::begin`].
    pub(crate) fn enter<'a>(&'a self, mut operation: Operation<'a>) -> Operation<'a> {
        operation.gate = Some(Ranked::take(self.level.rank(Lock::Gate), || {
            self.gate.read()
        }));
        operation
    }

    /// An operation that must go through, as it only removes.
    pub(crate) fn begin_unasked(&self) -> Operation<'_> {
        self.space.crowd.enter();
        let nothing = Usage::default();
        self.enter(Operation::admitted(&self.space, nothing, 0.into()))
    }

    /// What the tree takes, changes that wait in memory included.
    pub fn usage(&self) -> Usage {
        self.space.present()
    }

    /// Room on the volume, what is kept for held writes included. What has
    /// been deleted or cut off counts as free, even where its blocks are freed
    /// later.
    pub fn statfs(&self) -> StatFs {
        self.statfs_beside(Usage::default())
    }

    /// Room on the volume if it also held `more`.
    pub(crate) fn statfs_beside(&self, more: Usage) -> StatFs {
        let total = difference(self.space.present(), self.ending());
        self.store.layout.statfs(sum(total, more))
    }

    /// What waits to be freed.
    fn ending(&self) -> Usage {
        let waiting: Vec<_> = self.queues().reap.iter().cloned().collect();
        waiting.iter().fold(Usage::default(), |all, vnode| {
            let state = vnode.read();
            let waits = match state.life {
                Life::Doomed => state.usage(),
                Life::Live if state.inode.flags & flags::TRUNCATING != 0 => {
                    let left = self.store.blocks_of(state.inode.size);
                    let held = left * self.store.sectors_per_block();
                    Usage {
                        inodes: 0,
                        blocks: state.inode.blocks.saturating_sub(left),
                        sectors: state.inode.sectors.saturating_sub(held),
                    }
                }
                Life::Live | Life::Freed => Usage::default(),
            };
            sum(all, waits)
        })
    }
}
