//! Applying one partial of a complete group, item by item, in the order of its entries.
//!
//! Only moves are judged here: a moved block is applied only if its source is still
//! current (rule 18).

use super::replay::{Pending, Replay};
use crate::apply::{BlockChange, Cause, Record};
use crate::chain::ChainItem;
use crate::committed::Lookup;
use crate::delta::PlacedImage;
use crate::error::{Error, Result};
use crate::format::inode::InodeImage;
use crate::kept::{attributes, data_block};
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
                if let ChainItem::Placed { pointer, .. } = item
                    && let Some(segment) = self.geometry.segment_of(pointer.sector())
                {
                    let serial = partial.summary.header.serial.get();
                    self.out.segments.placed(segment, serial);
                }
            } else {
                self.keep_moved(item);
            }
        }
        Ok(())
    }

    /// A moved block that its file does not lead to: if snapshots may have it, and no
    /// delta has it elsewhere, the copy is theirs.
    fn keep_moved(&mut self, item: &ChainItem) {
        let ChainItem::Block {
            ino,
            version,
            block,
            pointer,
            source: Some(source),
            kept: true,
            xattrs,
            ..
        } = *item
        else {
            return;
        };
        let identity = match xattrs {
            true => attributes(ino, version),
            false => data_block(ino, version, block),
        };
        let committed = self.out.committed.get_mut();
        let elsewhere = committed.moved(identity, pointer.birth());
        if elsewhere.is_none_or(|at| at.sector() == source)
            && committed.live.may_be_kept(identity, &pointer)
            && !planted::is(Planted::KeptReplayLost)
        {
            let segment = self.geometry.segment_of(source);
            self.out.segments.moved_from.extend(segment);
            committed.live.keep(self.geometry, identity, pointer);
        }
    }

    /// Applies one item; `image` is given if it is an inode.
    fn apply_item(&mut self, item: &ChainItem, image: Option<InodeImage>) {
        let geometry = self.geometry;
        let below = self.height_below(item);
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
                    live.apply_record(geometry, (ino, version, below), record);
                }
            }
            ChainItem::Block {
                ino,
                version,
                pointer,
                source,
                xattrs: true,
                ..
            } => live.apply_xattrs(geometry, ino, version, (pointer, source.is_some())),
            ChainItem::Block {
                ino,
                version,
                block,
                pointer,
                written_ns,
                source,
                ..
            } => {
                let change = BlockChange {
                    ino,
                    version,
                    block,
                    pointer,
                    written_ns,
                    below,
                    moved: source.is_some(),
                };
                live.apply_block(geometry, change);
            }
            ChainItem::Placed { .. } if planted::is(Planted::PlacedLost) => {}
            ChainItem::Placed {
                ino,
                version,
                block,
                pointer,
                written_ns,
            } => {
                let change = BlockChange {
                    ino,
                    version,
                    block,
                    pointer,
                    written_ns,
                    below,
                    moved: false,
                };
                live.apply_block(geometry, change);
            }
            // The next checkpoint repeats the interrupted one's work; a map contains
            // nothing that the pointers do not.
            ChainItem::Node { .. } | ChainItem::Map { .. } => {}
            ChainItem::Inode { place, source, .. } => {
                // A moved inode is at the place that was read, so it is not stale.
                let cause = source.map_or(Cause::Change, |_| Cause::Move { stale: false });
                if let Some(image) = image {
                    live.apply_image(geometry, PlacedImage { image, place }, cause);
                }
            }
        }
    }

    /// The height of the index below the replayed log, if known. For moved blocks it is
    /// read, because folding them must not cost more than was assumed when the move was
    /// admitted.
    fn height_below(&self, item: &ChainItem) -> Option<u8> {
        let ino = item.ino();
        let base = {
            let committed = self.out.committed.read();
            if ino.0 >= committed.base.next_ino || committed.live.begins(ino) {
                return Some(0);
            }
            Arc::clone(&committed.base)
        };
        let ChainItem::Block {
            source: Some(_), ..
        } = item
        else {
            return None;
        };
        let image = base.inode(self.reader, self.geometry, ino).ok()?;
        let root = image.as_ref().and_then(|image| image.root.as_ref());
        Some(root.map_or(0, |root| root.height))
    }

    /// Protocol rule 18, at replay: a move is applied only if its source is still
    /// current.
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
