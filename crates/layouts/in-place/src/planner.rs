//! The planner translates a group into changes: the space that it takes and gives up,
//! the places of its data, and the sectors of metadata that change. It writes nothing,
//! and its changes are not visible to readers.

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

/// The space that a group gives up.
#[derive(Debug, Default)]
pub(crate) struct GivenUp {
    /// Space that can be reused once the group is durable.
    pub data: Vec<Extent>,
    /// Space that can be reused after the next checkpoint behind that.
    pub journalled: Vec<Extent>,
}

/// The reasons why a record may have to wait until its data is flushed (rule J1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flush {
    /// Some data is new.
    pub new: bool,
    /// Some data overwrites older data in place.
    pub overwrites: bool,
    /// Names change, and may lead to a file that is overwritten in place.
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

/// Space that was taken for the next blocks of a file.
#[derive(Clone, Debug)]
struct Cluster {
    /// The space in whole blocks, in the order of the file.
    extents: VecDeque<Extent>,
    /// The block that gets the next part of the space.
    next: u64,
}

/// The state of a group while it is planned.
pub(crate) struct Planner<'s, 'r> {
    pub stage: Stage<'s>,
    pub room: &'r mut Room,
    /// Maximum number of blocks of a file that are placed at once.
    maxcontig: u64,
    /// The data, and its places.
    pub writes: Vec<Piece>,
    pub given_up: GivenUp,
    /// The demands of the data on the record.
    pub flush: Flush,
    /// Number of inodes of which only times change; `None` if the group changes
    /// anything else.
    pub only_times: Option<usize>,
    /// If metadata is written in place: blocks of directories and indirect blocks to
    /// which nothing on the device refers. Blocks that are not among them are copied,
    /// not changed (I2).
    fresh: Option<&'r mut HashSet<u64>>,
    directories: Option<&'r mut Directories>,
    cluster: Option<Cluster>,
    /// Number of blocks that the file has, for allocation policies. A block counts from
    /// the moment when it has a place until it is given up; indirect blocks do not
    /// count.
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

    /// Plans a group. `has_file` returns whether a number had a file before the group.
    ///
    /// # Errors
    /// If metadata cannot be read, or the space does not suffice.
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
        let mut blocks = 0;
        for ino in order.iter().filter(|ino| has_file(**ino)) {
            if self.directories.is_some() {
                blocks += self.directory_blocks(*ino, &items[ino])?;
            }
        }
        if let Some(directories) = &mut self.directories {
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
        // The value is a hint for policies and is limited, because a device may say
        // anything.
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
                // Snapshots, and therefore spilled blocks, do not exist in this layout.
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

    /// Returns the fragments of `sectors` sectors at `sector`.
    fn extent(&self, sector: u64, sectors: u64) -> Extent {
        Extent {
            start: self.geometry().fragment_of(sector),
            units: self.geometry().fragments_for(sectors),
        }
    }

    /// Returns true if a block of metadata may be changed in place.
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
            // The planted fault: the space is reused before a commit.
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

    /// Writes attributes to another place, at each change.
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

    /// Adds data for a place; zeros fill the last unit.
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

    /// Returns the preferred place of a file's first block: the beginning of its
    /// inode's group.
    fn home(&self, image: &Image) -> u64 {
        let group = image.inode.ino.0 / self.geometry().group_inodes;
        self.geometry().data_fragments(group).start
    }
}

/// Returns the inode that an item belongs to, and its version.
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
