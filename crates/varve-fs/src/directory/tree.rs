//! The way down the tree, and how it grows and shrinks.
//!
//! A change that stays within one leaf edits it in place. A change of shape is
//! planned first ([`Plan`]): everything is read, checked and numbered before
//! the first block is written, so that a failure leaves the tree as it was.

use super::name::{self, Run};
use super::node::{self, BLOCKS_END, Bounds, Child, Entry, FREE_NUMBERS, Leaf};
use super::node::{MAX_LEVEL, Node, RootHeader, max_children};
use super::{DirectoryBlocks, Key};
use crate::error::{Error, Result};
use crate::types::{FileKind, InodeNo};
use std::sync::Arc;
use zerocopy::FromZeros;

/// Blocks that one insert writes at most: two at each level, and a root.
pub const INSERT_BLOCKS_MAX: u64 = 2 * MAX_LEVEL as u64 + 1;

/// An inner node on the way down.
struct Step {
    block: u64,
    level: u8,
    data: Arc<Vec<u8>>,
    /// Which child was taken.
    index: usize,
}

impl Step {
    fn children(&self) -> Vec<Child> {
        node::children(self.block, &self.data).to_vec()
    }
}

/// A leaf and the way to it.
pub(super) struct Descent {
    steps: Vec<Step>,
    pub block: u64,
    pub bounds: Bounds,
    data: Arc<Vec<u8>>,
    used_bytes: usize,
    count: u16,
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
    descent: Descent,
    at: usize,
}

impl Place {
    /// Block and byte; lets go of the block, so that it can be edited in place.
    pub fn into_position(self) -> (u64, usize) {
        (self.descent.block, self.at)
    }
}

/// An entry and its place.
pub(super) struct Found {
    pub place: Place,
    bytes: usize,
    pub ino: InodeNo,
    pub kind: FileKind,
}

/// How much of a leaf a search checks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// What lies before the name, or where it would be.
    ToName,
    /// All of it: it is about to be changed.
    Leaf,
}

/// What a search came to.
pub(super) enum Find {
    Found(Found),
    Absent {
        /// Where `cookie` belongs; none if the directory is empty.
        place: Option<Place>,
        /// The cookie for this name; none if all of its hash are taken.
        cookie: Option<u64>,
    },
}

/// Goes down to the leaf that holds `cookie`, if there is a tree.
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
    // Ends: each turn's level is one less, and a root's at most MAX_LEVEL.
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

/// The number of a child of the node at `block`, if it can be one.
pub(super) fn child_block(key: &Key, block: u64, child: Child, next_block: u64) -> Result<u64> {
    let number = child.block.get();
    if (1..next_block).contains(&number) {
        return Ok(number);
    }
    Err(key.damaged(format!(
        "directory block {block}: child at block {number}, but blocks end at {next_block}"
    )))
}

/// Looks for `name` among the names of its hash, which may fill several
/// leaves, and for the least cookie that is free for it.
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

/// What a leaf says about a name.
struct Scan {
    /// Place, bytes and target of the entry.
    found: Option<(usize, usize, InodeNo, FileKind)>,
    /// The place of the first entry beyond the free cookie.
    beyond: Option<usize>,
}

/// Scans one leaf of a run. `cookie` is the least one not yet seen taken.
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
    for entry in descent.leaf().entries() {
        let (at, entry) = entry.map_err(|flaw| flaw.at_block(key, descent.block))?;
        if entry.cookie < run.first {
            continue;
        }
        if entry.cookie > *cookie && scan.beyond.is_none() {
            scan.beyond = Some(at);
        }
        if entry.cookie <= run.last {
            if entry.cookie == *cookie {
                *cookie += 1;
            }
            if scan.found.is_none() && name::same(key, entry.name, name) {
                let kind = entry.target(at);
                let kind = kind.map_err(|flaw| flaw.at_block(key, descent.block))?;
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

/// Which block numbers new nodes get.
struct Numbers {
    next_block: u64,
    free: Vec<u64>,
}

impl Numbers {
    fn of(key: &Key, header: &RootHeader) -> Result<Numbers> {
        let next_block = header.next_block.get();
        let listed = header.free.get(..usize::from(header.free_count.get()));
        let listed = listed.unwrap_or(&[]);
        let mut free: Vec<u64> = Vec::with_capacity(FREE_NUMBERS);
        for number in listed.iter().map(|number| number.get()) {
            if !(1..next_block).contains(&number) || free.contains(&number) {
                return Err(Self::damaged(key, number));
            }
            free.push(number);
        }
        if free.len() != usize::from(header.free_count.get()) {
            return Err(key.damaged("directory block 0: too many free numbers".to_owned()));
        }
        Ok(Numbers { next_block, free })
    }

    fn damaged(key: &Key, number: u64) -> Error {
        key.damaged(format!(
            "directory block 0: block {number} is both in use and free, or neither"
        ))
    }

    fn header(&self) -> RootHeader {
        let mut header = RootHeader::new_zeroed();
        header.next_block = self.next_block.into();
        header.free_count = (self.free.len() as u16).into();
        for (to, from) in header.free.iter_mut().zip(&self.free) {
            *to = (*from).into();
        }
        header
    }

    /// A number for a new node. That it is indeed unused is asked of the file,
    /// lest a damaged root destroy a sound node.
    fn allocate(&mut self, key: &Key, blocks: &mut (impl DirectoryBlocks + ?Sized)) -> Result<u64> {
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.next_block < BLOCKS_END => {
                self.next_block += 1;
                self.next_block - 1
            }
            None => return Err(Error::NoSpace),
        };
        if blocks.exists(number)? {
            return Err(Self::damaged(key, number));
        }
        Ok(number)
    }

    /// Takes back a node's number. The highest is given again by lowering
    /// `next_block`; of the others as many are remembered as there is room for.
    fn release(&mut self, key: &Key, number: u64) -> Result<()> {
        if !(1..self.next_block).contains(&number) || self.free.contains(&number) {
            return Err(Self::damaged(key, number));
        }
        if number + 1 < self.next_block {
            if self.free.len() < FREE_NUMBERS {
                self.free.push(number);
            }
            return Ok(());
        }
        self.next_block = number;
        while let Some(at) = self.free.iter().position(|n| n + 1 == self.next_block) {
            self.free.swap_remove(at);
            self.next_block -= 1;
        }
        Ok(())
    }
}

/// Checks the numbers a root keeps, and says which it lists as free.
pub(super) fn free_numbers(key: &Key, header: &RootHeader) -> Result<Vec<u64>> {
    Numbers::of(key, header).map(|numbers| numbers.free)
}

/// The inner node at block 0, taken apart.
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
        node::make_inner(key, 0, self.level, Some(&header), &self.children)
    }

    /// Notes that child `index` was split. A root that is full moves to two
    /// new nodes below itself.
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
            let data = node::make_inner(key, block, self.level, None, &half);
            plan.writes.push((block, data));
            self.children
                .push(new_child(half[0].first_cookie.get(), block));
        }
        self.level += 1;
        Ok(())
    }

    /// While there is only one child, puts its contents in the root's place,
    /// and writes what the root has become.
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
                Some((_, data)) => Arc::new(data.clone()),
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
                    plan.writes.push((0, node::moved_leaf(key, 0, leaf)));
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

/// A change of the tree's shape, complete but for carrying it out.
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

    fn carry_out(self, blocks: &mut (impl DirectoryBlocks + ?Sized)) {
        for (block, data) in self.writes {
            blocks.write(block, data);
        }
        for block in self.frees {
            blocks.free(block);
        }
    }
}

fn new_child(first_cookie: u64, block: u64) -> Child {
    Child {
        first_cookie: first_cookie.into(),
        block: block.into(),
    }
}

/// Puts `entry` at a place found for it.
pub(super) fn insert(
    key: &Key,
    blocks: &mut (impl DirectoryBlocks + ?Sized),
    place: Place,
    entry: &Entry<'_>,
) -> Result<()> {
    if node::fits(place.descent.leaf(), entry) {
        let (block, at) = place.into_position();
        return blocks.edit(block, &mut |data| node::insert_entry(data, at, entry));
    }
    let Place { descent, at } = place;
    let halves = node::split_leaf(descent.leaf(), at, entry);
    let mut plan = Plan::default();
    let root = match descent.steps.split_first() {
        None => root_over(key, blocks, &mut plan, halves)?,
        Some((top, below)) => split(key, blocks, &mut plan, (&descent, top, below), halves)?,
    };
    plan.writes.push((0, root.encode(key)));
    plan.carry_out(blocks);
    Ok(())
}

/// Moves a root that was the only leaf to two new blocks.
fn root_over(
    key: &Key,
    blocks: &mut (impl DirectoryBlocks + ?Sized),
    plan: &mut Plan,
    halves: [node::Half; 2],
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
        let data = node::make_leaf(key, block, half.count, &half.body);
        plan.writes.push((block, data));
        root.children.push(new_child(half.first_cookie, block));
    }
    Ok(root)
}

/// Splits a leaf below the root, and what is full above it.
fn split(
    key: &Key,
    blocks: &mut (impl DirectoryBlocks + ?Sized),
    plan: &mut Plan,
    (descent, top, below): (&Descent, &Step, &[Step]),
    [left, right]: [node::Half; 2],
) -> Result<Root> {
    let mut root = Root::of(key, top)?;
    let new = root.numbers.allocate(key, blocks)?;
    let data = node::make_leaf(key, descent.block, left.count, &left.body);
    plan.writes.push((descent.block, data));
    let data = node::make_leaf(key, new, right.count, &right.body);
    plan.writes.push((new, data));
    let mut halves = [
        new_child(left.first_cookie, descent.block),
        new_child(right.first_cookie, new),
    ];
    for step in below.iter().rev() {
        let mut children = step.children();
        replace_child(&mut children, step.index, halves);
        if children.len() <= max_children(step.block) {
            let data = node::make_inner(key, step.block, step.level, None, &children);
            plan.writes.push((step.block, data));
            // The root is still to be written: the number came from it.
            return Ok(root);
        }
        let right = children.split_off(children.len() / 2);
        let new = root.numbers.allocate(key, blocks)?;
        for (block, half) in [(step.block, &children), (new, &right)] {
            let data = node::make_inner(key, block, step.level, None, half);
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

/// Puts the halves of child `index` in its place. The first child's cookie may
/// have to go down: it also holds what lies below it.
fn replace_child(children: &mut Vec<Child>, index: usize, [left, right]: [Child; 2]) {
    if left.first_cookie.get() < children[index].first_cookie.get() {
        assert_eq!(index, 0);
        children[0].first_cookie = left.first_cookie;
    }
    children.insert(index + 1, right);
}

/// Takes an entry out, and frees the nodes that this empties.
pub(super) fn remove(
    key: &Key,
    blocks: &mut (impl DirectoryBlocks + ?Sized),
    found: Found,
) -> Result<()> {
    let bytes = found.bytes;
    if found.place.descent.count > 1 {
        let (block, at) = found.place.into_position();
        return blocks.edit(block, &mut |data| node::remove_entry(data, at, bytes));
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
    plan.carry_out(blocks);
    Ok(())
}

/// Takes the lowest of the children chosen on the way down from its parent,
/// and parents that this empties from theirs. True if it emptied them all.
fn cut(key: &Key, plan: &mut Plan, below: &[Step]) -> bool {
    for step in below.iter().rev() {
        let mut children = step.children();
        children.remove(step.index);
        if !children.is_empty() {
            let data = node::make_inner(key, step.block, step.level, None, &children);
            plan.writes.push((step.block, data));
            return false;
        }
        plan.free(step.block);
    }
    true
}
