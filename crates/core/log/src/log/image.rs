//! The inode image of a group, with a root if that is known without a read.
//!
//! An image with a root that finds every block saves the next checkpoint from writing the
//! inode again. The root is known without a device read for new files, and for files
//! whose checkpointed image is in memory; the image of any other file has none.

use crate::committed::Committed;
use crate::delta::{InodeDelta, RangeState};
use crate::format::Pointer;
use crate::format::inode::{InodeImage, Root};
use crate::geometry::Geometry;
use std::sync::Arc;
use varve_fs::Inode;

/// The image below the deltas, as far as it is known without the device.
pub enum Below {
    /// The checkpoint has no such inode.
    Nothing,
    /// The inode's image.
    Image(Arc<InodeImage>),
    /// It would have to be read.
    Unknown,
}

/// The image to log for `inode`, whose blocks so far are applied to the live delta.
pub fn compose(
    geometry: &Geometry,
    committed: &Committed,
    below: impl Fn() -> Below,
    inode: Inode,
) -> InodeImage {
    let none = InodeDelta::default();
    let live = committed.live.inode(inode.ino.0).unwrap_or(&none);
    let frozen = committed.frozen.as_ref();
    let in_frozen = frozen.and_then(|frozen| frozen.inode(inode.ino.0));
    let below = match in_frozen {
        _ if live.reborn => Below::Nothing,
        Some(entry) if entry.freed.is_some() => Below::Nothing,
        Some(_) => Below::Unknown,
        // A running checkpoint may be moving its nodes.
        None if frozen.is_some_and(|frozen| frozen.changes(inode.ino)) => Below::Unknown,
        None => below(),
    };
    let (root, xattrs_below) = match &below {
        Below::Nothing => (Some(Root::default()), Some(Pointer::NONE)),
        Below::Image(image) => (image.root.clone(), Some(image.xattrs)),
        Below::Unknown => (None, None),
    };
    let xattrs = live.xattrs.or(xattrs_below);
    let root = match (root, xattrs) {
        (Some(root), Some(_)) => amended(geometry, root, live),
        _ => None,
    };
    InodeImage {
        inode,
        root,
        xattrs: xattrs.unwrap_or(Pointer::NONE),
    }
}

/// `root` with the live delta's blocks, if it can point to them directly.
fn amended(geometry: &Geometry, root: Root, live: &InodeDelta) -> Option<Root> {
    if !live.has_pending_blocks() {
        return Some(root);
    }
    let slots = geometry.root_slots();
    if root.height > 0 || live.blocks.range(slots as u64, u64::MAX).next().is_some() {
        return None;
    }
    let beyond = live.ranges.within(slots as u64, u64::MAX);
    if beyond
        .into_iter()
        .any(|(_, _, state)| state != RangeState::Hole)
    {
        return None;
    }
    let block_sectors = (geometry.block_bytes / 512) as u8;
    let mut pointers: Vec<Pointer> = (0..slots as u64)
        .map(|block| match live.block(block, block_sectors) {
            crate::delta::Answer::At(pointer) => pointer,
            crate::delta::Answer::Hole => Pointer::NONE,
            crate::delta::Answer::Pass => root
                .slots
                .get(block as usize)
                .copied()
                .unwrap_or(Pointer::NONE),
        })
        .collect();
    while pointers.last().is_some_and(Pointer::is_none) {
        pointers.pop();
    }
    Some(Root {
        height: 0,
        slots: pointers,
    })
}
