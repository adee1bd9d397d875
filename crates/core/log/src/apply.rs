//! Applying a group to the live delta: one code for append and roll-forward.
//!
//! Committed pointers change here and nowhere else (protocol rule 7). Every
//! function takes the place of the new copy as given: the segment writer has
//! just assigned it, roll-forward has just derived it from the summary.

use crate::counts::Change;
use crate::delta::{Delta, InodeDelta, PlacedImage, RangeState};
use crate::format::Pointer;
use crate::format::index::MAX_BLOCK;
use crate::format::node::FANOUT;
use crate::geometry::Geometry;
use crate::kept::{attributes, data_block};
use std::sync::Arc;
use varve_fs::{InodeNo, Version};

/// A record: a change that no block expresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The inode is gone; the number's next file has this version.
    Freed(Version),
    /// Blocks from here on are gone.
    Truncated(u64),
    /// Blocks of this range are gone.
    Punched(u64, u64),
    /// Blocks of this range, holes so far, are reserved by this serial.
    Reserved(u64, u64, u64),
}

impl Record {
    /// The same, in the partial of this serial.
    pub fn reserved_by(self, serial: u64) -> Self {
        match self {
            Record::Reserved(from, to, _) => Record::Reserved(from, to, serial),
            other => other,
        }
    }
}

/// Why an inode's image was logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Something of the inode has changed.
    Change,
    /// The cleaner moved it. If the image below has changed since it was read,
    /// or is going to, the copy is `stale`: folding writes another.
    Move {
        /// See above.
        stale: bool,
    },
}

/// A block's new copy.
#[derive(Clone, Copy, Debug)]
pub struct BlockChange {
    /// Whose.
    pub ino: InodeNo,
    /// Its version.
    pub version: Version,
    /// Logical block number.
    pub block: u64,
    /// Where the copy is.
    pub pointer: Pointer,
    /// Nanoseconds since 1970 of the last user write.
    pub written_ns: i64,
    /// Height of the file's checkpointed index, if known; 0 without nodes.
    pub below: Option<u8>,
    /// The cleaner moved it.
    pub moved: bool,
}

/// Blocks of the inode map that nobody skips.
const SKIPPED: u64 = 1 << 16;

impl Delta {
    fn note(&mut self, geometry: &Geometry, ino: InodeNo) {
        if self.next_ino != 0 && ino.0 > self.next_ino {
            // Numbers that were skipped join the list of free ones.
            let first = geometry.imap_block(self.next_ino);
            let end = geometry.imap_block(ino.0);
            match end - first {
                // A damaged log may name any number.
                SKIPPED.. => self.guessed = true,
                _ => self.imap_blocks.extend(first..end),
            }
        }
        self.imap_blocks.insert(geometry.imap_block(ino.0));
        self.next_ino = self.next_ino.max(ino.0.saturating_add(1));
        self.entries += 1;
    }

    /// A block has a new copy.
    pub fn apply_block(&mut self, geometry: &Geometry, change: BlockChange) {
        let BlockChange {
            ino,
            version,
            block,
            pointer,
            written_ns,
            below,
            moved,
        } = change;
        self.note(geometry, ino);
        let entry = self.inode_mut(ino, version);
        entry.changed |= !moved;
        let change = match entry.blocks.insert(block, pointer) {
            Some(former) => {
                let identity = data_block(ino, version, block);
                self.displace(geometry, identity, former, Some(&pointer));
                Change::Rewrite
            }
            None => {
                self.held_blocks += 1;
                match moved {
                    true => Change::Move,
                    false => Change::Write,
                }
            }
        };
        self.change_block(geometry, ino, block, below, change);
        self.count_block(geometry, &pointer, 1);
        self.note_age(geometry, pointer.sector(), written_ns);
    }

    fn change_block(
        &mut self,
        geometry: &Geometry,
        ino: InodeNo,
        block: u64,
        below: Option<u8>,
        change: Change,
    ) {
        self.guessed |= below.is_none();
        self.change_nodes(ino, |dirty| {
            dirty.rewrite = true;
            dirty.block(geometry, block, below, change);
        });
    }

    fn note_age(&mut self, geometry: &Geometry, sector: u64, written_ns: i64) {
        if let Some(segment) = geometry.segment_of(sector) {
            let newest = self.newest_ns.entry(segment).or_insert(written_ns);
            *newest = (*newest).max(written_ns);
        }
    }

    /// The extended attributes have a new copy, which the cleaner `moved` there or a user
    /// wrote; `Pointer::NONE` for none.
    pub fn apply_xattrs(
        &mut self,
        geometry: &Geometry,
        ino: InodeNo,
        version: Version,
        (pointer, moved): (Pointer, bool),
    ) {
        self.note(geometry, ino);
        self.inode_mut(ino, version).changed |= !moved;
        self.set_xattrs(geometry, ino, version, pointer);
        // Unless an image follows that knows of them.
        self.change_nodes(ino, |dirty| dirty.rewrite = true);
    }

    fn set_xattrs(
        &mut self,
        geometry: &Geometry,
        ino: InodeNo,
        version: Version,
        pointer: Pointer,
    ) {
        if let Some(former) = self.inode_mut(ino, version).xattrs.replace(pointer) {
            self.displace(geometry, attributes(ino, version), former, Some(&pointer));
        }
        self.count_block(geometry, &pointer, 1);
    }

    /// The inode has a new image; a moved one knows nothing of what this delta
    /// holds of the file.
    pub fn apply_image(&mut self, geometry: &Geometry, placed: PlacedImage, cause: Cause) {
        let inode = &placed.image.inode;
        let (ino, version) = (inode.ino, inode.version);
        let unfinished = inode.is_unfinished();
        let bytes = i64::from(geometry.inode_bytes);
        let without_xattrs = inode.xattr_bytes == 0;
        let complete: Option<u8> = placed.image.root.as_ref().map(|root| root.height);
        self.note(geometry, ino);
        if without_xattrs {
            // Removing the last attribute stores no block: the image says it.
            self.set_xattrs(geometry, ino, version, Pointer::NONE);
        }
        self.count(geometry, placed.place.sector, bytes);
        let entry = self.inode_mut(ino, version);
        entry.changed |= cause == Cause::Change;
        if let Some(former) = entry.image.replace(placed) {
            self.count(geometry, former.place.sector, -bytes);
        }
        self.set_unfinished(ino.0, unfinished);
        match (cause, complete) {
            (Cause::Move { stale: false }, _) => {}
            (Cause::Move { stale: true }, _) | (Cause::Change, None) => {
                self.change_nodes(ino, |dirty| dirty.rewrite = true);
            }
            (Cause::Change, Some(0)) => self.forget_nodes(ino),
            (Cause::Change, Some(_)) if self.dirty.contains_key(&ino.0) => {
                self.change_nodes(ino, |dirty| dirty.rewrite = false);
            }
            (Cause::Change, Some(_)) => {}
        }
    }

    /// A record of `ino`, whose checkpointed index has the height `below`, if
    /// that is known.
    pub fn apply_record(
        &mut self,
        geometry: &Geometry,
        (ino, version, below): (InodeNo, Version, Option<u8>),
        record: Record,
    ) {
        self.note(geometry, ino);
        self.removes |= !matches!(record, Record::Reserved(..));
        match record {
            Record::Freed(next_version) => self.free(geometry, ino, next_version),
            Record::Truncated(from) => {
                self.kill(
                    geometry,
                    (ino, version),
                    (from, MAX_BLOCK),
                    RangeState::Hole,
                );
                self.change_edges(geometry, ino, (from, MAX_BLOCK), below);
            }
            Record::Punched(from, to) => {
                self.kill(geometry, (ino, version), (from, to), RangeState::Hole);
                self.change_edges(geometry, ino, (from, to), below);
            }
            Record::Reserved(from, to, serial) => {
                let state = RangeState::Unwritten(serial);
                self.kill(geometry, (ino, version), (from, to), state);
                self.change_reserved(geometry, ino, (from, to), below);
            }
        }
    }

    /// The blocks of `from..to` end; `state` takes their place.
    fn kill(
        &mut self,
        geometry: &Geometry,
        (ino, version): (InodeNo, Version),
        (from, to): (u64, u64),
        state: RangeState,
    ) {
        let mut dead = Vec::new();
        let entry = self.inode_mut(ino, version);
        entry.changed = true;
        entry
            .blocks
            .remove_range(from, to, |block, pointer| dead.push((block, pointer)));
        if entry.reborn && state == RangeState::Hole {
            entry.ranges.remove(from, to);
        } else {
            entry.ranges.insert(from, to, state);
        }
        self.held_blocks -= dead.len() as u64;
        for (block, pointer) in dead {
            self.displace(geometry, data_block(ino, version, block), pointer, None);
        }
        // Folding walks the blocks one by one.
        self.entries += (to - from).min(65_536) / 4;
    }

    /// A hole changes the nodes at its ends.
    fn change_edges(
        &mut self,
        geometry: &Geometry,
        ino: InodeNo,
        (from, to): (u64, u64),
        below: Option<u8>,
    ) {
        self.change_block(geometry, ino, from, below, Change::End);
        if to < MAX_BLOCK {
            self.change_block(geometry, ino, to, below, Change::End);
        }
    }

    /// A reservation changes all nodes between its ends, too.
    fn change_reserved(
        &mut self,
        geometry: &Geometry,
        ino: InodeNo,
        (from, to): (u64, u64),
        below: Option<u8>,
    ) {
        for leaf in from / FANOUT..to.div_ceil(FANOUT) {
            // The last one decides how tall the index must be.
            let block = ((leaf + 1) * FANOUT).min(to) - 1;
            self.change_block(geometry, ino, block, below, Change::Fill);
        }
    }

    fn free(&mut self, geometry: &Geometry, ino: InodeNo, next_version: Version) {
        let freed = InodeDelta {
            freed: Some(next_version),
            changed: true,
            ..InodeDelta::default()
        };
        self.forget_nodes(ino);
        if let Some(former) = self.inodes.insert(ino.0, Arc::new(freed)) {
            for (block, pointer) in former.blocks.range(0, u64::MAX) {
                let identity = data_block(ino, former.version, block);
                self.displace(geometry, identity, pointer, None);
            }
            self.held_blocks -= former.blocks.len() as u64;
            if let Some(pointer) = former.xattrs {
                let identity = attributes(ino, former.version);
                self.displace(geometry, identity, pointer, None);
            }
            if let Some(image) = &former.image {
                self.count(
                    geometry,
                    image.place.sector,
                    -i64::from(geometry.inode_bytes),
                );
            }
        }
        self.set_unfinished(ino.0, false);
    }
}
