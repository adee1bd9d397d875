//! Which files a commit gives names in a directory, and from which it takes some.
//!
//! Only blocks that differ are looked at. A name that stays in the directory, in
//! another block or spelled anew, is neither given nor taken.

use super::SectorMap;
use super::classes::{Changed, Committed};
use crate::Ffs;
use crate::error::Result;
use crate::format::{Image, Place};
use crate::store::Sectors;
use crate::tree::visit;
use std::collections::{BTreeMap, HashMap, HashSet};
use varve_fs::directory::{Key, names_in};

/// Files by number.
#[derive(Default)]
pub(super) struct Moved {
    pub gained: HashSet<u64>,
    pub lost: HashSet<u64>,
}

impl Ffs {
    pub(super) fn names_moved(&self, sectors: &SectorMap, changed: &Changed) -> Result<Moved> {
        let before = Committed {
            volume: self,
            sectors: None,
        };
        let after = Committed {
            volume: self,
            sectors: Some(sectors),
        };
        let old = blocks(&before, &changed.before)?;
        let new = blocks(&after, &changed.after)?;
        let mut counts: HashMap<u64, i64> = HashMap::new();
        let mut count = |source: &Committed<'_>, blocks: &Blocks, others: &Blocks, by: i64| {
            for (block, place) in blocks {
                if others.get(block) != Some(place) {
                    let key = self.key(&changed.after);
                    for ino in names(source, &key, *block, place)? {
                        *counts.entry(ino).or_default() += by;
                    }
                }
            }
            Ok::<(), crate::Error>(())
        };
        count(&before, &old, &new, -1)?;
        count(&after, &new, &old, 1)?;
        let those = |sign: i64| {
            let found = counts.iter().filter(|(_, by)| by.signum() == sign);
            found.map(|(ino, _)| *ino).collect()
        };
        Ok(Moved {
            gained: those(1),
            lost: those(-1),
        })
    }

    /// What a directory's nodes carry.
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

fn blocks(source: &Committed<'_>, image: &Image) -> Result<Blocks> {
    let mut found = Blocks::new();
    visit(source, image, 0, u64::MAX, &mut |block, place| {
        found.insert(block, place);
        true
    })?;
    Ok(found)
}

/// The files that the names in a block lead to, as far as it can be read.
fn names(source: &Committed<'_>, key: &Key, block: u64, place: &Place) -> Result<Vec<u64>> {
    let mut bytes = Vec::new();
    for sector in place.sector..place.sector + u64::from(place.sectors) {
        bytes.extend_from_slice(&source.sector(sector)?.0[..]);
    }
    let mut found = Vec::new();
    // A damaged block gives nothing an order: whoever reads it is told.
    let _ = names_in(key, block, &bytes, &mut |_, ino, _| found.push(ino.0));
    Ok(found)
}
