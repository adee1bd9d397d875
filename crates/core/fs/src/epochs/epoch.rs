//! Changes that wait to be logged: the epoch, the dirty queue, and smaller lists.
//!
//! The *epoch* is the set of vnodes whose metadata changed since the last seal.
//! Everything in it becomes durable together, so it is captured from the present state of
//! its members, in any order. The *queue* contains files with dirty data by the time they
//! first became dirty (paper C, section 2).

use crate::file_system::FileSystem;
use crate::layout::Layout;
use crate::locks::{Lock, Ranked};
use crate::memory::queues::{EPOCH_MEMBERS, Queues};
use crate::memory::vnode::{State, Vnode};
use crate::types::{FileKind, Timestamp};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use varve_device::sync::MutexGuard;

impl<L: Layout> FileSystem<L> {
    pub(crate) fn queues(&self) -> Ranked<MutexGuard<'_, Queues>> {
        Ranked::take(self.level.rank(Lock::Queue), || self.queues.lock())
    }

    /// Makes the vnode a member of the epoch.
    #[inline]
    pub(crate) fn join(&self, vnode: &Arc<Vnode>, state: &mut State) {
        self.count_joined(state);
        if state.in_epoch {
            return;
        }
        state.in_epoch = true;
        self.waits.image_came();
        let mut queues = self.queues();
        queues.epoch.push(Arc::clone(vnode));
        self.has_joined(&mut queues);
    }

    /// Recounts the file's dirty blocks that belong to the epoch.
    #[inline]
    pub(crate) fn count_joined(&self, state: &mut State) {
        let go = state.join_epoch || state.inode.kind() != FileKind::Regular;
        let blocks = if go { state.dirty.len() as u64 } else { 0 };
        if blocks != state.joined {
            self.waits.joined(state.joined, blocks);
            state.joined = blocks;
        }
    }

    /// Notes the time of the epoch's first member, and requests write-back when it
    /// becomes large.
    #[inline]
    pub(crate) fn has_joined(&self, queues: &mut Queues) {
        match queues.members() {
            1 => queues.epoch_opened_ns = self.clock.monotonic_ns(),
            EPOCH_MEMBERS => self.seal_due.store(true, Ordering::Relaxed),
            _ => {}
        }
    }

    /// Appends a file with dirty data to the queue, unless it is in it.
    #[inline]
    pub(crate) fn enqueue(&self, vnode: &Arc<Vnode>, state: &mut State) {
        if state.queued != 0 {
            return;
        }
        let now = self.clock.monotonic_ns();
        let mut queues = self.queues();
        queues.next += 1;
        state.queued = queues.next;
        queues.data.insert(state.queued, (Arc::clone(vnode), now));
        drop(queues);
        self.waits.image_came();
    }

    /// Removes a file from the queue whose data is logged or removed.
    pub(crate) fn dequeue(&self, state: &mut State) {
        if state.queued != 0 {
            let former = self.queues().data.remove(&state.queued);
            state.queued = 0;
            drop(former);
            self.waits.images_went(1);
        }
    }

    /// Notes a read time, which is logged together with other changes. If too many wait,
    /// they are dropped, because they would fill the table.
    pub(crate) fn note_read_time(&self, vnode: &Arc<Vnode>, now: Timestamp) {
        vnode.atime_ns.store(now.as_ns().max(1), Ordering::Relaxed);
        if !vnode.atime_listed.swap(true, Ordering::Relaxed) {
            let mut queues = self.queues();
            if queues.atimes.len() < self.settings.read_times_max {
                queues.atimes.push(Arc::clone(vnode));
            } else {
                vnode.atime_listed.store(false, Ordering::Relaxed);
            }
        }
    }
}
