//! Cylinder groups: who lies where.

use super::FRAGMENT;
use crate::error::LabError;
use std::collections::{BTreeSet, HashMap};

/// Fragments of a block.
pub(super) const FRAGMENTS: u64 = super::BLOCK / FRAGMENT;
/// Bytes of an inode.
const INODE: u64 = 128;
/// Bytes of a group for which it has an inode.
const BYTES_PER_INODE: u64 = 2048;
/// Boot block, superblock and bitmaps at the head of a group, in fragments.
const HEAD: u64 = 20;

/// Free and used fragments and inodes.
#[derive(Debug)]
pub(super) struct Space {
    group_fragments: u64,
    groups: u64,
    used: Vec<bool>,
    inodes: BTreeSet<u64>,
    inodes_per_group: u64,
    /// Where the last block of each group was taken.
    rotors: Vec<u64>,
    /// Groups that large files have gone on to.
    moved: HashMap<u64, u64>,
    changed: BTreeSet<u64>,
}

impl Space {
    /// Groups of `group` fragments on a disk of `all`; what does not make a
    /// group of its own at the end belongs to the last.
    pub fn new(all: u64, group: u64) -> Self {
        let group = group.min(all) / FRAGMENTS * FRAGMENTS;
        let groups = (all / group).max(1);
        let inodes_per_group = group * FRAGMENT / BYTES_PER_INODE;
        let mut space = Space {
            group_fragments: group,
            groups,
            used: vec![false; (all / FRAGMENTS * FRAGMENTS) as usize],
            inodes: (0..groups * inodes_per_group).collect(),
            inodes_per_group,
            rotors: Vec::new(),
            moved: HashMap::new(),
            changed: BTreeSet::new(),
        };
        let table = (inodes_per_group * INODE).div_ceil(super::BLOCK) * FRAGMENTS;
        for group in 0..groups {
            let head = group * space.group_fragments;
            let data = head + HEAD + table;
            space.used[head as usize..data as usize].fill(true);
            space.rotors.push(data);
        }
        space
    }

    /// The lowest free inode.
    ///
    /// # Panics
    /// If there is none: an experiment has far fewer files.
    pub fn take_inode(&mut self) -> u64 {
        let inode = self.inodes.pop_first().expect("a free inode");
        self.note(self.group_of(inode));
        inode
    }

    pub fn give_inode(&mut self, inode: u64) {
        self.inodes.insert(inode);
        self.moved.remove(&inode);
        self.note(self.group_of(inode));
    }

    /// The first fragment of the block that an inode is in.
    pub fn inode_block(&self, inode: u64) -> u64 {
        let nth = inode % self.inodes_per_group * INODE / super::BLOCK;
        self.group_of(inode) * self.group_fragments + HEAD + nth * FRAGMENTS
    }

    fn group_of(&self, inode: u64) -> u64 {
        inode / self.inodes_per_group
    }

    /// The file of `inode` goes to another group for its `part`th part.
    pub fn next_group(&mut self, inode: u64, part: u64) {
        let group = (self.group_of(inode) + part) % self.groups;
        self.moved.insert(inode, group);
    }

    fn group_for(&self, inode: u64) -> u64 {
        let moved = self.moved.get(&inode).copied();
        moved.unwrap_or_else(|| self.group_of(inode))
    }

    fn range(&self, group: u64) -> std::ops::Range<u64> {
        let end = match group + 1 == self.groups {
            true => self.used.len() as u64,
            false => (group + 1) * self.group_fragments,
        };
        group * self.group_fragments..end
    }

    fn is_free(&self, first: u64, count: u64) -> bool {
        let range = first as usize..(first + count) as usize;
        self.used
            .get(range)
            .is_some_and(|used| !used.contains(&true))
    }

    fn take(&mut self, first: u64, count: u64) -> u64 {
        self.used[first as usize..(first + count) as usize].fill(true);
        let group = (first / self.group_fragments).min(self.groups - 1);
        self.note(group);
        first
    }

    pub fn give(&mut self, first: u64, count: u64) {
        self.used[first as usize..(first + count) as usize].fill(false);
        let group = (first / self.group_fragments).min(self.groups - 1);
        self.note(group);
    }

    fn note(&mut self, group: u64) {
        self.changed.insert(group);
    }

    /// A free block: at `wanted`, or the next one in the file's group, or in
    /// one of the others.
    ///
    /// # Errors
    /// The disk is full.
    pub fn take_block(&mut self, inode: u64, wanted: Option<u64>) -> Result<u64, LabError> {
        let first = self.group_for(inode);
        for nth in 0..self.groups {
            let group = (first + nth) % self.groups;
            let range = self.range(group);
            let rotor = self.rotors[group as usize];
            let from = wanted.filter(|at| range.contains(at)).unwrap_or(rotor);
            let from = from.div_ceil(FRAGMENTS) * FRAGMENTS;
            let blocks = (from..range.end).chain(range.start..from.min(range.end));
            let mut blocks = blocks.step_by(FRAGMENTS as usize);
            if let Some(block) = blocks.find(|&at| self.is_free(at, FRAGMENTS)) {
                self.rotors[group as usize] = block + FRAGMENTS;
                return Ok(self.take(block, FRAGMENTS));
            }
        }
        Err(LabError::System("the update-in-place disk is full".into()))
    }

    /// Free fragments in a block that has used ones, or in a fresh one.
    ///
    /// # Errors
    /// The disk is full.
    pub fn take_fragments(&mut self, inode: u64, count: u64) -> Result<u64, LabError> {
        let range = self.range(self.group_for(inode));
        let mut broken = range.step_by(FRAGMENTS as usize).filter(|&block| {
            let used = &self.used[block as usize..(block + FRAGMENTS) as usize];
            used.contains(&true) && used.contains(&false)
        });
        let found = broken.find_map(|block| {
            let mut places = block..=block + FRAGMENTS - count;
            places.find(|&at| self.is_free(at, count))
        });
        match found {
            Some(at) => Ok(self.take(at, count)),
            None => {
                let block = self.take_block(inode, None)?;
                self.give(block + count, FRAGMENTS - count);
                Ok(block)
            }
        }
    }

    /// The blocks of bitmaps that changed since they were asked for last.
    pub fn changed_bitmaps(&mut self) -> Vec<u64> {
        let changed = std::mem::take(&mut self.changed);
        let bitmaps = |group| group * self.group_fragments + HEAD - FRAGMENTS;
        changed.into_iter().map(bitmaps).collect()
    }
}
