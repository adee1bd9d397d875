//! Two deltas made one.
//!
//! A checkpoint that could not be completed leaves its frozen delta behind;
//! the next attempt folds that together with what came since.

use crate::apply::{BlockChange, Cause, Record};
use crate::delta::{Delta, RangeState};
use crate::geometry::Geometry;
use varve_fs::InodeNo;

impl Delta {
    /// Adds what a younger delta says, as if its groups had been applied here.
    pub fn absorb(&mut self, geometry: &Geometry, mut younger: Delta) {
        for (number, entry) in std::mem::take(&mut younger.inodes) {
            let (ino, version) = (InodeNo(number), entry.version);
            let changed = entry.changed || self.inode(number).is_some_and(|older| older.changed);
            if let Some(next_version) = entry.freed {
                let file = (ino, version, None);
                self.apply_record(geometry, file, Record::Freed(next_version));
                continue;
            }
            if entry.reborn {
                let former = version.wrapping_sub(1);
                let file = (ino, former, None);
                self.apply_record(geometry, file, Record::Freed(version));
                self.inode_mut(ino, version);
            }
            // The younger knew, or has seen, an index of this height.
            let below = match self.begins(ino) {
                true => Some(0),
                false => Some(younger.height(ino)).filter(|&height| height > 0),
            };
            for (from, to, state) in entry.ranges.within(0, u64::MAX) {
                let record = match state {
                    RangeState::Hole => Record::Punched(from, to),
                    RangeState::Unwritten(serial) => Record::Reserved(from, to, serial),
                };
                self.apply_record(geometry, (ino, version, below), record);
            }
            for (block, pointer) in entry.blocks.range(0, u64::MAX) {
                let change = BlockChange {
                    ino,
                    version,
                    block,
                    pointer,
                    written_ns: i64::MIN,
                    below,
                    moved: false,
                };
                self.apply_block(geometry, change);
            }
            if let Some(pointer) = entry.xattrs {
                self.apply_xattrs(geometry, ino, version, (pointer, false));
            }
            if let Some(placed) = entry.image.clone() {
                self.apply_image(geometry, placed, Cause::Move { stale: true });
            }
            self.inode_mut(ino, version).changed = changed;
            // Whatever its image says: an upper bound.
            self.change_nodes(ino, |dirty| dirty.rewrite = true);
        }
        for ((identity, _), pointer) in std::mem::take(&mut younger.kept) {
            self.keep(geometry, identity, pointer);
        }
        for (&number, nodes) in &younger.dirty {
            self.change_nodes(InodeNo(number), |dirty| dirty.unite(geometry, nodes));
        }
        for (&segment, &written_ns) in &younger.newest_ns {
            let newest = self.newest_ns.entry(segment).or_insert(written_ns);
            *newest = (*newest).max(written_ns);
        }
        self.counts.bytes += younger.counts.bytes;
        self.touched_ifile.extend(&younger.touched_ifile);
        self.imap_blocks.extend(&younger.imap_blocks);
        self.neighbours_unknown |= younger.neighbours_unknown;
        for (ino, joins) in younger.unfinished() {
            self.set_unfinished(ino, joins);
        }
        self.next_ino = self.next_ino.max(younger.next_ino);
        self.replayed = younger.replayed.or(self.replayed);
        self.log_bytes += younger.log_bytes;
        self.removes |= younger.removes;
        // Numbers freed in both are in an order of their own.
        self.guessed = true;
    }
}
