//! Which files lie in pieces, as far as folding has seen.
//!
//! A checkpoint has every index leaf it rewrites in hand. Counting the places
//! at which reading its blocks in order would jump costs a comparison a slot
//! and no read, and no file falls apart without its leaves being rewritten.
//! So the worst of them are remembered, in memory only: after a mount nothing
//! is known until something is written, and `varve coalesce` looks for itself.

use crate::format::node::Node;
use foldhash::HashMap;
use varve_fs::{BlockPointer, InodeNo};

/// Files remembered: 24 bytes each.
const FILES: usize = 1024;
/// Files asked about at a time.
const LOOKS: usize = 32;
/// Jumps within a leaf (half a mebibyte of blocks of 4 KiB) from which on it
/// counts: fewer do not pay.
const JUMPS: u64 = 5;

/// What is known of a file in pieces.
#[derive(Clone, Copy, Debug, Default)]
struct Pieces {
    /// Jumps in leaves as they were rewritten; those rewritten several times
    /// count as often.
    jumps: u64,
    /// The block to go on from.
    next: u64,
}

/// See the module's head.
#[derive(Debug, Default)]
pub struct Fragments {
    files: HashMap<u64, Pieces>,
}

impl Fragments {
    /// A leaf of `ino` is being rewritten.
    pub fn note(&mut self, ino: InodeNo, leaf: &Node) {
        let mut last = None;
        let mut jumps = 0;
        for (_, pointer) in leaf.iter() {
            let jumped = last.is_some_and(|last| !pointer.follows(&last));
            jumps += u64::from(jumped && !pointer.is_unwritten());
            last = Some(pointer);
        }
        if jumps < JUMPS || ino == InodeNo::IFILE {
            return;
        }
        let pieces = self.files.entry(ino.0).or_default();
        pieces.jumps = pieces.jumps.saturating_add(jumps);
        if self.files.len() > FILES {
            let least = self.files.iter().min_by_key(|(ino, p)| (p.jumps, **ino));
            if let Some(least) = least.map(|(ino, _)| *ino) {
                self.files.remove(&least);
            }
        }
    }

    /// The worst files, and the block each goes on from.
    pub(crate) fn worst(&self) -> Vec<(u64, u64)> {
        let mut files: Vec<(u64, Pieces)> = self.files.iter().map(|(i, p)| (*i, *p)).collect();
        files.sort_by_key(|(ino, pieces)| (std::cmp::Reverse(pieces.jumps), *ino));
        let worst = files.into_iter().take(LOOKS);
        worst.map(|(ino, pieces)| (ino, pieces.next)).collect()
    }

    /// It has been put in order up to `next`, or as a whole.
    pub(crate) fn done(&mut self, ino: u64, next: Option<u64>) {
        match (next, self.files.get_mut(&ino)) {
            (Some(next), Some(pieces)) => pieces.next = next,
            _ => drop(self.files.remove(&ino)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Pointer;

    fn leaf(step: u64) -> Node {
        let mut node = Node::default();
        for slot in 0..100 {
            let pointer = Pointer::new(1000 + slot * step, 8, 1, 1, 1);
            node.set(slot as usize, pointer);
        }
        node
    }

    #[test]
    fn the_worst_are_remembered_and_the_whole_are_not() {
        let mut fragments = Fragments::default();
        fragments.note(InodeNo(7), &leaf(8));
        assert!(fragments.worst().is_empty());
        fragments.note(InodeNo::IFILE, &leaf(1000));
        assert!(fragments.worst().is_empty());
        fragments.note(InodeNo(8), &leaf(1000));
        fragments.note(InodeNo(9), &leaf(1000));
        fragments.note(InodeNo(9), &leaf(1000));
        assert_eq!(fragments.worst(), [(9, 0), (8, 0)]);
        fragments.done(9, Some(256));
        fragments.done(8, None);
        assert_eq!(fragments.worst(), [(9, 256)]);
        for ino in 100..100 + 2 * FILES as u64 {
            fragments.note(InodeNo(ino), &leaf(1000));
        }
        assert_eq!(fragments.files.len(), FILES);
        assert_eq!(fragments.worst()[0], (9, 256));
    }
}
