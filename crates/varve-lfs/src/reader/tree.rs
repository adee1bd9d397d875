//! The index of one file at a checkpoint, walked.

use super::Reader;
use crate::error::Result;
use crate::format::Pointer;
use crate::format::index::span;
use crate::format::inode::{MAX_HEIGHT, Root};
use crate::format::node::{FANOUT, Node, NodeId};
use std::ops::Range;
use std::sync::Arc;
use varve_fs::InodeNo;

/// Which of `slots` slots lead to some of `blocks`, if the first one begins at
/// block `first` and what each leads to has the height `height`.
fn slots_of(first: u64, height: u8, blocks: &Range<u64>, slots: usize) -> Range<usize> {
    let (from, to) = (
        blocks.start.saturating_sub(first) / span(height),
        blocks.end.saturating_sub(first).div_ceil(span(height)),
    );
    let within = |slot: u64| slot.min(slots as u64) as usize;
    within(from)..within(to)
}

/// The index of one file at a checkpoint.
pub struct Tree<'a> {
    /// Reads its nodes.
    pub reader: &'a Reader,
    /// The file.
    pub ino: InodeNo,
    /// Where it begins.
    pub root: &'a Root,
}

impl Tree<'_> {
    /// The pointer of `block`.
    ///
    /// # Errors
    /// If a node on the way cannot be read.
    pub fn get(&self, block: u64) -> Result<Option<Pointer>> {
        self.cursor().get(block)
    }

    /// Looks blocks up one after the other.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor {
            tree: self,
            path: Default::default(),
        }
    }

    /// Visits the blocks of `from..to` that exist, ascending, until `visit`
    /// returns false.
    ///
    /// # Errors
    /// If a node on the way cannot be read.
    pub fn blocks(
        &self,
        from: u64,
        to: u64,
        visit: &mut dyn FnMut(u64, Pointer) -> bool,
    ) -> Result<()> {
        let Root { height, ref slots } = *self.root;
        for slot in slots_of(0, height, &(from..to), slots.len()) {
            if !self.descend(slots[slot], height, slot as u64, &(from..to), visit)? {
                break;
            }
        }
        Ok(())
    }

    fn descend(
        &self,
        pointer: Pointer,
        height: u8,
        index: u64,
        blocks: &Range<u64>,
        visit: &mut dyn FnMut(u64, Pointer) -> bool,
    ) -> Result<bool> {
        if pointer.is_none() {
            return Ok(true);
        }
        if height == 0 {
            return Ok(visit(index, pointer));
        }
        let node = self.reader.node(
            &pointer,
            NodeId {
                ino: self.ino,
                height,
                index,
            },
        )?;
        let first = index.saturating_mul(span(height));
        for slot in slots_of(first, height - 1, blocks, FANOUT as usize) {
            let child = index.saturating_mul(FANOUT).saturating_add(slot as u64);
            if !self.descend(node.get(slot), height - 1, child, blocks, visit)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Visits every node, children before parents.
    ///
    /// # Errors
    /// If a node cannot be read.
    pub fn nodes(&self, visit: &mut dyn FnMut(NodeId, Pointer)) -> Result<()> {
        for (slot, pointer) in self.root.slots.iter().enumerate() {
            self.visit_node(*pointer, self.root.height, slot as u64, visit)?;
        }
        Ok(())
    }

    fn visit_node(
        &self,
        pointer: Pointer,
        height: u8,
        index: u64,
        visit: &mut dyn FnMut(NodeId, Pointer),
    ) -> Result<()> {
        if height == 0 || pointer.is_none() {
            return Ok(());
        }
        let id = NodeId {
            ino: self.ino,
            height,
            index,
        };
        if height > 1 {
            let node = self.reader.node(&pointer, id)?;
            for (slot, child) in node.iter() {
                self.visit_node(
                    child,
                    height - 1,
                    index.saturating_mul(FANOUT).saturating_add(slot as u64),
                    visit,
                )?;
            }
        }
        visit(id, pointer);
        Ok(())
    }

    /// The node `id` as this tree has it, with its pointer.
    ///
    /// # Errors
    /// If a node on the way cannot be read.
    pub fn node_at(&self, id: NodeId) -> Result<Option<Pointer>> {
        let mut height = self.root.height;
        if id.height > height {
            return Ok(None);
        }
        let up = span(height - id.height);
        let Some(&slot) = self
            .root
            .slots
            .get(usize::try_from(id.index / up).unwrap_or(usize::MAX))
        else {
            return Ok(None);
        };
        let mut pointer = slot;
        while height > id.height && !pointer.is_none() {
            let index = id.index / span(height - id.height);
            let node = self.reader.node(
                &pointer,
                NodeId {
                    ino: self.ino,
                    height,
                    index,
                },
            )?;
            height -= 1;
            pointer = node.get((id.index / span(height - id.height) % FANOUT) as usize);
        }
        Ok((!pointer.is_none()).then_some(pointer))
    }
}

/// Keeps the nodes that led to the block before, as neighbours share most.
pub struct Cursor<'t> {
    tree: &'t Tree<'t>,
    /// By height, from 1: which node of it, and what that holds.
    path: [Option<(u64, Arc<Node>)>; MAX_HEIGHT as usize],
}

impl Cursor<'_> {
    /// The pointer of `block`.
    ///
    /// # Errors
    /// If a node on the way cannot be read.
    pub fn get(&mut self, block: u64) -> Result<Option<Pointer>> {
        let Tree { reader, ino, root } = *self.tree;
        let slot = usize::try_from(block / span(root.height)).unwrap_or(usize::MAX);
        let mut pointer = root.slots.get(slot).copied().unwrap_or(Pointer::NONE);
        let steps = self.path[..root.height.into()].iter_mut();
        for (height, step) in (1..=root.height).zip(steps).rev() {
            if pointer.is_none() {
                break;
            }
            let index = block / span(height);
            let node = match step {
                Some((at, node)) if *at == index => node,
                _ => {
                    let id = NodeId { ino, height, index };
                    &mut step.insert((index, reader.node(&pointer, id)?)).1
                }
            };
            pointer = node.get((block / span(height - 1) % FANOUT) as usize);
        }
        Ok((!pointer.is_none()).then_some(pointer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::index::MAX_BLOCK;

    #[test]
    fn slots_that_lead_to_some_of_the_blocks_are_those_that_overlap_them() {
        let cases = [(0, 0), (0, 1), (5 * FANOUT * FANOUT, 1), (7 * FANOUT, 0)];
        for (first, height) in cases {
            let edges = [0, 1, FANOUT - 1, FANOUT, FANOUT + 1, 3 * FANOUT, 1 << 40];
            let blocks: Vec<u64> = (edges.iter())
                .flat_map(|edge| [*edge, first + edge, (first + edge).saturating_sub(2)])
                .collect();
            for (&from, &to) in blocks
                .iter()
                .flat_map(|a| blocks.iter().map(move |b| (a, b)))
            {
                let leads = |slot: &usize| {
                    let begin = first + *slot as u64 * span(height);
                    begin < to && from < begin + span(height) && from < to
                };
                let expected: Vec<usize> = (0..FANOUT as usize).filter(leads).collect();
                let found = slots_of(first, height, &(from..to), FANOUT as usize);
                if from < to {
                    assert_eq!(
                        found.collect::<Vec<_>>(),
                        expected,
                        "{first} {height} {from} {to}"
                    );
                } else {
                    assert!(found.len() <= 1, "{from}..{to} is empty");
                }
            }
        }
        let far = u64::MAX - 5;
        assert_eq!(slots_of(far, MAX_HEIGHT, &(0..MAX_BLOCK), 128), 0..0);
    }
}
