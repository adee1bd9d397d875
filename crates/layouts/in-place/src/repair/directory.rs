//! A directory that is being repaired: its blocks as they are, and changes that become
//! one group.

use crate::Ffs;
use crate::error::Result;
use crate::format::{Place, SECTOR_BYTES};
use crate::store::Newest;
use crate::tree::visit;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use varve_device::Block;
use varve_fs::directory::{self, DirectoryBlocks, Key, names_in};
use varve_fs::{FileKind, Inode, InodeNo, Item, Layout, Mapping, Timestamp, Usage};

/// A directory during its repair.
pub(super) struct Draft<'a> {
    volume: &'a Ffs,
    pub inode: Inode,
    key: Key,
    /// The blocks on the volume.
    blocks: BTreeMap<u64, Place>,
    /// The new content of changed blocks; `None` for a hole.
    changed: BTreeMap<u64, Option<Vec<u8>>>,
    /// True if the directory is rebuilt, so that the blocks on the volume do not count.
    anew: bool,
}

/// A name, the inode that it leads to, and the kind of file.
pub(super) type Name = (Vec<u8>, InodeNo, FileKind);

impl DirectoryBlocks for Draft<'_> {
    fn read(&mut self, block: u64) -> varve_fs::Result<Arc<Block>> {
        if let Some(changed) = self.changed.get(&block) {
            return Ok(Arc::new(changed.clone().unwrap_or_default().into()));
        }
        let Some(&pointer) = self.blocks.get(&block).filter(|_| !self.anew) else {
            return Ok(Arc::default());
        };
        // A block that cannot be read is treated as damaged, whatever the reason.
        let mapping = Mapping { block, pointer };
        let ino = self.inode.ino;
        let read = Layout::read(self.volume, ino, &[mapping]);
        let mut read = read.map_err(|error| varve_fs::Error::Damaged {
            ino: Some(ino),
            detail: error.to_string(),
        })?;
        Ok(read.pop().unwrap_or_default())
    }

    fn write(&mut self, block: u64, data: Vec<u8>) {
        self.changed.insert(block, Some(data));
    }

    fn free(&mut self, block: u64) {
        self.changed.insert(block, None);
    }

    fn exists(&mut self, block: u64) -> varve_fs::Result<bool> {
        Ok(match self.changed.get(&block) {
            Some(changed) => changed.is_some(),
            None => !self.anew && self.blocks.contains_key(&block),
        })
    }

    fn next_existing(&mut self, from: u64) -> varve_fs::Result<Option<u64>> {
        let changed = self.changed.range(from..);
        let made = changed
            .filter(|(_, data)| data.is_some())
            .map(|(at, _)| *at);
        let kept = self.blocks.range(from..).map(|(at, _)| *at);
        let mut kept = kept.filter(|at| !self.anew && !self.changed.contains_key(at));
        Ok(made.take(1).chain(kept.next()).min())
    }
}

impl<'a> Draft<'a> {
    /// Loads a directory as it is on the volume.
    pub fn of(volume: &'a Ffs, ino: u64) -> Result<Draft<'a>> {
        let image = volume.image(ino)?;
        let tables = volume.tables.read();
        let newest = Newest {
            store: &volume.store,
            tables: &tables,
        };
        let mut blocks = BTreeMap::new();
        visit(&newest, &image, 0, u64::MAX, &mut |block, place| {
            blocks.insert(block, place);
            true
        })?;
        Ok(Draft {
            volume,
            key: volume.key(&image),
            inode: image.inode,
            blocks,
            changed: BTreeMap::new(),
            anew: false,
        })
    }

    /// Returns the names of the directory, and whether its structure is sound. If it is
    /// not, the names are those in the blocks that can be read; of equal names the
    /// first counts.
    pub fn names(&mut self) -> Result<(Vec<Name>, bool)> {
        let key = self.key;
        let mut flaws = 0;
        directory::check(&key, self, &mut |_| flaws += 1).map_err(damaged)?;
        let mut names: Vec<Name> = Vec::new();
        if flaws == 0 {
            let mut note = |name: &[u8], ino: InodeNo, kind: FileKind, _: u64| {
                names.push((name.to_vec(), ino, kind));
                true
            };
            directory::list(&key, self, 0, &mut note).map_err(damaged)?;
            return Ok((names, true));
        }
        let mut seen = HashSet::new();
        let blocks: Vec<u64> = self.blocks.keys().copied().collect();
        for block in blocks {
            let Ok(data) = self.read(block) else { continue };
            // The names before a flaw count.
            let _ = names_in(&key, block, &data, &mut |name, ino, kind| {
                if seen.insert(name.to_vec()) {
                    names.push((name.to_vec(), ino, kind));
                }
            });
        }
        Ok((names, false))
    }

    /// Rebuilds the directory from `names`. Names that cannot be entered are removed
    /// from `names` and returned.
    pub fn make_anew(&mut self, names: &mut Vec<Name>) -> Vec<Name> {
        self.anew = true;
        self.changed.clear();
        let fails = |(name, ino, kind): &mut Name| self.insert(name, *ino, *kind).is_err();
        names.extract_if(.., fails).collect()
    }

    pub fn insert(&mut self, name: &[u8], ino: InodeNo, kind: FileKind) -> Result<()> {
        let key = self.key;
        directory::insert(&key, self, name, ino, kind).map_err(damaged)
    }

    pub fn remove(&mut self, name: &[u8]) -> Result<()> {
        let key = self.key;
        directory::remove(&key, self, name)
            .map(drop)
            .map_err(damaged)
    }

    pub fn find(&mut self, name: &[u8]) -> Result<Option<(InodeNo, FileKind)>> {
        let key = self.key;
        directory::lookup(&key, self, name).map_err(damaged)
    }

    /// Returns the items of the group, and the change of the volume's usage.
    pub fn items(mut self, now: Timestamp) -> (Vec<Item>, impl Fn(Usage) -> Usage) {
        let (ino, version) = (self.inode.ino, self.inode.version);
        let mut sectors: BTreeMap<u64, u64> = match self.anew {
            true => BTreeMap::new(),
            false => {
                let kept = self.blocks.iter();
                kept.map(|(block, place)| (*block, place.sectors.into()))
                    .collect()
            }
        };
        let mut items = Vec::new();
        if self.anew {
            items.push(Item::Truncated {
                ino,
                version,
                from_block: 0,
            });
        }
        let mut blocks = Vec::new();
        for (block, data) in std::mem::take(&mut self.changed) {
            match data {
                Some(data) => {
                    sectors.insert(block, data.len().div_ceil(SECTOR_BYTES) as u64);
                    blocks.push(Item::Block {
                        ino,
                        version,
                        block,
                        data: Arc::new(data.into()),
                        written: now,
                    });
                }
                None => {
                    if sectors.remove(&block).is_some() {
                        items.push(Item::Punched {
                            ino,
                            version,
                            from_block: block,
                            to_block: block + 1,
                        });
                    }
                }
            }
        }
        items.append(&mut blocks);
        let before = (self.inode.blocks, self.inode.sectors);
        let after = (sectors.len() as u64, sectors.values().sum());
        (self.inode.blocks, self.inode.sectors) = after;
        items.push(Item::Inode(Box::new(self.inode)));
        let count = move |usage: Usage| Usage {
            inodes: usage.inodes,
            blocks: (usage.blocks + after.0).saturating_sub(before.0),
            sectors: (usage.sectors + after.1).saturating_sub(before.1),
        };
        (items, count)
    }
}

/// Converts an error of the shared directory code.
fn damaged(error: varve_fs::Error) -> crate::Error {
    match error {
        varve_fs::Error::NoSpace => crate::Error::Full,
        other => crate::Error::Unfit(other.to_string()),
    }
}
