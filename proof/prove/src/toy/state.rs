//! The state of the toy's volume in memory: the sum of the groups so far.

use super::ToyPointer;
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_device::Block;
use varve_fs::{Error, FileKind, Inode, InodeNo, Item, Result, Timestamp, Usage, Version};

pub(super) struct Stored {
    pub(super) pointer: ToyPointer,
    pub(super) data: Arc<Block>,
}

pub(super) struct File {
    pub(super) inode: Inode,
    pub(super) blocks: BTreeMap<u64, Stored>,
    pub(super) xattrs: Arc<Block>,
}

pub(super) struct State {
    files: BTreeMap<InodeNo, File>,
    /// Free inode numbers below `fresh`, with their next versions.
    free: BTreeMap<InodeNo, Version>,
    fresh: u64,
    next_id: u64,
}

const BLOCK: usize = super::BLOCK_BYTES as usize;

fn blank(ino: InodeNo, version: Version) -> File {
    let mode = FileKind::Directory.mode_bits() | 0o755;
    let inode = Inode {
        nlink: 2,
        parent: InodeNo::ROOT,
        ..Inode::new(ino, version, mode, Timestamp::default())
    };
    File {
        inode,
        blocks: BTreeMap::new(),
        xattrs: Arc::default(),
    }
}

impl State {
    pub(super) fn new() -> Self {
        State {
            files: BTreeMap::from([(InodeNo::ROOT, blank(InodeNo::ROOT, 1))]),
            free: BTreeMap::new(),
            fresh: InodeNo::FIRST.0,
            next_id: 1,
        }
    }

    pub(super) fn file(&self, ino: InodeNo) -> Result<&File> {
        self.files.get(&ino).ok_or(Error::NotFound)
    }

    /// Marks every number below `fresh` that no file has as free, even if no group has
    /// freed it.
    pub(super) fn mounted(&mut self) {
        let used = self
            .files
            .keys()
            .chain(self.free.keys())
            .map(|ino| ino.0 + 1);
        self.fresh = used.max().unwrap_or(0).max(InodeNo::FIRST.0);
        for ino in (InodeNo::FIRST.0..self.fresh).map(InodeNo) {
            if !self.files.contains_key(&ino) {
                self.free.entry(ino).or_insert(1);
            }
        }
    }

    pub(super) fn unfinished(&self) -> Vec<InodeNo> {
        let inodes = self.files.values().map(|file| &file.inode);
        let unfinished = inodes.filter(|inode| inode.is_unfinished());
        unfinished.map(|inode| inode.ino).collect()
    }

    pub(super) fn allocate(&mut self) -> (InodeNo, Version) {
        self.free.pop_first().unwrap_or_else(|| {
            self.fresh += 1;
            (InodeNo(self.fresh - 1), 1)
        })
    }

    pub(super) fn forget(&mut self, ino: InodeNo) {
        self.free.insert(ino, 1);
    }

    pub(super) fn usage(&self) -> Usage {
        let mut usage = Usage {
            inodes: self.files.len() as u64,
            blocks: 0,
            sectors: 0,
        };
        for file in self.files.values() {
            usage.blocks += file.blocks.len() as u64;
            usage.sectors += file.xattrs.len().div_ceil(512) as u64;
            let sectors = file
                .blocks
                .values()
                .map(|stored| u64::from(stored.pointer.sectors));
            usage.sectors += sectors.sum::<u64>();
        }
        usage
    }

    fn change(&mut self, ino: InodeNo, version: Version) -> &mut File {
        self.files.entry(ino).or_insert_with(|| blank(ino, version))
    }

    fn store(&mut self, ino: InodeNo, version: Version, block: u64, data: Option<&Arc<Block>>) {
        let bytes = data.map_or(BLOCK, |data| data.len()).next_multiple_of(512);
        let id = self.next_id;
        self.next_id += 1;
        let pointer = ToyPointer {
            id,
            sectors: (bytes / 512) as u32,
            unwritten: data.is_none(),
        };
        let data = match data {
            Some(whole) if whole.len() == bytes => whole.clone(),
            part => {
                let mut padded = part.map_or_else(Vec::new, |data| data.to_vec());
                padded.resize(bytes, 0);
                Arc::new(padded.into())
            }
        };
        let stored = Stored { pointer, data };
        self.change(ino, version).blocks.insert(block, stored);
    }

    pub(super) fn apply(&mut self, item: &Item) {
        match item {
            Item::Placed { .. } => unreachable!("this layout spills nothing"),
            Item::Freed { ino, next_version } => {
                self.files.remove(ino);
                self.free.insert(*ino, *next_version);
            }
            Item::Truncated {
                ino,
                version,
                from_block,
            } => {
                self.change(*ino, *version).blocks.split_off(from_block);
            }
            Item::Punched {
                ino,
                version,
                from_block,
                to_block,
            } => {
                let blocks = &mut self.change(*ino, *version).blocks;
                blocks.retain(|block, _| !(*from_block..*to_block).contains(block));
            }
            Item::Reserved {
                ino,
                version,
                from_block,
                to_block,
            } => {
                for block in *from_block..*to_block {
                    self.store(*ino, *version, block, None);
                }
            }
            Item::Block {
                ino,
                version,
                block,
                data,
                ..
            } => {
                self.store(*ino, *version, *block, Some(data));
            }
            Item::Xattrs { ino, version, data } => {
                self.change(*ino, *version).xattrs = data.clone();
            }
            Item::Inode(image) => {
                self.free.remove(&image.ino);
                self.change(image.ino, image.version).inode = (**image).clone();
            }
        }
    }

    /// Plants a bug: the first block of one file shows the data of its last block.
    pub(super) fn misplace(&mut self) {
        for file in self.files.values_mut() {
            let regular = file.inode.kind() == FileKind::Regular;
            if let Some((_, last)) = file.blocks.last_key_value().filter(|_| regular) {
                let data = last.data.clone();
                if let Some(mut first) = file.blocks.first_entry() {
                    first.get_mut().data = data;
                }
            }
        }
    }
}
