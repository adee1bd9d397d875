//! Writes batches and makes them durable: group commit.
//!
//! A thread that waits for a record, while no other thread writes, closes the open batch,
//! writes all closed batches, and syncs. Threads that arrive meanwhile wait; afterwards
//! one of them does the same for all of them. With thresholds, this leader first waits
//! for more commits.

use super::{Batch, Log, Lsn, State};
use crate::error::{Error, Result};
use crate::planted::{self, Planted};
use std::sync::Arc;
use std::time::Duration;
use varve_device::sync::MutexGuard;
use varve_device::sync::atomic::Ordering::{Relaxed, SeqCst};

/// The moment at which a group of commits is closed.
///
/// The default is zero everywhere: a commit is written at once if no other thread writes,
/// and joins the next group otherwise. With other values, the thesis's thresholds
/// (§5.1.4.1) delay a group, but never longer than `patience`.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupCommit {
    /// Number of active transactions below which no commit is delayed.
    pub group: usize,
    /// Percentage of active transactions that must wait for their commit.
    pub waiting_percent: usize,
    /// Bytes of log after which a group is written; 0 means any number.
    pub log_bytes: usize,
    /// Longest delay of a group.
    pub patience: Duration,
}

impl GroupCommit {
    fn is_ready(&self, active: usize, waiting: usize, bytes: usize) -> bool {
        active < self.group
            || waiting * 100 >= active * self.waiting_percent
            || (self.log_bytes > 0 && bytes >= self.log_bytes)
    }
}

impl Log {
    /// Waits until the record at `lsn` and everything before it is durable.
    pub(crate) fn flush(&self, lsn: Lsn) -> Result<()> {
        if self.durable() > lsn {
            return Ok(());
        }
        let mut state = self.state.lock();
        state.waiting += 1;
        let result = self.flush_locked(&mut state, lsn, self.group.group > 0);
        state.waiting -= 1;
        result
    }

    /// Does the same as [`flush`](Log::flush) without waiting for other commits, for
    /// callers that may own latches.
    pub(crate) fn flush_now(&self, lsn: Lsn) -> Result<()> {
        match self.durable() > lsn {
            true => Ok(()),
            false => self.flush_locked(&mut self.state.lock(), lsn, false),
        }
    }

    fn flush_locked(
        &self,
        state: &mut MutexGuard<'_, State>,
        lsn: Lsn,
        mut company: bool,
    ) -> Result<()> {
        loop {
            if let Some(why) = &state.poison {
                return Err(Error::Poisoned(why.clone()));
            }
            if state.durable > lsn.0 {
                return Ok(());
            }
            let ready = || {
                let active = self.active.load(Relaxed);
                self.group.is_ready(active, state.waiting, state.open.len())
            };
            if state.busy {
                self.changed.wait(state);
            } else if company && !ready() {
                self.changed.wait_for(state, self.group.patience);
                company = false;
            } else {
                self.seal(state);
                self.write_out(state, true)?;
            }
        }
    }

    /// Writes all closed batches. No other thread may be writing. The mutex is unlocked
    /// meanwhile.
    pub(super) fn write_out(&self, state: &mut MutexGuard<'_, State>, sync: bool) -> Result<()> {
        state.busy = true;
        let batches: Vec<Arc<Batch>> = state.sealed.iter().cloned().collect();
        let end = state.previous_end;
        let written = MutexGuard::unlocked(state, || {
            self.write(&batches)?;
            if sync && !planted::is(Planted::CommitBeforeSync) {
                self.segments.sync()?;
                self.syncs.fetch_add(1, Relaxed);
            }
            Ok(())
        });
        state.busy = false;
        if let Err(error) = written {
            self.poison_state(state, &error);
            return Err(error);
        }
        drop(batches);
        let sealed: Vec<_> = {
            let done = state.sealed.iter().take_while(|batch| batch.at < end);
            let done = done.count();
            state.sealed.drain(..done).collect()
        };
        for batch in sealed {
            if let Ok(mut batch) = Arc::try_unwrap(batch)
                && state.spare.len() < 8
            {
                batch.bytes.clear();
                state.spare.push(batch.bytes);
            }
        }
        if sync {
            state.durable = end;
            self.durable.store(end, SeqCst);
        }
        self.changed.notify_all();
        Ok(())
    }

    /// Writes batches; adjacent ones in a segment share one write.
    fn write(&self, batches: &[Arc<Batch>]) -> Result<()> {
        let mut rest = batches;
        while let [first, others @ ..] = rest {
            let mut end = first.at + first.bytes.len() as u64;
            let joins = |batch: &&Arc<Batch>| {
                let joins = batch.at == end && self.shape.offset(end) != 0;
                end += if joins { batch.bytes.len() as u64 } else { 0 };
                joins
            };
            let count = others.iter().take_while(joins).count();
            let (now, later) = rest.split_at(1 + count);
            match now {
                [one] => self.segments.write(one.at, &one.bytes)?,
                many => {
                    let all = many.iter().flat_map(|batch| batch.bytes.iter().copied());
                    self.segments.write(first.at, &all.collect::<Vec<u8>>())?;
                }
            }
            let bytes: usize = now.iter().map(|batch| batch.bytes.len()).sum();
            self.bytes.fetch_add(bytes as u64, Relaxed);
            rest = later;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_ready_when_a_threshold_of_the_thesis_says_so() {
        let group = GroupCommit {
            group: 4,
            waiting_percent: 50,
            log_bytes: 8192,
            patience: Duration::from_millis(1),
        };
        assert!(group.is_ready(3, 1, 0), "too few to wait for");
        assert!(!group.is_ready(4, 1, 0));
        assert!(group.is_ready(4, 2, 0), "half of them wait");
        assert!(group.is_ready(4, 1, 8192), "enough log");
        assert!(GroupCommit::default().is_ready(0, 1, 0));
    }
}
