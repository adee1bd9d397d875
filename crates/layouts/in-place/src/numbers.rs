//! Inode numbers: which have files, and where new ones are allocated. A directory is
//! placed in the cylinder group with the fewest directories among those with more free
//! inodes than the average, a file in its directory's group (McKusick et al. 1984,
//! §3.3).

use crate::bits::Bits;
use crate::format::{BITS_PER_SECTOR, Geometry, GroupMap};
use std::collections::{BTreeSet, HashMap, HashSet};
use varve_fs::{InodeNo, Version};

/// The inode numbers of a volume.
#[derive(Debug)]
pub(crate) struct Numbers {
    geometry: Geometry,
    maps: [Bits; 4],
    /// Numbers that were allocated and whose file is not yet appended.
    taken: HashMap<u64, Version>,
    /// Numbers that were freed by a group that readers do not see yet.
    leaving: HashSet<u64>,
    /// Numbers that got their first file by such a group.
    entering: HashSet<u64>,
    /// Versions that the device does not have: of numbers that were returned unused.
    versions: HashMap<u64, Version>,
    /// For each group: the number of inodes that can be allocated, the number of
    /// directories, and the slot below which none is free.
    groups: Vec<Group>,
    /// Sectors of the inode maps that have changed: group, map, first bit.
    touched: BTreeSet<(u64, GroupMap, u64)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    free: u64,
    directories: u64,
    lowest: u64,
}

/// The first version of a number.
pub(crate) const FIRST_VERSION: Version = 1;

impl Numbers {
    pub fn new(geometry: Geometry, maps: [Bits; 4]) -> Self {
        let each = geometry.group_inodes;
        let group = |nth: u64| {
            let ones = |map: GroupMap| maps[map as usize].count(nth * each..(nth + 1) * each);
            Group {
                free: each - ones(GroupMap::Used),
                directories: ones(GroupMap::Directories),
                lowest: 0,
            }
        };
        let groups = (0..geometry.groups()).map(group).collect();
        Numbers {
            geometry,
            maps,
            taken: HashMap::new(),
            leaving: HashSet::new(),
            entering: HashSet::new(),
            versions: HashMap::new(),
            groups,
            touched: BTreeSet::new(),
        }
    }

    pub fn map(&self, map: GroupMap) -> &Bits {
        &self.maps[map as usize]
    }

    /// Returns true if a commit will free some numbers.
    pub fn is_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Returns the number of inode numbers that can be allocated.
    pub fn free(&self) -> u64 {
        self.groups.iter().map(|group| group.free).sum()
    }

    /// Returns the numbers of free inodes and of directories of each group.
    pub fn by_group(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.groups.iter().map(|g| (g.free, g.directories))
    }

    /// Returns the group for a new directory.
    fn group_for_directory(&self) -> u64 {
        let groups = self.groups.len() as u64;
        let average = self.free() / groups;
        let candidates = (0..groups).filter(|&g| {
            let free = self.groups[g as usize].free;
            free > 0 && free >= average
        });
        candidates
            .min_by_key(|&g| self.groups[g as usize].directories)
            .unwrap_or(0)
    }

    /// Allocates a number for a file in the directory `near`. If the version is `None`,
    /// the inode's sector has it.
    pub fn allocate(&mut self, near: InodeNo, directory: bool) -> Option<(u64, Option<Version>)> {
        let each = self.geometry.group_inodes;
        let home = match directory {
            true => self.group_for_directory(),
            false => (near.0 / each).min(self.geometry.groups() - 1),
        };
        let groups = self.geometry.groups();
        let mut order = (0..groups).map(|step| (home + step) % groups);
        let group = order.find(|&g| self.groups[g as usize].free > 0)?;
        let lowest = self.groups[group as usize].lowest;
        let ino = (group * each + lowest..(group + 1) * each).find(|ino| self.is_free(*ino))?;
        let state = &mut self.groups[group as usize];
        state.free -= 1;
        state.lowest = ino % each + 1;
        let version = self.versions.get(&ino).copied().or_else(|| {
            let touched = self.map(GroupMap::Touched).get(ino);
            (!touched).then_some(FIRST_VERSION)
        });
        self.taken.insert(ino, version.unwrap_or(0));
        Some((ino, version))
    }

    fn is_free(&self, ino: u64) -> bool {
        !self.map(GroupMap::Used).get(ino)
            && !self.taken.contains_key(&ino)
            && !self.leaving.contains(&ino)
    }

    /// Records the version that was read from the inode's sector.
    pub fn learn(&mut self, ino: u64, version: Version) {
        self.taken.insert(ino, version);
    }

    fn put_back(&mut self, ino: u64) {
        let group = &mut self.groups[(ino / self.geometry.group_inodes) as usize];
        group.free += 1;
        group.lowest = group.lowest.min(ino % self.geometry.group_inodes);
    }

    /// Returns a number that was allocated and never used. Its next file gets another
    /// version, because a handle to it may exist.
    pub fn give_back(&mut self, ino: u64) {
        if let Some(version) = self.taken.remove(&ino) {
            self.versions.insert(ino, version.wrapping_add(1));
            self.put_back(ino);
        }
    }

    fn set(&mut self, map: GroupMap, ino: u64, value: bool) {
        if self.map(map).get(ino) == value {
            return;
        }
        self.maps[map as usize].set(ino, value);
        let (group, within) = (
            ino / self.geometry.group_inodes,
            ino % self.geometry.group_inodes,
        );
        if map == GroupMap::Directories {
            let count = &mut self.groups[group as usize].directories;
            *count = if value { *count + 1 } else { *count - 1 };
        }
        let first = within / BITS_PER_SECTOR * BITS_PER_SECTOR;
        self.touched.insert((group, map, first));
    }

    /// Records that a group contains the file of a number.
    pub fn used(&mut self, ino: u64, directory: bool, unfinished: bool) {
        // The root's number is never allocated, and so never counted as free.
        let is_counted = self.taken.remove(&ino).is_none() && !self.leaving.remove(&ino);
        self.versions.remove(&ino);
        if !self.map(GroupMap::Used).get(ino) {
            self.entering.insert(ino);
            let group = &mut self.groups[(ino / self.geometry.group_inodes) as usize];
            group.free -= u64::from(is_counted);
        }
        self.set(GroupMap::Used, ino, true);
        self.set(GroupMap::Touched, ino, true);
        self.set(GroupMap::Directories, ino, directory);
        self.set(GroupMap::Unfinished, ino, unfinished);
    }

    /// Records that a group frees the number. It can be allocated again after
    /// [`Self::left`].
    pub fn freed(&mut self, ino: u64) {
        self.leaving.insert(ino);
        for map in [GroupMap::Used, GroupMap::Directories, GroupMap::Unfinished] {
            self.set(map, ino, false);
        }
    }

    /// Returns true if readers see a file of this number.
    pub fn has_file(&self, ino: u64) -> bool {
        self.map(GroupMap::Used).get(ino) && !self.entering.contains(&ino)
    }

    /// Records that readers see the group.
    pub fn seen(&mut self) {
        self.entering.clear();
    }

    /// Makes the numbers that a group has freed available.
    pub fn left(&mut self, freed: &[u64]) {
        for &ino in freed {
            if self.leaving.remove(&ino) {
                self.put_back(ino);
            }
        }
    }

    /// Marks a sector of a map as different from the device's.
    pub fn touch(&mut self, group: u64, map: GroupMap, first: u64) {
        self.touched.insert((group, map, first));
    }

    /// Returns the map sectors that have changed since the last call.
    pub fn take_touched(&mut self) -> BTreeSet<(u64, GroupMap, u64)> {
        std::mem::take(&mut self.touched)
    }
}
