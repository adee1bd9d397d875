//! The items of a record's payload, checked before any is applied.
//!
//! A stream is input. Conditions that the log asserts of a group, and values that would
//! take unbounded memory, are refused here; content cannot be judged.

use super::stream::StreamItem;
use crate::format::index::MAX_BLOCK;
use crate::format::inode::InodeImage;
use crate::format::summary::entry_kind;
use crate::format::{Malformed, SECTOR};
use crate::geometry::Geometry;
use std::sync::Arc;
use varve_fs::{InodeNo, Item, Timestamp};
use zerocopy::FromBytes;

/// Limits of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Measures {
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// Bytes of an inode.
    pub inode_bytes: u32,
    /// Most bytes of a file's extended attributes.
    pub xattr_bytes: u32,
    /// Logical blocks that fit on the volume.
    pub blocks: u64,
    /// Upper bound of the inode numbers, exclusive.
    pub inodes: u64,
}

impl Measures {
    /// Limits of a volume on which numbers from `next_ino` on were never used.
    pub(super) fn of(geometry: &Geometry, next_ino: u64) -> Self {
        let volume = geometry.volume_bytes();
        Measures {
            block_bytes: geometry.block_bytes,
            inode_bytes: geometry.inode_bytes,
            xattr_bytes: geometry.xattr_bytes() as u32,
            blocks: volume / u64::from(geometry.block_bytes),
            inodes: next_ino + volume / u64::from(geometry.inode_bytes),
        }
    }

    /// The items of a payload.
    ///
    /// # Errors
    /// Describes a value that no original can have written.
    pub fn items(&self, payload: &[u8]) -> Result<Vec<Item>, Malformed> {
        let mut items = Vec::new();
        let mut rest = payload;
        while !rest.is_empty() {
            let bad = || Malformed::new("stream item", "it is cut off");
            let (item, behind) = StreamItem::read_from_prefix(rest).map_err(|_| bad())?;
            let content = behind.split_at_checked(item.bytes.get() as usize);
            let (content, behind) = content.ok_or_else(bad)?;
            items.push(self.item(&item, content)?);
            rest = behind;
        }
        Ok(items)
    }

    fn item(&self, item: &StreamItem, content: &[u8]) -> Result<Item, Malformed> {
        let ino = InodeNo(item.ino.get());
        let (version, from, to) = (item.version.get(), item.from.get(), item.to.get());
        let bad = |problem: &str| Malformed::new("stream item", format!("{ino}: {problem}"));
        if !(InodeNo::ROOT.0..self.inodes).contains(&ino.0) {
            return Err(bad("no volume of this size has such an inode"));
        }
        let sectors = |most: u32| {
            let whole = !content.is_empty() && (content.len() as u64).is_multiple_of(SECTOR);
            match whole && content.len() <= most.next_multiple_of(SECTOR as u32) as usize {
                true => Ok(Arc::new(content.into())),
                false => Err(bad(&format!("{} bytes of content", content.len()))),
            }
        };
        match item.kind {
            entry_kind::BLOCK if from < MAX_BLOCK => Ok(Item::Block {
                ino,
                version,
                block: from,
                data: sectors(self.block_bytes)?,
                written: Timestamp::from_ns(to as i64),
            }),
            entry_kind::XATTRS => Ok(Item::Xattrs {
                ino,
                version,
                data: sectors(self.xattr_bytes)?,
            }),
            entry_kind::INODE => {
                if content.len() != self.inode_bytes as usize {
                    return Err(bad("an inode of another size"));
                }
                let image = InodeImage::decode(content, ino)?;
                let fits = image.inode.xattr_bytes <= self.xattr_bytes;
                if image.root.is_some() || image.inode.version != version || !fits {
                    return Err(bad("an inode with a root, or not what its item says"));
                }
                Ok(Item::Inode(Box::new(image.inode)))
            }
            _ if !content.is_empty() => Err(bad("content where there is none")),
            entry_kind::FREED if from <= u64::from(u32::MAX) => Ok(Item::Freed {
                ino,
                next_version: from as u32,
            }),
            entry_kind::TRUNCATED if from <= MAX_BLOCK => Ok(Item::Truncated {
                ino,
                version,
                from_block: from,
            }),
            entry_kind::PUNCHED if from <= to && to <= MAX_BLOCK => Ok(Item::Punched {
                ino,
                version,
                from_block: from,
                to_block: to,
            }),
            entry_kind::RESERVED if from <= to && to <= MAX_BLOCK && to - from <= self.blocks => {
                Ok(Item::Reserved {
                    ino,
                    version,
                    from_block: from,
                    to_block: to,
                })
            }
            kind => Err(bad(&format!("of kind {kind}, or a range that cannot be"))),
        }
    }
}
