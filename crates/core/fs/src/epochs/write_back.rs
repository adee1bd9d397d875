//! Writing back what nobody waits for.
//!
//! Above the start-write threshold a background thread appends groups until
//! half of it is left; above the stop-access threshold writers do so
//! themselves. Behind a file that is written on and on it starts at a quarter:
//! nothing of that is going to be written again, and whoever waits for the end
//! waits for what is left. A large epoch is sealed, and what has waited for 30
//! seconds is due, whatever the thresholds say: nothing goes on while an epoch
//! is captured, and that takes as long as it is large. Nothing here is committed: that is for whoever waits, and
//! for the layout's checkpoints.

use crate::epochs::capture::Take;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::{Cause, Layout, Position};
use crate::locks::{Lock, Ranked};
use crate::memory::queues::{EPOCH_MEMBERS, NOT_WOKEN};
use crate::memory::writer::Writer;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::sync::MutexGuard;

/// Behind a stream, write-back starts at this part of the threshold.
const STREAM_SHARE: u64 = 4;

/// How long a change may wait in memory, in nanoseconds.
const AGE_NS_MAX: u64 = 30_000_000_000;

impl<L: Layout> FileSystem<L> {
    pub(crate) fn writer(&self) -> Ranked<MutexGuard<'_, Writer>> {
        Ranked::take(self.level.rank(Lock::Writer), || self.writer.lock())
    }

    /// Calls `waker` whenever the start-write threshold is passed, so that a
    /// thread can be told to call [`Self::write_back`] or [`Self::maintain`].
    /// It is called with no lock held.
    pub fn set_waker(&self, waker: Box<dyn Fn() + Send + Sync>) {
        *self.waker.write() = Some(waker);
    }

    /// Notes that an operation made something dirty. No lock is held.
    #[inline]
    pub(crate) fn dirtied(&self) {
        if self.below.is_some() {
            return self.settle_charge();
        }
        self.wake_above(self.settings.start_write_bytes);
        if self.seal_due.load(Relaxed) && self.seal_due.swap(false, Relaxed) {
            self.wake();
        }
    }

    /// [`Self::dirtied`] by a write that made its file longer, of which so many
    /// bytes wait.
    pub(crate) fn streamed(&self, file_bytes: u64) {
        let start = self.settings.start_write_bytes / STREAM_SHARE;
        if file_bytes > start {
            self.wake_above(start);
        }
    }

    /// A woken writer goes on to half of what woke it, lest it is woken at every
    /// write.
    #[inline]
    fn wake_above(&self, bytes: u64) {
        let until = bytes / 2;
        if self.waits.bytes() > bytes
            && self.write_back_until.load(Relaxed) > until
            && self.write_back_until.fetch_min(until, Relaxed) == NOT_WOKEN
        {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.read() {
            waker();
        }
    }

    /// One step of background write-back: appends a group if too much is
    /// dirty, the epoch is large, or something has waited for 30 seconds. Returns whether it did.
    ///
    /// # Errors
    /// What the layout fails with.
    pub fn write_back(&self) -> Result<bool> {
        if self.below.is_some() || self.check_writable().is_err() {
            return Ok(false);
        }
        let until = self.write_back_until.load(Relaxed);
        let bound = self.settings.start_write_bytes.min(until);
        if self.waits.bytes() <= bound && !self.is_due() {
            self.write_back_until.store(NOT_WOKEN, Relaxed);
            return Ok(false);
        }
        self.write_back_if(|| true)
    }

    /// Appends a group, unless those who had the lock before have left none
    /// that is wanted. Returns whether it did.
    pub(crate) fn write_back_if(&self, wanted: impl FnOnce() -> bool) -> Result<bool> {
        let mut writer = self.writer();
        if !wanted() {
            return Ok(false);
        }
        let take = Take::Queue { until: u64::MAX };
        self.capture(&mut writer, take, Cause::WriteBack)?;
        Ok(true)
    }

    /// True if the epoch is large, or something has waited for long.
    fn is_due(&self) -> bool {
        let now = self.clock.monotonic_ns();
        let queues = self.queues();
        let due = |since: u64| now.saturating_sub(since) > AGE_NS_MAX;
        let data = queues.data.first_key_value();
        queues.members() >= EPOCH_MEMBERS
            || data.is_some_and(|(_, (_, since))| due(*since))
            || (queues.members() > 0 && due(queues.epoch_opened_ns))
    }

    /// Writes back until less is dirty than stops access.
    pub(crate) fn relieve(&self) -> Result<()> {
        self.write_back_while(|| self.waits.bytes() > self.settings.stop_access_bytes)
    }

    /// Writes back as long as that is wanted.
    pub(crate) fn write_back_while(&self, wanted: impl Fn() -> bool) -> Result<()> {
        while wanted() {
            self.write_back_if(&wanted)?;
        }
        Ok(())
    }

    /// Appends everything that waits, in as many groups as it takes. No lock
    /// is held.
    pub(crate) fn append_all(&self, cause: Cause) -> Result<Position> {
        let until = self.queues().next;
        let mut groups = self.groups_waiting();
        loop {
            let mut writer = self.writer();
            let position = match groups {
                0 if self.store.geometry.bounds_groups => {
                    self.capture_until(&mut writer, until, cause)?
                }
                0 => self.capture(&mut writer, Take::All, cause)?,
                _ => self.capture(&mut writer, Take::Queue { until }, cause)?,
            };
            groups = groups.saturating_sub(1);
            if !self.is_queued(until) {
                return Ok(position);
            }
        }
    }

    /// Groups that take all that is dirty now. Who counts them is not kept by
    /// somebody who goes on writing.
    pub(crate) fn groups_waiting(&self) -> u64 {
        let waiting = self.waits.now();
        let charge = waiting.blocks * self.store.least_charge();
        waiting.bytes.max(charge) / self.group_bytes() + 2
    }

    /// # Errors
    /// What made an earlier write fail.
    pub(crate) fn check_failed(&self) -> Result<()> {
        match &*self.failed.lock() {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// From now on nothing is changed, for this reason, unless there is one
    /// already. Reads go on. On what was mounted read-only it does nothing.
    pub fn refuse_changes(&self, reason: &str) {
        if self.store.geometry.read_only.is_some() {
            return;
        }
        self.failed
            .lock()
            .get_or_insert_with(|| Error::ReadOnly(reason.to_owned()));
        self.has_failed.store(true, Relaxed);
    }

    /// After a failed append or commit nothing is written any more.
    pub(crate) fn fail(&self, error: &Error) {
        let mut failed = self.failed.lock();
        if failed.is_none() {
            tracing::error!(%error, "a write failed: the volume takes no more changes");
            *failed = Some(error.clone());
        }
        self.has_failed.store(true, Relaxed);
    }
}
