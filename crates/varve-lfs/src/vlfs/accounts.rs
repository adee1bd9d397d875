//! Whether what lives, and what is going to, fits.
//!
//! What lives is known exactly: blocks of which the tree uses a unit, and
//! blocks that are reserved and take none yet. What waits in memory is priced
//! at its worst, a block for every index node on the way; what has been written
//! back is known. As every copy of everything that waits must fit beside what
//! lives, a group always finds room once older versions are freed.

use super::Vlfs;
use super::append::PATH_MAX;
use crate::error::{Error, Result};
use varve_fs::{Purpose, StatFs, Usage, Waiting};

/// Bytes of waiting changes that one block may take, its nodes and inode
/// included, at worst: a changed inode counts as 512 bytes.
const WORST: u64 = 8;
/// Bytes asked for by one operation up to which they may be scattered; beyond,
/// they are a file's, in sequence.
const SCATTERED: u64 = 64 << 10;

impl Vlfs {
    /// Blocks that live, reserved ones included.
    fn committed_blocks(&self) -> (u64, Usage) {
        let writer = self.writer.lock();
        let reserved = writer.usage.blocks.saturating_sub(writer.stored);
        let nodes = reserved.div_ceil(self.measures().fanout() as u64);
        (writer.space.live_blocks() + reserved + nodes, writer.usage)
    }

    pub(super) fn fits(&self, total: Usage, waiting: Waiting, purpose: Purpose) -> Result<()> {
        self.writable()?;
        if self.has_room_for(total, waiting, purpose).is_ok() {
            return Ok(());
        }
        // What was appended counts as if each node and inode of it took a block;
        // once it is written, what it takes is known.
        let _one = self.committing.lock();
        let mut writer = self.writer.lock();
        self.commit_all(&mut writer)?;
        drop(writer);
        self.has_room_for(total, waiting, purpose)
    }

    fn has_room_for(&self, total: Usage, waiting: Waiting, purpose: Purpose) -> Result<()> {
        let measures = self.measures();
        if total.inodes > measures.inodes.saturating_sub(varve_fs::InodeNo::FIRST.0) {
            return Err(Error::OutOfSegments);
        }
        let (live, usage) = self.committed_blocks();
        let block = u64::from(measures.block_bytes);
        let asked = match waiting.asked {
            scattered @ ..=SCATTERED => scattered * WORST,
            run => SCATTERED * WORST + (run - SCATTERED) / 16 * 17,
        };
        let changes = (waiting.certain.saturating_mul(WORST))
            .saturating_add(asked)
            .div_ceil(block);
        let grown = total.blocks.saturating_sub(usage.blocks);
        let grown = grown.saturating_add(grown / measures.fanout() as u64);
        let owed = self.owed();
        let reserve = match purpose {
            Purpose::Grow => measures.reserve_blocks,
            Purpose::Shrink => measures.reserve_blocks / 2,
        };
        let need = live
            .saturating_add(changes)
            .saturating_add(grown)
            .saturating_add(owed);
        match need.saturating_add(reserve) <= measures.capacity_blocks() {
            true => Ok(()),
            false => Err(Error::OutOfSegments),
        }
    }

    /// True if what waits should be written back, as its worst price is near
    /// what is left.
    pub(super) fn is_short_of(&self, dirty_bytes: u64) -> bool {
        let worst = dirty_bytes.saturating_mul(WORST) / u64::from(self.measures().block_bytes);
        let (live, _) = self.committed_blocks();
        let left = self.measures().capacity_blocks().saturating_sub(live);
        left < worst + 2 * self.measures().reserve_blocks + PATH_MAX
    }

    pub(super) fn answer_statfs(&self, total: Usage) -> StatFs {
        let measures = self.measures();
        let blocks = measures
            .capacity_blocks()
            .saturating_sub(measures.reserve_blocks);
        let (live, usage) = self.committed_blocks();
        let grown = total.blocks.saturating_sub(usage.blocks);
        let gone = usage.blocks.saturating_sub(total.blocks);
        let taken = live.saturating_add(grown).saturating_sub(gone);
        let numbers = measures.inodes.saturating_sub(varve_fs::InodeNo::FIRST.0);
        StatFs {
            blocks,
            free: blocks.saturating_sub(taken),
            files: total.inodes,
            files_free: numbers.saturating_sub(total.inodes),
        }
    }
}
