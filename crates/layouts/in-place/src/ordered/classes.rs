//! The classes in which the changes of a commit are written.
//!
//! | class | content | must be durable before |
//! |---|---|---|
//! | first | blocks without a reference; new inodes without blocks; the map of touched numbers | nothing |
//! | second | other new inodes; inodes that get more names | the first class, and data |
//! | overwritten | the directory block that is changed where it is (`overwrites_directories`) | the second class |
//! | directories | inodes of directories, in levels; other inodes | the second class; earlier levels |
//! | last | inodes that lose names, or all, or are free | directories |
//! | maps | the other maps are not written: a check rebuilds them; times and size of the directory of an overwritten block | |
//!
//! If names are not ordered, everything but the first class is in the second.

use super::{SectorMap, names};
use crate::Ffs;
use crate::error::Result;
use crate::format::{GroupMap, Holds, Image, Slot};
use crate::transaction::Transaction;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use varve_fs::planted::{self, Planted};
use varve_fs::{FileKind, InodeNo};

/// The changed sectors of a commit, by class.
#[derive(Default)]
pub(super) struct Classes {
    pub first: SectorMap,
    pub second: SectorMap,
    pub overwritten: SectorMap,
    pub directories: Vec<SectorMap>,
    pub last: SectorMap,
    /// True if a change in the last class must be durable when the commit ends.
    pub lasting: bool,
    pub maps: SectorMap,
}

/// A directory whose inode is written.
pub(super) struct Changed {
    pub sector: u64,
    pub before: Image,
    pub after: Image,
}

/// Returns true if an inode refers to no block.
fn is_alone(image: &Image) -> bool {
    let mut places = image.direct.iter().chain(&image.indirect);
    places.all(|place| place.is_none()) && image.xattrs.is_none()
}

impl Ffs {
    /// Distributes the changed sectors of a commit over the classes. Numbers that get their
    /// first file count as new: the former content of their sectors does not count.
    pub(super) fn classes(&self, transaction: &Transaction) -> Result<Classes> {
        let Transaction {
            sectors,
            entered,
            overwritten,
            ..
        } = transaction;
        let mut classes = Classes::default();
        let mut changed = Vec::new();
        let mut others = SectorMap::new();
        for (&sector, bytes) in sectors {
            let geometry = &self.store.geometry;
            let ino = match geometry.holds(sector) {
                // A check searches for inodes only where this map has a bit.
                Holds::Map(nth)
                    if nth / geometry.inode_map_sectors() == GroupMap::Touched as u64 =>
                {
                    classes.first.insert(sector, Arc::clone(bytes));
                    continue;
                }
                Holds::Map(_) => {
                    classes.maps.insert(sector, Arc::clone(bytes));
                    continue;
                }
                Holds::Data if overwritten.as_ref().is_some_and(|o| o.contains(&sector)) => {
                    classes.overwritten.insert(sector, Arc::clone(bytes));
                    continue;
                }
                Holds::Data => {
                    classes.first.insert(sector, Arc::clone(bytes));
                    continue;
                }
                Holds::Inode(ino) => ino,
            };
            let after = Slot::decode(bytes, geometry, ino)?;
            let before = match after {
                Slot::Used(_) if !entered.contains(&ino.0) => self.on_device(ino)?,
                _ => None,
            };
            let class = match (before, after) {
                (None, Slot::Used(after)) if is_alone(&after) => &mut classes.first,
                _ if !self.is_ordered() => &mut classes.second,
                (None, Slot::Used(_)) => &mut classes.second,
                (_, Slot::Free(_)) => &mut classes.last,
                (Some(mut before), Slot::Used(after)) => {
                    let directory = after.inode.kind() == FileKind::Directory;
                    let links = (before.inode.nlink, after.inode.nlink);
                    if directory && overwritten.is_some() {
                        // A check counts the bytes of names anew.
                        before.inode.size = after.inode.size;
                        if before.clone().is_but_for_times(&after) {
                            classes.maps.insert(sector, Arc::clone(bytes));
                            continue;
                        }
                    }
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
        classes.directories = self.levels(sectors, &changed);
        if planted::is(Planted::NamesRemovedFirst) {
            classes.directories.reverse();
        }
        match classes.directories.first_mut() {
            Some(level) => level.extend(others),
            None => classes.second.extend(others),
        }
        Ok(classes)
    }

    /// Returns the file that the device has under a number.
    fn on_device(&self, ino: InodeNo) -> Result<Option<Image>> {
        let _readers = self.tables.read();
        let sector = self.store.geometry.inode_sector(ino.0);
        let bytes = self.store.fetch(sector)?;
        // Content that cannot be read as an inode never was one.
        match Slot::decode(&bytes, &self.store.geometry, ino) {
            Ok(Slot::Used(image)) => Ok(Some(*image)),
            Ok(Slot::Free(_)) | Err(_) => Ok(None),
        }
    }

    /// Returns the directories that a commit removes, each with the files for which it
    /// has names on the device.
    fn removed(&self, sectors: &SectorMap) -> HashMap<u64, HashSet<u64>> {
        let geometry = &self.store.geometry;
        let mut removed = HashMap::new();
        for (&sector, bytes) in sectors {
            let Holds::Inode(ino) = geometry.holds(sector) else {
                continue;
            };
            let stays = match Slot::decode(bytes, geometry, ino) {
                Ok(Slot::Used(after)) => after.inode.nlink > 0,
                Ok(Slot::Free(_)) | Err(_) => false,
            };
            if !stays
                && let Ok(Some(before)) = self.on_device(ino)
                && before.inode.kind() == FileKind::Directory
            {
                let after = Image::blank(ino, before.inode.version);
                let directory = Changed {
                    sector,
                    before,
                    after,
                };
                removed.insert(ino.0, self.names_moved(sectors, &directory).lost);
            }
        }
        removed
    }

    /// Returns the directories in levels, such that no file loses a name in one
    /// directory before it has gained one in another. Two directories that exchange
    /// names have no such order and are written together.
    fn levels(&self, sectors: &SectorMap, changed: &[Changed]) -> Vec<SectorMap> {
        let mut waiting = Vec::new();
        for directory in changed {
            let moved = match changed.len() {
                1 => names::Moved::default(),
                _ => self.names_moved(sectors, directory),
            };
            waiting.push((directory.sector, moved));
        }
        if waiting.len() > 1 {
            let removed = self.removed(sectors);
            let all = waiting.iter_mut();
            all.for_each(|(_, moved)| moved.lose_what_went_along(&removed));
        }
        let mut gaining: HashMap<u64, usize> = HashMap::new();
        for ino in waiting.iter().flat_map(|(_, moved)| &moved.gained) {
            *gaining.entry(*ino).or_default() += 1;
        }
        let mut levels = Vec::new();
        while !waiting.is_empty() {
            let is_ready = |(_, moved): &(u64, names::Moved)| {
                let gained = |ino| gaining.get(ino).is_some_and(|count| *count > 0);
                !moved.lost.iter().any(gained)
            };
            let (mut ready, mut rest) = waiting.into_iter().partition(is_ready);
            if Vec::is_empty(&ready) {
                std::mem::swap(&mut ready, &mut rest);
            }
            for ino in ready.iter().flat_map(|(_, moved)| &moved.gained) {
                gaining.entry(*ino).and_modify(|count| *count -= 1);
            }
            let level = ready.iter().map(|(at, _)| (*at, Arc::clone(&sectors[at])));
            levels.push(level.collect());
            waiting = rest;
        }
        levels
    }
}
