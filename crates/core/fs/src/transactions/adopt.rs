//! Passing new files of a private tree to its target.

use super::changes::Mine;
use crate::file_system::FileSystem;
use crate::layout::{Layout, Usage};
use crate::planted::{self, Planted};
use crate::types::FileKind;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl<L: Layout> FileSystem<L> {
    /// Moves a new file, which has names, from this tree to its target.
    pub(super) fn hand_over(&self, target: &FileSystem<L>, mine: Mine<'_>) {
        let Mine { vnode, mut state } = mine;
        self.table.remove(vnode);
        // The following fields are about this tree: membership of the epoch, the queue,
        // references of handles.
        state.queued = 0;
        state.in_epoch = false;
        state.joined = 0;
        state.captured = 0;
        state.linkable = false;
        vnode.refs.store(0, Relaxed);
        vnode.atime_ns.store(0, Relaxed);
        vnode.atime_listed.store(false, Relaxed);
        target.space.settle(Usage::default(), state.usage());
        for dirty in state.dirty.values() {
            target.waits.block_came(dirty.data.resident());
        }
        if let Some(bytes) = state.waiting_xattrs() {
            target
                .waits
                .attributes_came(bytes, target.store.block_bytes);
        }
        let pending = std::mem::take(&mut state.pending);
        target.waits.pend(&mut state.pending, |all| *all = pending);
        target.join(vnode, &mut state);
        if state.has_data() {
            let whole = !planted::is(Planted::MemberWithoutData);
            state.join_epoch = whole && vnode.kind == FileKind::Regular;
            target.enqueue(vnode, &mut state);
            target.count_joined(&mut state);
        }
        drop(state);
        vnode.level.store(target.level.0, Relaxed);
        target.table.insert(Arc::clone(vnode));
    }
}
