//! What a checkpoint may write, counted before it writes.
//!
//! A delta is its dirty nodes ([`DirtyNodes`], one set for each file), the inodes that
//! must be written again, and the blocks of the ifile that change. [`Counts`] is how
//! many of each there are, and [`Counts::fold_bytes`] is the only place that makes bytes
//! of them: for a delta, for what waits in memory, and for what the cleaner wants to
//! move. No device is asked.
//!
//! Of index nodes two bounds hold, and the lower one counts:
//!
//! ```text
//! whole = largest * (existing + possible) + new
//! again = stored * 33/32 + OVERHEAD * min(existing, stored / SECTOR) + added + new
//! ```
//!
//! `whole` says that each is as large as a node can be. `again` says that what exists is
//! written once, in the bytes that it has and may grow by, and that a node that does not
//! exist holds only the pointers that this delta adds.
//!
//! Invariants, for all counts `a`, `b` over one image ([`ImageCounts`]), where `0` is nothing:
//! - `bytes(a) <= bytes(a + b)`;
//! - `bytes(a + b) + bytes(0) <= bytes(a) + bytes(b)`: what was counted by itself may
//!   join a delta at any time, before a checkpoint or behind it. It holds because no
//!   node adds more to `again` than to `whole`.

mod nodes;
mod waiting;

pub use nodes::{Change, DirtyNodes};
pub(crate) use waiting::with_summaries;

use crate::format::node::FANOUT;
use crate::format::{Pointer, SECTOR};
use crate::geometry::Geometry;
use std::ops::{AddAssign, SubAssign};

/// A node's part of a summary and of a group's padding. Of large ones it is more:
/// a 32nd of them covers that.
const OVERHEAD: u64 = 128;
/// Bytes that an index node takes in the log besides its pointers: its header, rounded
/// up to a sector.
const EMPTY_NODE: u64 = 48 + 511 + OVERHEAD;
/// Bytes of a pointer in a node that is not packed.
const POINTER: u64 = size_of::<Pointer>() as u64;

/// Blocks of the inode map that change because a number next to theirs leaves the
/// list of free ones or joins it: at either end of what was taken from the list's
/// head and of what was taken where the mount found it, and its former head.
const NEIGHBOURS: u64 = 8;

/// Bytes that writing an inode takes at most, its part of a summary included.
pub fn inode_bytes(geometry: &Geometry) -> u64 {
    u64::from(geometry.inode_bytes) + 64
}

/// Bytes that writing a block of the ifile takes, its part of summaries included: 32 of
/// them are a group ([`crate::checkpoint`]), with a summary of one write unit. That of a
/// group cut in two by the end of a segment is in what
/// [`crate::lfs::Lfs::dependable_bytes`] leaves out.
pub(crate) fn ifile_block_bytes(geometry: &Geometry) -> u64 {
    u64::from(geometry.block_bytes) + u64::from(geometry.block_bytes.max(geometry.write_unit)) / 32
}

/// Most bytes of so many nodes that do not exist yet and hold so many pointers beside
/// those to each other.
pub(crate) fn new_node_bytes(nodes: u64, pointers: u64) -> u64 {
    let pointers = pointers.saturating_mul(POINTER);
    nodes
        .saturating_mul(EMPTY_NODE + POINTER)
        .saturating_add(pointers)
}

/// What a checkpoint is to write, or may have to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Index nodes that the image has: what is stored of them is known.
    pub existing: u64,
    /// Index nodes that the image has or that come to be.
    pub possible: u64,
    /// Bytes that nodes hold beyond what the image stores of them, at most.
    pub added: u64,
    /// Bytes of index nodes that the image cannot have.
    pub new: u64,
    /// Inodes.
    pub inodes: u64,
    /// Blocks of the inode map.
    pub map_blocks: u64,
    /// Blocks of the ifile that the cleaner wants moved.
    pub ifile_blocks: u64,
    /// Inodes that join the unfinished list.
    pub unfinished: u64,
    /// Bytes that are known in addition to all these. Of changes in memory, those that
    /// appending them takes of the log.
    pub bytes: u64,
    /// Height of the tallest index among them.
    pub height: u8,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        let sum = |mine: &mut u64, other: u64| *mine = mine.saturating_add(other);
        sum(&mut self.existing, other.existing);
        sum(&mut self.possible, other.possible);
        sum(&mut self.added, other.added);
        sum(&mut self.new, other.new);
        sum(&mut self.inodes, other.inodes);
        sum(&mut self.map_blocks, other.map_blocks);
        sum(&mut self.ifile_blocks, other.ifile_blocks);
        sum(&mut self.unfinished, other.unfinished);
        sum(&mut self.bytes, other.bytes);
        self.height = self.height.max(other.height);
    }
}

/// The tallest index stays what it was.
impl SubAssign for Counts {
    fn sub_assign(&mut self, other: Counts) {
        self.existing -= other.existing;
        self.possible -= other.possible;
        self.added -= other.added;
        self.new -= other.new;
        self.inodes -= other.inodes;
        self.map_blocks -= other.map_blocks;
        self.ifile_blocks -= other.ifile_blocks;
        self.unfinished -= other.unfinished;
        self.bytes -= other.bytes;
    }
}

/// What counts are folded into.
#[derive(Clone, Copy, Debug)]
pub struct ImageCounts {
    /// Bytes that the index nodes of all files have, and may grow by when their pointers
    /// become less alike.
    pub stored: u64,
    /// Blocks of the inode map, those that are to come included.
    pub map_blocks: u64,
    /// Blocks of it that a block which changes stands for: itself, and where it is not
    /// known which numbers next to its own change, both that these may be in.
    pub map_blocks_for_each: u64,
    /// Inode numbers that were given out and are in no group: on the list of free ones
    /// they may be next to numbers that are.
    pub loose: u64,
    /// Inodes on the unfinished list.
    pub unfinished: u64,
}

impl Counts {
    /// So many index nodes that may have to be made, on the ways to so many pointers.
    pub fn ways(geometry: &Geometry, nodes: u64, pointers: u64) -> Self {
        let whole = nodes.saturating_mul(geometry.largest_node());
        Counts {
            possible: nodes,
            added: new_node_bytes(nodes, pointers).min(whole),
            ..Counts::default()
        }
    }

    /// Most bytes that nodes take which the image does not have, and by which others
    /// grow.
    pub fn made_bytes(&self) -> u64 {
        self.added.saturating_add(self.new)
    }

    /// An upper bound of what folding these into an image writes, the usage table left
    /// aside: the checkpoint must find that much room.
    pub fn fold_bytes(&self, geometry: &Geometry, image: &ImageCounts) -> u64 {
        self.node_bytes(geometry, image)
            .saturating_add(self.inodes.saturating_mul(inode_bytes(geometry)))
            .saturating_add(self.ifile_bytes(geometry, image))
            .saturating_add(small_groups(geometry, self.height))
            .saturating_add(self.bytes)
    }

    /// What `more` may add to that.
    pub fn further_bytes(&self, more: &Counts, geometry: &Geometry, image: &ImageCounts) -> u64 {
        let mut then = *self;
        then += *more;
        then.fold_bytes(geometry, image) - self.fold_bytes(geometry, image)
    }

    fn node_bytes(&self, geometry: &Geometry, image: &ImageCounts) -> u64 {
        let nodes = self.existing.saturating_add(self.possible);
        let whole = nodes.saturating_mul(geometry.largest_node());
        let headers = OVERHEAD * self.existing.min(image.stored / SECTOR);
        let again = (image.stored + image.stored / 32 + headers).saturating_add(self.added);
        whole.min(again).saturating_add(self.new)
    }

    /// The part of the inode map and of the unfinished list, and the nodes above; the
    /// table and those above that are counted with the table.
    fn ifile_bytes(&self, geometry: &Geometry, image: &ImageCounts) -> u64 {
        let all = image.map_blocks;
        let blocks = self.map(image) + self.ifile_blocks + self.list(geometry, image);
        let leaves = blocks.min(all / FANOUT);
        blocks * ifile_block_bytes(geometry)
            + (leaves + leaves / FANOUT) * geometry.largest_node()
            + geometry.node_bytes(all % FANOUT)
    }

    /// Blocks of the inode map. Numbers are taken from the list of free ones in its
    /// order, so what changes next to them is the ends of what was taken, and those
    /// among them that are not in use yet, or never will be.
    fn map(&self, image: &ImageCounts) -> u64 {
        let own = self.map_blocks.saturating_mul(image.map_blocks_for_each);
        let changed = own.saturating_add(image.loose + NEIGHBOURS);
        changed.min(image.map_blocks)
    }

    /// Blocks of the unfinished list.
    fn list(&self, geometry: &Geometry, image: &ImageCounts) -> u64 {
        let bytes = (image.unfinished + self.unfinished) * 8;
        bytes.div_ceil(u64::from(geometry.block_bytes))
    }
}

/// The last group of the nodes of each height may be small. Those of three heights are
/// counted with the table.
fn small_groups(geometry: &Geometry, tallest: u8) -> u64 {
    u64::from(tallest.saturating_sub(3)) * geometry.least_group()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// Counts as they come to be: each node adds what it may.
    fn drawn(rng: &mut Xoshiro256PlusPlus, geometry: &Geometry) -> Counts {
        let largest = geometry.largest_node();
        let most = [1, 40, 3000][rng.random_range(0..3)];
        let mut counts = Counts {
            inodes: rng.random_range(0..most),
            map_blocks: rng.random_range(0..most),
            ifile_blocks: rng.random_range(0..most),
            bytes: rng.random_range(0..most),
            height: rng.random_range(0..8),
            ..Counts::default()
        };
        for _ in 0..rng.random_range(0..most) {
            let bytes = new_node_bytes(1, rng.random_range(0..FANOUT)).min(largest);
            match rng.random_range(0..3) {
                0 => counts.existing += 1,
                1 => (counts.possible, counts.added) = (counts.possible + 1, counts.added + bytes),
                _ => counts.new += bytes,
            }
        }
        counts
    }

    /// What the promises to what waits and to the cleaner rest on (rule R1).
    #[test]
    fn what_was_counted_by_itself_may_join_any_delta() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        for _ in 0..3000 {
            let geometry = crate::geometry::tests::volume(256 << 20, 4096, rng.random());
            let most_stored = [1, 100_000, 10_000_000][rng.random_range(0..3)];
            let most_blocks = [4, 4000][rng.random_range(0..2)];
            let image = ImageCounts {
                stored: rng.random_range(0..most_stored),
                map_blocks: rng.random_range(1..most_blocks),
                map_blocks_for_each: [1, 3][rng.random_range(0..2)],
                loose: rng.random_range(0..20),
                unfinished: 0,
            };
            let (a, b) = (drawn(&mut rng, &geometry), drawn(&mut rng, &geometry));
            let bytes = |counts: &Counts| counts.fold_bytes(&geometry, &image);
            let mut both = a;
            both += b;
            assert!(bytes(&a) <= bytes(&both), "{a:?} and {b:?}");
            let alone = bytes(&a) + bytes(&b);
            let nothing = Counts::default();
            assert!(
                bytes(&both) + bytes(&nothing) <= alone,
                "{a:?} and {b:?} in {image:?}"
            );
            assert!(
                nothing.further_bytes(&b, &geometry, &image)
                    >= a.further_bytes(&b, &geometry, &image)
            );
            both -= b;
            assert_eq!(
                Counts {
                    height: a.height,
                    ..both
                },
                a
            );
        }
    }

    #[test]
    fn the_lower_of_both_bounds_counts() {
        let geometry = crate::geometry::tests::volume(256 << 20, 4096, true);
        let image = |stored| ImageCounts {
            stored,
            map_blocks: 1,
            map_blocks_for_each: 1,
            loose: 0,
            unfinished: 0,
        };
        let none = Counts::default();
        let one = Counts {
            existing: 1,
            ..none
        };
        let bytes = |counts: &Counts, stored| none.further_bytes(counts, &geometry, &image(stored));
        // A node is no larger than a node can be, and no larger than all that is stored.
        assert_eq!(bytes(&one, 1 << 20), geometry.largest_node());
        assert_eq!(bytes(&one, 1024), 1024 + 32 + OVERHEAD);
        // One that comes to be holds what it is given.
        let ways = Counts::ways(&geometry, 2, 3);
        assert_eq!(ways.added, 2 * (EMPTY_NODE + POINTER) + 3 * POINTER);
        assert_eq!(bytes(&ways, 0), ways.added);
        assert_eq!(bytes(&ways, 1 << 20), 2 * geometry.largest_node());
        assert_eq!(
            Counts::ways(&geometry, 2, 1000).added,
            2 * geometry.largest_node()
        );
        let new = Counts { new: 700, ..none };
        assert_eq!((bytes(&new, 0), bytes(&new, 1 << 20)), (700, 700));
    }

    #[test]
    fn the_inode_map_is_written_once_at_most() {
        let image = ImageCounts {
            stored: 0,
            map_blocks: 100,
            map_blocks_for_each: 3,
            loose: 5,
            unfinished: 0,
        };
        let map = |map_blocks| {
            let counts = Counts {
                map_blocks,
                ..Counts::default()
            };
            counts.map(&image)
        };
        assert_eq!((map(0), map(10), map(29), map(30)), (13, 43, 100, 100));
    }
}
