//! Holes of a segment that may be written into (`docs/design/holes.md`).

use super::Edition;
use crate::format::map::{self, MapEntry};
use crate::geometry::Geometry;
use std::ops::Range;

/// A segment whose holes may be written into while it is this edition.
#[derive(Clone, Debug)]
pub struct Holes {
    /// Number of the segment.
    pub segment: u32,
    /// Its edition when the holes were found.
    pub edition: Edition,
    /// First sectors of holes, each of a block, ascending.
    pub free: Vec<u64>,
    /// Live blocks of the segment.
    pub lives: Vec<MapEntry>,
    /// Bytes of the segment that its summaries take.
    pub summaries: Vec<Range<u32>>,
    /// Number of the checkpoint against whose image they were found.
    pub image: u64,
    /// If that image refers to blocks that were in holes: serial of the log that has
    /// displaced them.
    pub displaced: Option<u64>,
}

impl Holes {
    /// Number of pages of a map with `blocks` more than the live ones.
    pub(crate) fn pages(&self, geometry: &Geometry, blocks: usize) -> usize {
        (self.lives.len() + blocks).div_ceil(map::entries_per_page(geometry.block_bytes))
    }

    /// Number of blocks that fit in addition to the map.
    pub fn room(&self, geometry: &Geometry) -> usize {
        let all = self.free.len();
        let fits = |blocks: &usize| blocks + self.pages(geometry, *blocks) <= all;
        (0..=all).rev().find(fits).unwrap_or(0)
    }
}
