//! What an index leads to: claimed, counted, and merged with the log.

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

/// Where a block of the image that counts is known from.
enum Standing {
    /// The image alone.
    Below,
    /// The log has the same pointer.
    Both,
}

/// Blocks found below an index.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub blocks: u64,
    pub sectors: u64,
    /// Behind the last block that stores something.
    pub written_end: u64,
    /// Blocks that are reserved only.
    pub unwritten: u64,
}

impl Tally {
    /// Counts one more.
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

/// Claims what an index leads to, and counts it.
pub struct FileVisitor<'v> {
    claims: &'v mut Claims,
    found: &'v mut Findings,
    overlaps: &'v mut Vec<(Stored, Subject)>,
    delta: Option<&'v InodeDelta>,
    /// All that the log says.
    log: Arc<Delta>,
    /// The log has removed the file, or its number's file.
    gone: bool,
    ino: InodeNo,
    version: u32,
    block_sectors: u8,
    /// The image's blocks.
    pub whole: Tally,
    /// Those that still count.
    pub merged: Tally,
    /// Blocks whose pointers the log has, too.
    pub same: HashSet<u64>,
    /// Sector of block 0.
    pub first: u64,
    /// Index nodes, and their bytes.
    pub nodes: u64,
    pub node_bytes: u64,
    /// A node could not be used.
    pub damaged: bool,
    /// Of the ifile: every block.
    pub listed: Vec<(u64, Pointer)>,
}

impl FileVisitor<'_> {
    /// What the log says of a block of the image: whether it still counts.
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

    /// True if the sectors were free.
    fn claim(&mut self, subject: Subject, stored: &Stored) -> bool {
        let claimed = self.claims.claim(stored, true);
        if let Err(refusal) = claimed {
            refused(self.found, self.overlaps, subject, stored, refusal, "");
        }
        claimed.is_ok()
    }

    /// True if it is in a segment.
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
    /// A visitor of the index of `ino`, of which the log says `delta`.
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
