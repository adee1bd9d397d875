//! Writes that were accepted before they got here.
//!
//! The kernel's write-back cache tells a program that its bytes are written
//! and hands them over later. Refusing them then comes too late: the program
//! is gone, or goes on. So room for what the cache may hold is kept free of
//! everything else that grows the tree. A held write may use that room, and
//! says when it had to, so that whoever wrote can be told before it is gone.
//!
//! What is kept counts as a promise that nobody ever redeems: it is added to
//! whatever the layout is asked to hold, and layouts know nothing of it.

use crate::attr::Caller;
use crate::error::Result;
use crate::file_system::FileSystem;
use crate::layout::Layout;
use crate::types::InodeNo;
use crate::via::{HeldTimes, Via};
use std::sync::atomic::Ordering::Relaxed;

/// What became of a held write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldWrite {
    /// It made the tree larger, and the volume is full but for the room that
    /// is kept for such writes.
    pub used_kept_room: bool,
}

impl<L: Layout> FileSystem<L> {
    /// Keeps room for `bytes` of held writes, whole blocks of them; nothing
    /// else may make the tree so large that they no longer fit. What was kept
    /// before is let go. None is kept at mount.
    pub fn keep_room(&self, bytes: u64) {
        self.space.kept_bytes.store(bytes, Relaxed);
    }

    /// [`Self::write`] of bytes that somebody was told are written: all of them, at
    /// most a mebibyte, out of the kept room if need be. What writes over a full
    /// volume goes there piece by piece.
    ///
    /// # Errors
    /// As [`Self::write`], also for what stopped it when a part was there.
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

    /// Free blocks, as [`Self::statfs`] counts them, without the kept room.
    pub fn available(&self) -> u64 {
        self.statfs_beside(self.kept()).free
    }
}
