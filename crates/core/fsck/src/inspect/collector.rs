//! The blocks of an index, collected.

use crate::check::{Visitor, plain};
use varve_lfs::Error;
use varve_lfs::format::Pointer;
use varve_lfs::format::node::NodeId;
use varve_lfs::internal::{Answer, InodeDelta};

/// Collects the blocks that an image has and the log has not replaced.
#[derive(Default)]
pub(super) struct Collector<'c> {
    /// What the log says, and the sectors of a block there.
    pub newer: Option<(&'c InodeDelta, u8)>,
    /// It stops at so many.
    pub most: Option<usize>,
    /// What was found, ascending.
    pub blocks: Vec<(u64, Pointer)>,
    /// Index nodes seen.
    pub nodes: u64,
    /// What could not be read.
    pub problems: Vec<String>,
}

impl Visitor for Collector<'_> {
    fn node(&mut self, _: NodeId, _: &Pointer) -> bool {
        // Ends: a node names its place, so only one path leads to it.
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
