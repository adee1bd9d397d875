//! Collects the blocks of an index.

use crate::check::{Visitor, plain};
use varve_lfs::Error;
use varve_lfs::format::Pointer;
use varve_lfs::format::node::NodeId;
use varve_lfs::internal::{Answer, InodeDelta};

/// A visitor that collects the blocks that an image has and the log has not replaced.
#[derive(Default)]
pub(super) struct Collector<'c> {
    /// Changes of the replayed log, and the sectors per block.
    pub newer: Option<(&'c InodeDelta, u8)>,
    /// Number of blocks after which the walk stops.
    pub most: Option<usize>,
    /// Blocks found, in ascending order.
    pub blocks: Vec<(u64, Pointer)>,
    /// Number of index nodes visited.
    pub nodes: u64,
    /// Structures that could not be read, as text.
    pub problems: Vec<String>,
}

impl Visitor for Collector<'_> {
    fn node(&mut self, _: NodeId, _: &Pointer) -> bool {
        // The walk ends, because a node names its place, so only one path leads to it.
        self.nodes += 1;
        true
    }

    fn block(&mut self, block: u64, pointer: &Pointer) {
        let answer = self
            .newer
            .map(|(delta, sectors)| delta.block(block, sectors));
        if matches!(answer, None | Some(Answer::Pass)) {
            self.blocks.push((block, *pointer));
        }
    }

    fn refused(&mut self, id: NodeId, _: &Pointer, error: Error) {
        let text = format!(
            "index node {} of height {}: {}",
            id.index,
            id.height,
            plain(&error)
        );
        self.problems.push(text);
    }

    fn done(&self) -> bool {
        self.most.is_some_and(|most| self.blocks.len() >= most)
    }
}
