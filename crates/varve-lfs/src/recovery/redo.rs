//! Applying one partial of a group that counts, item by item, in the order of
//! its entries.
//!
//! Nothing is judged here but moves: a moved block counts only if what it was
//! moved from still stands (rule 18).

use super::replay::{Pending, Replay};
use crate::apply::{BlockChange, Record};
use crate::chain::ChainItem;
use crate::committed::Lookup;
use crate::delta::PlacedImage;
use crate::error::{Error, Result};
use crate::format::inode::InodeImage;
use std::sync::Arc;
use varve_fs::planted::{self, Planted};

impl Replay<'_> {
    pub(super) fn apply(&mut self, partial: Pending) -> Result<()> {
        self.reserved_blocks += partial.reserved_blocks;
        let mut images = partial.images.into_iter();
        for item in &partial.items {
            let image = match item {
                ChainItem::Inode { .. } => images.next(),
                _ => None,
            };
            if self.stands(item)? {
                if let Some(source) = item.source_sector() {
                    let segment = self.geometry.segment_of(source);
                    self.out.segments.moved_from.extend(segment);
                }
                self.apply_item(item, image);
            }
        }
        Ok(())
    }

    /// `image` is the inode's, if the item is one.
    fn apply_item(&mut self, item: &ChainItem, image: Option<InodeImage>) {
        let geometry = self.geometry;
        let flat = self.is_flat(item);
        let live = &mut self.out.committed.get_mut().live;
        match *item {
            ChainItem::Record {
                ino,
                version,
                record,
            } => {
                let lost = match record {
                    Record::Freed(_) => planted::is(Planted::FreedLost),
                    Record::Truncated(_) => planted::is(Planted::TruncateLost),
                    _ => false,
                };
                if !lost {
                    live.apply_record(geometry, ino, version, record);
                }
            }
            ChainItem::Block {
                ino,
                version,
                pointer,
                xattrs: true,
                ..
            } => live.apply_xattrs(geometry, ino, version, pointer),
            ChainItem::Block {
                ino,
                version,
                block,
                pointer,
                written_ns,
                ..
            } => {
                let change = BlockChange {
                    ino,
                    version,
                    block,
                    pointer,
                    written_ns,
                    flat,
                };
                live.apply_block(geometry, change);
            }
            // The next checkpoint redoes what this one had begun; a map says
            // nothing that the pointers do not.
            ChainItem::Node { .. } | ChainItem::Map { .. } => {}
            ChainItem::Inode { place, source, .. } => {
                if let Some(image) = image {
                    live.apply_image(geometry, PlacedImage { image, place }, source.is_some());
                }
            }
        }
    }

    /// True if a moved block's file is known to have no index nodes: the price
    /// of folding it must not exceed what it was when the move was admitted.
    fn is_flat(&self, item: &ChainItem) -> bool {
        let ChainItem::Block { ino, source, .. } = item else {
            return false;
        };
        let base = Arc::clone(&self.out.committed.read().base);
        if ino.0 >= base.next_ino {
            return true;
        }
        if source.is_none() {
            return false;
        }
        match base.inode(self.reader, self.geometry, *ino) {
            Ok(image) => image
                .as_ref()
                .and_then(|image| image.root.as_ref())
                .is_none_or(|root| root.height == 0),
            Err(_) => false,
        }
    }

    /// Protocol rule 18, at replay: a move counts only if its source stands.
    fn stands(&self, item: &ChainItem) -> Result<bool> {
        let lookup = Lookup {
            committed: &self.out.committed,
            reader: self.reader,
            geometry: self.geometry,
        };
        match *item {
            ChainItem::Block {
                ino,
                block,
                pointer,
                source: Some(source),
                xattrs,
                ..
            } => {
                let current = if xattrs {
                    lookup.xattrs(ino).map(Some)
                } else {
                    lookup
                        .blocks(ino, block, block + 1)
                        .map(|(b, _)| b.first().map(|b| b.1))
                };
                match current {
                    Ok(current) => {
                        Ok(current.is_some_and(|p| p.same_copy(source, pointer.birth())))
                    }
                    Err(Error::NoInode(_)) => Ok(false),
                    Err(error) => {
                        tracing::warn!(%error, "a move is dropped: its file cannot be read");
                        Ok(false)
                    }
                }
            }
            ChainItem::Inode {
                ino,
                version,
                place,
                source: Some((sector, slot)),
            } => {
                let (current, _) = lookup.inode_place(ino)?;
                Ok(current.is_some_and(|(v, p)| {
                    v == version && p.sector == sector && p.slot == slot && p.birth == place.birth
                }))
            }
            _ => Ok(true),
        }
    }
}
