//! The first phase: every inode, and the space that it refers to. Nothing is written.
//!
//! Of the maps only one is used: which numbers ever had a file. It is written together
//! with their first inode, before any name; the sectors of other numbers may contain
//! anything. If the map cannot be read, every inode's sector is examined. A sector that
//! is then no inode is reported as lost if its number was in use.
//!
//! Memory: the maps, and a few words for each inode.

use super::Report;
use super::mend::{Claim, Walk, What, places};
use crate::allocate::{Extent, Policy};
use crate::bits::Bits;
use crate::error::Result;
use crate::format::{BITS_PER_SECTOR, Geometry, GroupMap, Image, Sector, Slot};
use crate::maps::{self, Maps};
use crate::numbers::Numbers;
use crate::room::Room;
use crate::store::{Over, Sectors, Store};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use varve_fs::{FileKind, InodeNo, Usage};

/// Number of sectors of an inode table that are read at once.
const TABLE_SECTORS: u64 = 256;

/// A file that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub kind: FileKind,
    pub nlink: u32,
    /// For a directory, the parent that its inode names.
    pub parent: u64,
    /// True if the file has neither content nor attributes.
    pub is_blank: bool,
}

/// The content of all inode tables.
pub(crate) struct Scan {
    pub inodes: HashMap<u64, Found>,
    /// Files whose references must be rebuilt.
    pub broken: BTreeSet<u64>,
    /// For fragments to which several files refer: the reference that keeps them.
    pub owners: HashMap<u64, Claim>,
    /// Files whose attributes are damaged.
    pub bare: HashSet<u64>,
    /// Inode sectors that contain neither a file nor a free inode.
    pub spoilt: Vec<u64>,
    /// Files that are already reported as lost.
    pub gone: HashSet<u64>,
    pub usage: Usage,
}

impl Scan {
    /// Returns true if the file keeps the space of this reference.
    pub fn keeps(&self, claim: &Claim, extent: Extent) -> bool {
        let is_bare = claim.what == What::Attributes && self.bare.contains(&claim.ino);
        let mut all = extent.start..extent.end();
        !is_bare && all.all(|at| self.owners.get(&at).is_none_or(|owner| owner == claim))
    }
}

/// The maps on the device.
struct Said {
    maps: Maps,
    /// Map sectors that cannot be read: the group, and the index among its maps.
    bad: BTreeSet<(u64, u64)>,
}

/// Reads all inodes and rebuilds the maps.
///
/// # Errors
/// If the device fails in another form than an unreadable sector.
pub(crate) fn scan(
    (store, policy): (&Store, &Policy),
    newer: &BTreeMap<u64, Arc<Sector>>,
    is_dirty: bool,
    report: &mut Report,
) -> Result<(Scan, Room, Numbers)> {
    let geometry = store.geometry;
    let source = Over { store, newer };
    let mut bad = BTreeSet::new();
    let maps = maps::read(&source, &mut |which, _| {
        bad.insert(which);
        Ok(())
    })?;
    let said = Said { maps, bad };
    let mut scanner = Scanner {
        source: &source,
        said: &said,
        report: &mut *report,
        seen: Bits::new(geometry.fragments()),
        twice: HashSet::new(),
        inodes: [(); 4].map(|()| Bits::new(geometry.inodes())),
        scan: Scan {
            inodes: HashMap::new(),
            broken: BTreeSet::new(),
            owners: HashMap::new(),
            bare: HashSet::new(),
            spoilt: Vec::new(),
            gone: HashSet::new(),
            usage: Usage::default(),
        },
    };
    for ino in 0..2 {
        scanner.inodes[GroupMap::Used as usize].set(ino, true);
    }
    for group in 0..geometry.groups() {
        scanner.table(group);
    }
    scanner.settle_claims();
    let Scanner {
        mut seen,
        inodes,
        scan,
        ..
    } = scanner;
    for group in 0..geometry.groups() {
        let begin = group * geometry.group_fragments();
        let data = geometry.data_fragments(group);
        seen.fill(begin..data.start, true);
        seen.fill(data.end..begin + geometry.group_fragments(), true);
    }
    let mut room = Room::new(geometry, policy, seen)?;
    let mut numbers = Numbers::new(geometry, inodes);
    let differing = touch(&geometry, &said, (&mut room, &mut numbers));
    if differing > 0 && !is_dirty {
        let bad = said.bad.len();
        report.repair(format!(
            "{differing} sectors of maps differ from what was found, {bad} of them cannot be read"
        ));
    }
    Ok((scan, room, numbers))
}

/// Marks the map sectors that differ from the result. Returns their number.
fn touch(geometry: &Geometry, said: &Said, (room, numbers): (&mut Room, &mut Numbers)) -> u64 {
    let mut differing = 0;
    let differs = |one: &Bits, other: &Bits, from: u64, to: u64| {
        (from..to.min(from + BITS_PER_SECTOR)).any(|at| one.get(at) != other.get(at))
    };
    for group in 0..geometry.groups() {
        let each = geometry.inode_map_sectors();
        for (index, map) in GroupMap::OF_INODES.into_iter().enumerate() {
            let begin = group * geometry.group_inodes;
            for nth in 0..each {
                let from = begin + nth * BITS_PER_SECTOR;
                let end = begin + geometry.group_inodes;
                let bad = said.bad.contains(&(group, index as u64 * each + nth));
                if bad || differs(&said.maps.inodes[index], numbers.map(map), from, end) {
                    numbers.touch(group, map, nth * BITS_PER_SECTOR);
                    differing += 1;
                }
            }
        }
        let begin = group * geometry.group_fragments();
        for nth in 0..geometry.fragment_map_sectors() {
            let from = begin + nth * BITS_PER_SECTOR;
            let end = begin + geometry.group_fragments();
            let bad = said.bad.contains(&(group, 4 * each + nth));
            if bad || differs(&said.maps.used, room.used(), from, end) {
                room.touch(group, nth * BITS_PER_SECTOR);
                differing += 1;
            }
        }
    }
    differing
}

struct Scanner<'a> {
    source: &'a Over<'a>,
    said: &'a Said,
    report: &'a mut Report,
    seen: Bits,
    twice: HashSet<u64>,
    inodes: [Bits; 4],
    scan: Scan,
}

impl Scanner<'_> {
    fn geometry(&self) -> Geometry {
        self.source.store.geometry
    }

    /// Scans the inodes of a cylinder group.
    fn table(&mut self, group: u64) {
        let geometry = self.geometry();
        let begin = group * geometry.group_inodes;
        let end = begin + geometry.group_inodes;
        let mut ino = begin;
        while ino < end {
            let count = TABLE_SECTORS.min(end - ino);
            if !(ino..ino + count).any(|ino| self.may_have_a_file(ino)) {
                ino += count;
                continue;
            }
            let sectors = self.source.sectors(geometry.inode_sector(ino), count);
            for (ino, sector) in (ino..).zip(sectors) {
                if ino >= 2 && self.may_have_a_file(ino) {
                    self.slot(ino, sector.ok().as_ref());
                }
            }
            ino += count;
        }
    }

    /// Returns true if the number ever had a file, or if this is unknown.
    fn may_have_a_file(&self, ino: u64) -> bool {
        let geometry = self.source.geometry();
        let (group, within) = (ino / geometry.group_inodes, ino % geometry.group_inodes);
        let nth =
            GroupMap::Touched as u64 * geometry.inode_map_sectors() + within / BITS_PER_SECTOR;
        self.said.maps.inodes[GroupMap::Touched as usize].get(ino)
            || self.said.bad.contains(&(group, nth))
    }

    /// Handles the sector of an inode.
    fn slot(&mut self, ino: u64, sector: Option<&Sector>) {
        let decoded = match sector {
            Some(sector) => Slot::decode(sector, self.source.geometry(), InodeNo(ino))
                .map_err(|error| error.to_string()),
            None => Err("it cannot be read".into()),
        };
        match decoded {
            Ok(Slot::Free(_)) => self.note(GroupMap::Touched, ino),
            Ok(Slot::Used(image)) => self.inode(&image),
            Err(error) => {
                let said = |map: GroupMap| self.said.maps.inodes[map as usize].get(ino);
                let (used, touched) = (said(GroupMap::Used), said(GroupMap::Touched));
                if used {
                    self.report
                        .loss(format!("inode {ino} is lost, with what it holds: {error}"));
                    self.scan.gone.insert(ino);
                } else if touched {
                    self.report
                        .repair(format!("inode {ino} is free, and damaged: {error}"));
                }
                if used || touched {
                    self.note(GroupMap::Touched, ino);
                    self.scan.spoilt.push(ino);
                }
            }
        }
    }

    fn note(&mut self, map: GroupMap, ino: u64) {
        self.inodes[map as usize].set(ino, true);
    }

    fn inode(&mut self, image: &Image) {
        let inode = &image.inode;
        let ino = inode.ino.0;
        for map in [GroupMap::Used, GroupMap::Touched] {
            self.note(map, ino);
        }
        if inode.is_unfinished() {
            self.note(GroupMap::Unfinished, ino);
        }
        if inode.kind() == FileKind::Directory {
            self.note(GroupMap::Directories, ino);
        }
        let source = self.source;
        let (seen, twice) = (&mut self.seen, &mut self.twice);
        let mut bad_attributes = None;
        let walk = places(source, image, &mut |claim, extent| {
            if let Some(flaw) = claim.attributes_flaw(source, image) {
                bad_attributes = Some(flaw);
                return;
            }
            for at in extent.start..extent.end() {
                if seen.get(at) {
                    twice.insert(at);
                }
                seen.set(at, true);
            }
        });
        let Walk {
            blocks,
            sectors,
            holes,
        } = walk;
        for (from, to) in &holes {
            let what = format!("inode {ino}: blocks {from} to {} are lost", to - 1);
            self.report.loss(what);
        }
        if let Some(flaw) = bad_attributes {
            self.report
                .loss(format!("inode {ino}: its attributes are damaged: {flaw}"));
            self.scan.bare.insert(ino);
            self.scan.broken.insert(ino);
        }
        let attributes = u64::from(image.xattrs.sectors());
        let differs = (blocks, sectors) != (inode.blocks, inode.sectors);
        if differs && holes.is_empty() {
            self.report.repair(format!(
                "inode {ino}: says {} blocks of {} sectors, has {blocks} of {sectors}",
                inode.blocks, inode.sectors
            ));
        }
        if differs || !holes.is_empty() {
            self.scan.broken.insert(ino);
        }
        let usage = &mut self.scan.usage;
        usage.inodes += 1;
        usage.blocks += blocks;
        usage.sectors += sectors + attributes;
        let found = Found {
            kind: inode.kind(),
            nlink: inode.nlink,
            parent: inode.parent.0,
            is_blank: inode.size == 0 && blocks == 0 && attributes == 0,
        };
        self.scan.inodes.insert(ino, found);
    }

    /// Decides which file keeps space that several refer to: first the files for which
    /// a checksum is evidence, then the others in order.
    fn settle_claims(&mut self) {
        if self.twice.is_empty() {
            return;
        }
        let source = self.source;
        let mut numbers: Vec<u64> = self.scan.inodes.keys().copied().collect();
        numbers.sort_unstable();
        for proven in [true, false] {
            for &ino in &numbers {
                let Ok(Slot::Used(image)) = source.slot(InodeNo(ino)) else {
                    continue;
                };
                places(source, &image, &mut |claim, extent| {
                    self.settle(claim, extent, proven, &image);
                });
            }
        }
    }

    fn settle(&mut self, claim: Claim, extent: Extent, proven: bool, image: &Image) {
        let all = extent.start..extent.end();
        let is_bare = claim.what == What::Attributes && self.scan.bare.contains(&claim.ino);
        if is_bare || !all.clone().any(|at| self.twice.contains(&at)) {
            return;
        }
        let owners = &mut self.scan.owners;
        let is_taken = all.clone().any(|at| owners.contains_key(&at));
        let is_his = owners.get(&extent.start) == Some(&claim);
        match proven {
            true if !claim.is_proven(self.source, image) => {}
            false if is_his => {}
            _ if !is_taken => owners.extend(all.map(|at| (at, claim))),
            // This is reported when all references have been decided.
            true => {}
            false => {
                let ino = claim.ino;
                let sector = self.source.geometry().fragment_sector(extent.start);
                self.report.loss(format!(
                    "inode {ino}: {claim} at sector {sector} is somebody else's, too, and left \
                     to them"
                ));
                self.scan.broken.insert(ino);
            }
        }
    }
}
