//! Counts of the changes that wait in memory, or may come to.

use super::{Counts, FANOUT};
use crate::format::index::height_for;
use crate::geometry::Geometry;
use varve_fs::Waiting;

/// Blocks that an operation under way changes here and there: the ends of a range that it
/// writes, or blocks of a directory and of one above it.
const ENDS: u64 = 4;

impl Counts {
    /// What the changes take of the log and what folding them may write, `asked` bytes of
    /// operations that are to be admitted included. The tree in memory has `unlogged`
    /// blocks more than the log, and no index of the log is taller than `tallest`.
    pub(crate) fn of_waiting(
        waiting: &Waiting,
        asked: u64,
        unlogged: u64,
        tallest: u8,
        geometry: &Geometry,
    ) -> Self {
        let block_bytes = u64::from(geometry.block_bytes);
        // A file's attributes are one piece, of half a segment at most: where one
        // does not fit, as much as it takes may be left at a segment's end.
        let further = waiting.unwritten.further.saturating_mul(block_bytes);
        let pieces = further
            .saturating_add(waiting.promised_attributes)
            .saturating_add(asked.min(waiting.asked_attributes));
        let bytes = (waiting.certain().saturating_add(asked)).saturating_add(pieces);
        // A run has two ends, and a change of names changes a few blocks.
        let ends = 2 * waiting.unwritten.ranges + ENDS * waiting.operations;
        let scattered = waiting.unwritten.blocks.saturating_add(ends);
        let coming = waiting.promised.saturating_add(asked) / block_bytes;
        let reserved = unlogged.saturating_sub(waiting.unwritten.blocks);
        let in_runs = reserved.saturating_add(coming);
        let height = height_for(geometry.root_slots(), waiting.highest_block).max(tallest);
        // Each scattered block has an index path of its own; a run has a leaf for every
        // FANOUT blocks, and a thirtieth of that above.
        let leaves = in_runs.div_ceil(FANOUT);
        let paths = u64::from(height).saturating_mul(scattered);
        let nodes = paths.saturating_add(leaves + leaves.div_ceil(30));
        let files = waiting.images();
        // The first node of a file takes the pointers that the inode had.
        let had = files.saturating_mul(geometry.root_slots() as u64);
        let pointers = scattered.saturating_add(in_runs).saturating_add(had);
        Counts {
            inodes: files,
            map_blocks: files,
            height,
            bytes: with_summaries(bytes),
            ..Counts::ways(geometry, nodes, pointers)
        }
    }
}

/// Bytes of log for so many that are to be appended: summaries and padding are an eighth.
pub(crate) fn with_summaries(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_fs::{IMAGES_AT_MOST, Unwritten};

    #[test]
    fn changes_are_counted_by_where_they_may_be_stored() {
        let waiting = Waiting {
            unwritten: Unwritten {
                bytes: 50_000,
                blocks: 10,
                images: 3,
                ranges: 2,
                ..Unwritten::default()
            },
            promised: 8192,
            asked: 4096,
            operations: 2,
            highest_block: 377,
            ..Waiting::default()
        };
        let geometry = crate::geometry::tests::volume(1 << 30, 4096, true);
        let of = |waiting: &Waiting, tallest| {
            Counts::of_waiting(waiting, waiting.asked, 110, tallest, &geometry)
        };
        let counts = of(&waiting, 0);
        assert_eq!(counts.bytes, with_summaries(50_000 + 8192 + 4096));
        assert_eq!(counts.inodes, 3 + 2 * IMAGES_AT_MOST);
        assert_eq!(counts.map_blocks, counts.inodes);
        // Three pointers in the inode, each to a leaf of 126 blocks.
        assert_eq!(counts.height, 1);
        // Reserved and not written, and to come: 103 blocks in a leaf and one above.
        let scattered = 10 + 2 * 2 + 2 * ENDS;
        assert_eq!(counts.possible, scattered + 2);
        assert_eq!(of(&waiting, 4).possible, 4 * scattered + 2);
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
        let bytes = 50_000 + 8192 + 4096 + 31 * 4096 + 8000;
        assert_eq!(of(&pieces, 0).bytes, with_summaries(bytes));
    }
}
