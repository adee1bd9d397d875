//! The places that an inode refers to, whatever their content; and inodes whose
//! references are rebuilt.

use super::Scan;
use crate::allocate::Extent;
use crate::error::Result;
use crate::format::{DIRECT, Image, PLACES_PER_SECTOR, Place, Slot};
use crate::planner::Planner;
use crate::store::{Newest, Sectors};
use crate::tree::{base, cell, place_in, span};
use crate::{Error, Ffs};
use std::collections::HashSet;
use std::fmt;
use varve_format::{Pointer, crc32c};
use varve_fs::{FileKind, InodeNo, Usage, attributes_flaw};

/// The reference of a file to space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claim {
    pub ino: u64,
    pub what: What,
    /// First sector, and number of sectors.
    pub place: (u64, u8),
}

/// The use of the space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    Block(u64),
    /// Indirect block: its number of levels, and the first block below it.
    Indirect(u32, u64),
    Attributes,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            What::Block(block) => write!(f, "block {block}"),
            What::Indirect(_, block) => write!(f, "what leads to block {block}"),
            What::Attributes => f.write_str("its attributes"),
        }
    }
}

impl Claim {
    /// Returns true if a checksum proves that the space belongs to this file.
    pub fn is_proven(&self, source: &impl Sectors, image: &Image) -> bool {
        let sectors = self.place.0..self.place.0 + u64::from(self.place.1);
        match self.what {
            What::Indirect(..) => {
                let owner = self.ino as u32;
                let mut sectors = sectors;
                sectors.all(|at| source.sealed(at, owner, "indirect block").is_ok())
            }
            What::Block(block) => {
                let place = crate::tree::place_of(source, image, block);
                place.is_ok_and(|place| {
                    place.is_checked() && crc(source, sectors) == Some(place.crc)
                })
            }
            What::Attributes => crc(source, sectors) == Some(image.xattrs.crc()),
        }
    }

    /// Returns the flaw of the attributes, if this is their place and they are damaged.
    pub fn attributes_flaw(&self, source: &impl Sectors, image: &Image) -> Option<String> {
        if self.what != What::Attributes {
            return None;
        }
        if !self.is_proven(source, image) {
            return Some("they cannot be read, or their checksum is wrong".into());
        }
        let mut blob = content(source, self.place.0..self.place.0 + u64::from(self.place.1))?;
        blob.truncate(image.inode.xattr_bytes as usize);
        attributes_flaw(&blob)
    }
}

/// Returns the content of sectors, if all can be read.
fn content(source: &impl Sectors, sectors: std::ops::Range<u64>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for at in sectors {
        bytes.extend_from_slice(&source.sector(at).ok()?.0[..]);
    }
    Some(bytes)
}

/// Returns the checksum of sectors, if all can be read.
fn crc(source: &impl Sectors, sectors: std::ops::Range<u64>) -> Option<u32> {
    content(source, sectors).map(|bytes| crc32c(&bytes))
}

/// The result of following all references of a file.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub blocks: u64,
    pub sectors: u64,
    /// Ranges of blocks whose references are damaged, in order.
    pub holes: Vec<(u64, u64)>,
}

/// Reports every reference of a file to `claim`; damaged ones are left out.
pub(crate) fn places(
    source: &impl Sectors,
    image: &Image,
    claim: &mut dyn FnMut(Claim, Extent),
) -> Walk {
    let mut visit = Visit {
        source,
        image,
        claim,
        walk: Walk::default(),
        entered: HashSet::new(),
    };
    for (block, place) in (0..).zip(&image.direct) {
        visit.block(block, place);
    }
    for levels in 1..=3u32 {
        let place = image.indirect[levels as usize - 1];
        visit.indirect(levels, place, base(source.geometry(), levels));
    }
    let xattrs = &image.xattrs;
    if !xattrs.is_none() {
        let place = (xattrs.sector(), xattrs.sectors());
        visit.tell(What::Attributes, place);
    }
    visit.walk
}

struct Visit<'a, S> {
    source: &'a S,
    image: &'a Image,
    claim: &'a mut dyn FnMut(Claim, Extent),
    walk: Walk,
    /// Indirect blocks visited: none is followed twice.
    entered: HashSet<u64>,
}

impl<S: Sectors> Visit<'_, S> {
    fn tell(&mut self, what: What, place: (u64, u8)) {
        let geometry = self.source.geometry();
        let extent = Extent {
            start: geometry.fragment_of(place.0),
            units: geometry.fragments_for(place.1.into()),
        };
        let ino = self.image.inode.ino.0;
        (self.claim)(Claim { ino, what, place }, extent);
    }

    fn lost(&mut self, from: u64, to: u64) {
        match self.walk.holes.last_mut() {
            Some((_, end)) if *end == from => *end = to,
            _ => self.walk.holes.push((from, to)),
        }
    }

    fn block(&mut self, block: u64, place: &Place) {
        if *place == Place::NONE {
            return;
        }
        let directory = self.image.inode.kind() == FileKind::Directory;
        let fits = place.check(self.source.geometry()).is_ok()
            && (place.is_unwritten() || place.is_checked() == directory);
        if !fits {
            return self.lost(block, block + 1);
        }
        self.walk.blocks += 1;
        self.walk.sectors += u64::from(place.sectors);
        self.tell(What::Block(block), (place.sector, place.sectors));
    }

    fn indirect(&mut self, levels: u32, place: Place, first: u64) {
        let geometry = *self.source.geometry();
        if place == Place::NONE {
            return;
        }
        let span = span(&geometry, levels);
        let sound = place.check(&geometry).is_ok() && geometry.check_indirect(&place).is_ok();
        if !sound || place.is_none() || !self.entered.insert(place.sector) {
            return self.lost(first, first + span * geometry.places());
        }
        self.tell(What::Indirect(levels, first), (place.sector, place.sectors));
        let owner = self.image.inode.ino.0 as u32;
        for begin in (0..geometry.places()).step_by(PLACES_PER_SECTOR as usize) {
            let (sector, _) = cell(&place, begin);
            let at = first + begin * span;
            let Ok(bytes) = self.source.sealed(sector, owner, "indirect block") else {
                self.lost(at, at + PLACES_PER_SECTOR * span);
                continue;
            };
            for slot in begin..begin + PLACES_PER_SECTOR {
                let found = place_in(&bytes, cell(&place, slot).1);
                let at = first + slot * span;
                match levels {
                    1 => self.block(at, &found),
                    _ => self.indirect(levels - 1, found, at),
                }
            }
        }
    }
}

impl Ffs {
    /// Returns the image of a file that readers see.
    pub(super) fn image(&self, ino: u64) -> Result<Image> {
        let tables = self.tables.read();
        let newest = Newest {
            store: &self.store,
            tables: &tables,
        };
        match newest.slot(InodeNo(ino))? {
            Slot::Used(image) => Ok(*image),
            Slot::Free(_) => Err(Error::NoInode(InodeNo(ino))),
        }
    }

    /// Rebuilds the references of a file to the blocks that it keeps, and counts these.
    pub(super) fn lead_anew(&self, ino: u64, scan: &Scan) -> Result<()> {
        let image = self.image(ino)?;
        let mut blocks = Vec::new();
        let mut indirects = Vec::new();
        let mut keeps_attributes = true;
        let before = {
            let tables = self.tables.read();
            let newest = Newest {
                store: &self.store,
                tables: &tables,
            };
            places(&newest, &image, &mut |claim, extent| {
                let ours = scan.keeps(&claim, extent);
                match claim.what {
                    What::Attributes => keeps_attributes = ours,
                    What::Indirect(..) if ours => indirects.push(extent),
                    What::Block(block) if ours => blocks.push(block),
                    What::Block(_) | What::Indirect(..) => {}
                }
            })
        };
        let append = |planner: &mut Planner<'_, '_>, mut usage: Usage| {
            let mut places = Vec::with_capacity(blocks.len());
            for &block in &blocks {
                let place = crate::tree::place_of(&planner.stage, &image, block)?;
                if !place.is_none() {
                    places.push((block, place));
                }
            }
            let mut after = image.clone();
            after.direct = [Place::NONE; DIRECT];
            after.indirect = [Place::NONE; crate::format::INDIRECT];
            for (block, place) in &places {
                planner.set(&mut after, *block, *place)?;
            }
            indirects
                .iter()
                .for_each(|extent| planner.give_up(*extent, true));
            let sectors = places
                .iter()
                .map(|(_, place)| u64::from(place.sectors))
                .sum();
            (after.inode.blocks, after.inode.sectors) = (places.len() as u64, sectors);
            let gone = |before: u64, after: u64| before.saturating_sub(after);
            usage.blocks = gone(usage.blocks, gone(before.blocks, after.inode.blocks));
            usage.sectors = gone(usage.sectors, gone(before.sectors, after.inode.sectors));
            if !keeps_attributes {
                usage.sectors = gone(usage.sectors, after.xattrs.sectors().into());
                after.xattrs = Pointer::NONE;
                after.inode.xattr_bytes = 0;
            }
            let sector = planner.stage.geometry().inode_sector(ino);
            let bytes = after.encode(planner.stage.geometry());
            planner.stage.put(sector, bytes);
            Ok(usage)
        };
        // These copies are the file's only references.
        self.append_own((0, 0), append)
    }
}
