//! What of a commit is written when.
//!
//! | class | what | what must be durable before |
//! |---|---|---|
//! | first | blocks that nothing leads to; new inodes that lead to none; which numbers were ever used | nothing |
//! | second | other new inodes; inodes that get more names | the first, and data |
//! | directories | inodes of directories, in levels; other inodes | the second; levels before |
//! | last | inodes that have fewer names, or none, or are free | directories |
//! | maps | the others are not written: a check makes them anew | |
//!
//! If names do not wait for each other, everything but the first is the second.

use super::{SectorMap, names};
use crate::Ffs;
use crate::error::Result;
use crate::format::{GroupMap, Image, Slot};
use crate::store::Sectors;
use std::sync::Arc;
use varve_fs::planted::{self, Planted};
use varve_fs::{FileKind, InodeNo};

/// See the module's head.
#[derive(Default)]
pub(super) struct Classes {
    pub first: SectorMap,
    pub second: SectorMap,
    pub directories: Vec<SectorMap>,
    pub last: SectorMap,
    /// Something in the last class was promised.
    pub lasting: bool,
    pub maps: SectorMap,
}

/// What a sector of a cylinder group is for.
enum Holds {
    Map,
    Inode(InodeNo),
    Data,
}

/// A directory whose inode is written.
pub(super) struct Changed {
    pub sector: u64,
    pub before: Image,
    pub after: Image,
}

/// An inode that leads to no block.
fn is_alone(image: &Image) -> bool {
    let mut places = image.direct.iter().chain(&image.indirect);
    places.all(|place| place.is_none()) && image.xattrs.is_none()
}

impl Ffs {
    fn holds(&self, sector: u64) -> Holds {
        let geometry = &self.store.geometry;
        let block = sector / geometry.block_sectors() - geometry.groups_block();
        let (group, within) = (block / geometry.group_blocks, block % geometry.group_blocks);
        let first = geometry.inode_sector(group * geometry.group_inodes);
        match sector.checked_sub(first) {
            None => Holds::Map,
            Some(slot) if within < geometry.group_meta_blocks() => {
                Holds::Inode(InodeNo(group * geometry.group_inodes + slot))
            }
            Some(_) => Holds::Data,
        }
    }

    /// Says which numbers have ever had files.
    fn is_touched_map(&self, sector: u64) -> bool {
        let geometry = &self.store.geometry;
        let block = sector / geometry.block_sectors() - geometry.groups_block();
        let group = block / geometry.group_blocks;
        let first = geometry.map_sector(group, GroupMap::Touched, 0);
        (first..first + geometry.inode_map_sectors()).contains(&sector)
    }

    /// Sorts what a commit has.
    pub(super) fn classes(&self, sectors: &SectorMap) -> Result<Classes> {
        let mut classes = Classes::default();
        let mut changed = Vec::new();
        let mut others = SectorMap::new();
        for (&sector, bytes) in sectors {
            let ino = match self.holds(sector) {
                // A check looks nowhere else for inodes.
                Holds::Map if self.is_touched_map(sector) => {
                    classes.first.insert(sector, Arc::clone(bytes));
                    continue;
                }
                Holds::Map => {
                    classes.maps.insert(sector, Arc::clone(bytes));
                    continue;
                }
                Holds::Data => {
                    classes.first.insert(sector, Arc::clone(bytes));
                    continue;
                }
                Holds::Inode(ino) => ino,
            };
            let before = self.on_device(ino)?;
            let after = Slot::decode(bytes, &self.store.geometry, ino)?;
            let class = match (before, after) {
                (None, Slot::Used(after)) if is_alone(&after) => &mut classes.first,
                _ if !self.is_ordered() => &mut classes.second,
                (None, Slot::Used(_)) => &mut classes.second,
                (_, Slot::Free(_)) => &mut classes.last,
                (Some(before), Slot::Used(after)) => {
                    let directory = after.inode.kind() == FileKind::Directory;
                    let links = (before.inode.nlink, after.inode.nlink);
                    match directory && links.1 > 0 {
                        true => {
                            changed.push(Changed {
                                sector,
                                before,
                                after: *after,
                            });
                            continue;
                        }
                        false if links.1 > links.0 => &mut classes.second,
                        false if links.1 < links.0 => {
                            classes.lasting |= links.1 > 0;
                            &mut classes.last
                        }
                        false => &mut others,
                    }
                }
            };
            class.insert(sector, Arc::clone(bytes));
        }
        classes.directories = self.levels(sectors, &changed)?;
        if planted::is(Planted::NamesRemovedFirst) {
            classes.directories.reverse();
        }
        match classes.directories.first_mut() {
            Some(level) => level.extend(others),
            None => classes.second.extend(others),
        }
        Ok(classes)
    }

    /// The file that the device has under a number.
    fn on_device(&self, ino: InodeNo) -> Result<Option<Image>> {
        let _readers = self.tables.read();
        let sector = self.store.geometry.inode_sector(ino.0);
        let bytes = self.store.fetch(sector)?;
        // What cannot be read as an inode never was one.
        match Slot::decode(&bytes, &self.store.geometry, ino) {
            Ok(Slot::Used(image)) => Ok(Some(*image)),
            Ok(Slot::Free(_)) | Err(_) => Ok(None),
        }
    }

    /// Directories in an order in which no file loses a name in one before it has got
    /// that in another. Two that exchange names have none: they are written together.
    fn levels(&self, sectors: &SectorMap, changed: &[Changed]) -> Result<Vec<SectorMap>> {
        let mut waiting = Vec::new();
        for directory in changed {
            let moved = match changed.len() {
                1 => names::Moved::default(),
                _ => self.names_moved(sectors, directory)?,
            };
            waiting.push((directory.sector, moved));
        }
        let mut levels = Vec::new();
        while !waiting.is_empty() {
            let is_ready = |at: usize| {
                let lost = &waiting[at].1.lost;
                let mut others = waiting.iter().enumerate().filter(|(nth, _)| *nth != at);
                !others.any(|(_, (_, other))| !other.gained.is_disjoint(lost))
            };
            let mut ready: Vec<bool> = (0..waiting.len()).map(is_ready).collect();
            if !ready.contains(&true) {
                ready.fill(true);
            }
            let mut level = SectorMap::new();
            let mut next = ready.into_iter();
            waiting.retain(|(sector, _)| {
                let goes = next.next().unwrap_or(true);
                if goes {
                    level.insert(*sector, Arc::clone(&sectors[sector]));
                }
                !goes
            });
            levels.push(level);
        }
        Ok(levels)
    }
}

/// The device, and over it what a commit is about to write.
pub(super) struct Committed<'a> {
    pub volume: &'a Ffs,
    pub sectors: Option<&'a SectorMap>,
}

impl Sectors for Committed<'_> {
    fn geometry(&self) -> &crate::format::Geometry {
        &self.volume.store.geometry
    }

    fn sector(&self, sector: u64) -> Result<(Arc<crate::format::Sector>, bool)> {
        if let Some(found) = self.sectors.and_then(|sectors| sectors.get(&sector)) {
            return Ok((Arc::clone(found), true));
        }
        let _readers = self.volume.tables.read();
        Ok((self.volume.store.fetch(sector)?, true))
    }
}
