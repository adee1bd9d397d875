//! One item of a group: its entry, and its change of the committed state.
//!
//! Called under the committed state's lock, so that a move is tested and appended
//! atomically (protocol rules 18 and 19).

use crate::apply::{BlockChange, Cause};
use crate::committed::Committed;
use crate::delta::{Answer, PlacedImage};
use crate::format::Pointer;
use crate::format::history::Identity;
use crate::format::ifile::InodePlace;
use crate::format::inode::InodeImage;
use crate::kept::{attributes, data_block};
use crate::log::build::PartialBuffer;
use crate::log::image::compose;
use crate::log::item::{GroupKind, LogItem, Placed, Source};
use crate::writer::Writer;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_fs::planted::{self, Planted};
use varve_fs::{InodeNo, Timestamp, Version};

impl Writer {
    /// Writes the entry of one item, and applies it. An item of a checkpoint is not
    /// applied, because the checkpoint's state is installed as a whole.
    pub(super) fn apply_item(
        &self,
        committed: &mut Committed,
        buffer: &mut PartialBuffer,
        item: LogItem,
        pointer: Pointer,
        kind: GroupKind,
    ) -> Placed {
        let geometry = &self.geometry;
        let apply = !matches!(kind, GroupKind::Checkpoint | GroupKind::Spill(_));
        match item {
            LogItem::Record {
                ino,
                version,
                record,
            } => {
                let record = record.reserved_by(buffer.serial);
                let file = (ino, version, self.layers.height_below(committed, ino));
                buffer.put_record((ino, version), record);
                committed.live.apply_record(geometry, file, record);
                Placed::Nothing
            }
            LogItem::Block {
                ino,
                version,
                block,
                written,
                source,
                ..
            } => {
                buffer.put_block(&item, &pointer, committed.live.kept_through);
                if matches!(kind, GroupKind::Spill(_)) && planted::is(Planted::SpillCounted) {
                    committed.live.count_block(geometry, &pointer, 1);
                }
                if apply && self.still_at(committed, (ino, version), block, source) {
                    let at = (block, pointer, source.is_some());
                    self.apply_block(committed, (ino, version), at, written);
                } else if apply {
                    let identity = data_block(ino, version, block);
                    self.keep_moved(committed, identity, source, pointer);
                }
                Placed::Block(pointer)
            }
            LogItem::Spilled { .. } => unreachable!("they have been placed"),
            LogItem::Placed {
                ino,
                version,
                block,
                first,
                ref crcs,
                written,
            } => {
                let file = (ino, version);
                buffer.put_placed(file, block, (&first, crcs), written.as_ns());
                if let Some(segment) = geometry.segment_of(first.sector()) {
                    self.segments.lock().placed(segment, buffer.serial);
                }
                self.apply_placed(
                    committed,
                    file,
                    side_by_side(first, crcs).zip(block..),
                    written,
                );
                Placed::Nothing
            }
            LogItem::Xattrs {
                ino,
                version,
                ref data,
                source,
            } => {
                if data.is_empty() {
                    // Nothing is stored; the image states that there are none.
                    let none = (Pointer::NONE, false);
                    committed.live.apply_xattrs(geometry, ino, version, none);
                    return Placed::Nothing;
                }
                buffer.put_block(&item, &pointer, committed.live.kept_through);
                if apply && xattrs_still_at(committed, ino, source) {
                    let stored = (pointer, source.is_some());
                    committed.live.apply_xattrs(geometry, ino, version, stored);
                } else if apply {
                    self.keep_moved(committed, attributes(ino, version), source, pointer);
                }
                Placed::Block(pointer)
            }
            LogItem::Image { inode } => {
                let ino = inode.ino;
                let below = || self.layers.below(committed, ino);
                let image = compose(geometry, committed, below, *inode);
                let file = (ino, image.inode.version);
                let place = buffer.put_inode(geometry, file, None, |into| image.encode(into));
                (committed.live).apply_image(geometry, PlacedImage { image, place }, Cause::Change);
                Placed::Inode(place)
            }
            LogItem::MovedInode { image, source } => {
                let file = (image.inode.ino, image.inode.version);
                let place = buffer.put_inode(geometry, file, source, |into| image.encode(into));
                if source.is_some_and(|source| self.inode_still_at(committed, file, source)) {
                    self.apply_move(committed, (*image).clone(), place);
                }
                Placed::Inode(place)
            }
            LogItem::Node { id, ref node, .. } => {
                buffer.put_block(&item, &pointer, committed.live.kept_through);
                self.reader.keep_node(&pointer, id, Arc::clone(node));
                Placed::Block(pointer)
            }
        }
    }

    /// Applies blocks that were written before, each with its number.
    fn apply_placed(
        &self,
        committed: &mut Committed,
        file: (InodeNo, Version),
        blocks: impl Iterator<Item = (Pointer, u64)>,
        written: Timestamp,
    ) {
        for (pointer, block) in blocks {
            self.apply_block(committed, file, (block, pointer, false), written);
        }
    }

    /// Applies a block at its place, whether the cleaner moved it there or a user wrote
    /// it.
    fn apply_block(
        &self,
        committed: &mut Committed,
        (ino, version): (InodeNo, Version),
        (block, pointer, moved): (u64, Pointer, bool),
        written: Timestamp,
    ) {
        let change = BlockChange {
            ino,
            version,
            block,
            pointer,
            written_ns: written.as_ns(),
            below: self.layers.height_below(committed, ino),
            moved,
        };
        committed.live.apply_block(&self.geometry, change);
    }

    fn apply_move(&self, committed: &mut Committed, image: InodeImage, place: InodePlace) {
        // The image does not include the changes that are being folded.
        let folding = committed.frozen.as_ref();
        let stale = folding.is_some_and(|frozen| frozen.changes(image.inode.ino));
        let placed = PlacedImage { image, place };
        let cause = Cause::Move { stale };
        committed.live.apply_image(&self.geometry, placed, cause);
    }

    /// Protocol rules 18 and 19: a move is applied only if the block is still where the
    /// cleaner read it. The image below was verified before.
    fn still_at(
        &self,
        committed: &Committed,
        (ino, version): (InodeNo, Version),
        block: u64,
        source: Option<Source>,
    ) -> bool {
        let Some(Source {
            pointer: source,
            kept,
        }) = source
        else {
            return true;
        };
        if kept {
            return false;
        }
        let stands = match committed.delta_answer(ino, version, block) {
            Answer::At(pointer) => pointer.same_copy(source.sector(), source.birth()),
            Answer::Hole => false,
            Answer::Pass => true,
        };
        if !stands {
            self.counters.stale_moves.fetch_add(1, Relaxed);
        }
        stands || planted::is(Planted::MoveUnchecked)
    }

    /// The cleaner moved a block that its file does not lead to: if snapshots have it,
    /// the copy is theirs.
    fn keep_moved(
        &self,
        committed: &mut Committed,
        identity: Identity,
        source: Option<Source>,
        pointer: Pointer,
    ) {
        if source.is_some_and(|source| committed.is_kept_at(identity, &source.pointer)) {
            committed.live.keep(&self.geometry, identity, pointer);
        }
    }

    fn inode_still_at(
        &self,
        committed: &Committed,
        (ino, version): (InodeNo, Version),
        source: InodePlace,
    ) -> bool {
        let stands = match committed.delta_inode_place(ino) {
            None => false,
            Some(None) => true,
            Some(Some((current, place))) => current == version && place == source,
        };
        if !stands {
            self.counters.stale_moves.fetch_add(1, Relaxed);
        }
        stands || planted::is(Planted::MoveUnchecked)
    }
}

/// Pointers to adjacent blocks of one length.
fn side_by_side(first: Pointer, crcs: &[u32]) -> impl Iterator<Item = Pointer> {
    let sectors = first.sectors();
    (0..).zip(crcs).map(move |(nth, crc)| {
        let sector = first.sector() + nth * u64::from(sectors);
        Pointer::new(sector, sectors, *crc, first.birth(), first.incarnation())
    })
}

fn xattrs_still_at(committed: &Committed, ino: InodeNo, source: Option<Source>) -> bool {
    source.is_none_or(|source| match committed.delta_xattrs(ino) {
        _ if source.kept => false,
        Some(Some(at)) => at == source.pointer,
        Some(None) => true,
        None => false,
    })
}
