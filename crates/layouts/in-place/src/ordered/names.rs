//! The files for which a commit adds or removes names in a directory.
//!
//! Only blocks that differ are compared. A name that stays in the directory, in another
//! block or with another spelling, counts neither as added nor as removed. A damaged
//! block imposes no order, because a repair writes such directories, too.

use super::SectorMap;
use super::classes::Changed;
use crate::Ffs;
use crate::format::{Image, Place};
use crate::store::{Over, Sectors};
use crate::tree::visit;
use std::collections::{BTreeMap, HashMap, HashSet};
use varve_fs::directory::{Key, names_in};

/// The files, by number, that gain and lose names in a directory.
#[derive(Default)]
pub(super) struct Moved {
    pub gained: HashSet<u64>,
    pub lost: HashSet<u64>,
}

impl Moved {
    /// Adds the files that lose their names because their directory is removed, as the
    /// device has it.
    pub fn lose_what_went_along(&mut self, removed: &HashMap<u64, HashSet<u64>>) {
        let mut gone: Vec<u64> = self.lost.iter().copied().collect();
        while let Some(directory) = gone.pop() {
            for &file in removed.get(&directory).into_iter().flatten() {
                if !self.gained.contains(&file) && self.lost.insert(file) {
                    gone.push(file);
                }
            }
        }
    }
}

impl Ffs {
    pub(super) fn names_moved(&self, sectors: &SectorMap, changed: &Changed) -> Moved {
        let store = &self.store;
        let newer = &SectorMap::new();
        let before = Over { store, newer };
        let after = Over {
            store,
            newer: sectors,
        };
        let old = blocks(&before, &changed.before);
        let new = blocks(&after, &changed.after);
        let mut counts: HashMap<u64, i64> = HashMap::new();
        let mut count = |source: &Over<'_>, blocks: &Blocks, others: &Blocks, by: i64| {
            for (block, place) in blocks {
                if others.get(block) != Some(place) {
                    let key = self.key(&changed.after);
                    for ino in names(source, &key, *block, place) {
                        *counts.entry(ino).or_default() += by;
                    }
                }
            }
        };
        count(&before, &old, &new, -1);
        count(&after, &new, &old, 1);
        let those = |sign: i64| {
            let found = counts.iter().filter(|(_, by)| by.signum() == sign);
            found.map(|(ino, _)| *ino).collect()
        };
        Moved {
            gained: those(1),
            lost: those(-1),
        }
    }

    /// Returns the key of a directory's nodes.
    pub(crate) fn key(&self, image: &Image) -> Key {
        Key {
            hash_seed: self.superblock.hash_seed.get(),
            case_fold: self.superblock.options & 1 != 0,
            ino: image.inode.ino,
            version: image.inode.version,
        }
    }
}

type Blocks = BTreeMap<u64, Place>;

/// Returns the blocks of a file before the first one that cannot be read. A file has at
/// most as many as the volume has fragments.
fn blocks(source: &Over<'_>, image: &Image) -> Blocks {
    let most = source.geometry().fragments();
    let mut found = Blocks::new();
    let _ = visit(source, image, 0, u64::MAX, &mut |block, place| {
        found.insert(block, place);
        (found.len() as u64) < most
    });
    found
}

/// Returns the files that the names in a block lead to, as far as the block can be
/// read.
fn names(source: &Over<'_>, key: &Key, block: u64, place: &Place) -> Vec<u64> {
    let mut bytes = Vec::new();
    for sector in place.sector..place.sector + u64::from(place.sectors) {
        match source.sector(sector) {
            Ok((found, _)) => bytes.extend_from_slice(&found[..]),
            Err(_) => return Vec::new(),
        }
    }
    let mut found = Vec::new();
    let _ = names_in(key, block, &bytes, &mut |_, ino, _| found.push(ino.0));
    found
}
