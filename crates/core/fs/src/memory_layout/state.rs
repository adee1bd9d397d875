//! The effect of a group on a volume, and the rules that groups must obey.

use super::{FIRST_VERSION, MemoryOptions, MemoryPointer, SECTOR_BYTES, XATTR_BYTES};
use crate::inode::{Inode, flags};
use crate::layout::{Group, Item, Usage};
use crate::types::{FileKind, InodeNo, Timestamp, Version};
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_device::Block;

/// A block's place, and its content unless it is unwritten.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub pointer: MemoryPointer,
    pub data: Option<Arc<Block>>,
}

/// One file as last appended.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub inode: Inode,
    pub blocks: BTreeMap<u64, Stored>,
    pub xattrs: Arc<Block>,
}

/// The volume after some group.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub files: BTreeMap<InodeNo, File>,
    /// Numbers that had a file, and the version of the next one.
    pub freed: BTreeMap<InodeNo, Version>,
    pub usage: Usage,
    pub next_id: u64,
    /// Counts writes, which every state sees in the same order, and no moves.
    pub next_birth: u64,
}

/// Progress of a group with one inode; items must not step back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Records,
    Blocks(u64),
    Image,
    Freed,
}

impl State {
    /// An empty root directory.
    pub fn new(made: Timestamp) -> State {
        let root = File {
            inode: root_inode(made),
            blocks: BTreeMap::new(),
            xattrs: Arc::default(),
        };
        State {
            files: BTreeMap::from([(InodeNo::ROOT, root)]),
            freed: BTreeMap::new(),
            usage: Usage {
                inodes: 1,
                ..Usage::default()
            },
            next_id: 1,
            next_birth: 1,
        }
    }

    /// Applies a group, asserting every rule it must obey. `taken` are the numbers that
    /// may be used for new files; `None` allows any.
    pub fn apply(
        &mut self,
        options: &MemoryOptions,
        group: &Group,
        mut taken: Option<&mut BTreeMap<InodeNo, Version>>,
    ) {
        let mut stages: BTreeMap<InodeNo, Stage> = BTreeMap::new();
        // New files without an image yet.
        let mut new: BTreeMap<InodeNo, (Version, File)> = BTreeMap::new();
        let mut before = Usage::default();
        for item in &group.items {
            let (ino, version, stage) = place(item);
            if !stages.contains_key(&ino) {
                before = add(before, self.count(ino));
            }
            advance(&mut stages, ino, stage, matches!(item, Item::Xattrs { .. }));
            if !self.files.contains_key(&ino) && !new.contains_key(&ino) {
                if let Some(taken) = &mut taken {
                    let given = taken.remove(&ino);
                    assert_eq!(given, Some(version), "{ino:?} was not allocated so");
                }
                new.insert(ino, (version, blank(ino, version)));
            }
            self.apply_item(options, item, version, &mut new);
        }
        for (ino, stage) in &stages {
            assert!(
                matches!(stage, Stage::Image | Stage::Freed),
                "{ino:?} changed in a group without its image"
            );
        }
        assert!(new.is_empty());
        let after = stages.keys().map(|ino| self.count(*ino));
        let after = after.fold(Usage::default(), add);
        self.usage.inodes = self.usage.inodes + after.inodes - before.inodes;
        self.usage.blocks = self.usage.blocks + after.blocks - before.blocks;
        self.usage.sectors = self.usage.sectors + after.sectors - before.sectors;
        assert_eq!(self.usage, group.usage, "usage: counted and announced");
    }

    fn apply_item(
        &mut self,
        options: &MemoryOptions,
        item: &Item,
        version: Version,
        new: &mut BTreeMap<InodeNo, (Version, File)>,
    ) {
        let (ino, ..) = place(item);
        let known = self.files.contains_key(&ino);
        let file = match self.files.get_mut(&ino) {
            Some(file) => file,
            None => &mut new.get_mut(&ino).expect("made by the caller").1,
        };
        assert_eq!(file.inode.version, version, "{ino:?}: version of {item:?}");
        let ids = (&mut self.next_id, &mut self.next_birth);
        let block_bytes = options.block_bytes as usize;
        match item {
            Item::Freed { next_version, .. } => {
                assert!(known, "{ino:?} freed but never appended: forget it instead");
                assert_ne!(ino, InodeNo::ROOT);
                self.files.remove(&ino);
                self.freed.insert(ino, *next_version);
            }
            Item::Truncated { from_block, .. } => {
                file.blocks.split_off(from_block);
            }
            Item::Punched {
                from_block,
                to_block,
                ..
            } => {
                assert!(from_block < to_block, "{ino:?}: {item:?}");
                let mut rest = file.blocks.split_off(from_block);
                file.blocks.append(&mut rest.split_off(to_block));
            }
            Item::Reserved {
                from_block,
                to_block,
                ..
            } => {
                assert!(from_block < to_block, "{ino:?}: {item:?}");
                let over = file.blocks.range(*from_block..*to_block).next();
                assert!(over.is_none(), "{ino:?}: {item:?} over block {over:?}");
                for block in *from_block..*to_block {
                    let stored = Stored {
                        pointer: pointer(
                            (&mut *ids.0, &mut *ids.1),
                            sectors_for(block_bytes),
                            true,
                        ),
                        data: None,
                    };
                    file.blocks.insert(block, stored);
                }
            }
            Item::Block { block, data, .. } => {
                assert!(!data.is_empty() && data.len() <= block_bytes);
                let stored = Stored {
                    pointer: pointer(ids, sectors_for(data.len()), false),
                    data: Some(whole_sectors(data)),
                };
                file.blocks.insert(*block, stored);
            }
            Item::Placed { .. } => panic!("{item:?} stands for blocks"),
            Item::Xattrs { data, .. } => {
                assert!(data.len() <= XATTR_BYTES, "{ino:?}: attributes too large");
                file.xattrs = Arc::clone(data);
            }
            Item::Inode(image) => {
                check_image(options, image, file);
                file.inode = (**image).clone();
                if let Some((_, file)) = new.remove(&ino) {
                    self.freed.remove(&ino);
                    self.files.insert(ino, file);
                }
            }
        }
    }

    /// Usage of one file; zero if the number is free.
    fn count(&self, ino: InodeNo) -> Usage {
        self.files.get(&ino).map_or(Usage::default(), |file| Usage {
            inodes: 1,
            blocks: file.blocks.len() as u64,
            sectors: block_sectors(file) + u64::from(sectors_for(file.xattrs.len())),
        })
    }
}

fn add(a: Usage, b: Usage) -> Usage {
    Usage {
        inodes: a.inodes + b.inodes,
        blocks: a.blocks + b.blocks,
        sectors: a.sectors + b.sectors,
    }
}

/// Inode number of an item, its version, and its stage in the group.
fn place(item: &Item) -> (InodeNo, Version, Stage) {
    match item {
        Item::Freed { ino, next_version } => (*ino, next_version.wrapping_sub(1), Stage::Freed),
        Item::Truncated { ino, version, .. }
        | Item::Punched { ino, version, .. }
        | Item::Reserved { ino, version, .. }
        | Item::Placed { ino, version, .. }
        | Item::Xattrs { ino, version, .. } => (*ino, *version, Stage::Records),
        Item::Block {
            ino,
            version,
            block,
            ..
        } => (*ino, *version, Stage::Blocks(*block)),
        Item::Inode(image) => (image.ino, image.version, Stage::Image),
    }
}

/// Checks the order: records, then blocks by ascending number, then the image; attributes
/// anywhere before the image; no item after the image or the freeing.
fn advance(stages: &mut BTreeMap<InodeNo, Stage>, ino: InodeNo, next: Stage, xattrs: bool) {
    let Some(now) = stages.get_mut(&ino) else {
        stages.insert(ino, next);
        return;
    };
    if xattrs {
        assert!(*now < Stage::Image, "{ino:?}: attributes after {now:?}");
        return;
    }
    let records = *now == Stage::Records && next == Stage::Records;
    let freed = *now == Stage::Records && next == Stage::Freed;
    let onwards = *now < next && next < Stage::Freed;
    assert!(
        records || freed || onwards,
        "{ino:?}: {next:?} after {now:?}"
    );
    *now = next;
}

fn check_image(options: &MemoryOptions, image: &Inode, file: &File) {
    let ino = image.ino;
    let kind = FileKind::from_mode(image.mode);
    assert!(kind.is_some(), "{ino:?}: mode {:o}", image.mode);
    assert_eq!(image.blocks, file.blocks.len() as u64, "{ino:?}: blocks");
    assert_eq!(image.sectors, block_sectors(file), "{ino:?}: sectors");
    assert_eq!(image.xattr_bytes as usize, file.xattrs.len(), "{ino:?}");
    assert!(image.size <= options.max_file_bytes, "{ino:?}: too large");
    if image.flags & flags::INLINE != 0 {
        assert!(
            image.inline.len() <= options.inline_bytes,
            "{ino:?}: inline"
        );
    } else {
        assert!(image.inline.is_empty(), "{ino:?}: inline without the flag");
    }
}

fn block_sectors(file: &File) -> u64 {
    let sectors = file.blocks.values().map(|s| u64::from(s.pointer.sectors));
    sectors.sum()
}

fn pointer(next: (&mut u64, &mut u64), sectors: u32, unwritten: bool) -> MemoryPointer {
    let (id, birth) = (*next.0, *next.1);
    *next.0 += 1;
    *next.1 += 1;
    MemoryPointer {
        id,
        birth,
        sectors,
        unwritten,
    }
}

/// `data` with zeros to the end of its last sector.
pub(super) fn whole_sectors(data: &Arc<Block>) -> Arc<Block> {
    if data.len().is_multiple_of(SECTOR_BYTES) {
        return Arc::clone(data);
    }
    let mut whole = (**data).clone();
    whole.resize(data.len().next_multiple_of(SECTOR_BYTES));
    Arc::new(whole)
}

/// A new file before its image is applied.
fn blank(ino: InodeNo, version: Version) -> File {
    let inode = Inode {
        ino,
        version,
        ..root_inode(Timestamp::default())
    };
    File {
        inode,
        blocks: BTreeMap::new(),
        xattrs: Arc::default(),
    }
}

pub(super) fn root_inode(made: Timestamp) -> Inode {
    let mode = FileKind::Directory.mode_bits() | 0o755;
    Inode {
        nlink: 2,
        parent: InodeNo::ROOT,
        ..Inode::new(InodeNo::ROOT, FIRST_VERSION, mode, made)
    }
}

fn sectors_for(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(SECTOR_BYTES)).expect("a block is far smaller")
}
