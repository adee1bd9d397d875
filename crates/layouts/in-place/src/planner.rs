//! From a group to what it changes: which room it takes and gives up, which data
//! goes where, which sectors of metadata change. Nothing is written here, and no
//! reader sees any of it.

mod blocks;
mod places;

use crate::allocate::Extent;
use crate::error::{Error, Result};
use crate::format::{Geometry, Image, Place, Slot};
use crate::room::Room;
use crate::stage::Stage;
use crate::store::{Piece, Sectors};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use varve_device::Block;
use varve_format::{Pointer, crc32c};
use varve_fs::planted::{self, Planted};
use varve_fs::{FileKind, Group, InodeNo, Item, Version, flags};

/// What a group gives up.
#[derive(Debug, Default)]
pub(crate) struct GivenUp {
    /// Given out again once the group is durable.
    pub data: Vec<Extent>,
    /// Given out again after the checkpoint behind that.
    pub journalled: Vec<Extent>,
}

/// Whether a record waits until its data has been flushed (rule J1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flush {
    /// Some of it is new.
    pub new: bool,
    /// Some of it is written over what was there.
    pub overwrites: bool,
    /// Names change: perhaps to lead to what is written over.
    pub names: bool,
}

impl Flush {
    pub fn add(&mut self, other: Flush) {
        self.new |= other.new;
        self.overwrites |= other.overwrites;
        self.names |= other.names;
    }

    pub fn is_due(self) -> bool {
        self.new || (self.overwrites && self.names)
    }
}

/// Directory blocks of the next commit, on a mount that overwrites them.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    /// Sectors of the one block that is overwritten. A commit overwrites one at most,
    /// because two of them would have no order.
    pub overwritten: Option<Range<u64>>,
    /// A block was copied. Changes after that are copied, too, because the overwritten
    /// block is written before the copies are referred to.
    pub copied: bool,
    /// The group that is planned changes a single block of a directory.
    is_single: bool,
}

/// Room that was taken for blocks to come.
#[derive(Clone, Debug)]
struct Cluster {
    /// Whole blocks, in the order of the file.
    extents: VecDeque<Extent>,
    /// The block that is next.
    next: u64,
}

/// A group being planned.
pub(crate) struct Planner<'s, 'r> {
    pub stage: Stage<'s>,
    pub room: &'r mut Room,
    /// Blocks of a file that are placed at once, at most.
    maxcontig: u64,
    /// Data, and where it goes.
    pub writes: Vec<Piece>,
    pub given_up: GivenUp,
    /// What its data asks of the record.
    pub flush: Flush,
    /// Inodes of which it changes times and nothing else; none if it changes more.
    pub only_times: Option<usize>,
    /// Where metadata is written in place: blocks of directories and indirect ones
    /// that nothing on the device leads to yet. Others are copied, not changed (I2).
    fresh: Option<&'r mut HashSet<u64>>,
    directories: Option<&'r mut Directories>,
    cluster: Option<Cluster>,
    /// Blocks that the file has, at any moment: those that it gets count as soon as they
    /// have a place, those that it gives up no longer, indirect ones never. Only policies
    /// go by it.
    held: u64,
    /// The block that was placed last.
    last: Option<(u64, Place)>,
}

impl<'s, 'r> Planner<'s, 'r> {
    pub fn new(
        stage: Stage<'s>,
        room: &'r mut Room,
        maxcontig: u64,
        fresh: Option<&'r mut HashSet<u64>>,
        directories: Option<&'r mut Directories>,
    ) -> Self {
        Planner {
            fresh,
            directories,
            stage,
            room,
            maxcontig,
            writes: Vec::new(),
            given_up: GivenUp::default(),
            flush: Flush::default(),
            only_times: Some(0),
            cluster: None,
            held: 0,
            last: None,
        }
    }

    fn geometry(&self) -> &Geometry {
        self.stage.geometry()
    }

    /// Plans a group. `has_file` knows which numbers have a file before it.
    ///
    /// # Errors
    /// If metadata cannot be read, or there is no room.
    pub fn group(&mut self, group: &Group, has_file: &dyn Fn(InodeNo) -> bool) -> Result<()> {
        let mut order = Vec::new();
        let mut items: HashMap<InodeNo, Vec<&Item>> = HashMap::new();
        for item in &group.items {
            let (ino, _) = owner(item);
            let of_ino = items.entry(ino).or_default();
            if of_ino.is_empty() {
                order.push(ino);
            }
            of_ino.push(item);
        }
        if self.directories.is_some() {
            let mut blocks = 0;
            for ino in order.iter().filter(|ino| has_file(**ino)) {
                blocks += self.directory_blocks(*ino, &items[ino])?;
            }
            let directories = self.directories.as_mut().expect("just seen");
            directories.is_single = blocks == 1;
        }
        for ino in order {
            self.file(ino, &items[&ino], !has_file(ino))?;
        }
        Ok(())
    }

    /// How many blocks of an existing directory items change; many, if they free some.
    fn directory_blocks(&self, ino: InodeNo, items: &[&Item]) -> Result<usize> {
        let kind = match self.stage.slot(ino)? {
            Slot::Used(image) => image.inode.kind(),
            Slot::Free(_) => return Ok(0),
        };
        let of_item = |item: &&Item| match item {
            Item::Block { .. } => 1,
            Item::Truncated { .. } | Item::Punched { .. } => 2,
            _ => 0,
        };
        Ok(match kind {
            FileKind::Directory => items.iter().map(of_item).sum(),
            _ => 0,
        })
    }

    /// True if the block of a directory is overwritten with as many sectors, although the
    /// device refers to it.
    fn overwrites(&mut self, old: &Place, sectors: u64) -> bool {
        let Some(directories) = &mut self.directories else {
            return false;
        };
        let range = old.sector..old.sector + sectors;
        let is_only = directories.overwritten.as_ref().is_none_or(|o| *o == range);
        let overwrites = directories.is_single
            && !directories.copied
            && is_only
            && old.crc == 0
            && u64::from(old.sectors) == sectors;
        match overwrites {
            true => directories.overwritten = Some(range),
            false => directories.copied = true,
        }
        overwrites
    }

    fn file(&mut self, ino: InodeNo, items: &[&Item], is_new: bool) -> Result<()> {
        let (_, version) = owner(items[0]);
        let mut image = match is_new {
            true => Image::blank(ino, version),
            false => match self.stage.slot(ino)? {
                Slot::Used(image) => *image,
                Slot::Free(_) => return Err(Error::NoInode(ino)),
            },
        };
        let before = (!is_new).then(|| image.clone());
        let after = items.iter().find_map(|item| match item {
            Item::Inode(inode) => Some(inode),
            _ => None,
        });
        let kind = after.map_or(image.inode.kind(), |inode| inode.kind());
        let journalled = kind == FileKind::Directory;
        let grows = is_new || after.is_some_and(|inode| inode.size > image.inode.size);
        self.last = None;
        // It is a hint for policies, whatever the device says.
        self.held = image.inode.blocks.min(self.geometry().fragments());
        for (nth, item) in items.iter().enumerate() {
            match item {
                Item::Truncated { from_block, .. } => {
                    self.clear(&mut image, *from_block, u64::MAX, journalled)?;
                }
                Item::Punched {
                    from_block,
                    to_block,
                    ..
                } => self.clear(&mut image, *from_block, *to_block, journalled)?,
                Item::Reserved {
                    from_block,
                    to_block,
                    ..
                } => self.reserve(&mut image, *from_block, *to_block)?,
                Item::Xattrs { data, .. } => self.attributes(&mut image, data)?,
                Item::Block { block, data, .. } => {
                    let ahead = self.blocks_ahead(&items[nth..]);
                    self.flush.new |= grows && !journalled;
                    self.block(&mut image, (*block, data), ahead, journalled)?;
                }
                // Nothing is ever spilled here.
                Item::Placed { .. } => {}
                Item::Inode(inode) => {
                    if inode.flags & flags::INLINE != 0 {
                        self.clear(&mut image, 0, u64::MAX, journalled)?;
                    }
                    image.inode = (**inode).clone();
                    let sector = self.geometry().inode_sector(ino.0);
                    let bytes = image.encode(self.geometry());
                    self.stage.put(sector, bytes);
                }
                Item::Freed { next_version, .. } => {
                    self.clear(&mut image, 0, u64::MAX, journalled)?;
                    self.drop_attributes(&mut image);
                    let sector = self.geometry().inode_sector(ino.0);
                    let bytes = Slot::free(self.geometry(), ino, *next_version);
                    self.stage.put(sector, bytes);
                }
            }
        }
        self.end_cluster();
        let is_same = before.is_some_and(|before| before.is_but_for_times(&image));
        let is_same = is_same && after.is_some();
        self.only_times = self.only_times.filter(|_| is_same).map(|files| files + 1);
        Ok(())
    }

    /// The room at a place.
    fn extent(&self, sector: u64, sectors: u64) -> Extent {
        Extent {
            start: self.geometry().fragment_of(sector),
            units: self.geometry().fragments_for(sectors),
        }
    }

    /// True if a block of metadata may be changed where it is.
    fn is_fresh(&self, place: &Place) -> bool {
        let fresh = self.fresh.as_ref();
        fresh.is_none_or(|fresh| fresh.contains(&place.sector))
    }

    fn note_fresh(&mut self, sector: u64) {
        if let Some(fresh) = &mut self.fresh {
            fresh.insert(sector);
        }
    }

    pub fn give_up(&mut self, extent: Extent, journalled: bool) {
        self.room.give_up(extent);
        match journalled {
            true => {
                let first = self.geometry().fragment_sector(extent.start);
                let sectors = extent.units * self.geometry().fragment_sectors();
                (first..first + sectors).for_each(|sector| self.stage.forget(sector));
                self.given_up.journalled.push(extent);
            }
            // Nobody has to wait for it.
            false if planted::is(Planted::ReuseUncommitted) => self.room.release(extent),
            false => self.given_up.data.push(extent),
        }
    }

    fn drop_attributes(&mut self, image: &mut Image) {
        let old = std::mem::replace(&mut image.xattrs, Pointer::NONE);
        if !old.is_none() {
            let extent = self.extent(old.sector(), old.sectors().into());
            self.give_up(extent, false);
        }
    }

    /// Attributes go to another place each time.
    fn attributes(&mut self, image: &mut Image, data: &[u8]) -> Result<()> {
        self.drop_attributes(image);
        if data.is_empty() {
            return Ok(());
        }
        let sectors = data.len().div_ceil(512) as u64;
        let near = self.home(image);
        let fragments = self.geometry().fragments_for(sectors);
        let extent = self.room.take_alone(near, fragments).ok_or(Error::Full)?;
        let sector = self.geometry().fragment_sector(extent.start);
        let bytes = self.data(sector, &Arc::new(Block::from(data)));
        let crc = crc32c(&bytes[..sectors as usize * 512]);
        image.xattrs = Pointer::new(sector, sectors as u8, crc, 0, 0);
        self.flush.new = true;
        Ok(())
    }

    /// Notes data for a place; zeros follow to the end of the unit.
    fn data(&mut self, sector: u64, data: &Arc<Block>) -> Arc<Block> {
        let whole = data
            .len()
            .next_multiple_of(self.geometry().unit_bytes as usize);
        let bytes = match whole == data.len() {
            true => Arc::clone(data),
            false => {
                let mut bytes = Block::with_room(whole);
                bytes.extend_from_slice(data);
                bytes.resize(whole);
                Arc::new(bytes)
            }
        };
        self.writes.push((sector, Arc::clone(&bytes)));
        bytes
    }

    /// Where the first block of a file goes: the beginning of its inode's group.
    fn home(&self, image: &Image) -> u64 {
        let group = image.inode.ino.0 / self.geometry().group_inodes;
        self.geometry().data_fragments(group).start
    }
}

/// Whose an item is, and which version it has.
fn owner(item: &Item) -> (InodeNo, Version) {
    match item {
        Item::Freed { ino, next_version } => (*ino, next_version.wrapping_sub(1)),
        Item::Truncated { ino, version, .. }
        | Item::Punched { ino, version, .. }
        | Item::Reserved { ino, version, .. }
        | Item::Block { ino, version, .. }
        | Item::Placed { ino, version, .. }
        | Item::Xattrs { ino, version, .. } => (*ino, *version),
        Item::Inode(inode) => (inode.ino, inode.version),
    }
}

#[cfg(test)]
mod tests;
