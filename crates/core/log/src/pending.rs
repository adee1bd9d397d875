//! What waits in memory to be appended, in the measures that its price has.

use crate::format::index::height_for;
use crate::geometry::Geometry;
use std::ops::Add;
use varve_fs::Waiting;

/// At most so much waits. How much of the log it takes is in its bytes; what
/// folding it may write depends on where it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    /// Bytes, with what a block or an image counts for beside its content.
    pub bytes: u64,
    /// Files of which something is among it: each changes its inode and a block
    /// of the inode map.
    pub files: u64,
    /// Blocks that may stand anywhere, each on its own way through an index.
    pub blocks: u64,
    /// Blocks that stand in runs, beside those.
    pub run_blocks: u64,
    /// No file needs a taller index.
    pub height: u8,
}

impl Pending {
    /// What waits, and `asked` bytes of who is to be admitted, while the tree in
    /// memory has `unlogged` blocks more than the log.
    pub fn of(waiting: &Waiting, asked: u64, unlogged: u64, geometry: &Geometry) -> Self {
        let block_bytes = u64::from(geometry.block_bytes);
        // A run has two ends, and who changes names changes a few blocks.
        let ends = 2 * waiting.unwritten.ranges + ENDS * waiting.operations;
        let runs = unlogged.saturating_sub(waiting.unwritten.blocks);
        let coming = waiting.promised.saturating_add(asked) / block_bytes;
        // A file's attributes are one piece, of half a segment at most: where one
        // does not fit, as much as it takes may be left at a segment's end.
        let further = waiting.unwritten.further.saturating_mul(block_bytes);
        let pieces = further
            .saturating_add(waiting.promised_attributes)
            .saturating_add(asked.min(waiting.asked_attributes));
        Pending {
            bytes: waiting
                .certain()
                .saturating_add(asked)
                .saturating_add(pieces),
            files: waiting.images(),
            blocks: waiting.unwritten.blocks.saturating_add(ends),
            run_blocks: runs.saturating_add(coming),
            height: height_for(geometry.root_slots(), waiting.highest_block),
        }
    }

    /// No more than `other`, in any measure.
    pub fn is_within(&self, other: &Pending) -> bool {
        self.bytes <= other.bytes
            && self.files <= other.files
            && self.blocks <= other.blocks
            && self.run_blocks <= other.run_blocks
            && self.height <= other.height
    }
}

/// Blocks that an operation under way changes here and there: the ends of what it
/// writes, or those of a directory and of one above it.
const ENDS: u64 = 4;

impl Add for Pending {
    type Output = Pending;

    fn add(self, other: Pending) -> Pending {
        Pending {
            bytes: self.bytes.saturating_add(other.bytes),
            files: self.files.saturating_add(other.files),
            blocks: self.blocks.saturating_add(other.blocks),
            run_blocks: self.run_blocks.saturating_add(other.run_blocks),
            height: self.height.max(other.height),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_fs::{IMAGES_AT_MOST, Unwritten};

    #[test]
    fn what_waits_is_told_by_where_it_may_stand() {
        let waiting = Waiting {
            unwritten: Unwritten {
                bytes: 50_000,
                blocks: 10,
                joined: 0,
                further: 0,
                images: 3,
                ranges: 2,
                reserved: 0,
            },
            promised: 8192,
            promised_attributes: 0,
            asked: 4096,
            asked_attributes: 0,
            reserving: 0,
            operations: 2,
            highest_block: 377,
            alone: false,
        };
        let geometry = crate::geometry::tests::volume(1 << 30, 4096, true);
        let pending = Pending::of(&waiting, waiting.asked, 110, &geometry);
        assert_eq!(pending.bytes, 50_000 + 8192 + 4096);
        assert_eq!(pending.files, 3 + 2 * IMAGES_AT_MOST);
        assert_eq!(pending.blocks, 10 + 2 * 2 + 2 * ENDS);
        // Reserved and not written, and what is to come.
        assert_eq!(pending.run_blocks, 100 + 3);
        // Three pointers in the inode, each to a leaf of 126 blocks.
        assert_eq!(pending.height, 1);
        // Attributes in one piece leave as much at a segment's end.
        let pieces = Waiting {
            promised_attributes: 5000,
            asked_attributes: 3000,
            unwritten: Unwritten {
                further: 31,
                ..waiting.unwritten
            },
            ..waiting
        };
        let more = |asked| {
            let pieces = Pending::of(&pieces, asked, 110, &geometry);
            pieces.bytes - Pending::of(&waiting, asked, 110, &geometry).bytes
        };
        assert_eq!((more(0), more(4096)), (31 * 4096 + 5000, 31 * 4096 + 8000));
    }

    #[test]
    fn sums_are_within_what_has_no_less_of_anything() {
        let one = Pending {
            bytes: 1,
            files: 2,
            blocks: 3,
            run_blocks: 4,
            height: 5,
        };
        let two = one + one;
        assert!(one.is_within(&two) && two.is_within(&two) && !two.is_within(&one));
        assert_eq!(two.height, 5);
    }
}
