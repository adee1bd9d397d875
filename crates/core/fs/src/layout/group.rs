//! What a layout is handed: changes that become durable together.

use super::Usage;
use crate::inode::Inode;
use crate::types::{InodeNo, SpillNo, Timestamp, Version};
use std::sync::Arc;
use varve_device::Block;

/// One change, in the arrival order of its group.
///
/// For each inode a group holds, in this order: its records, its blocks by
/// ascending number, its image. A record therefore never undoes a block of
/// its own group.
#[derive(Clone, Debug)]
pub enum Item {
    /// The inode is gone; the number's next user gets `next_version`.
    Freed {
        /// Whose.
        ino: InodeNo,
        /// The version of the number's next file: the freed one plus 1.
        next_version: Version,
    },
    /// Blocks from `from_block` on are gone, whatever the size says.
    Truncated {
        /// Whose.
        ino: InodeNo,
        /// Its version.
        version: Version,
        /// First block that no longer exists.
        from_block: u64,
    },
    /// Blocks `from_block..to_block` are gone.
    Punched {
        /// Whose.
        ino: InodeNo,
        /// Its version.
        version: Version,
        /// First block of the hole.
        from_block: u64,
        /// First block after it.
        to_block: u64,
    },
    /// Blocks `from_block..to_block`, all holes until now, exist and read as
    /// zeros (`fallocate`).
    Reserved {
        /// Whose.
        ino: InodeNo,
        /// Its version.
        version: Version,
        /// First reserved block.
        from_block: u64,
        /// First block after them.
        to_block: u64,
    },
    /// A block's new content.
    Block {
        /// Whose.
        ino: InodeNo,
        /// Its version.
        version: Version,
        /// Logical block number.
        block: u64,
        /// 1 to `block_bytes` bytes. Stored in whole sectors; what is missing
        /// to the sector's end is stored as zeros, what is missing to the
        /// block's end reads as zeros.
        data: Arc<Block>,
        /// When a user last wrote it.
        written: Timestamp,
    },
    /// New content of blocks, in the order of [`Item::Block`], that has been
    /// spilled: it becomes part of the file as it is.
    Placed {
        /// Whose.
        ino: InodeNo,
        /// Its version.
        version: Version,
        /// First logical block.
        block: u64,
        /// How many blocks, at least one.
        count: u32,
        /// What was spilled.
        spill: SpillNo,
        /// Which of its blocks is the first of these; the others follow.
        index: u32,
        /// When a user last wrote the first.
        written: Timestamp,
    },
    /// All extended attributes, as one blob; empty for none.
    Xattrs {
        /// Whose.
        ino: InodeNo,
        /// Its version.
        version: Version,
        /// The encoded attributes.
        data: Arc<Block>,
    },
    /// The inode's attributes after everything before it. `size`, `blocks` and
    /// `sectors` count logged content only. `nlink == 0` or
    /// [`crate::flags::TRUNCATING`] puts the inode on the list that
    /// [`crate::Layout::unfinished`] returns after a crash.
    Inode(Box<Inode>),
}

/// Why a group is written; only counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A caller waits for it: fsync, O_SYNC.
    Sync,
    /// Dirty data passed the start-write threshold or grew old.
    WriteBack,
    /// Sync of everything: unmount, fsync of a directory.
    SyncAll,
}

/// Changes that become durable together.
#[derive(Clone, Debug)]
pub struct Group {
    /// In arrival order; see [`Item`].
    pub items: Vec<Item>,
    /// Everything on the volume once this group counts.
    pub usage: Usage,
    /// Why it is written.
    pub cause: Cause,
}

impl Group {
    /// The numbers whose attributes it has; those that it frees, each with the
    /// version of its next file.
    pub fn numbers(&self) -> (Vec<InodeNo>, Vec<(InodeNo, Version)>) {
        let (mut used, mut freed) = (Vec::new(), Vec::new());
        for item in &self.items {
            match item {
                Item::Inode(inode) => used.push(inode.ino),
                Item::Freed { ino, next_version } => freed.push((*ino, *next_version)),
                _ => {}
            }
        }
        (used, freed)
    }
}
