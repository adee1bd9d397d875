//! Phase I: every inode, its index, its pointers.
//!
//! Two passes. The first walks the checkpoint's image: the ifile, the inode
//! map, each inode and everything below it. That is what the usage table
//! counts, and for most files it is the newest state as well. The second adds
//! what the replayed log says of the files it changed; such a file's walk in
//! the first pass already leaves out what the log has killed.

use super::claims::{Role, Stored};
use super::report::{FindingKind, Findings, Phase, Subject};
use super::table::known;
use super::walk::{Visitor, walk};
use super::{Checker, DirectoryAt, attributes, claims::Claims};
use super::{plain, refused, sectors_of, subject_of_block};
use crate::delta::{Answer, InodeDelta, RangeState};
use crate::error::Error;
use crate::format::ifile::{
    ENTRY_BYTES, IMAP_OFFSET, ImapEntry, ImapState, InodePlace, MAX_INO, UNFINISHED_OFFSET,
    USAGE_OFFSET,
};
use crate::format::inode::{InodeImage, Root};
use crate::format::node::NodeId;
use crate::format::{Pointer, SECTOR};
use std::collections::HashSet;
use std::sync::Arc;
use varve_fs::{FileKind, Inode, InodeNo, flags};
use zerocopy::FromBytes;

/// Inodes read in one batch, sorted by place.
const BATCH: usize = 1 << 16;
/// Begins complaints about blocks that roll-forward found.
const LOGGED: &str = "logged since the checkpoint: ";

/// Blocks found below an index.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    blocks: u64,
    sectors: u64,
    /// Behind the last block that stores something.
    written_end: u64,
    /// Blocks that are reserved only.
    unwritten: u64,
}

impl Tally {
    fn add(&mut self, block: u64, pointer: &Pointer) {
        self.blocks += 1;
        self.sectors = self.sectors.saturating_add(sectors_of(pointer));
        if pointer.is_unwritten() {
            self.unwritten += 1;
        } else {
            self.written_end = self.written_end.max(block + 1);
        }
    }
}

/// What the image has of an inode that the replayed log changed.
#[derive(Debug, Default)]
pub struct Below {
    image: Option<Arc<InodeImage>>,
    place: Option<InodePlace>,
    /// What of it still counts.
    tally: Tally,
    /// Blocks whose pointers the log has, too.
    same: HashSet<u64>,
    /// Sector of block 0.
    first: u64,
    damaged: bool,
}

/// Claims what an index leads to, and counts it.
struct FileVisitor<'v> {
    claims: &'v mut Claims,
    found: &'v mut Findings,
    overlaps: &'v mut Vec<(Stored, Subject)>,
    delta: Option<&'v InodeDelta>,
    ino: InodeNo,
    version: u32,
    block_sectors: u8,
    /// The image's blocks.
    whole: Tally,
    /// Those that still count.
    merged: Tally,
    same: HashSet<u64>,
    first: u64,
    nodes: u64,
    node_bytes: u64,
    damaged: bool,
    /// Of the ifile: every block.
    listed: Vec<(u64, Pointer)>,
}

impl FileVisitor<'_> {
    /// True if the sectors were free.
    fn claim(&mut self, subject: Subject, stored: &Stored) -> bool {
        let claimed = self.claims.claim(stored, true);
        if let Err(refusal) = claimed {
            refused(self.found, self.overlaps, subject, stored, refusal, "");
        }
        claimed.is_ok()
    }
}

impl Visitor for FileVisitor<'_> {
    fn node(&mut self, id: NodeId, pointer: &Pointer) -> bool {
        let stored = Stored::node(id, self.version, pointer);
        if !self.claim(subject_of_node(id), &stored) {
            self.damaged = true;
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
        }
        if !pointer.is_unwritten() {
            let stored = Stored::block(self.ino, self.version, Role::Data(block), pointer);
            self.claim(subject_of_block(self.ino, block), &stored);
        }
        self.whole.add(block, pointer);
        if block == 0 {
            self.first = pointer.sector();
        }
        if self.ino == InodeNo::IFILE {
            self.listed.push((block, *pointer));
        }
        match self.delta.map(|d| d.block(block, self.block_sectors)) {
            None | Some(Answer::Pass) => self.merged.add(block, pointer),
            Some(Answer::At(newer)) if newer == *pointer => {
                self.same.insert(block);
            }
            Some(Answer::At(_) | Answer::Hole) => {}
        }
    }

    fn refused(&mut self, id: NodeId, _: &Pointer, error: Error) {
        self.damaged = true;
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

/// An inode that the map says exists.
#[derive(Clone, Copy)]
struct Mapped {
    ino: u64,
    version: u32,
    place: InodePlace,
}

impl Checker<'_> {
    pub(super) fn check_inodes(&mut self) {
        let blocks = self.walk_ifile();
        self.inode_map(&blocks);
        let live = Arc::clone(&self.state.live);
        let mut changed: Vec<u64> = live.inodes.keys().copied().collect();
        changed.sort_unstable();
        for ino in changed {
            if self.found.full() {
                return;
            }
            self.changed_inode(ino, &live.inodes[&ino]);
        }
    }

    fn visit<'v>(
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
            delta,
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

    /// Walks the ifile and returns the blocks of the inode map.
    fn walk_ifile(&mut self) -> Vec<(u64, Pointer)> {
        let base = Arc::clone(&self.state.base);
        let reader = self.reader;
        let mut visitor = self.visit(InodeNo::IFILE, 0, None);
        walk(reader, InodeNo::IFILE, 0, base.ifile_root(), &mut visitor);
        let (nodes, bytes) = (visitor.nodes, visitor.node_bytes);
        let mut listed = visitor.listed;
        self.counts.nodes += nodes;
        self.counts.metadata_bytes += bytes;
        let unit = u64::from(self.geometry.block_bytes);
        let usage_bytes = u64::from(self.geometry.segment_count) * ENTRY_BYTES as u64;
        let imap_bytes = base.next_ino.saturating_mul(ENTRY_BYTES as u64);
        let regions = [
            (USAGE_OFFSET, usage_bytes),
            (UNFINISHED_OFFSET, IMAP_OFFSET - UNFINISHED_OFFSET),
            (IMAP_OFFSET, imap_bytes),
        ]
        .map(|(start, length)| start / unit..start.saturating_add(length).div_ceil(unit));
        for (block, pointer) in &listed {
            self.counts.metadata_bytes += pointer.stored_bytes();
            if pointer.is_unwritten() || !regions.iter().any(|region| region.contains(block)) {
                let subject = subject_of_block(InodeNo::IFILE, *block);
                let text = "the ifile has no such block";
                self.found.error(FindingKind::Ifile, subject, text);
            } else if *block < IMAP_OFFSET / unit {
                // Those of the map are read below.
                if let Err(error) = self.reader.ifile_block(pointer, *block) {
                    let subject = subject_of_block(InodeNo::IFILE, *block);
                    self.found.error(FindingKind::Ifile, subject, plain(&error));
                }
            }
        }
        listed.retain(|(block, pointer)| regions[2].contains(block) && !pointer.is_unwritten());
        listed
    }

    /// Every entry of the inode map, and the inodes it leads to.
    fn inode_map(&mut self, blocks: &[(u64, Pointer)]) {
        let per_block = self.geometry.entries_per_block();
        let first_block = IMAP_OFFSET / u64::from(self.geometry.block_bytes);
        let next_ino = self.state.base.next_ino;
        let mut batch: Vec<Mapped> = Vec::new();
        let mut expected = 0;
        for (block, pointer) in blocks {
            if self.found.full() {
                return;
            }
            let first = (block - first_block) * per_block;
            self.unmapped(expected, first);
            expected = first + per_block;
            let bytes = match self.reader.ifile_block(pointer, *block) {
                Ok(bytes) => bytes,
                Err(error) => {
                    let text = format!(
                        "inodes {first} to {} are lost: {}",
                        expected - 1,
                        plain(&error)
                    );
                    let subject = subject_of_block(InodeNo::IFILE, *block);
                    self.found.error(FindingKind::InodeMap, subject, text);
                    for ino in first..expected.min(next_ino) {
                        self.inodes.at(ino).flags |= known::DAMAGED;
                    }
                    continue;
                }
            };
            for (ino, entry) in (first..).zip(bytes.chunks_exact(ENTRY_BYTES)) {
                batch.extend(self.map_entry(ino, entry));
            }
            if batch.len() >= BATCH {
                self.batch(&mut batch);
            }
        }
        self.unmapped(expected, next_ino);
        self.batch(&mut batch);
    }

    /// Numbers below the highest one used that no block of the map covers.
    fn unmapped(&mut self, from: u64, to: u64) {
        let from = from.max(InodeNo::FIRST.0);
        if from < to.min(self.state.base.next_ino) {
            let text = format!("the inode map has no entries for {from} to {}", to - 1);
            self.found
                .error(FindingKind::InodeMap, Subject::Inode(from), text);
        }
    }

    fn map_entry(&mut self, ino: u64, bytes: &[u8]) -> Option<Mapped> {
        let entry = ImapEntry::read_from_bytes(bytes).expect("a chunk is an entry long");
        let base = &self.state.base;
        let subject = Subject::Inode(ino);
        match entry.state() {
            Err(malformed) => {
                self.found
                    .error(FindingKind::InodeMap, subject, malformed.to_string());
                self.inodes.at(ino).flags |= known::DAMAGED;
            }
            Ok(ImapState::Unused) => {
                if (InodeNo::FIRST.0..base.next_ino).contains(&ino) {
                    let text = "neither in use nor on the free list: the number is lost";
                    self.found.error(FindingKind::FreeList, subject, text);
                }
            }
            Ok(_) if ino >= base.next_ino || ino < InodeNo::ROOT.0 => {
                let text = format!(
                    "in the inode map, but numbers in use end at {}",
                    base.next_ino
                );
                self.found.error(FindingKind::NextInode, subject, text);
            }
            Ok(ImapState::Free { .. }) => {
                self.imap_free += 1;
                self.inodes.at(ino).flags |= known::FREE;
            }
            Ok(ImapState::Used { version, place }) => {
                return Some(Mapped {
                    ino,
                    version,
                    place,
                });
            }
        }
        None
    }

    /// Reads inodes in the order in which they are stored.
    fn batch(&mut self, batch: &mut Vec<Mapped>) {
        batch.sort_unstable_by_key(|m| (m.place.sector, m.place.slot));
        for (done, mapped) in batch.drain(..).enumerate() {
            if self.found.full() {
                return;
            }
            if done % 1024 == 0 {
                let total = self.state.base.next_ino;
                self.progress(Phase::Inodes, self.counts.inodes.min(total), total);
            }
            self.mapped_inode(&mapped);
        }
    }

    /// One inode of the image, and all below it.
    fn mapped_inode(&mut self, mapped: &Mapped) {
        let &Mapped {
            ino,
            version,
            place,
        } = mapped;
        let live = Arc::clone(&self.state.live);
        let delta = live.inodes.get(&ino);
        self.base_usage.inodes += 1;
        let below = match self.image_at(ino, version, &place) {
            Some(image) => self.image_below(mapped, image, delta),
            None => Below {
                damaged: true,
                ..Below::default()
            },
        };
        match delta {
            Some(delta) if delta.freed.is_some() || delta.reborn => {}
            Some(_) => {
                self.below.insert(ino, below);
            }
            None => match &below.image {
                Some(image) => {
                    let xattrs = sectors_of(&image.xattrs);
                    self.register(
                        &image.inode,
                        &below.tally,
                        xattrs,
                        below.first,
                        below.damaged,
                    );
                }
                None => {
                    self.inodes.at(ino).flags |= known::DAMAGED;
                    self.usage.inodes += 1;
                }
            },
        }
    }

    /// The image the map leads to, if it is one.
    fn image_at(&mut self, ino: u64, version: u32, place: &InodePlace) -> Option<Arc<InodeImage>> {
        let subject = Subject::Inode(ino);
        if u32::from(place.slot) >= self.geometry.inodes_per_sector() {
            let text = format!("the inode map says slot {} of a sector", place.slot);
            self.found.error(FindingKind::InodeMap, subject, text);
            return None;
        }
        let stored = Stored::inode(&self.geometry, InodeNo(ino), version, place);
        if !self.claim(subject, &stored, true, "its place in the inode map: ") {
            return None;
        }
        let image = match self.reader.inode(place, InodeNo(ino)) {
            Ok(image) => image,
            Err(error) => {
                self.found.error(FindingKind::Inode, subject, plain(&error));
                return None;
            }
        };
        if image.inode.version != version {
            let text = format!(
                "its version is {}, the inode map's {version}",
                image.inode.version
            );
            self.found.error(FindingKind::Inode, subject, text);
            return None;
        }
        if image.root.is_none() {
            let text = "the inode map leads to an image without an index";
            self.found.error(FindingKind::Inode, subject, text);
            return None;
        }
        Some(image)
    }

    /// Walks an image's index and claims what it holds.
    fn image_below(
        &mut self,
        mapped: &Mapped,
        image: Arc<InodeImage>,
        delta: Option<&InodeDelta>,
    ) -> Below {
        let none = Root::default();
        let root = image.root.as_ref().unwrap_or(&none);
        let reader = self.reader;
        let ino = InodeNo(mapped.ino);
        let mut visitor = self.visit(ino, mapped.version, delta);
        walk(reader, ino, mapped.version, root, &mut visitor);
        let FileVisitor {
            whole,
            merged,
            same,
            first,
            nodes,
            node_bytes,
            damaged,
            ..
        } = visitor;
        self.counts.nodes += nodes;
        self.counts.metadata_bytes += node_bytes;
        self.attributes(&image.inode, &image.xattrs, Claim::Base);
        self.base_usage.blocks += whole.blocks;
        self.base_usage.sectors += whole.sectors + sectors_of(&image.xattrs);
        if delta.is_some() && !damaged {
            self.compare(&image.inode, &whole, " at the checkpoint");
        }
        Below {
            image: Some(image),
            place: Some(mapped.place),
            tally: merged,
            same,
            first,
            damaged,
        }
    }

    /// An inode that the replayed log changed.
    fn changed_inode(&mut self, ino: u64, delta: &InodeDelta) {
        let subject = Subject::Inode(ino);
        let below = self.below.remove(&ino).unwrap_or_default();
        if delta.freed.is_some() {
            return;
        }
        if !(InodeNo::ROOT.0..=MAX_INO).contains(&ino) {
            let text = "the log changes a file that cannot exist";
            self.found.error(FindingKind::Inode, subject, text);
            return;
        }
        let Below {
            image,
            place,
            mut tally,
            same,
            mut first,
            damaged,
        } = below;
        for (block, pointer) in delta.blocks.range(0, u64::MAX) {
            tally.add(block, &pointer);
            if block == 0 {
                first = pointer.sector();
            }
            if !same.contains(&block) {
                let stored =
                    Stored::block(InodeNo(ino), delta.version, Role::Data(block), &pointer);
                let subject = subject_of_block(InodeNo(ino), block);
                self.claim(subject, &stored, false, LOGGED);
            }
        }
        self.add_reserved(delta, &mut tally);
        let newest = match (&delta.image, &image) {
            (Some(placed), _) => {
                if place != Some(placed.place) {
                    let version = placed.image.inode.version;
                    let stored =
                        Stored::inode(&self.geometry, InodeNo(ino), version, &placed.place);
                    self.claim(subject, &stored, false, LOGGED);
                }
                placed.image.inode.clone()
            }
            (None, Some(image)) => image.inode.clone(),
            (None, None) => {
                if damaged {
                    self.inodes.at(ino).flags |= known::DAMAGED;
                } else {
                    let text = "the log changes a file that does not exist";
                    self.found.error(FindingKind::Inode, subject, text);
                }
                return;
            }
        };
        if newest.version != delta.version {
            let text = format!(
                "its version is {}, the log changes version {}",
                newest.version, delta.version
            );
            self.found.error(FindingKind::Inode, subject, text);
        }
        let xattrs_below = image.as_ref().map_or(Pointer::NONE, |image| image.xattrs);
        let xattrs = delta.xattrs.unwrap_or(xattrs_below);
        if xattrs != xattrs_below {
            self.attributes(&newest, &xattrs, Claim::Newer);
        } else if image.is_some() {
            self.attributes(&newest, &xattrs, Claim::Done);
        }
        self.register(&newest, &tally, sectors_of(&xattrs), first, damaged);
    }

    /// Takes sectors; true if they were free. `what` begins the complaint.
    fn claim(&mut self, subject: Subject, stored: &Stored, base: bool, what: &str) -> bool {
        let claimed = self.claims.claim(stored, base);
        if let Err(refusal) = claimed {
            let overlaps = &mut self.overlaps;
            refused(self.found, overlaps, subject, stored, refusal, what);
        }
        claimed.is_ok()
    }

    /// Reservations count as blocks where nothing has been written since.
    fn add_reserved(&self, delta: &InodeDelta, tally: &mut Tally) {
        for (from, to, state) in delta.ranges.within(0, u64::MAX) {
            if let RangeState::Unwritten(_) = state {
                let written = delta.blocks.range(from, to).count() as u64;
                let count = (to - from).saturating_sub(written);
                let sectors = count.saturating_mul(u64::from(self.block_sectors()));
                tally.blocks = tally.blocks.saturating_add(count);
                tally.unwritten = tally.unwritten.saturating_add(count);
                tally.sectors = tally.sectors.saturating_add(sectors);
            }
        }
    }

    /// Counts an inode of the newest state, and checks what can be seen of it
    /// alone.
    fn register(
        &mut self,
        inode: &Inode,
        tally: &Tally,
        xattr_sectors: u64,
        first: u64,
        damaged: bool,
    ) {
        let ino = inode.ino.0;
        let kind = inode.kind();
        let unfinished = inode.nlink == 0 || inode.flags & flags::TRUNCATING != 0;
        let entry = self.inodes.at(ino);
        entry.set_kind(kind);
        entry.remaining = inode.nlink;
        if unfinished {
            entry.flags |= known::UNFINISHED;
        }
        if damaged {
            entry.flags |= known::INDEX;
        }
        self.usage.inodes += 1;
        self.usage.blocks = self.usage.blocks.saturating_add(tally.blocks);
        let sectors = tally.sectors.saturating_add(xattr_sectors);
        self.usage.sectors = self.usage.sectors.saturating_add(sectors);
        self.counts.inodes += 1;
        if kind == FileKind::Directory {
            self.counts.directories += 1;
            self.directories.push(DirectoryAt {
                sector: first,
                ino,
                version: inode.version,
                parent: inode.parent.0,
            });
        }
        if !damaged {
            self.compare(inode, tally, "");
            self.shape(inode, tally);
            self.within_size(inode, tally, unfinished);
        }
    }

    fn compare(&mut self, inode: &Inode, tally: &Tally, when: &str) {
        if (inode.blocks, inode.sectors) != (tally.blocks, tally.sectors) {
            let text = format!(
                "counts {} blocks of {} sectors{when}, but has {} of {}",
                inode.blocks, inode.sectors, tally.blocks, tally.sectors
            );
            let subject = Subject::Inode(inode.ino.0);
            self.found.error(FindingKind::BlockCount, subject, text);
        }
    }

    /// What the kind of a file demands of its content.
    fn shape(&mut self, inode: &Inode, tally: &Tally) {
        let inline = inode.flags & flags::INLINE != 0;
        let kind = inode.kind();
        let problem = match kind {
            _ if inode.flags & !(flags::INLINE | flags::TRUNCATING) != 0 => {
                Some(format!("unknown flags {:#x}", inode.flags))
            }
            _ if inline && tally.blocks > 0 => {
                Some(format!("content in the inode and {} blocks", tally.blocks))
            }
            FileKind::Regular => None,
            FileKind::Symlink if !inline && tally.blocks == 0 => {
                Some("a symbolic link without a target".into())
            }
            FileKind::Directory | FileKind::Symlink if tally.unwritten > 0 => {
                Some(format!("{} blocks were never written", tally.unwritten))
            }
            FileKind::Directory if inline => Some("a directory with content in the inode".into()),
            FileKind::Directory | FileKind::Symlink => None,
            _ if inline || tally.blocks > 0 => Some("a special file with content".into()),
            _ => None,
        };
        if let Some(text) = problem {
            if tally.unwritten > 0 {
                self.inodes.at(inode.ino.0).flags |= known::INDEX;
            }
            let subject = Subject::Inode(inode.ino.0);
            self.found.error(FindingKind::Inode, subject, text);
        }
    }

    /// No written block lies wholly beyond the size, unless a truncate is
    /// under way or the file is being freed.
    fn within_size(&mut self, inode: &Inode, tally: &Tally, unfinished: bool) {
        let unit = u64::from(self.geometry.block_bytes);
        let end = inode.size.div_ceil(unit);
        if inode.kind() == FileKind::Regular && !unfinished && tally.written_end > end {
            let text = format!(
                "block {} is stored, but the size of {} bytes ends before it",
                tally.written_end - 1,
                inode.size
            );
            let subject = Subject::Inode(inode.ino.0);
            self.found.error(FindingKind::BeyondSize, subject, text);
        }
    }

    /// The extended attributes of one image.
    fn attributes(&mut self, inode: &Inode, pointer: &Pointer, claim: Claim) {
        let subject = Subject::Inode(inode.ino.0);
        let bytes = u64::from(inode.xattr_bytes);
        if u64::from(pointer.sectors()) != bytes.div_ceil(SECTOR) || pointer.is_unwritten() {
            let text = format!(
                "has {bytes} bytes of extended attributes in {} sectors",
                pointer.sectors()
            );
            self.found.error(FindingKind::Attributes, subject, text);
        }
        if pointer.is_none() || pointer.is_unwritten() || claim == Claim::Done {
            return;
        }
        let stored = Stored::block(inode.ino, inode.version, Role::Attributes, pointer);
        if !self.claim(
            subject,
            &stored,
            claim == Claim::Base,
            "its extended attributes: ",
        ) {
            return;
        }
        match self.reader.block(pointer, inode.ino, 0) {
            Ok(mut blob) => {
                blob.truncate(inode.xattr_bytes as usize);
                if let Some(problem) = attributes::flaw(&blob) {
                    self.found.error(FindingKind::Attributes, subject, problem);
                }
            }
            Err(error) => {
                let text = format!("its extended attributes: {}", plain(&error));
                self.found.error(FindingKind::Attributes, subject, text);
            }
        }
    }
}

/// How the sectors of extended attributes are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// They belong to the image.
    Base,
    /// They were logged since.
    Newer,
    /// They have been taken already.
    Done,
}
