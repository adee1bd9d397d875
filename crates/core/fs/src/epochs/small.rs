//! Size of a group that is not captured for its caller's fsync.
//!
//! Each group is appended under the writer lock, and all groups before it are on the
//! device when a commit returns. So an fsync waits for the bytes of the group that
//! another thread is appending. While little data is made durable again and again, other
//! groups are small: the wait is for [`SMALL_GROUP_BYTES`] instead of the limit of the
//! layout or the cache, 16 MiB. Without such fsyncs groups are large, because each costs
//! the layout a summary, includes the epoch, and is a request of its own.
//!
//! `memory/small_syncs.rs` decides whether small syncs are frequent.

use crate::epochs::capture::Take;
use crate::file_system::FileSystem;
use crate::layout::Layout;
use crate::statistics::count;

/// Bytes of a small group. An fsync of at most that many bytes is small.
pub(crate) const SMALL_GROUP_BYTES: u64 = 512 << 10;

impl<L: Layout> FileSystem<L> {
    /// Bytes of a group of data in the queue's order, or of a part of a file.
    pub(crate) fn group_bytes(&self) -> u64 {
        let most = self.store.geometry.group_bytes;
        match self.small_syncs.are_frequent() {
            true => most.min(SMALL_GROUP_BYTES),
            false => most,
        }
    }

    /// Counts a captured group of `bytes`; its limit was `most`.
    pub(super) fn has_captured(&self, take: Take<'_>, bytes: u64, most: u64) {
        match take {
            Take::Wanted if bytes <= SMALL_GROUP_BYTES => self.small_syncs.another(),
            Take::Wanted | Take::All => {}
            Take::Queue { .. } | Take::Part(_) => {
                let small = most < self.store.geometry.group_bytes;
                count(&self.store.counters.small_groups, small.into());
                self.small_syncs.others(bytes);
            }
        }
    }

    /// Counts an fsync that found its data in another thread's group.
    pub(super) fn has_shared(&self) {
        self.small_syncs.another();
    }
}
