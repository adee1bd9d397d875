//! Visits the blocks of an index: takes their sectors, counts them, and merges them with
//! the log.

use super::claims::{Claims, Role, Stored};
use super::fixes::Fix;
use super::report::{FindingKind, Findings, Subject};
use super::walk::Visitor;
use super::{Checker, plain, refused, sectors_of, subject_of_block};
use std::collections::HashSet;
use std::sync::Arc;
use varve_fs::InodeNo;
use varve_lfs::Error;
use varve_lfs::format::Pointer;
use varve_lfs::format::node::NodeId;
use varve_lfs::internal::{Answer, Delta, InodeDelta, data_block};

/// Source of a block of the image that is still valid.
enum Standing {
    /// Only the image has the pointer.
    Below,
    /// The log has the same pointer.
    Both,
}

/// Counts of the blocks below an index.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub blocks: u64,
    pub sectors: u64,
    /// Number after the last block that stores data.
    pub written_end: u64,
    /// Blocks that are only reserved.
    pub unwritten: u64,
}

impl Tally {
    /// Counts one block.
    pub fn add(&mut self, block: u64, pointer: &Pointer) {
        self.blocks += 1;
        self.sectors = self.sectors.saturating_add(sectors_of(pointer));
        if pointer.is_unwritten() {
            self.unwritten += 1;
        } else {
            self.written_end = self.written_end.max(block + 1);
        }
    }
}

/// A visitor that takes the sectors of an index and counts its blocks.
pub struct FileVisitor<'v> {
    claims: &'v mut Claims,
    found: &'v mut Findings,
    overlaps: &'v mut Vec<(Stored, Subject)>,
    delta: Option<&'v InodeDelta>,
    /// All that the log says.
    log: Arc<Delta>,
    /// True if the log has removed the file, or reused its number.
    gone: bool,
    ino: InodeNo,
    version: u32,
    block_sectors: u8,
    /// All blocks of the image.
    pub whole: Tally,
    /// Blocks of the image that are still valid.
    pub merged: Tally,
    /// Blocks whose pointers are in the log as well.
    pub same: HashSet<u64>,
    /// Sector of block 0.
    pub first: u64,
    /// Number of index nodes, and their bytes.
    pub nodes: u64,
    pub node_bytes: u64,
    /// True if a node could not be used.
    pub damaged: bool,
    /// Every block, for the ifile only.
    pub listed: Vec<(u64, Pointer)>,
}

impl FileVisitor<'_> {
    /// Returns whether a block of the image is still valid, and its source; `None` if the
    /// log has displaced it.
    fn still_counts(&self, block: u64, pointer: &Pointer) -> Option<Standing> {
        let answer = self.delta.map(|d| d.block(block, self.block_sectors));
        match answer {
            _ if self.gone => None,
            None | Some(Answer::Pass) => Some(Standing::Below),
            Some(Answer::At(newer)) if newer == *pointer => Some(Standing::Both),
            Some(Answer::At(_) | Answer::Hole) => None,
        }
    }

    /// True if a snapshot has a block of the image that the log displaced, where the image
    /// has it.
    fn is_kept(&self, block: u64, pointer: &Pointer) -> bool {
        let identity = data_block(self.ino, self.version, block);
        let birth = pointer.birth();
        let newer = self.delta.and_then(|delta| delta.blocks.get(block));
        let moved = self.log.kept.contains_key(&(identity, birth))
            || newer.is_some_and(|newer| newer.birth() == birth);
        self.log.may_be_kept(identity, pointer) && !moved
    }

    /// Takes the sectors of a block. Returns true if they were free.
    fn claim(&mut self, subject: Subject, stored: &Stored) -> bool {
        let claimed = self.claims.claim(stored, true);
        if let Err(refusal) = claimed {
            refused(self.found, self.overlaps, subject, stored, refusal, "");
        }
        claimed.is_ok()
    }

    /// Counts a displaced block. Returns true if it is within a segment.
    fn count(&mut self, subject: Subject, stored: &Stored) -> bool {
        let counted = self.claims.count(stored);
        if let Err(refusal) = counted {
            refused(self.found, self.overlaps, subject, stored, refusal, "");
        }
        counted.is_ok()
    }

    fn fix_block(&mut self, block: u64) {
        let ino = self.ino.0;
        self.found.fix(match self.ino {
            InodeNo::IFILE => Fix::IfileStray { block },
            _ => Fix::Block { ino, block },
        });
    }
}

impl Visitor for FileVisitor<'_> {
    fn node(&mut self, id: NodeId, pointer: &Pointer) -> bool {
        let stored = Stored::node(id, self.version, pointer);
        if !self.claim(subject_of_node(id), &stored) {
            self.damaged = true;
            self.found.fix(Fix::Node {
                id,
                pointer: *pointer,
            });
            return false;
        }
        self.nodes += 1;
        self.node_bytes += stored.length;
        true
    }

    fn block(&mut self, block: u64, pointer: &Pointer) {
        if pointer.sectors() > self.block_sectors {
            let text = format!(
                "the pointer says {} sectors, a block has {}",
                pointer.sectors(),
                self.block_sectors
            );
            let subject = subject_of_block(self.ino, block);
            self.found.error(FindingKind::PointerBounds, subject, text);
            self.fix_block(block);
        }
        let standing = self.still_counts(block, pointer);
        if !pointer.is_unwritten() {
            let stored = Stored::block(self.ino, self.version, Role::Data(block), pointer);
            let subject = subject_of_block(self.ino, block);
            let sound = match standing {
                Some(_) => self.claim(subject, &stored),
                None if self.is_kept(block, pointer) => self.claim(subject, &stored),
                None => self.count(subject, &stored),
            };
            if !sound {
                self.fix_block(block);
            }
        }
        self.whole.add(block, pointer);
        if block == 0 {
            self.first = pointer.sector();
        }
        if self.ino == InodeNo::IFILE {
            self.listed.push((block, *pointer));
        }
        match standing {
            Some(Standing::Below) => self.merged.add(block, pointer),
            Some(Standing::Both) => {
                self.same.insert(block);
            }
            None => {}
        }
    }

    fn refused(&mut self, id: NodeId, pointer: &Pointer, error: Error) {
        self.damaged = true;
        self.found.fix(Fix::Node {
            id,
            pointer: *pointer,
        });
        self.found
            .error(FindingKind::IndexNode, subject_of_node(id), plain(&error));
    }

    fn done(&self) -> bool {
        self.found.full()
    }
}

fn subject_of_node(id: NodeId) -> Subject {
    Subject::Node {
        ino: id.ino.0,
        height: id.height,
        index: id.index,
    }
}

impl Checker<'_> {
    /// Returns a visitor of the index of `ino` with the changes `delta` of the log.
    pub(super) fn visit<'v>(
        &'v mut self,
        ino: InodeNo,
        version: u32,
        delta: Option<&'v InodeDelta>,
    ) -> FileVisitor<'v> {
        FileVisitor {
            block_sectors: self.block_sectors(),
            claims: &mut self.claims,
            found: self.found,
            overlaps: &mut self.overlaps,
            log: Arc::clone(&self.state.live),
            delta,
            gone: delta.is_some_and(|delta| delta.freed.is_some() || delta.reborn),
            ino,
            version,
            whole: Tally::default(),
            merged: Tally::default(),
            same: HashSet::new(),
            first: 0,
            nodes: 0,
            node_bytes: 0,
            damaged: false,
            listed: Vec::new(),
        }
    }
}
