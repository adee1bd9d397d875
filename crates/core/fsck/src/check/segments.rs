//! The summaries of every segment with live blocks, and the data.
//!
//! The cleaner finds live blocks through summaries, so a summary must describe each live
//! block, in agreement with its pointer. With `data` the segments are read whole and in
//! order, and every live block is compared with its checksum, so no file is read by
//! seeking.

use super::claims::{Described, Role, Stored};
use super::fixes::Fix;
use super::report::{FindingKind, Phase, Subject};
use super::{Checker, again::Again};
use std::collections::BTreeSet;
use varve_lfs::format::{Malformed, SECTOR, crc32c};
use varve_lfs::internal::{ChainItem, Summary, maps_in, summaries_of};
use varve_lfs::{Geometry, Result};

/// Number of disagreeing segments of which each block is compared.
const MAX_COMPARED: usize = 16;

impl Checker<'_> {
    pub(super) fn check_segments(&mut self) {
        let mut described = Described::default();
        let mut unverified = BTreeSet::new();
        let count = self.geometry.segment_count;
        let mut bytes = Vec::new();
        for segment in 0..count {
            if self.found.full() {
                return;
            }
            if segment % 64 == 0 {
                self.progress(Phase::Segments, u64::from(segment), u64::from(count));
            }
            if !self.claims.get(segment).used() {
                continue;
            }
            let whole = self.options.data && self.read_segment(segment, &mut bytes);
            let image = whole.then_some(&*bytes);
            if !self.one_segment(segment, image, &mut described) {
                unverified.insert(segment);
            }
        }
        if !self.options.data {
            unverified.clear();
        }
        let overlaps = std::mem::take(&mut self.overlaps);
        let disagreeing = std::mem::take(&mut self.disagreeing);
        if !unverified.is_empty() || !overlaps.is_empty() || !disagreeing.is_empty() {
            let described = disagreeing
                .iter()
                .flat_map(|&segment| self.described_by(segment))
                .collect();
            Again::new(unverified, overlaps, described).run(self);
        }
    }

    /// Returns the live blocks that the summaries of a segment describe.
    fn described_by(&self, segment: u32) -> Vec<Stored> {
        let mut bytes = Vec::new();
        if !self.read_segment(segment, &mut bytes) {
            return Vec::new();
        }
        let used = self.claims.get(segment);
        let start = self.geometry.byte(segment, 0);
        let tag = self.superblock.volume_tag();
        let incarnation = used.incarnation.unwrap_or(0);
        let mut scratch = Described::default();
        scratch.begin(used);
        let summaries = summaries_of(&bytes, &self.geometry, tag, segment, incarnation);
        let items = |summary: &Summary| summary.items(&self.geometry).unwrap_or_default();
        let mapped = self.mapped(segment, Some(&bytes));
        summaries
            .iter()
            .flat_map(items)
            .chain(mapped)
            .filter_map(|item| stored(&self.geometry, &item))
            .filter(|stored| scratch.note(used, start, stored))
            .collect()
    }

    /// Returns the items in the maps of a segment with plugs.
    fn mapped(&self, segment: u32, image: Option<&[u8]>) -> Vec<ChainItem> {
        let used = self.claims.get(segment);
        let incarnation = used.incarnation.unwrap_or(0);
        let mut bytes = Vec::new();
        let image = match image {
            _ if !used.is_plugged() => return Vec::new(),
            Some(image) => image,
            None if self.read_segment(segment, &mut bytes) => &bytes,
            None => return Vec::new(),
        };
        let tag = self.superblock.volume_tag();
        maps_in(image, &self.geometry, tag, segment, incarnation)
            .into_iter()
            .flat_map(|page| page.items)
            .collect()
    }

    /// Reads a whole segment. Returns false if that fails.
    fn read_segment(&self, segment: u32, bytes: &mut Vec<u8>) -> bool {
        bytes.resize(self.geometry.segment_bytes as usize, 0);
        let sector = self.geometry.byte(segment, 0) / SECTOR;
        self.reader.read_uncached(sector, bytes).is_ok()
    }

    /// Compares one segment's summaries with its live blocks. Returns false if data
    /// remains to be verified through its pointers.
    fn one_segment(
        &mut self,
        segment: u32,
        image: Option<&[u8]>,
        described: &mut Described,
    ) -> bool {
        described.begin(self.claims.get(segment));
        let incarnation = self.claims.get(segment).incarnation.unwrap_or(0);
        let mut offset = self.geometry.payload_start(segment);
        let mut last = 0;
        let mut end = String::from("its summaries end there");
        while self.geometry.partial_fits(offset) {
            let summary = match self.summary(segment, offset, image) {
                Ok(Ok(summary)) => summary,
                Ok(Err(malformed)) => {
                    end = malformed.to_string();
                    break;
                }
                Err(error) => {
                    end = error.to_string();
                    break;
                }
            };
            let header = &summary.header;
            if header.segment_incarnation.get() != incarnation || header.serial.get() <= last {
                end = "what stands there is of a former life".into();
                break;
            }
            last = header.serial.get();
            match summary.items(&self.geometry) {
                Ok(items) => self.items(segment, &items, image, described),
                Err(malformed) => {
                    end = malformed.to_string();
                    break;
                }
            }
            offset += summary.bytes();
        }
        let items = self.mapped(segment, image);
        self.items(segment, &items, image, described);
        self.judge(segment, offset, &end, image.is_some(), described)
    }

    fn summary(
        &self,
        segment: u32,
        offset: u32,
        image: Option<&[u8]>,
    ) -> Result<std::result::Result<Summary, Malformed>> {
        let tag = self.superblock.volume_tag();
        match image {
            Some(image) => Ok(Summary::parse(image, &self.geometry, tag, segment, offset)),
            None => Summary::read(self.reader, &self.geometry, tag, segment, offset),
        }
    }

    fn items(
        &mut self,
        segment: u32,
        items: &[ChainItem],
        image: Option<&[u8]>,
        described: &mut Described,
    ) {
        let start = self.geometry.byte(segment, 0);
        for item in items {
            let Some(stored) = stored(&self.geometry, item) else {
                continue;
            };
            let lives = described.note(self.claims.get(segment), start, &stored);
            let Some(image) = image.filter(|_| lives) else {
                continue;
            };
            let at = (stored.byte - start) as usize;
            let found = crc32c(&image[at..at + stored.length as usize]);
            self.counts.verified_blocks += u64::from(matches!(stored.role, Role::Data(_)));
            if found != stored.crc {
                let text = format!(
                    "at sector {} the checksum is {found:#010x}, want {:#010x}",
                    stored.byte / SECTOR,
                    stored.crc
                );
                self.found.error(FindingKind::Data, subject(&stored), text);
                self.found.extend_fix(damaged(&stored));
            }
        }
    }

    fn judge(
        &mut self,
        segment: u32,
        offset: u32,
        end: &str,
        verified: bool,
        described: &Described,
    ) -> bool {
        let used = self.claims.get(segment);
        if let Some(unit) = described.missing(used) {
            let start = self.geometry.byte(segment, 0);
            let text = format!(
                "no summary describes the live block at sector {}: at sector {} {end}",
                (start + unit * super::claims::UNIT) / SECTOR,
                (start + u64::from(offset)) / SECTOR,
            );
            self.found
                .error(FindingKind::Summary, Subject::Segment(segment), text);
            self.found.fix(Fix::Evacuate { segment });
            return false;
        }
        if !described.agrees(used) {
            if self.disagreeing.len() < MAX_COMPARED {
                self.disagreeing.push(segment);
            }
            let text = "summaries and pointers disagree about the owner, age or checksum of a \
                        live block";
            self.found
                .error(FindingKind::Summary, Subject::Segment(segment), text);
            self.found.fix(Fix::Evacuate { segment });
            return false;
        }
        verified
    }
}

/// Returns the block that a summary entry describes.
fn stored(geometry: &Geometry, item: &ChainItem) -> Option<Stored> {
    match item {
        ChainItem::Record { .. } | ChainItem::Placed { .. } | ChainItem::Map { .. } => None,
        ChainItem::Block {
            ino,
            version,
            block,
            pointer,
            xattrs,
            ..
        } => {
            let role = if *xattrs {
                Role::Attributes
            } else {
                Role::Data(*block)
            };
            Some(Stored::block(*ino, *version, role, pointer))
        }
        ChainItem::Node {
            id,
            version,
            pointer,
        } => Some(Stored::node(*id, *version, pointer)),
        ChainItem::Inode {
            ino,
            version,
            place,
            ..
        } => Some(Stored::inode(geometry, *ino, *version, place)),
    }
}

/// Returns the remedy for a stored block with a wrong checksum. Nodes, inodes and the
/// ifile were read and reported earlier.
pub(super) fn damaged(stored: &Stored) -> Option<Fix> {
    let ino = stored.ino.0;
    match stored.role {
        Role::Data(block) if stored.ino != varve_fs::InodeNo::IFILE => {
            Some(Fix::Block { ino, block })
        }
        Role::Attributes => Some(Fix::Attributes { ino }),
        _ => None,
    }
}

pub(super) fn subject(stored: &Stored) -> Subject {
    let ino = stored.ino.0;
    match stored.role {
        Role::Data(block) => Subject::Block { ino, block },
        Role::Attributes | Role::Inode => Subject::Inode(ino),
        Role::Node(height, index) => Subject::Node { ino, height, index },
    }
}
