//! What a group is made of, and what became of each item.

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

/// What a group is made of, in arrival order.
#[derive(Debug)]
pub enum LogItem {
    /// A record of `ino`, whose version it names (for a freed one the former).
    Record {
        /// Whose.
        ino: InodeNo,
        /// Its version.
        version: Version,
        /// What.
        record: Record,
    },
    /// A block; with `source`, a move of the copy at that pointer.
    Block {
        /// Whose.
        ino: InodeNo,
        /// Its version.
        version: Version,
        /// Logical block number.
        block: u64,
        /// 1 to `block_bytes` bytes.
        data: Content,
        /// Last user write.
        written: Timestamp,
        /// The copy the cleaner read.
        source: Option<Source>,
    },
    /// The extended attributes; empty for none.
    Xattrs {
        /// Whose.
        ino: InodeNo,
        /// Its version.
        version: Version,
        /// The blob.
        data: Content,
        /// The copy the cleaner read.
        source: Option<Source>,
    },
    /// Blocks that have been spilled, as the file system tells of them.
    Spilled {
        /// Whose.
        ino: InodeNo,
        /// Its version.
        version: Version,
        /// First logical block.
        block: u64,
        /// How many.
        count: u32,
        /// Which was spilled, and the first of its blocks that is meant.
        spill: (SpillNo, u32),
        /// Last user write.
        written: Timestamp,
    },
    /// Spilled blocks that stand side by side: those that become part of the file.
    Placed {
        /// Whose.
        ino: InodeNo,
        /// Its version.
        version: Version,
        /// First logical block.
        block: u64,
        /// Where the first is.
        first: Pointer,
        /// The checksum of each.
        crcs: Vec<u32>,
        /// Last user write.
        written: Timestamp,
    },
    /// An inode's new image, as a group has it.
    Image {
        /// Its attributes.
        inode: Box<Inode>,
    },
    /// An inode whose image is complete: of a checkpoint, or moved.
    MovedInode {
        /// All of it.
        image: Arc<InodeImage>,
        /// The copy the cleaner read; none when a checkpoint writes it.
        source: Option<InodePlace>,
    },
    /// An index node, written by a checkpoint.
    Node {
        /// Which.
        id: NodeId,
        /// The file's version.
        version: Version,
        /// Its content.
        node: Arc<Node>,
        /// Its content, encoded.
        bytes: Content,
    },
}

impl LogItem {
    /// The file the item belongs to.
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

    /// What is stored behind the summary.
    pub(super) fn content(&self) -> Option<&[u8]> {
        match self {
            LogItem::Block { data, .. } | LogItem::Xattrs { data, .. } => Some(data),
            LogItem::Node { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// Nothing is stored for it, not even an entry: the image says it all.
    pub fn is_empty(&self) -> bool {
        matches!(self, LogItem::Xattrs { data, .. } if data.is_empty())
    }

    /// Sectors the content takes.
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

/// What the summaries of a group say beside its items.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp {
    /// Everything on the volume once the group counts, if that changes.
    pub usage: Option<Usage>,
    /// The group of the original that is replayed with it.
    pub replays: Option<Mark>,
}

/// Who writes a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// The file system: every partial is applied.
    User,
    /// A checkpoint: nothing is applied, roll-forward skips it.
    Checkpoint,
    /// Blocks of a transaction, as the spill with this number: nothing is applied,
    /// roll-forward skips it.
    Spill(SpillNo),
    /// The cleaner: moves, each applied if its source still stands. The number
    /// is the checkpoint against whose image the sources were verified.
    Cleaner(u64),
    /// Coalescing: moves as the cleaner's, counted apart.
    Coalescing(u64),
}

/// Where an item went.
#[derive(Clone, Copy, Debug)]
pub enum Placed {
    /// A block, attributes or a node.
    Block(Pointer),
    /// An inode.
    Inode(InodePlace),
    /// A record, or something of no length.
    Nothing,
}

impl Placed {
    /// Where a block went.
    pub fn pointer(&self) -> Option<Pointer> {
        match self {
            Placed::Block(pointer) => Some(*pointer),
            Placed::Inode(_) | Placed::Nothing => None,
        }
    }
}
