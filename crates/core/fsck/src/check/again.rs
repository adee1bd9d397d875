//! Second walk over all pointers, if the first left a question: which blocks share
//! sectors with a refused block, which disagree with their summaries, and whether data is
//! undamaged in segments whose summaries are not conclusive.

use super::claims::{Role, Stored};
use super::names::FileView;
use super::report::{FindingKind, Findings, Subject};
use super::segments::{damaged, subject};
use super::walk::{Visitor, walk};
use super::{Checker, plain};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use varve_fs::InodeNo;
use varve_lfs::format::node::NodeId;
use varve_lfs::format::{Pointer, SECTOR};
use varve_lfs::internal::{Answer, InodeDelta, Reader};
use varve_lfs::{Error, Geometry};

/// Targets of the second walk.
pub struct Again {
    /// Segments whose data is verified through pointers.
    unverified: BTreeSet<u32>,
    /// Byte ranges that are used twice, with the subject already reported.
    overlaps: BTreeMap<u64, (u64, Subject)>,
    /// Live blocks on which the summaries disagree, as described there, by first byte.
    described: BTreeMap<u64, Stored>,
}

impl Again {
    pub fn new(
        unverified: BTreeSet<u32>,
        overlaps: Vec<(Stored, Subject)>,
        described: Vec<Stored>,
    ) -> Self {
        Again {
            unverified,
            described: described.into_iter().map(|s| (s.byte, s)).collect(),
            overlaps: overlaps
                .into_iter()
                .map(|(stored, subject)| (stored.byte, (stored.byte + stored.length, subject)))
                .collect(),
        }
    }

    pub fn run(&self, checker: &mut Checker<'_>) {
        let live = Arc::clone(&checker.state.live);
        let base = Arc::clone(&checker.state.base);
        let (reader, geometry) = (checker.reader, checker.geometry);
        let numbers: Vec<u64> = std::iter::once(InodeNo::IFILE.0)
            .chain(checker.inodes.numbers())
            .collect();
        for number in numbers {
            let ino = InodeNo(number);
            if checker.found.full() {
                return;
            }
            let mut look = Look {
                again: self,
                reader,
                geometry: &geometry,
                found: checker.found,
                ino,
                version: 0,
                delta: None,
                verified: 0,
            };
            if ino == InodeNo::IFILE {
                walk(reader, ino, 0, base.ifile_root(), &mut look);
                continue;
            }
            let Ok(view) = FileView::new(reader, &geometry, &base, &live, ino) else {
                continue;
            };
            if let Some((image, root)) = view.image() {
                look.version = image.inode.version;
                look.delta = view.delta();
                walk(reader, ino, look.version, root, &mut look);
                look.delta = None;
                if let Some(place) = view.place() {
                    look.see(&Stored::inode(&geometry, ino, look.version, &place));
                }
                let xattrs = image.xattrs;
                let newer = view.delta().and_then(|delta| delta.xattrs);
                if !xattrs.is_none() && newer.is_none_or(|newer| newer == xattrs) {
                    look.see(&Stored::block(ino, look.version, Role::Attributes, &xattrs));
                }
            }
            if let Some(delta) = view.delta() {
                look.version = delta.version;
                if let Some(placed) = &delta.image {
                    look.see(&Stored::inode(&geometry, ino, look.version, &placed.place));
                }
                if let Some(xattrs) = delta.xattrs.filter(|xattrs| !xattrs.is_none()) {
                    look.see(&Stored::block(ino, look.version, Role::Attributes, &xattrs));
                }
                for (block, pointer) in delta.blocks.range(0, u64::MAX) {
                    look.block(block, &pointer);
                }
            }
            checker.counts.verified_blocks += look.verified;
        }
    }
}

struct Look<'l> {
    again: &'l Again,
    reader: &'l Reader,
    geometry: &'l Geometry,
    found: &'l mut Findings,
    ino: InodeNo,
    version: u32,
    /// Changes of the replayed log to the file that is walked.
    delta: Option<&'l InodeDelta>,
    verified: u64,
}

impl Look<'_> {
    /// Reports a block that shares sectors with a refused block, or that a summary
    /// describes differently.
    fn see(&mut self, stored: &Stored) {
        if let Some(described) = self.again.described.get(&stored.byte)
            && described != stored
        {
            let text = format!(
                "the pointer at sector {} says {}, the summary {}",
                stored.byte / SECTOR,
                particulars(stored),
                particulars(described)
            );
            self.found
                .error(FindingKind::Summary, subject(stored), text);
        }
        let end = stored.byte + stored.length;
        let other = self
            .again
            .overlaps
            .range(..end)
            .next_back()
            .filter(|(_, (other_end, _))| *other_end > stored.byte);
        if let Some((byte, (_, reported))) = other
            && *reported != subject(stored)
        {
            let text = format!("sector {} is used by {reported} as well", byte / SECTOR);
            self.found
                .error(FindingKind::PointerOverlap, subject(stored), text);
            self.found.extend_fix(damaged(stored));
        }
    }
}

fn particulars(stored: &Stored) -> String {
    format!(
        "{} of version {}, {} bytes, born in partial {}, checksum {:#010x}",
        subject(stored),
        stored.version,
        stored.length,
        stored.birth,
        stored.crc
    )
}

impl Visitor for Look<'_> {
    fn node(&mut self, id: NodeId, pointer: &Pointer) -> bool {
        // The walk ends, because a node names its place, so only one path leads to it.
        self.see(&Stored::node(id, self.version, pointer));
        true
    }

    fn block(&mut self, block: u64, pointer: &Pointer) {
        let sectors = pointer.sectors();
        let displaced = self
            .delta
            .is_some_and(|delta| delta.block(block, sectors) != Answer::Pass);
        if pointer.is_unwritten() || displaced {
            return;
        }
        let stored = Stored::block(self.ino, self.version, Role::Data(block), pointer);
        self.see(&stored);
        let segment = self.geometry.segment_of(pointer.sector());
        if segment.is_some_and(|segment| self.again.unverified.contains(&segment)) {
            self.verified += 1;
            if let Err(error) = self.reader.block(pointer, self.ino, block) {
                self.found
                    .error(FindingKind::Data, subject(&stored), plain(&error));
                self.found.extend_fix(damaged(&stored));
            }
        }
    }

    fn refused(&mut self, _: NodeId, _: &Pointer, _: Error) {
        // The first walk has reported it.
    }

    fn done(&self) -> bool {
        self.found.full()
    }
}
