//! Growth and shrinkage of the tree.
//!
//! A change that stays within one leaf edits it in place. A change of shape is planned
//! first ([`Plan`]): everything is read, checked and numbered before the first block is
//! written, so a failure leaves the tree unchanged.

use super::node::{self, Bounds, Child, Entry, MAX_LEVEL, Node, max_children};
use super::numbers::Numbers;
use super::tree::{Descent, Found, Place, Step, child_block};
use super::{DirectoryBlocks, Key, make};
use crate::error::{Error, Result};
use std::sync::Arc;

/// Most blocks that one insert writes: two at each level, and a root.
pub const INSERT_BLOCKS_MAX: u64 = 2 * MAX_LEVEL as u64 + 1;

/// Most blocks that one removal writes, none of which is new: the leaf; or, if that is
/// empty now, the lowest node above it that is not, and the root.
pub const REMOVE_BLOCKS_MAX: u64 = 2;

/// The inner node at block 0, decoded.
struct Root {
    level: u8,
    numbers: Numbers,
    children: Vec<Child>,
}

impl Root {
    fn of(key: &Key, step: &Step) -> Result<Root> {
        assert_eq!(step.block, 0);
        Ok(Root {
            level: step.level,
            numbers: Numbers::of(key, node::root_header(&step.data))?,
            children: step.children(),
        })
    }

    fn encode(&self, key: &Key) -> Vec<u8> {
        let header = self.numbers.header();
        make::make_inner(key, 0, self.level, Some(&header), &self.children)
    }

    /// Replaces child `index` by its two halves. A full root moves to two new nodes below
    /// itself.
    fn insert(
        &mut self,
        key: &Key,
        blocks: &mut (impl DirectoryBlocks + ?Sized),
        plan: &mut Plan,
        index: usize,
        halves: [Child; 2],
    ) -> Result<()> {
        replace_child(&mut self.children, index, halves);
        if self.children.len() <= max_children(0) {
            return Ok(());
        }
        if self.level == MAX_LEVEL {
            return Err(Error::NoSpace);
        }
        let right = self.children.split_off(self.children.len() / 2);
        let left = std::mem::take(&mut self.children);
        for half in [left, right] {
            let block = self.numbers.allocate(key, blocks)?;
            let data = make::make_inner(key, block, self.level, None, &half);
            plan.writes.push((block, data));
            self.children
                .push(new_child(half[0].first_cookie.get(), block));
        }
        self.level += 1;
        Ok(())
    }

    /// While there is only one child, replaces the root by its contents; then writes the
    /// resulting root.
    fn collapse(
        mut self,
        key: &Key,
        blocks: &mut (impl DirectoryBlocks + ?Sized),
        plan: &mut Plan,
    ) -> Result<()> {
        while let [only] = self.children[..] {
            let block = child_block(key, 0, only, self.numbers.next_block)?;
            if plan.frees.contains(&block) {
                return Err(Numbers::damaged(key, block));
            }
            let data = match plan.writes.iter().find(|(at, _)| *at == block) {
                Some((_, data)) => Arc::new(data.clone().into()),
                None => blocks.read(block)?,
            };
            let bounds = Bounds::ROOT.of_child(self.level, &self.children, 0);
            match node::parse(key, block, bounds, &data)? {
                Node::Leaf(leaf) => {
                    let flaw = leaf.entries().find_map(|entry| entry.err());
                    if let Some(flaw) = flaw {
                        return Err(flaw.at_block(key, block));
                    }
                    plan.free(block);
                    plan.writes.push((0, make::moved_leaf(key, 0, leaf)));
                    return Ok(());
                }
                Node::Inner(inner) if inner.children.len() <= max_children(0) => {
                    self.level = inner.level;
                    self.children = inner.children.to_vec();
                    self.numbers.release(key, block)?;
                    plan.free(block);
                }
                Node::Inner(_) => break,
            }
        }
        plan.writes.push((0, self.encode(key)));
        Ok(())
    }
}

/// A change of the tree's shape, ready to be carried out.
#[derive(Default)]
struct Plan {
    writes: Vec<(u64, Vec<u8>)>,
    frees: Vec<u64>,
}

impl Plan {
    fn free(&mut self, block: u64) {
        self.writes.retain(|(at, _)| *at != block);
        self.frees.push(block);
    }

    /// Prepares all blocks, then writes and frees them.
    ///
    /// # Errors
    /// If a block cannot be prepared. Nothing has changed then.
    fn carry_out(self, blocks: &mut (impl DirectoryBlocks + ?Sized)) -> Result<()> {
        let written = self.writes.iter().map(|(block, _)| block);
        for &block in written.chain(&self.frees) {
            blocks.prepare(block)?;
        }
        for (block, data) in self.writes {
            blocks.write(block, data);
        }
        for block in self.frees {
            blocks.free(block);
        }
        Ok(())
    }
}

fn new_child(first_cookie: u64, block: u64) -> Child {
    Child {
        first_cookie: first_cookie.into(),
        block: block.into(),
    }
}

/// Inserts `entry` at a place found for it.
pub(super) fn insert(
    key: &Key,
    blocks: &mut (impl DirectoryBlocks + ?Sized),
    place: Place,
    entry: &Entry<'_>,
) -> Result<()> {
    if make::fits(place.descent.leaf(), entry) {
        let (block, at) = place.into_position();
        return blocks.edit(block, &mut |data| make::insert_entry(data, at, entry));
    }
    let Place { descent, at } = place;
    let halves = make::split_leaf(descent.leaf(), at, entry);
    let mut plan = Plan::default();
    let root = match descent.steps.split_first() {
        None => root_over(key, blocks, &mut plan, halves)?,
        Some((top, below)) => split(key, blocks, &mut plan, (&descent, top, below), halves)?,
    };
    plan.writes.push((0, root.encode(key)));
    plan.carry_out(blocks)
}

/// Moves a root that was the only leaf to two new blocks.
fn root_over(
    key: &Key,
    blocks: &mut (impl DirectoryBlocks + ?Sized),
    plan: &mut Plan,
    halves: [make::Half; 2],
) -> Result<Root> {
    let mut root = Root {
        level: 1,
        numbers: Numbers {
            next_block: 1,
            free: Vec::new(),
        },
        children: Vec::new(),
    };
    for half in halves {
        let block = root.numbers.allocate(key, blocks)?;
        let data = make::make_leaf(key, block, half.count, &half.body);
        plan.writes.push((block, data));
        root.children.push(new_child(half.first_cookie, block));
    }
    Ok(root)
}

/// Splits a leaf below the root, and each full node above it.
fn split(
    key: &Key,
    blocks: &mut (impl DirectoryBlocks + ?Sized),
    plan: &mut Plan,
    (descent, top, below): (&Descent, &Step, &[Step]),
    [left, right]: [make::Half; 2],
) -> Result<Root> {
    let mut root = Root::of(key, top)?;
    let new = root.numbers.allocate(key, blocks)?;
    let data = make::make_leaf(key, descent.block, left.count, &left.body);
    plan.writes.push((descent.block, data));
    let data = make::make_leaf(key, new, right.count, &right.body);
    plan.writes.push((new, data));
    let mut halves = [
        new_child(left.first_cookie, descent.block),
        new_child(right.first_cookie, new),
    ];
    for step in below.iter().rev() {
        let mut children = step.children();
        replace_child(&mut children, step.index, halves);
        if children.len() <= max_children(step.block) {
            let data = make::make_inner(key, step.block, step.level, None, &children);
            plan.writes.push((step.block, data));
            // The root is still to be written, because the number was taken from it.
            return Ok(root);
        }
        let right = children.split_off(children.len() / 2);
        let new = root.numbers.allocate(key, blocks)?;
        for (block, half) in [(step.block, &children), (new, &right)] {
            let data = make::make_inner(key, block, step.level, None, half);
            plan.writes.push((block, data));
        }
        halves = [
            new_child(children[0].first_cookie.get(), step.block),
            new_child(right[0].first_cookie.get(), new),
        ];
    }
    root.insert(key, blocks, plan, top.index, halves)?;
    Ok(root)
}

/// Replaces child `index` by its halves. The first child's cookie may have to be lowered,
/// because it also contains lower cookies.
fn replace_child(children: &mut Vec<Child>, index: usize, [left, right]: [Child; 2]) {
    if left.first_cookie.get() < children[index].first_cookie.get() {
        assert_eq!(index, 0);
        children[0].first_cookie = left.first_cookie;
    }
    children.insert(index + 1, right);
}

/// Removes an entry, and frees the nodes that become empty.
pub(super) fn remove(
    key: &Key,
    blocks: &mut (impl DirectoryBlocks + ?Sized),
    found: Found,
) -> Result<()> {
    let bytes = found.bytes;
    if found.place.descent.count > 1 {
        let (block, at) = found.place.into_position();
        return blocks.edit(block, &mut |data| make::remove_entry(data, at, bytes));
    }
    let descent = found.place.descent;
    let mut plan = Plan::default();
    plan.free(descent.block);
    if let Some((top, below)) = descent.steps.split_first() {
        let mut root = Root::of(key, top)?;
        if cut(key, &mut plan, below) {
            root.children.remove(top.index);
        }
        if root.children.is_empty() {
            plan.free(0);
        } else {
            for &block in &plan.frees {
                root.numbers.release(key, block)?;
            }
            root.collapse(key, blocks, &mut plan)?;
        }
    }
    plan.carry_out(blocks)
}

/// Removes the lowest child on the path from its parent, and each parent that becomes
/// empty from its own. Returns true if all became empty.
fn cut(key: &Key, plan: &mut Plan, below: &[Step]) -> bool {
    for step in below.iter().rev() {
        let mut children = step.children();
        children.remove(step.index);
        if !children.is_empty() {
            let data = make::make_inner(key, step.block, step.level, None, &children);
            plan.writes.push((step.block, data));
            return false;
        }
        plan.free(step.block);
    }
    true
}
