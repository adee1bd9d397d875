//! Write-back of data for which no caller waits.
//!
//! Above the start-write threshold a background thread appends groups until half of it is
//! left; above the stop-access threshold writers do so themselves. For a file that is
//! written sequentially it starts at a quarter: that data is not going to be rewritten,
//! and an fsync at the end waits for the rest. A large epoch is sealed, and changes that
//! have waited for 30 seconds are due, regardless of the thresholds: no operation
//! proceeds while an epoch is captured, and that takes time in proportion to its size.
//! Nothing is committed here: callers that wait and the layout's checkpoints do that.

use crate::epochs::capture::Take;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::{Cause, Layout, Position};
use crate::locks::{Lock, Ranked};
use crate::memory::queues::{EPOCH_MEMBERS, NOT_WOKEN};
use crate::memory::writer::Writer;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::sync::MutexGuard;

/// Divisor of the threshold at which write-back of a sequentially written file starts.
const STREAM_SHARE: u64 = 4;

/// Longest time that a change may wait in memory, in nanoseconds.
const AGE_NS_MAX: u64 = 30_000_000_000;

impl<L: Layout> FileSystem<L> {
    pub(crate) fn writer(&self) -> Ranked<MutexGuard<'_, Writer>> {
        Ranked::take(self.level.rank(Lock::Writer), || self.writer.lock())
    }

    /// Registers `waker`, which is called whenever the start-write threshold is passed,
    /// so that a thread can be woken to call [`Self::write_back`] or [`Self::maintain`].
    /// It is called without locks.
    pub fn set_waker(&self, waker: Box<dyn Fn() + Send + Sync>) {
        *self.waker.write() = Some(waker);
    }

    /// Notes that an operation made data dirty. The caller has no locks.
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

    /// [`Self::dirtied`] by a write that made its file longer; `file_bytes` of the file
    /// wait.
    pub(crate) fn streamed(&self, file_bytes: u64) {
        let start = self.settings.start_write_bytes / STREAM_SHARE;
        if file_bytes > start {
            self.wake_above(start);
        }
    }

    /// Wakes the writer above `bytes`. It continues down to half of that, because it
    /// would otherwise be woken at every write.
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

    /// One step of background write-back: appends a group if too much is dirty, the epoch
    /// is large, or a change has waited for 30 seconds. Returns whether it did.
    ///
    /// # Errors
    /// Errors of the layout.
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

    /// Appends a group if one is still wanted once the writer lock is taken. Returns
    /// whether it did.
    pub(crate) fn write_back_if(&self, wanted: impl FnOnce() -> bool) -> Result<bool> {
        let mut writer = self.writer();
        if !wanted() {
            return Ok(false);
        }
        let take = Take::Queue { until: u64::MAX };
        self.capture(&mut writer, take, Cause::WriteBack)?;
        Ok(true)
    }

    /// True if the epoch is large, or a change has waited for long.
    fn is_due(&self) -> bool {
        let now = self.clock.monotonic_ns();
        let queues = self.queues();
        let due = |since: u64| now.saturating_sub(since) > AGE_NS_MAX;
        let data = queues.data.first_key_value();
        queues.members() >= EPOCH_MEMBERS
            || data.is_some_and(|(_, (_, since))| due(*since))
            || (queues.members() > 0 && due(queues.epoch_opened_ns))
    }

    /// Writes back until less is dirty than the stop-access threshold.
    pub(crate) fn relieve(&self) -> Result<()> {
        self.write_back_while(|| self.waits.bytes() > self.settings.stop_access_bytes)
    }

    /// Writes back as long as `wanted` returns true.
    pub(crate) fn write_back_while(&self, wanted: impl Fn() -> bool) -> Result<()> {
        while wanted() {
            self.write_back_if(&wanted)?;
        }
        Ok(())
    }

    /// Appends all waiting changes, in as many groups as necessary. The caller has no
    /// locks.
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

    /// Number of groups for all data that is dirty now. A caller that counts them is not
    /// delayed by another thread that writes without a pause.
    pub(crate) fn groups_waiting(&self) -> u64 {
        let waiting = self.waits.now();
        let charge = waiting.blocks * self.store.least_charge();
        waiting.bytes.max(charge) / self.group_bytes() + 2
    }

    /// Checks that no write has failed.
    ///
    /// # Errors
    /// The error of the failed write.
    pub(crate) fn check_failed(&self) -> Result<()> {
        match &*self.failed.lock() {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Refuses changes from now on, for this reason, unless there is a reason already.
    /// Reads still work. It has no effect on a volume mounted read-only.
    pub fn refuse_changes(&self, reason: &str) {
        if self.store.geometry.read_only.is_some() {
            return;
        }
        self.failed
            .lock()
            .get_or_insert_with(|| Error::ReadOnly(reason.to_owned()));
        self.has_failed.store(true, Relaxed);
    }

    /// Records that an append or commit failed, after which nothing is written.
    pub(crate) fn fail(&self, error: &Error) {
        let mut failed = self.failed.lock();
        if failed.is_none() {
            tracing::error!(%error, "a write failed: the volume takes no more changes");
            *failed = Some(error.clone());
        }
        self.has_failed.store(true, Relaxed);
    }
}
