//! Operations on a whole volume: checkpoints, background work, discarding unused space,
//! ending all writing at once, and counters.

use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::{Layout, Purpose, Usage};
use crate::memory::queues::EPOCH_CHARGE_BYTES;
use crate::statistics::{self, FsStatistics};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Access times admitted by one request: more would be priced as one run of bytes, while
/// each is an image.
const READ_TIMES_AT_ONCE: usize = 128;

impl<L: Layout> FileSystem<L> {
    /// Discards the unused space in `range`, bytes of the volume; pieces smaller than
    /// `bytes_min` are left out. Returns the number of bytes discarded, but no more than
    /// `statfs` reports as free: space that files never get is discarded as well, and
    /// callers compare the result with the size that they know.
    ///
    /// # Errors
    /// `Invalid` if the range is shorter than a block or begins beyond the volume's end,
    /// `NotSupported` if the layout cannot discard, `ReadOnly`, device errors.
    pub fn trim(&self, range: Range<u64>, bytes_min: u64) -> Result<u64> {
        self.check_writable()?;
        let block_bytes = self.store.block_bytes as u64;
        if range.end.saturating_sub(range.start) < block_bytes {
            return Err(Error::Invalid("a range shorter than a block"));
        }
        let bytes = self.store.layout.trim(range, bytes_min)?;
        Ok(bytes.min(self.statfs().free.saturating_mul(block_bytes)))
    }

    /// Ends all writing, for `reason`: changes that are not durable will never be, and
    /// the volume is as a crash at this moment would leave it. Changes are refused as
    /// after a failed write; reads of data in memory still work.
    pub fn shut_down(&self, reason: &str) {
        self.refuse_changes(reason);
        self.store.layout.stop(reason);
    }

    /// Calls [`Self::sync`], access times included, and writes the layout's checkpoint.
    ///
    /// # Errors
    /// As [`Self::fsync`].
    pub fn checkpoint(&self) -> Result<()> {
        if self.is_settled() {
            return Ok(());
        }
        self.join_read_times();
        self.sync()?;
        let made = self.store.layout.checkpoint();
        made.inspect_err(|error| self.fail(error))
    }

    /// Puts waiting access times into the epoch, or drops them if the volume has no space
    /// or takes no changes.
    fn join_read_times(&self) {
        let waiting = std::mem::take(&mut self.queues().atimes);
        if waiting.is_empty() {
            return;
        }
        let mut fits = true;
        for some in waiting.chunks(READ_TIMES_AT_ONCE) {
            let bytes = EPOCH_CHARGE_BYTES * some.len() as u64;
            let begin = || self.begin(Usage::default(), bytes, Purpose::Grow).ok();
            // After one refusal no further request is made.
            let operation = fits.then(begin).flatten();
            fits = operation.is_some();
            for vnode in some {
                vnode.atime_listed.store(false, Relaxed);
                let mut state = vnode.write();
                if fits && state.live().is_ok() {
                    self.join(vnode, &mut state);
                } else {
                    vnode.atime_ns.store(0, Relaxed);
                }
            }
        }
    }

    /// Does all background work that is due: write-back of data that is dirty now, one
    /// step of freeing, and the layout's own.
    ///
    /// # Errors
    /// Errors of the layout.
    pub fn maintain(&self) -> Result<()> {
        if self.below.is_some() {
            return Ok(());
        }
        for _ in 0..self.groups_waiting() {
            if !self.write_back()? {
                break;
            }
        }
        self.reap_step()?;
        self.store.layout.maintain()
    }

    /// Counters since mount.
    pub fn statistics(&self) -> FsStatistics {
        FsStatistics {
            dirty_bytes: self.waits.bytes(),
            cached_bytes: self.store.cache.bytes(),
            vnodes: self.table.len() as u64,
            transactions_open: self.open_transactions(),
            locks: self
                .locks
                .get()
                .map_or_else(Default::default, |locks| locks.statistics()),
            ..statistics::sum(&self.store.counters)
        }
    }
}

impl<L: Layout> std::fmt::Debug for FileSystem<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileSystem")
            .field("usage", &self.usage())
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}
