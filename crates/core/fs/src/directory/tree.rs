//! The walk from the root to a leaf, and the search for a name.

use super::name::{self, Run};
use super::node::{self, Bounds, Child, Leaf, Node};
use super::{DirectoryBlocks, Key};
use crate::error::Result;
use crate::types::{FileKind, InodeNo};
use std::sync::Arc;
use varve_device::Block;

/// An inner node on the path to a leaf.
pub(super) struct Step {
    pub block: u64,
    pub level: u8,
    pub data: Arc<Block>,
    /// Index of the child that was entered.
    pub index: usize,
}

impl Step {
    pub fn children(&self) -> Vec<Child> {
        node::children(self.block, &self.data).to_vec()
    }
}

/// A leaf and the path to it.
pub(super) struct Descent {
    pub steps: Vec<Step>,
    pub block: u64,
    pub bounds: Bounds,
    data: Arc<Block>,
    used_bytes: usize,
    pub count: u16,
}

impl Descent {
    pub fn leaf(&self) -> Leaf<'_> {
        Leaf {
            bytes: &self.data[..self.used_bytes],
            count: self.count,
            bounds: self.bounds,
        }
    }
}

/// A place in a leaf.
pub(super) struct Place {
    pub descent: Descent,
    pub at: usize,
}

impl Place {
    /// Block number and byte offset. It releases the block, so that it can be edited in
    /// place.
    pub fn into_position(self) -> (u64, usize) {
        (self.descent.block, self.at)
    }
}

/// An entry and its place.
pub(super) struct Found {
    pub place: Place,
    pub bytes: usize,
    pub ino: InodeNo,
    pub kind: FileKind,
}

/// The part of a leaf that a search checks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// The part before the name, or before the place where it would be.
    ToName,
    /// All of it, unless it was checked before, because it is about to be changed.
    Leaf,
}

/// The result of a search.
pub(super) enum Find {
    Found(Found),
    Absent {
        /// Place where `cookie` belongs; `None` if the directory is empty.
        place: Option<Place>,
        /// The cookie for this name; `None` if all of its hash are used.
        cookie: Option<u64>,
    },
}

/// Walks to the leaf that contains `cookie`, if there is a tree.
pub(super) fn descend(
    key: &Key,
    blocks: &mut (impl DirectoryBlocks + ?Sized),
    cookie: u64,
) -> Result<Option<Descent>> {
    if !blocks.exists(0)? {
        return Ok(None);
    }
    let mut steps = Vec::new();
    let mut bounds = Bounds::ROOT;
    let mut block = 0;
    let mut next_block = 1;
    // The loop ends: each step's level is one less, and a root's at most MAX_LEVEL.
    loop {
        let data = blocks.read(block)?;
        let inner = match node::parse(key, block, bounds, &data)? {
            Node::Leaf(leaf) => {
                let (used_bytes, count) = (leaf.bytes.len(), leaf.count);
                return Ok(Some(Descent {
                    steps,
                    block,
                    bounds,
                    data,
                    used_bytes,
                    count,
                }));
            }
            Node::Inner(inner) => inner,
        };
        if let Some(root) = inner.root {
            next_block = root.next_block.get();
        }
        let children = inner.children;
        let after = children.partition_point(|child| child.first_cookie.get() <= cookie);
        let index = after.saturating_sub(1);
        let child = child_block(key, block, children[index], next_block)?;
        bounds = bounds.of_child(inner.level, children, index);
        let level = inner.level;
        steps.push(Step {
            block,
            level,
            data,
            index,
        });
        block = child;
    }
}

/// The block number of a child of the node at `block`, if it is valid.
pub(super) fn child_block(key: &Key, block: u64, child: Child, next_block: u64) -> Result<u64> {
    let number = child.block.get();
    if (1..next_block).contains(&number) {
        return Ok(number);
    }
    Err(key.damaged(format!(
        "directory block {block}: child at block {number}, but blocks end at {next_block}"
    )))
}

/// Searches for `name` among the names of its hash, which may fill several leaves, and
/// for the least cookie that is free for it.
pub(super) fn find(
    key: &Key,
    blocks: &mut (impl DirectoryBlocks + ?Sized),
    name: &[u8],
    extent: Extent,
) -> Result<Find> {
    let run = Run::of(key, name);
    let mut cookie = run.first;
    let mut place = None;
    let mut target = run.first;
    while let Some(descent) = descend(key, blocks, target)? {
        let extent = match extent {
            Extent::Leaf if blocks.is_checked(descent.block) => Extent::ToName,
            extent => extent,
        };
        let scan = scan_leaf(key, &descent, name, run, &mut cookie, extent)?;
        if let Some((at, bytes, ino, kind)) = scan.found {
            let place = Place { descent, at };
            return Ok(Find::Found(Found {
                place,
                bytes,
                ino,
                kind,
            }));
        }
        let upper = descent.bounds.upper;
        if place.is_none() && (scan.beyond.is_some() || cookie < upper) {
            let at = scan.beyond.unwrap_or(descent.used_bytes);
            place = Some(Place { descent, at });
        }
        if upper > run.last {
            break;
        }
        target = upper;
    }
    let cookie = (cookie <= run.last).then_some(cookie);
    Ok(Find::Absent { place, cookie })
}

/// Checks every entry of a leaf that is about to be changed.
///
/// # Errors
/// `Damaged`.
pub(super) fn check_leaf(key: &Key, descent: &Descent) -> Result<()> {
    let flaw = descent.leaf().entries().find_map(|entry| entry.err());
    flaw.map_or(Ok(()), |flaw| Err(flaw.at_block(key, descent.block)))
}

/// The result of scanning a leaf for a name.
struct Scan {
    /// Place, bytes and target of the entry.
    found: Option<(usize, usize, InodeNo, FileKind)>,
    /// The place of the first entry beyond the free cookie.
    beyond: Option<usize>,
}

/// Scans one leaf of a run. `cookie` is the least one not yet seen in use.
#[inline]
fn scan_leaf(
    key: &Key,
    descent: &Descent,
    name: &[u8],
    run: Run,
    cookie: &mut u64,
    extent: Extent,
) -> Result<Scan> {
    let mut scan = Scan {
        found: None,
        beyond: None,
    };
    let damaged = |flaw: node::Flaw| flaw.at_block(key, descent.block);
    let mut entries = descent.leaf().entries();
    entries.pass(run.first);
    for entry in entries {
        let (at, entry) = entry.map_err(damaged)?;
        if entry.cookie > *cookie && scan.beyond.is_none() {
            scan.beyond = Some(at);
        }
        if entry.cookie <= run.last {
            if entry.cookie == *cookie {
                *cookie += 1;
            }
            if scan.found.is_none() && name::same(key, entry.name, name) {
                let kind = entry.target(at).map_err(damaged)?;
                scan.found = Some((at, entry.bytes(), InodeNo(entry.ino), kind));
            }
        }
        let done = entry.cookie > run.last || scan.found.is_some();
        if done && extent == Extent::ToName {
            break;
        }
    }
    Ok(scan)
}
