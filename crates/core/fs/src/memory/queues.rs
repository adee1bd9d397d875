//! Queues of changes that wait to be logged (`epochs`).

use super::vnode::Vnode;
use crate::layout::Usage;
use crate::types::{InodeNo, Version};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Most blocks freed in one group.
pub(crate) const STEP_BLOCKS: u64 = 65_536;
/// Write-back was not requested.
pub(crate) const NOT_WOKEN: u64 = u64::MAX;

/// Bytes for which a member of the epoch, or a file in the queue, counts against the
/// thresholds: its image, written once for each.
pub(crate) const EPOCH_CHARGE_BYTES: u64 = 512;

/// Number of members at which an epoch is sealed in the background. Capturing one member
/// takes a microsecond or two, with the gate closed.
pub(crate) const EPOCH_MEMBERS: usize = 4096;

/// A file that was freed without ever being in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub ino: InodeNo,
    pub version: Version,
    /// Its share of the usage announced with the last group.
    pub counted: Usage,
}

/// The queues. Members are referenced, and so stay in memory.
#[derive(Default)]
pub(crate) struct Queues {
    pub epoch: Vec<Arc<Vnode>>,
    /// Members of the epoch that were freed without a vnode.
    pub ended: Vec<Ended>,
    /// Monotonic nanoseconds at which the first member joined.
    pub epoch_opened_ns: u64,
    /// Files with dirty data, and since when, in monotonic nanoseconds.
    pub data: BTreeMap<u64, (Arc<Vnode>, u64)>,
    pub next: u64,
    /// Files whose fsync waits for a capture.
    pub wanted: Vec<Arc<Vnode>>,
    /// Files of which only the access time changed.
    pub atimes: Vec<Arc<Vnode>>,
    /// Members of a group that could not be appended. The layout does not have their
    /// changes, so they must stay in memory.
    pub stranded: Vec<Arc<Vnode>>,
    /// Files whose blocks are to be freed in steps, each once.
    pub reap: VecDeque<Arc<Vnode>>,
}

impl Queues {
    /// Number of the epoch's members.
    pub fn members(&self) -> usize {
        self.epoch.len() + self.ended.len()
    }

    /// Queues a file whose blocks are to be freed in steps, once: what the queue will
    /// free is counted as free already.
    pub fn free_later(&mut self, vnode: Arc<Vnode>) {
        if !self.reap.iter().any(|queued| Arc::ptr_eq(queued, &vnode)) {
            self.reap.push_back(vnode);
        }
    }
}
