//! Admission: the size of the tree in memory, and what running operations may add.
//!
//! Every operation states an upper bound of its growth before it takes a lock, and the
//! layout answers whether all admitted operations fit at once. So an admitted operation
//! fits, whatever runs in parallel. A refused operation asks again while no other
//! operation runs (`account/crowd.rs`).

mod numbers;
mod private;
mod spill;

pub(crate) use numbers::Number;

use crate::account::refusals::{Moment, Refused};
use crate::account::{Coming, Operation, difference, sum};
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::inode::flags;
use crate::layout::{Answer, Cause, Layout, Purpose, Request, StatFs, Usage, Waiting};
use crate::locks::{Lock, Ranked, assert_none};
use crate::memory::vnode::Life;
use crate::statistics::count;
use varve_device::sync::atomic::Ordering::Relaxed;

/// The space that an operation asks for.
struct Demand {
    /// Upper bound of its growth of the tree.
    growth: Usage,
    /// Upper bound of the changes it adds to those that wait in memory.
    coming: Coming,
    purpose: Purpose,
    /// Space that must remain free in addition.
    keep: Usage,
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

/// An operation that was not admitted.
struct Denied {
    answer: Answer,
    /// No other operation was under way when the layout was asked.
    was_alone: bool,
}

type Asked<'a> = std::result::Result<Operation<'a>, Denied>;

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

    /// Space that an operation must leave free: none if it adds nothing, because it then
    /// takes no space from other operations.
    pub(crate) fn keeps(&self, growth: Usage, purpose: Purpose) -> Usage {
        match purpose {
            Purpose::Grow if growth != Usage::default() => self.kept(),
            _ => Usage::default(),
        }
    }

    /// The space reserved for held writes (`content/held.rs`), as the layout prices it.
    pub(crate) fn kept(&self) -> Usage {
        let bytes = self.space.kept_bytes.load(Relaxed);
        let blocks = bytes.div_ceil(self.store.block_bytes as u64);
        Usage {
            inodes: 0,
            blocks,
            sectors: blocks * self.store.sectors_per_block(),
        }
    }

    /// [`Self::promise`], if there is space for `keep` in addition.
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
        };
        self.prepare(&demand)?;
        self.admit(&demand)
    }

    /// [`Self::promise_keeping`] of growth, if there is space already. No space is made
    /// for it.
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
        };
        self.prepare(&demand)?;
        self.ask(&demand, false)?.map_err(|_| Error::NoSpace)
    }

    /// Checks that precede admission: writable, not refused before, below the limit of
    /// dirty data.
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
        self.space.crowd.give_way();
        Ok(())
    }

    /// Asks the layout until it grants the demand or there is nothing left to try:
    /// waiting changes are appended, as that may delete, or displace older copies;
    /// deleted files are freed; the operation asks alone, as other operations were
    /// promised their worst case; and displaced copies are made durable.
    ///
    /// Each step is taken once, or frees space, or waits for another thread, so the loop
    /// ends. A refusal is the answer to a request made while no other operation ran.
    fn admit(&self, demand: &Demand) -> Result<Operation<'_>> {
        let crowd = &self.space.crowd;
        let (mut turn, mut crowded) = (None, false);
        let (mut appended, mut synced) = (false, false);
        let (mut reaps, mut reaped) = (demand.purpose != Purpose::Shrink, false);
        loop {
            let moment = turn.is_some().then(|| self.moment());
            let denied = match self.ask(demand, turn.is_some())? {
                Ok(operation) => return Ok(operation),
                Err(denied) => denied,
            };
            crowded |= !denied.was_alone;
            if denied.answer == Answer::Alone || (turn.is_some() && !denied.was_alone) {
                drop(turn.take()); // operations that need not ask may have begun
                turn = Some(crowd.turn());
                continue;
            }
            if !appended && self.waits.bytes() > 0 {
                self.append_all(Cause::WriteBack)?;
                appended = true;
            } else if reaps && self.must_reap() {
                // Steps of freeing ask for space, too, so new operations must not wait
                // meanwhile.
                drop(turn.take());
                (reaps, reaped) = (self.reap_or_wait()?, true);
            } else if std::mem::take(&mut reaped) {
                appended = false; // layouts free what has been appended
            } else if turn.is_none() && (crowded || demand.purpose == Purpose::Grow) {
                turn = Some(crowd.turn());
                appended = false;
            } else if crowded && !synced {
                drop(turn.take());
                self.sync()?;
                (synced, appended) = (true, false);
            } else {
                self.note_refusal(demand, moment);
                return Err(Error::NoSpace);
            }
        }
    }

    /// Takes a step of freeing deleted files, or waits for a thread that does. Returns
    /// false if there is no step to take.
    fn reap_or_wait(&self) -> Result<bool> {
        let freed = self.reap_step()?;
        let others = !freed && self.reaping.load(Relaxed) > 0;
        if others {
            varve_device::sync::thread::yield_now();
        }
        Ok(freed || others)
    }

    /// True if as much was refused, and nothing has been freed since.
    #[cold]
    fn is_refused(&self, demand: &Demand) -> bool {
        let refusals = &self.space.refusals;
        demand.purpose == Purpose::Grow
            && refusals.knows(self.moment(), &demand.refused())
            && !self.must_reap()
    }

    /// Remembers a refusal of growth if it was about the volume as it is now.
    fn note_refusal(&self, demand: &Demand, moment: Option<Moment>) {
        if demand.purpose == Purpose::Grow
            && self.waits.bytes() == 0
            && let Some(moment) = moment
            && moment == self.moment()
        {
            self.space.refusals.note(moment, demand.refused());
        }
    }

    /// The state of the volume that a refusal depends on.
    fn moment(&self) -> Moment {
        Moment {
            freed: self.space.refusals.times_freed(),
            gained: self.store.layout.gains(),
        }
    }

    /// True while deleted files still wait to be freed.
    fn must_reap(&self) -> bool {
        self.reaping.load(Relaxed) > 0 || !self.queues().reap.is_empty()
    }

    /// Asks the layout whether all that exists, is promised and is to be kept fits in
    /// addition to the demand. It writes back first if the layout says so, at most the
    /// changes that wait now.
    fn ask(&self, demand: &Demand, alone: bool) -> Result<Asked<'_>> {
        let mut groups = None;
        loop {
            match self.ask_once(demand, alone, groups != Some(0))? {
                Err(denied) if denied.answer == Answer::WriteBack => {
                    let left = groups.unwrap_or_else(|| self.groups_waiting());
                    let wanted = || self.wants_write_back(demand, alone);
                    groups = Some(match self.write_back_if(wanted)? {
                        true => left.saturating_sub(1),
                        false => 0,
                    });
                }
                asked => return Ok(asked),
            }
        }
    }

    /// True if the layout still says so: another thread may have written back.
    fn wants_write_back(&self, demand: &Demand, alone: bool) -> bool {
        let request = self.request(demand, alone, true);
        self.waits.bytes() > 0 && matches!(self.store.layout.admit(&request), Ok(Answer::WriteBack))
    }

    fn ask_once(&self, demand: &Demand, alone: bool, writes_back: bool) -> Result<Asked<'_>> {
        let (account, growth, coming) = (&self.space, demand.growth, demand.coming);
        let seen = account.crowd.look();
        account.crowd.enter();
        account.asked.add(growth);
        account.asked_coming.add(coming);
        let request = self.request(demand, alone, writes_back);
        let answer = match self.store.layout.admit_or_clean(&request) {
            Err(Error::NoSpace) => Ok(Answer::Refused),
            answer => answer,
        };
        // Promised before the request is withdrawn, so that the sum never misses it.
        let operation = matches!(answer, Ok(Answer::Granted))
            .then(|| Operation::admitted(account, growth, coming));
        account.asked.subtract(growth);
        account.asked_coming.subtract(coming);
        if let Some(operation) = operation {
            return Ok(Ok(operation));
        }
        account.crowd.leave();
        answer.map(|answer| {
            Err(Denied {
                answer,
                was_alone: account.crowd.was_alone(seen, 1),
            })
        })
    }

    /// The demand, and everything that was admitted or asks as well.
    fn request(&self, demand: &Demand, alone: bool, writes_back: bool) -> Request {
        let account = &self.space;
        let (asked, coming) = match demand.purpose {
            // No operation may be admitted into space promised to another one.
            Purpose::Grow | Purpose::Rewrite => (account.asked.get(), account.asked_coming.get()),
            // Growth may be refused; a removal may not, and ignores pending requests for
            // growth.
            Purpose::Shrink => (demand.growth, demand.coming),
        };
        let total = sum(sum(account.present.get(), account.promised.get()), asked);
        let mut unwritten = self.waits.now();
        if self.settings.strict_order {
            unwritten.joined = unwritten.blocks;
        }
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
        Request {
            total: sum(total, demand.keep),
            waiting,
            purpose: demand.purpose,
            writes_back: writes_back && unwritten.bytes > 0,
        }
    }

    /// The second half of [`Self::begin`].
    pub(crate) fn enter<'a>(&'a self, mut operation: Operation<'a>) -> Operation<'a> {
        operation.gate = Some(Ranked::take(self.level.rank(Lock::Gate), || {
            self.gate.read()
        }));
        operation
    }

    /// Begins an operation that must succeed, as it only removes.
    pub(crate) fn begin_unasked(&self) -> Operation<'_> {
        self.space.crowd.enter();
        let nothing = Usage::default();
        self.enter(Operation::admitted(&self.space, nothing, 0.into()))
    }

    /// What the tree takes, changes that wait in memory included.
    pub fn usage(&self) -> Usage {
        self.space.present()
    }

    /// Space on the volume, the reserve for held writes included. Deleted files and
    /// truncated ranges count as free, even where their blocks are freed later.
    pub fn statfs(&self) -> StatFs {
        self.statfs_beside(Usage::default())
    }

    /// Space on the volume if it also contained `more`.
    pub(crate) fn statfs_beside(&self, more: Usage) -> StatFs {
        let total = difference(self.space.present(), self.ending());
        self.store.layout.statfs(sum(total, more))
    }

    /// Usage of deleted files and truncated ranges that wait to be freed.
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
