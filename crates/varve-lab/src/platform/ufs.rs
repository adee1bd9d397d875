//! The write pattern of an update-in-place file system with synchronous
//! metadata: what an FFS of 4 KB blocks and 1 KB fragments asks of its disk
//! (Wang et al. 1999, §4.3), until there is a real layout to take its place.
//!
//! It is no file system: names, inodes and maps live in memory and the blocks
//! hold nothing. What is kept is where each block lies and when it is read and
//! written:
//! - Cylinder groups of 16 cylinders, each with a table of inodes of 128 bytes,
//!   one for each 2 KB of the group, and its bitmaps in one block before it.
//!   A file's blocks follow each other in the group of its inode; a directory's
//!   inodes are in one group; after each 1024 blocks a file goes to the next.
//! - The tail of a file of at most 12 blocks takes fragments. Directories grow by
//!   blocks.
//! - Made: inode, then directory block, synchronously. Removed: directory
//!   block, then inode, synchronously. Bitmaps are written at [`System::sync`].
//! - A synchronous write is one command for each block, then the inode if the
//!   file has grown; an indirect block that is new is written when it is
//!   allocated, and again with a synchronous write that changes it. With
//!   `times`, as under `O_SYNC`, the inode is written every time.
//! - Other writes wait for the end of their cluster of 56 KB if they follow
//!   each other, or for [`System::sync`], which writes in the order of the disk.
//! - After two reads in a row a cluster is read at once, as far as it is
//!   contiguous. A block is read or overwritten once the indirect blocks that
//!   lead to it are in memory. What has been read or written stays there.
//!
//! Deleted blocks are not discarded: the host of the paper had no such command.

mod space;

use super::store::Store;
use super::{BLOCK, System};
use crate::error::LabError;
use space::{FRAGMENTS, Space};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::IoSlice;
use varve_device::Device;

/// Bytes of a fragment.
const FRAGMENT: u64 = 1024;
/// Blocks read or written by one command at most: 56 KB.
const CLUSTER: u64 = 14;
/// Blocks that an inode leads to itself; fragments are only among them.
const DIRECT: u64 = 12;
/// Blocks that an indirect block leads to.
const PER_INDIRECT: u64 = BLOCK / 4;
/// Bytes of a directory entry here.
const ENTRY: u64 = 16;

/// Where a block lies and how much of it there is, in fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    fragment: u64,
    count: u64,
}

#[derive(Debug)]
struct File {
    inode: u64,
    size: u64,
    blocks: Vec<Place>,
    indirect: Vec<u64>,
    /// The next block of sequential reading, and how long it has been so.
    expected: u64,
    in_a_row: u32,
}

/// See the module's head.
#[derive(Debug)]
pub struct Ufs {
    store: Store,
    times: bool,
    space: Space,
    files: HashMap<u32, File>,
    directory: File,
    entries: u64,
    free_entries: BTreeSet<u64>,
    slots: HashMap<u32, u64>,
    /// First fragments of blocks in memory.
    cached: HashSet<u64>,
    /// The same, of those that wait, with their fragments.
    dirty: std::collections::BTreeMap<u64, u64>,
    bytes: Vec<u8>,
}

impl Ufs {
    /// An empty one on the whole of `store`. With `times`, a synchronous write
    /// is followed by its inode.
    pub fn new(store: Store, times: bool) -> Self {
        let mut space = Space::new(
            store.geometry().size / FRAGMENT,
            store.drive().look(|mechanism, _| {
                let geometry = &mechanism.drive().geometry;
                geometry.bytes() / u64::from(geometry.cylinders()) * 16 / FRAGMENT
            }),
        );
        let inode = space.take_inode();
        Ufs {
            store,
            times,
            directory: File::new(inode),
            space,
            files: HashMap::new(),
            entries: 0,
            free_entries: BTreeSet::new(),
            slots: HashMap::new(),
            cached: HashSet::new(),
            dirty: std::collections::BTreeMap::new(),
            bytes: vec![0xa5; (CLUSTER * BLOCK) as usize],
        }
    }

    fn put(&mut self, fragment: u64, count: u64) -> Result<(), LabError> {
        let bytes = &self.bytes[..(count * FRAGMENT) as usize];
        let written = self
            .store
            .write(fragment * FRAGMENT, &[IoSlice::new(bytes)]);
        written.map_err(LabError::system)?;
        self.dirty.remove(&fragment);
        Ok(())
    }

    fn get(&mut self, fragment: u64, count: u64) -> Result<(), LabError> {
        let bytes = &mut self.bytes[..(count * FRAGMENT) as usize];
        let read = self.store.read(fragment * FRAGMENT, bytes);
        read.map_err(LabError::system)
    }

    /// Has a block in memory.
    fn have(&mut self, fragment: u64, count: u64) -> Result<(), LabError> {
        if self.cached.insert(fragment) {
            self.get(fragment, count)?;
        }
        Ok(())
    }

    /// Writes a block of metadata now. It was in memory, or is read.
    fn put_metadata(&mut self, fragment: u64) -> Result<(), LabError> {
        self.have(fragment, FRAGMENTS)?;
        self.put(fragment, FRAGMENTS)
    }

    /// Writes what waits, in the order of the disk, in clusters.
    fn flush(&mut self) -> Result<(), LabError> {
        let waiting = std::mem::take(&mut self.dirty);
        let mut waiting = waiting.into_iter().peekable();
        while let Some((first, mut count)) = waiting.next() {
            while let Some(&(next, more)) = waiting.peek() {
                if next != first + count || count + more > CLUSTER * FRAGMENTS {
                    break;
                }
                count += more;
                waiting.next();
            }
            self.put(first, count)?;
        }
        Ok(())
    }

    /// The directory block of an entry.
    fn entry_block(&mut self, slot: u64) -> Result<u64, LabError> {
        let block = (slot * ENTRY / BLOCK) as usize;
        while self.directory.blocks.len() <= block {
            let fragment = self.space.take_block(self.directory.inode, None)?;
            let count = FRAGMENTS;
            self.directory.blocks.push(Place { fragment, count });
            self.cached.insert(fragment);
            let inode = self.space.inode_block(self.directory.inode);
            self.put_metadata(inode)?;
        }
        let fragment = self.directory.blocks[block].fragment;
        self.have(fragment, FRAGMENTS)?;
        Ok(fragment)
    }

    /// Indirect blocks on the way to a block of a file: the one that leads to
    /// it last.
    fn ways(block: u64) -> std::ops::Range<usize> {
        match block.checked_sub(DIRECT) {
            None => 0..0,
            Some(rest) if rest < PER_INDIRECT => 0..1,
            // The double indirect block comes second, then those below it.
            Some(rest) => 1..(2 + rest / PER_INDIRECT) as usize,
        }
    }

    /// Has the indirect blocks that lead to a block of a file in memory.
    fn have_way(&mut self, file: &File, block: u64) -> Result<(), LabError> {
        let ways = Self::ways(block);
        for way in [ways.start, ways.end.saturating_sub(1)] {
            if ways.contains(&way) {
                self.have(file.indirect[way], FRAGMENTS)?;
            }
        }
        Ok(())
    }

    /// Room for block `block` of a file, of `count` fragments; indirect blocks
    /// that are new are written. True if anything was allocated.
    fn allocate(&mut self, file: &mut File, block: u64, count: u64) -> Result<bool, LabError> {
        let at = block as usize;
        if let Some(place) = file.blocks.get(at).filter(|place| place.count >= count) {
            debug_assert!(place.count <= FRAGMENTS);
            self.have_way(file, block)?;
            return Ok(false);
        }
        assert!(at <= file.blocks.len(), "files have no holes here");
        for way in Self::ways(block) {
            if file.indirect.len() <= way {
                let fragment = self.space.take_block(file.inode, file.last())?;
                file.indirect.push(fragment);
                self.cached.insert(fragment);
                self.put(fragment, FRAGMENTS)?;
            }
        }
        if block > 0 && block.is_multiple_of(PER_INDIRECT) {
            self.space.next_group(file.inode, block / PER_INDIRECT);
        }
        let whole = count == FRAGMENTS || block >= DIRECT;
        let count = if whole { FRAGMENTS } else { count };
        let fragment = match whole {
            true => self.space.take_block(file.inode, file.last())?,
            false => self.space.take_fragments(file.inode, count)?,
        };
        let place = Place { fragment, count };
        match file.blocks.get_mut(at) {
            Some(old) => {
                self.space.give(old.fragment, old.count);
                self.dirty.remove(&old.fragment);
                *old = place;
            }
            None => file.blocks.push(place),
        }
        Ok(true)
    }

    fn write_block(
        &mut self,
        file: &mut File,
        block: u64,
        bytes: u64,
        sync: bool,
    ) -> Result<bool, LabError> {
        let count = match block * BLOCK + bytes >= file.size {
            true => bytes.div_ceil(FRAGMENT),
            false => FRAGMENTS,
        };
        let grown = self.allocate(file, block, count)?;
        let Place { fragment, count } = file.blocks[block as usize];
        self.cached.insert(fragment);
        if sync {
            self.put(fragment, count)?;
            if grown && let Some(way) = Self::ways(block).last() {
                self.put_metadata(file.indirect[way])?;
            }
            return Ok(grown);
        }
        self.dirty.insert(fragment, count);
        if grown && let Some(way) = Self::ways(block).last() {
            self.dirty.insert(file.indirect[way], FRAGMENTS);
        }
        self.write_behind(file, block)?;
        Ok(grown)
    }

    /// Writes the cluster that ends with this block, if all of it waits.
    fn write_behind(&mut self, file: &File, block: u64) -> Result<(), LabError> {
        if !(block + 1).is_multiple_of(CLUSTER) {
            return Ok(());
        }
        let first = block + 1 - CLUSTER;
        let places = &file.blocks[first as usize..=block as usize];
        let waits = |place: &Place| self.dirty.contains_key(&place.fragment);
        if !places.iter().all(waits) {
            return Ok(());
        }
        let mut runs: Vec<Place> = Vec::new();
        for place in places {
            match runs.last_mut() {
                Some(run) if run.fragment + run.count == place.fragment => run.count += place.count,
                _ => runs.push(*place),
            }
        }
        for place in places {
            self.dirty.remove(&place.fragment);
        }
        for run in runs {
            self.put(run.fragment, run.count)?;
        }
        Ok(())
    }

    /// Has a block of a file in memory, and its cluster if it is read in order.
    fn read_block(&mut self, file: &mut File, block: u64) -> Result<(), LabError> {
        file.in_a_row = match file.expected == block {
            true => file.in_a_row + 1,
            false => 0,
        };
        file.expected = block + 1;
        let inode = self.space.inode_block(file.inode);
        self.have(inode, FRAGMENTS)?;
        self.have_way(file, block)?;
        let first = file.blocks[block as usize];
        if self.cached.contains(&first.fragment) {
            return Ok(());
        }
        let most = if file.in_a_row >= 2 { CLUSTER } else { 1 };
        let mut count = 0;
        let rest = file.blocks[block as usize..].iter().take(most as usize);
        for place in rest {
            let follows = place.fragment == first.fragment + count;
            if !follows || !self.cached.insert(place.fragment) {
                break;
            }
            count += place.count;
        }
        self.get(first.fragment, count)
    }

    fn with_file<T>(
        &mut self,
        name: u32,
        work: impl FnOnce(&mut Self, &mut File) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        let file = self.files.remove(&name);
        let mut file = file.ok_or_else(|| LabError::System(format!("there is no file {name}")))?;
        let done = work(self, &mut file);
        self.files.insert(name, file);
        done
    }
}

impl File {
    fn new(inode: u64) -> Self {
        File {
            inode,
            size: 0,
            blocks: Vec::new(),
            indirect: Vec::new(),
            expected: 0,
            in_a_row: 0,
        }
    }

    /// Behind its last block.
    fn last(&self) -> Option<u64> {
        self.blocks.last().map(|place| place.fragment + FRAGMENTS)
    }
}

impl System for Ufs {
    fn create(&mut self, name: u32) -> Result<(), LabError> {
        self.store.cpu().name();
        let inode = self.space.take_inode();
        let block = self.space.inode_block(inode);
        self.put_metadata(block)?;
        let slot = self.free_entries.pop_first().unwrap_or_else(|| {
            self.entries += 1;
            self.entries - 1
        });
        let block = self.entry_block(slot)?;
        self.put(block, FRAGMENTS)?;
        self.slots.insert(name, slot);
        self.files.insert(name, File::new(inode));
        Ok(())
    }

    fn write(&mut self, name: u32, offset: u64, bytes: u32, sync: bool) -> Result<(), LabError> {
        let bytes = u64::from(bytes);
        self.store.cpu().transfer(bytes);
        self.with_file(name, |ufs, file| {
            let (mut at, end) = (offset, offset + bytes);
            let mut grown = false;
            while at < end {
                let here = (end - at).min(BLOCK);
                grown |= ufs.write_block(file, at / BLOCK, here, sync)?;
                file.size = file.size.max(at + here);
                at += here;
            }
            let inode = ufs.space.inode_block(file.inode);
            if sync && (grown || ufs.times) {
                ufs.put_metadata(inode)?;
            } else {
                ufs.have(inode, FRAGMENTS)?;
                ufs.dirty.insert(inode, FRAGMENTS);
            }
            Ok(())
        })
    }

    fn read(&mut self, name: u32, offset: u64, bytes: u32) -> Result<(), LabError> {
        let bytes = u64::from(bytes);
        self.store.cpu().transfer(bytes);
        if let Some(&slot) = self.slots.get(&name) {
            self.entry_block(slot)?;
        }
        self.with_file(name, |ufs, file| {
            let end = (offset + bytes).min(file.size);
            for block in offset / BLOCK..end.div_ceil(BLOCK) {
                ufs.read_block(file, block)?;
            }
            Ok(())
        })
    }

    fn delete(&mut self, name: u32) -> Result<(), LabError> {
        self.store.cpu().name();
        let Some(slot) = self.slots.remove(&name) else {
            return Err(LabError::System(format!("there is no file {name}")));
        };
        let block = self.entry_block(slot)?;
        self.put(block, FRAGMENTS)?;
        self.free_entries.insert(slot);
        let Some(file) = self.files.remove(&name) else {
            return Ok(());
        };
        let inode = self.space.inode_block(file.inode);
        self.put_metadata(inode)?;
        for place in file.blocks {
            self.dirty.remove(&place.fragment);
            self.space.give(place.fragment, place.count);
        }
        for fragment in file.indirect {
            self.dirty.remove(&fragment);
            self.space.give(fragment, FRAGMENTS);
        }
        self.space.give_inode(file.inode);
        Ok(())
    }

    /// They are synchronous.
    fn sync_names(&mut self) -> Result<(), LabError> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), LabError> {
        for bitmaps in self.space.changed_bitmaps() {
            self.dirty.insert(bitmaps, FRAGMENTS);
        }
        self.flush()
    }

    fn forget(&mut self) {
        self.cached = self.dirty.keys().copied().collect();
    }

    fn idle(&mut self, until_ns: u64) -> Result<(), LabError> {
        self.store.idle(until_ns)
    }

    fn store(&self) -> &Store {
        &self.store
    }
}

#[cfg(test)]
mod tests;
