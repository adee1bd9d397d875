//! Phase I: every inode, its index, its pointers.
//!
//! Two passes. The first walks the checkpoint's image: the ifile, the inode map, each
//! inode and its index. The usage table counts this image, and for most files it is the
//! newest state as well. The second pass adds the changes of the replayed log; the first
//! pass already leaves out the blocks that the log has displaced.

use super::claims::{Role, Stored};
use super::fixes::Fix;
use super::imap::Mapped;
use super::report::{FindingKind, Subject};
use super::shape::Claim;
use super::table::known;
use super::visit::{FileVisitor, Tally};
use super::walk::walk;
use super::{Checker, plain, refused, sectors_of, subject_of_block};
use std::collections::HashSet;
use std::sync::Arc;
use varve_fs::InodeNo;
use varve_lfs::format::Pointer;
use varve_lfs::format::ifile::{InodePlace, MAX_INO};
use varve_lfs::format::inode::{InodeImage, Root};
use varve_lfs::internal::{HISTORY, InodeDelta, RangeState, attributes};

/// Prefix of findings about blocks from roll-forward.
const LOGGED: &str = "logged since the checkpoint: ";

/// The checkpointed state of an inode that the replayed log changed.
#[derive(Debug, Default)]
pub struct Below {
    image: Option<Arc<InodeImage>>,
    place: Option<InodePlace>,
    /// Blocks that are still valid.
    tally: Tally,
    /// Blocks whose pointers are in the log as well.
    pub(super) same: HashSet<u64>,
    /// Sector of block 0.
    first: u64,
    damaged: bool,
}

impl Checker<'_> {
    pub(super) fn check_inodes(&mut self) {
        let blocks = self.walk_ifile();
        self.inode_map(&blocks);
        self.check_history();
        let live = Arc::clone(&self.state.live);
        let mut changed: Vec<u64> = live.inodes.keys().copied().collect();
        changed.sort_unstable();
        for ino in changed.into_iter().filter(|ino| *ino != HISTORY.0) {
            if self.found.full() {
                return;
            }
            self.changed_inode(ino, &live.inodes[&ino]);
        }
    }

    /// Records an inode that exists and cannot be read; it may have been a directory.
    pub(super) fn lost(&mut self, ino: u64) {
        self.inodes.at(ino).flags |= known::DAMAGED;
        self.names_lost = true;
    }

    /// Checks one inode of the image and its index.
    pub(super) fn mapped_inode(&mut self, mapped: &Mapped) {
        let &Mapped {
            ino,
            version,
            place,
        } = mapped;
        let live = Arc::clone(&self.state.live);
        let delta = live.inode(ino);
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
                    self.lost(ino);
                    self.usage.inodes += 1;
                }
            },
        }
    }

    /// Reads the inode to which the map points, if it is usable.
    pub(super) fn image_at(
        &mut self,
        ino: u64,
        version: u32,
        place: &InodePlace,
    ) -> Option<Arc<InodeImage>> {
        let image = self.usable_image(ino, version, place);
        if image.is_none() {
            self.found.fix(Fix::Image { ino });
        }
        image
    }

    fn usable_image(
        &mut self,
        ino: u64,
        version: u32,
        place: &InodePlace,
    ) -> Option<Arc<InodeImage>> {
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

    /// Walks an image's index and takes the sectors of its blocks.
    pub(super) fn image_below(
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
        let displaced = delta.is_some_and(|delta| {
            let newer = delta.xattrs.is_some_and(|newer| newer != image.xattrs);
            newer || delta.freed.is_some() || delta.reborn
        });
        let identity = attributes(ino, mapped.version);
        let newer = delta.and_then(|delta| delta.xattrs);
        let is_move = newer.is_some_and(|newer| newer.birth() == image.xattrs.birth());
        let kept = displaced && !is_move && self.keeps(identity, &image.xattrs);
        let displaced = displaced && !kept;
        let claim = match displaced {
            true => Claim::Displaced,
            false => Claim::Base,
        };
        self.attributes(&image.inode, &image.xattrs, claim);
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

    /// Checks an inode that the replayed log changed.
    fn changed_inode(&mut self, ino: u64, delta: &InodeDelta) {
        let subject = Subject::Inode(ino);
        let below = self.below.remove(&ino).unwrap_or_default();
        if delta.freed.is_some() {
            return;
        }
        if !(InodeNo::ROOT.0..=MAX_INO).contains(&ino) {
            let text = "the log changes a file that cannot exist";
            self.found.error(FindingKind::Inode, subject, text);
            self.found.fix(Fix::Forget { ino });
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
        first = delta.blocks.get(0).map_or(first, |p| p.sector());
        self.logged_blocks(InodeNo(ino), delta, &same, &mut tally);
        self.add_reserved(delta, &mut tally);
        let newest = match (&delta.image, &image) {
            (Some(placed), _) => {
                if place != Some(placed.place) {
                    let version = placed.image.inode.version;
                    let stored =
                        Stored::inode(&self.geometry, InodeNo(ino), version, &placed.place);
                    if !self.claim(subject, &stored, false, LOGGED) {
                        self.found.fix(Fix::Rewrite { ino });
                    }
                }
                placed.image.inode.clone()
            }
            (None, Some(image)) => image.inode.clone(),
            (None, None) => {
                if damaged {
                    self.lost(ino);
                } else {
                    let text = "the log changes a file that does not exist";
                    self.found.error(FindingKind::Inode, subject, text);
                    self.found.fix(Fix::Forget { ino });
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
            self.found.fix(Fix::Forget { ino });
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

    /// Counts the blocks in the log, and takes the sectors of those that the image does
    /// not have.
    pub(super) fn logged_blocks(
        &mut self,
        ino: InodeNo,
        delta: &InodeDelta,
        same: &HashSet<u64>,
        tally: &mut Tally,
    ) {
        for (block, pointer) in delta.blocks.range(0, u64::MAX) {
            tally.add(block, &pointer);
            if same.contains(&block) {
                continue;
            }
            let stored = Stored::block(ino, delta.version, Role::Data(block), &pointer);
            if !self.claim(subject_of_block(ino, block), &stored, false, LOGGED) {
                self.found.fix(Fix::Block { ino: ino.0, block });
            }
        }
    }

    /// Takes sectors and returns true if they were free. `what` is the prefix of the
    /// finding.
    pub(super) fn claim(
        &mut self,
        subject: Subject,
        stored: &Stored,
        base: bool,
        what: &str,
    ) -> bool {
        let claimed = self.claims.claim(stored, base);
        if let Err(refusal) = claimed {
            let overlaps = &mut self.overlaps;
            refused(self.found, overlaps, subject, stored, refusal, what);
        }
        claimed.is_ok()
    }

    /// Counts reservations as blocks where nothing has been written since.
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
}
