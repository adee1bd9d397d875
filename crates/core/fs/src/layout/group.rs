//! A group: changes that become durable together, as passed to a layout.

use super::Usage;
use crate::inode::Inode;
use crate::types::{InodeNo, SpillNo, Timestamp, Version};
use std::sync::Arc;
use varve_device::Block;

/// One change, in the arrival order of its group.
///
/// For each inode a group contains, in this order: its records, its blocks by ascending
/// number, its image. A record therefore never undoes a block of its own group.
#[derive(Clone, Debug)]
pub enum Item {
    /// The inode was removed; the number's next file gets `next_version`.
    Freed {
        /// Inode number.
        ino: InodeNo,
        /// The version of the number's next file: the freed one plus 1.
        next_version: Version,
    },
    /// Blocks from `from_block` on were removed, regardless of the size.
    Truncated {
        /// Inode number.
        ino: InodeNo,
        /// Version of the inode.
        version: Version,
        /// First block that no longer exists.
        from_block: u64,
    },
    /// Blocks `from_block..to_block` were removed.
    Punched {
        /// Inode number.
        ino: InodeNo,
        /// Version of the inode.
        version: Version,
        /// First block of the hole.
        from_block: u64,
        /// First block after it.
        to_block: u64,
    },
    /// Blocks `from_block..to_block`, all holes until now, exist and read as zeros
    /// (`fallocate`).
    Reserved {
        /// Inode number.
        ino: InodeNo,
        /// Version of the inode.
        version: Version,
        /// First reserved block.
        from_block: u64,
        /// First block after them.
        to_block: u64,
    },
    /// New content of a block.
    Block {
        /// Inode number.
        ino: InodeNo,
        /// Version of the inode.
        version: Version,
        /// Logical block number.
        block: u64,
        /// 1 to `block_bytes` bytes. Stored in whole sectors; the last sector is padded
        /// with zeros, and the rest of the block reads as zeros.
        data: Arc<Block>,
        /// Time at which a user last wrote it.
        written: Timestamp,
    },
    /// New content of blocks, in the order of [`Item::Block`], that has been spilled: it
    /// becomes part of the file without a copy.
    Placed {
        /// Inode number.
        ino: InodeNo,
        /// Version of the inode.
        version: Version,
        /// First logical block.
        block: u64,
        /// Number of blocks, at least one.
        count: u32,
        /// The spill that contains them.
        spill: SpillNo,
        /// Index of the first of them in the spill; the following ones are adjacent.
        index: u32,
        /// Time at which a user last wrote the first.
        written: Timestamp,
    },
    /// All extended attributes, as one blob; empty if there are none.
    Xattrs {
        /// Inode number.
        ino: InodeNo,
        /// Version of the inode.
        version: Version,
        /// The encoded attributes.
        data: Arc<Block>,
    },
    /// The inode's attributes after all earlier items. `size`, `blocks` and `sectors`
    /// count logged content only. `nlink == 0` or [`crate::flags::TRUNCATING`] puts the
    /// inode on the list that [`crate::Layout::unfinished`] returns after a crash.
    Inode(Box<Inode>),
}

/// The reason for which a group is written; it is only counted.
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
    /// The changes in arrival order; see [`Item`].
    pub items: Vec<Item>,
    /// Usage of the volume after this group.
    pub usage: Usage,
    /// The reason for which it is written.
    pub cause: Cause,
}

impl Group {
    /// The inode numbers whose attributes the group contains; and the numbers that it
    /// frees, each with the version of its next file.
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
