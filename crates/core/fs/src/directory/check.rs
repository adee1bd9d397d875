//! Check of the whole structure of a directory, for fsck.
//!
//! In addition to the checks of every read: all nodes are reached once and all blocks
//! belong to a node, each entry is filed under its name's hash, no name exists twice, and
//! numbers listed as free are free.

use super::name::{self, Run};
use super::node::{self, Bounds, Flaw, Inner, Leaf, Node};
use super::numbers::Numbers;
use super::{DirectoryBlocks, Key, tree};
use crate::error::{Error, Result};
use std::collections::HashSet;

/// Verifies every node and entry, and counts the entries. Each flaw is reported with its
/// block, and the check continues with the rest.
///
/// Takes memory in proportion to the blocks that exist.
///
/// # Errors
/// Errors of [`DirectoryBlocks`] except `Damaged`, which is reported.
pub fn check(
    key: &Key,
    blocks: &mut (impl DirectoryBlocks + ?Sized),
    report: &mut dyn FnMut(String),
) -> Result<u64> {
    let mut checker = Checker {
        key,
        report,
        reached: HashSet::new(),
        entries: 0,
        run: Run { first: 0, last: 0 },
        names: Vec::new(),
    };
    if blocks.exists(0)? {
        checker.root(blocks)?;
    }
    checker.strays(blocks)?;
    Ok(checker.entries)
}

struct Checker<'a> {
    key: &'a Key,
    report: &'a mut dyn FnMut(String),
    /// Blocks of nodes; the walk enters none twice.
    reached: HashSet<u64>,
    entries: u64,
    /// The hash of the last entry, and the names with that hash.
    run: Run,
    names: Vec<Vec<u8>>,
}

impl Checker<'_> {
    /// Reports damage; other errors end the check.
    fn reported<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Error::Damaged { detail, .. }) => {
                (self.report)(detail);
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    fn flaw(&mut self, block: u64, flaw: Flaw) {
        if let Error::Damaged { detail, .. } = flaw.at_block(self.key, block) {
            (self.report)(detail);
        }
    }

    fn root(&mut self, blocks: &mut (impl DirectoryBlocks + ?Sized)) -> Result<()> {
        let read = blocks.read(0);
        let Some(data) = self.reported(read)? else {
            return Ok(());
        };
        self.reached.insert(0);
        let parsed = node::parse(self.key, 0, Bounds::ROOT, &data);
        match self.reported(parsed)? {
            None => Ok(()),
            Some(Node::Leaf(leaf)) => {
                self.leaf(0, leaf);
                Ok(())
            }
            Some(Node::Inner(inner)) => {
                let header = inner.root.expect("at block 0");
                let next_block = header.next_block.get();
                self.children(blocks, 0, Bounds::ROOT, &inner, next_block)?;
                let free = Numbers::of(self.key, header).map(|numbers| numbers.free);
                for number in self.reported(free)?.unwrap_or_default() {
                    if blocks.exists(number)? {
                        (self.report)(format!("directory block {number} is listed as free"));
                    }
                }
                Ok(())
            }
        }
    }

    fn children(
        &mut self,
        blocks: &mut (impl DirectoryBlocks + ?Sized),
        block: u64,
        bounds: Bounds,
        inner: &Inner<'_>,
        next_block: u64,
    ) -> Result<()> {
        for (index, child) in inner.children.iter().enumerate() {
            let number = tree::child_block(self.key, block, *child, next_block);
            let Some(number) = self.reported(number)? else {
                continue;
            };
            let bounds = bounds.of_child(inner.level, inner.children, index);
            self.node(blocks, number, bounds, next_block)?;
        }
        Ok(())
    }

    fn node(
        &mut self,
        blocks: &mut (impl DirectoryBlocks + ?Sized),
        block: u64,
        bounds: Bounds,
        next_block: u64,
    ) -> Result<()> {
        if !blocks.exists(block)? {
            (self.report)(format!("directory block {block} is missing"));
            return Ok(());
        }
        if !self.reached.insert(block) {
            (self.report)(format!("directory block {block} has two parents"));
            return Ok(());
        }
        let read = blocks.read(block);
        let Some(data) = self.reported(read)? else {
            return Ok(());
        };
        let parsed = node::parse(self.key, block, bounds, &data);
        match self.reported(parsed)? {
            None => Ok(()),
            Some(Node::Leaf(leaf)) => {
                self.leaf(block, leaf);
                Ok(())
            }
            // The recursion ends, because the level of each node is one less than its
            // parent's.
            Some(Node::Inner(inner)) => self.children(blocks, block, bounds, &inner, next_block),
        }
    }

    fn leaf(&mut self, block: u64, leaf: Leaf<'_>) {
        for entry in leaf.entries() {
            let (at, entry) = match entry {
                Ok(entry) => entry,
                Err(flaw) => return self.flaw(block, flaw),
            };
            self.entries += 1;
            if let Err(flaw) = entry.check(at) {
                self.flaw(block, flaw);
            }
            let run = Run::of(self.key, entry.name);
            if run.contains(entry.cookie) {
                self.once(block, run, entry.name);
            } else {
                let what = "entry under another name's hash";
                self.flaw(block, Flaw { what, at });
            }
        }
    }

    /// Reports a name that an earlier entry of its run had.
    fn once(&mut self, block: u64, run: Run, name: &[u8]) {
        if run != self.run {
            self.run = run;
            self.names.clear();
        }
        let key = self.key;
        if self
            .names
            .iter()
            .any(|former| name::same(key, former, name))
        {
            let name = name.escape_ascii();
            (self.report)(format!(
                "directory block {block}: \"{name}\" is there twice"
            ));
        } else {
            self.names.push(name.to_vec());
        }
    }

    /// Reports blocks that belong to no node.
    fn strays(&mut self, blocks: &mut (impl DirectoryBlocks + ?Sized)) -> Result<()> {
        let mut from = 0;
        while let Some(block) = blocks.next_existing(from)? {
            if !self.reached.contains(&block) {
                (self.report)(format!("directory block {block} belongs to no node"));
            }
            let Some(next) = block.checked_add(1) else {
                break;
            };
            from = next;
        }
        Ok(())
    }
}
