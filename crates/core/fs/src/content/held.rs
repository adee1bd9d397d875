//! Held writes: writes that a cache accepted before they reached the file system.
//!
//! The kernel's write-back cache reports bytes as written and delivers them later. An
//! error at that time is too late, because the program has ended or moved on. So space
//! for the bytes that the cache may contain is reserved against every other operation
//! that grows the tree. A held write may use that space and reports when it had to, so
//! that the writer can be notified while it still runs.
//!
//! The reserve counts as a promise that is never redeemed: it is added to each request to
//! the layout, and layouts know nothing of it.

use crate::attr::Caller;
use crate::error::Result;
use crate::file_system::FileSystem;
use crate::layout::Layout;
use crate::types::InodeNo;
use crate::via::{HeldTimes, Via};
use std::sync::atomic::Ordering::Relaxed;

/// The outcome of a held write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldWrite {
    /// The write made the tree larger, and the volume is full except for the reserve.
    pub used_kept_room: bool,
}

impl<L: Layout> FileSystem<L> {
    /// Reserves space for `bytes` of held writes, rounded up to whole blocks. No other
    /// operation may make the tree so large that they no longer fit. It replaces the
    /// earlier reserve; a mount begins with none.
    pub fn keep_room(&self, bytes: u64) {
        self.space.kept_bytes.store(bytes, Relaxed);
    }

    /// [`Self::write`] of bytes that a cache has reported as written: all of them, at
    /// most a mebibyte, out of the reserve if necessary. On a full volume, existing
    /// blocks are overwritten in pieces.
    ///
    /// # Errors
    /// As [`Self::write`], also if a part was written before the failure.
    pub fn write_held(
        &self,
        caller: &Caller,
        ino: InodeNo,
        offset: u64,
        data: &[u8],
        times: HeldTimes,
    ) -> Result<HeldWrite> {
        let vnode = self.vnode(ino)?;
        let written = self.write_or_over(&vnode, caller, offset, data, Via::Held(times))?;
        self.dirtied();
        self.settle_file(&vnode)?;
        match written.stopped {
            Some(error) => Err(error),
            None => Ok(HeldWrite {
                used_kept_room: written.grew && self.available() == 0,
            }),
        }
    }

    /// Free blocks, as [`Self::statfs`] counts them, minus the reserve.
    pub fn available(&self) -> u64 {
        self.statfs_beside(self.kept()).free
    }
}
