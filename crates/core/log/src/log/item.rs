//! The items of a group, and the place of each after the write.

use crate::apply::Record;
use crate::bytes::content::Content;
use crate::format::ifile::InodePlace;
use crate::format::inode::InodeImage;
use crate::format::node::{Node, NodeId};
use crate::format::{Mark, Pointer, SECTOR};
use crate::geometry::Geometry;
use std::sync::Arc;
use varve_fs::{Inode, InodeNo, SpillNo, Timestamp, Usage, Version};

/// The copy of a block that the cleaner read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its place.
    pub pointer: Pointer,
    /// True if its file did not lead to it: only snapshots have it.
    pub kept: bool,
}

/// An item of a group, in arrival order.
#[derive(Debug)]
pub enum LogItem {
    /// A record of `ino` with its version (for a freed inode the former one).
    Record {
        /// Inode number.
        ino: InodeNo,
        /// Version of the inode.
        version: Version,
        /// The record.
        record: Record,
    },
    /// A block; with `source`, a move of the copy at that pointer.
    Block {
        /// Inode number.
        ino: InodeNo,
        /// Version of the inode.
        version: Version,
        /// Logical block number.
        block: u64,
        /// 1 to `block_bytes` bytes.
        data: Content,
        /// Time of the last user write.
        written: Timestamp,
        /// The copy that the cleaner read.
        source: Option<Source>,
    },
    /// The extended attributes; empty if there are none.
    Xattrs {
        /// Inode number.
        ino: InodeNo,
        /// Version of the inode.
        version: Version,
        /// The blob.
        data: Content,
        /// The copy that the cleaner read.
        source: Option<Source>,
    },
    /// Blocks that have been spilled, as the file system describes them.
    Spilled {
        /// Inode number.
        ino: InodeNo,
        /// Version of the inode.
        version: Version,
        /// First logical block.
        block: u64,
        /// Number of blocks.
        count: u32,
        /// The spill, and the index of the first of these blocks in it.
        spill: (SpillNo, u32),
        /// Time of the last user write.
        written: Timestamp,
    },
    /// Adjacent spilled blocks that become part of the file.
    Placed {
        /// Inode number.
        ino: InodeNo,
        /// Version of the inode.
        version: Version,
        /// First logical block.
        block: u64,
        /// Pointer to the first.
        first: Pointer,
        /// Checksum of each.
        crcs: Vec<u32>,
        /// Time of the last user write.
        written: Timestamp,
    },
    /// An inode's new image, as a group has it.
    Image {
        /// The inode's attributes.
        inode: Box<Inode>,
    },
    /// An inode whose image is complete: of a checkpoint, or moved.
    MovedInode {
        /// The complete image.
        image: Arc<InodeImage>,
        /// The copy that the cleaner read; `None` when a checkpoint writes it.
        source: Option<InodePlace>,
    },
    /// An index node, written by a checkpoint.
    Node {
        /// Place in the index.
        id: NodeId,
        /// Version of the file.
        version: Version,
        /// Content of the node.
        node: Arc<Node>,
        /// Content of the node, encoded.
        bytes: Content,
    },
}

impl LogItem {
    /// The file to which the item belongs.
    pub fn file(&self) -> (InodeNo, Version) {
        match self {
            LogItem::Record { ino, version, .. }
            | LogItem::Block { ino, version, .. }
            | LogItem::Spilled { ino, version, .. }
            | LogItem::Placed { ino, version, .. }
            | LogItem::Xattrs { ino, version, .. } => (*ino, *version),
            LogItem::Image { inode } => (inode.ino, inode.version),
            LogItem::MovedInode { image, .. } => (image.inode.ino, image.inode.version),
            LogItem::Node { id, version, .. } => (id.ino, *version),
        }
    }

    /// True for the move of a block that only snapshots have.
    pub fn is_kept(&self) -> bool {
        match self {
            LogItem::Block { source, .. } | LogItem::Xattrs { source, .. } => {
                source.is_some_and(|source| source.kept)
            }
            _ => false,
        }
    }

    /// The content that is stored in the payload.
    pub(super) fn content(&self) -> Option<&[u8]> {
        match self {
            LogItem::Block { data, .. } | LogItem::Xattrs { data, .. } => Some(data),
            LogItem::Node { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// True if nothing is stored for it, not even an entry: the image is enough.
    pub fn is_empty(&self) -> bool {
        matches!(self, LogItem::Xattrs { data, .. } if data.is_empty())
    }

    /// Sectors of the content.
    ///
    /// # Panics
    /// If a block is empty or exceeds the block size.
    pub fn stored_sectors(&self, geometry: &Geometry) -> u32 {
        let bytes = self.content().map_or(0, <[u8]>::len);
        if let LogItem::Block { .. } = self {
            assert!(
                bytes > 0 && bytes <= geometry.block_bytes as usize,
                "a block has content"
            );
        }
        (bytes as u32).div_ceil(SECTOR as u32)
    }
}

/// Fields of a group's summaries that do not depend on its items.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp {
    /// Usage of the volume after the group, if that changes.
    pub usage: Option<Usage>,
    /// The group of the original that is replayed with it.
    pub replays: Option<Mark>,
}

/// The writer of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// The file system: every partial is applied.
    User,
    /// A checkpoint: nothing is applied, roll-forward skips it.
    Checkpoint,
    /// Blocks of a transaction, as the spill with this number: nothing is applied,
    /// roll-forward skips it.
    Spill(SpillNo),
    /// The cleaner: moves, each applied if its source is still current. The number is
    /// that of the checkpoint against whose image the sources were verified.
    Cleaner(u64),
    /// Coalescing: moves as the cleaner's, counted separately.
    Coalescing(u64),
}

/// The place of an item after the write.
#[derive(Clone, Copy, Debug)]
pub enum Placed {
    /// A block, attributes or a node.
    Block(Pointer),
    /// An inode.
    Inode(InodePlace),
    /// A record, or an item of no length.
    Nothing,
}

impl Placed {
    /// The pointer to a block.
    pub fn pointer(&self) -> Option<Pointer> {
        match self {
            Placed::Block(pointer) => Some(*pointer),
            Placed::Inode(_) | Placed::Nothing => None,
        }
    }
}
