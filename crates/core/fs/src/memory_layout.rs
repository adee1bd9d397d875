//! A layout that keeps everything in memory: the second implementation of the interface.
//!
//! It is meant to be obviously right rather than fast: one lock, ordered maps, and an
//! assertion for every rule that [`crate::Item`] and [`crate::Group`] document. A file
//! system that runs on it and on a log cannot depend on how a log works.
//!
//! Invariants:
//! - `live` is the state after every appended group; `durable` the state after every
//!   committed one; `pending` the groups between them. Both states are made by the same
//!   function, [`State::apply`].
//! - A broken rule is a bug of the caller and panics. `append` never answers `Damaged`.

mod history;
mod state;
mod volume;

use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::layout::{
    Answer, BlockPointer, Group, Item, Layout, LayoutGeometry, Mapping, Position, Purpose, Request,
    StatFs, Usage, VolumeSnapshot,
};
use crate::types::{FileKind, InodeNo, SnapshotNo, SpillNo, Timestamp, Version, View};
use history::History;
use state::{File, State};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use varve_device::Block;
use varve_device::sync::Mutex;
use volume::{Numbers, Spill, Volume};

/// Bytes in a sector.
const SECTOR_BYTES: usize = 512;
/// Most bytes of extended attributes.
const XATTR_BYTES: usize = 255 * SECTOR_BYTES;
/// Space that one inode takes, in bytes.
const INODE_PRICE_BYTES: u64 = 256;
/// Version of a number's first file.
const FIRST_VERSION: Version = 1;

/// Parameters of a [`MemoryLayout`].
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// Growing operations are refused beyond this size. A sector takes 512 bytes, an
    /// inode 256. Default 1 GiB.
    pub capacity_bytes: u64,
    /// Bytes in a logical block, a power of two from 512. Default 4096.
    pub block_bytes: u32,
    /// Bytes of content that an inode itself can contain. Default 128.
    pub inline_bytes: usize,
    /// Most bytes in a file. Default 2^60.
    pub max_file_bytes: u64,
    /// Payload bytes after which the file system closes a group. Default 1 MiB.
    pub group_bytes: u64,
    /// Seed of directory hashes. Default 0.
    pub hash_seed: u64,
    /// Names compare without regard to case. Default false.
    pub case_fold: bool,
    /// The times of the root directory. Default 1970.
    pub made: Timestamp,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        MemoryOptions {
            capacity_bytes: 1 << 30,
            block_bytes: 4096,
            inline_bytes: 128,
            max_file_bytes: 1 << 60,
            group_bytes: 1 << 20,
            hash_seed: 0,
            case_fold: false,
            made: Timestamp::default(),
        }
    }
}

/// A block's place: a number that no other content ever had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPointer {
    id: u64,
    /// Number of the write that made the content.
    birth: u64,
    sectors: u32,
    unwritten: bool,
}

impl BlockPointer for MemoryPointer {
    fn sectors(&self) -> u32 {
        self.sectors
    }

    fn unwritten(&self) -> bool {
        self.unwritten
    }

    fn place(&self) -> u64 {
        self.id
    }

    fn follows(&self, previous: &Self) -> bool {
        previous.id.checked_add(1) == Some(self.id)
    }

    fn same_write(&self, other: &Self) -> bool {
        self.birth == other.birth
    }
}

/// A layout in memory, with its durable and pending states.
#[derive(Debug)]
pub struct MemoryLayout {
    options: MemoryOptions,
    unfinished: Vec<InodeNo>,
    volume: Mutex<Volume>,
}

impl MemoryLayout {
    /// An empty volume: a root directory (mode 0755, owned by root, no blocks), durable.
    ///
    /// # Panics
    /// If `block_bytes` is not a power of two of at least 512.
    pub fn new(options: MemoryOptions) -> Self {
        assert!(options.block_bytes.is_power_of_two());
        assert!(options.block_bytes as usize >= SECTOR_BYTES);
        let state = State::new(options.made);
        Self::mount(options, state, History::default())
    }

    /// The volume after a crash: the state at the last committed position, mounted anew.
    /// `self` is unchanged.
    pub fn crash(&self) -> MemoryLayout {
        let committed = self.committed();
        self.crash_after(committed)
    }

    /// The volume after a crash if all groups up to `survived` reached the medium.
    ///
    /// # Panics
    /// If `survived` is not between [`Self::committed`] and [`Self::appended`]: a crash
    /// neither loses a committed group nor finds one that was never appended.
    pub fn crash_after(&self, survived: Position) -> MemoryLayout {
        let volume = self.volume.lock();
        assert!(volume.committed <= survived && survived <= volume.appended);
        let mut state = volume.durable.clone();
        for (_, group) in volume.pending.iter().take_while(|(p, _)| *p <= survived) {
            // The numbers were checked when they were allocated, before the crash.
            state.apply(&self.options, group, None);
        }
        Self::mount(self.options.clone(), state, volume.history.clone())
    }

    /// The position of the last group appended.
    pub fn appended(&self) -> Position {
        self.volume.lock().appended
    }

    /// The position up to which groups survive a crash.
    pub fn committed(&self) -> Position {
        self.volume.lock().committed
    }

    /// Moves every written block, as a cleaner does. Mappings made before this are no
    /// longer readable.
    pub fn move_blocks(&self) {
        let state = &mut self.volume.lock().live;
        for stored in state.files.values_mut().flat_map(|f| f.blocks.values_mut()) {
            stored.pointer.id = state.next_id;
            state.next_id += 1;
        }
    }

    /// Refuses writes from now on, as after a failed flush. Groups that are not committed
    /// will never be.
    pub fn refuse_writes(&self, reason: &str) {
        self.volume.lock().read_only = Some(reason.to_owned());
    }

    fn mount(options: MemoryOptions, state: State, history: History) -> Self {
        let used = state.files.keys().chain(state.freed.keys());
        let fresh = used.map(|ino| ino.0 + 1).max().unwrap_or(0);
        let fresh = fresh.max(InodeNo::FIRST.0);
        let mut free = state.freed.clone();
        for ino in (InodeNo::FIRST.0..fresh).map(InodeNo) {
            if !state.files.contains_key(&ino) {
                free.entry(ino).or_insert(FIRST_VERSION);
            }
        }
        let unfinished = state
            .files
            .values()
            .map(|file| &file.inode)
            .filter(|inode| inode.is_unfinished())
            .map(|inode| inode.ino)
            .collect();
        let volume = Volume {
            durable: state.clone(),
            live: state,
            pending: VecDeque::new(),
            appended: Position(0),
            committed: Position(0),
            numbers: Numbers {
                free,
                taken: BTreeMap::new(),
                fresh,
            },
            snapshots: BTreeMap::new(),
            next_snapshot: 1,
            history,
            opened: BTreeMap::new(),
            spills: BTreeMap::new(),
            next_spill: 1,
            read_only: None,
        };
        MemoryLayout {
            options,
            unfinished,
            volume: Mutex::new(volume),
        }
    }

    /// Gives up every snapshot, as when space is short.
    pub fn break_snapshots(&self) {
        self.volume.lock().snapshots.clear();
    }

    /// Gives up every spill that is not kept, as when space is short.
    pub fn break_spills(&self) {
        self.volume.lock().spills.retain(|_, spill| spill.kept);
    }

    /// Number of blocks that are spilled and part of no file.
    pub fn spilled_blocks(&self) -> usize {
        let volume = self.volume.lock();
        volume.spills.values().map(|spill| spill.blocks.len()).sum()
    }

    /// Number of snapshots that are not released.
    pub fn snapshots(&self) -> usize {
        self.volume.lock().snapshots.len()
    }

    /// Calls `look` with a file.
    fn with_file<T>(&self, view: View, ino: InodeNo, look: impl FnOnce(&File) -> T) -> Result<T> {
        let volume = self.volume.lock();
        let file = volume.state(view)?.files.get(&ino);
        file.map(look).ok_or(Error::NotFound)
    }
}

fn price_bytes(usage: Usage) -> u64 {
    let data = usage.sectors.saturating_mul(SECTOR_BYTES as u64);
    data.saturating_add(usage.inodes.saturating_mul(INODE_PRICE_BYTES))
}

impl Layout for MemoryLayout {
    type Pointer = MemoryPointer;

    fn geometry(&self) -> LayoutGeometry {
        LayoutGeometry {
            block_bytes: self.options.block_bytes,
            inline_bytes: self.options.inline_bytes,
            xattr_bytes: XATTR_BYTES,
            max_file_bytes: self.options.max_file_bytes,
            group_bytes: self.options.group_bytes,
            bounds_groups: false,
            hash_seed: self.options.hash_seed,
            case_fold: self.options.case_fold,
            snapshots: true,
            read_only: self.volume.lock().read_only.clone(),
        }
    }

    fn usage(&self) -> Usage {
        self.volume.lock().live.usage
    }

    /// Allocates the least free number, so that numbers are reused as soon as possible.
    fn allocate_inode(&self, _near: InodeNo, _kind: FileKind) -> Result<(InodeNo, Version)> {
        let numbers = &mut self.volume.lock().numbers;
        let (ino, version) = numbers.free.pop_first().unwrap_or_else(|| {
            numbers.fresh += 1;
            (InodeNo(numbers.fresh - 1), FIRST_VERSION)
        });
        numbers.taken.insert(ino, version);
        Ok((ino, version))
    }

    /// The next file with this number gets the next version all the same, because a
    /// handle with this version may exist.
    fn forget_inode(&self, ino: InodeNo) {
        let numbers = &mut self.volume.lock().numbers;
        let version = numbers.taken.remove(&ino);
        let version = version.expect("only an allocated number can be forgotten");
        numbers.free.insert(ino, version.wrapping_add(1));
    }

    fn read_inode(&self, view: View, ino: InodeNo) -> Result<Inode> {
        self.with_file(view, ino, |file| file.inode.clone())
    }

    fn read_xattrs(&self, view: View, ino: InodeNo) -> Result<Vec<u8>> {
        self.with_file(view, ino, |file| file.xattrs.to_vec())
    }

    fn unfinished(&self) -> Result<Vec<InodeNo>> {
        Ok(self.unfinished.clone())
    }

    fn map(
        &self,
        view: View,
        ino: InodeNo,
        first: u64,
        count: u64,
    ) -> Result<Vec<Mapping<MemoryPointer>>> {
        self.with_file(view, ino, |file| {
            let blocks = file.blocks.range(first..first.saturating_add(count));
            blocks
                .map(|(&block, stored)| Mapping {
                    block,
                    pointer: stored.pointer,
                })
                .collect()
        })
    }

    fn next_mapped(&self, view: View, ino: InodeNo, from: u64) -> Result<Option<u64>> {
        self.with_file(view, ino, |file| {
            file.blocks.range(from..).next().map(|(b, _)| *b)
        })
    }

    fn snapshot(&self) -> Result<SnapshotNo> {
        let volume = &mut *self.volume.lock();
        let live = volume.live.clone();
        Ok(volume.new_snapshot(live))
    }

    fn release_snapshot(&self, snapshot: SnapshotNo) {
        let volume = &mut *self.volume.lock();
        volume.snapshots.remove(&snapshot);
        volume.opened.remove(&snapshot);
    }

    fn volume_snapshots(&self) -> Result<Vec<VolumeSnapshot>> {
        Ok(self.volume.lock().history.list())
    }

    fn create_volume_snapshot(&self, name: &str) -> Result<VolumeSnapshot> {
        self.checkpoint()?;
        Ok(self.volume.lock().take(name))
    }

    fn delete_volume_snapshots(&self, numbers: &[u32]) -> Result<()> {
        self.checkpoint()?;
        self.volume.lock().delete(numbers)
    }

    fn rename_volume_snapshot(&self, number: u32, name: &str) -> Result<()> {
        self.checkpoint()?;
        self.volume.lock().history.rename(number, name)
    }

    fn open_volume_snapshot(&self, number: u32) -> Result<SnapshotNo> {
        self.volume.lock().open(number)
    }

    fn changed_inodes(&self, from: u32, to: Option<u32>) -> Result<Vec<InodeNo>> {
        self.volume.lock().changed_inodes(from, to)
    }

    fn snapshot_bytes(&self) -> Result<Vec<(u32, u64)>> {
        let volume = self.volume.lock();
        Ok(volume.history.bytes(&volume.live))
    }

    fn read(&self, ino: InodeNo, blocks: &[Mapping<MemoryPointer>]) -> Result<Vec<Arc<Block>>> {
        let volume = self.volume.lock();
        let states = || std::iter::once(&volume.live).chain(volume.snapshots.values());
        if states().all(|state| !state.files.contains_key(&ino)) {
            return Err(Error::NotFound);
        }
        let read_one = |wanted: &Mapping<MemoryPointer>| {
            let files = states().filter_map(|state| state.files.get(&ino));
            let found = files
                .filter_map(|file| file.blocks.get(&wanted.block))
                .find(|stored| stored.pointer == wanted.pointer);
            let stored = found.ok_or_else(|| Error::Damaged {
                ino: Some(ino),
                detail: format!("block {} is no longer at {wanted:?}", wanted.block),
            })?;
            let zeros = || Arc::new(vec![0; stored.pointer.sectors as usize * SECTOR_BYTES].into());
            Ok(stored.data.clone().unwrap_or_else(zeros))
        };
        blocks.iter().map(read_one).collect()
    }

    fn spill(&self, blocks: Vec<Item>) -> Result<SpillNo> {
        let volume = &mut *self.volume.lock();
        if let Some(reason) = &volume.read_only {
            return Err(Error::ReadOnly(reason.clone()));
        }
        for item in &blocks {
            let Item::Block { data, .. } = item else {
                panic!("{item:?} was spilled");
            };
            assert!(!data.is_empty() && data.len() <= self.options.block_bytes as usize);
        }
        let number = SpillNo(volume.next_spill);
        volume.next_spill += 1;
        let kept = false;
        volume.spills.insert(number, Spill { blocks, kept });
        Ok(number)
    }

    fn read_spill(
        &self,
        _first: (InodeNo, u64),
        spill: SpillNo,
        blocks: Range<u32>,
    ) -> Result<Vec<Arc<Block>>> {
        let volume = self.volume.lock();
        let spill = volume.spills.get(&spill).ok_or(Error::Aborted)?;
        let whole = |index| state::whole_sectors(spill.data(index));
        Ok(blocks.map(whole).collect())
    }

    fn keep_spills(&self, spills: &[SpillNo]) -> Result<()> {
        let all = &mut self.volume.lock().spills;
        if spills.iter().any(|spill| !all.contains_key(spill)) {
            return Err(Error::Aborted);
        }
        for spill in spills {
            all.entry(*spill).and_modify(|spill| spill.kept = true);
        }
        Ok(())
    }

    fn release_spill(&self, spill: SpillNo) {
        self.volume.lock().spills.remove(&spill);
    }

    fn admit(&self, request: &Request) -> Result<Answer> {
        if let Some(reason) = &self.volume.lock().read_only {
            return Err(Error::ReadOnly(reason.clone()));
        }
        Ok(match request.purpose {
            Purpose::Shrink => Answer::Granted,
            _ if price_bytes(request.total) > self.options.capacity_bytes => Answer::Refused,
            Purpose::Grow | Purpose::Rewrite => Answer::Granted,
        })
    }

    fn append(&self, group: Group) -> Result<Position> {
        let volume = &mut *self.volume.lock();
        if let Some(reason) = &volume.read_only {
            return Err(Error::ReadOnly(reason.clone()));
        }
        let group = volume.with_spilled(group);
        let taken = &mut volume.numbers.taken;
        volume.live.apply(&self.options, &group, Some(taken));
        for item in &group.items {
            if let Item::Freed { ino, next_version } = item {
                volume.numbers.free.insert(*ino, *next_version);
            }
        }
        volume.appended.0 += 1;
        volume.pending.push_back((volume.appended, group));
        Ok(volume.appended)
    }

    fn commit(&self, position: Position) -> Result<()> {
        let volume = &mut *self.volume.lock();
        assert!(position <= volume.appended, "{position:?} was not appended");
        if position <= volume.committed {
            return Ok(());
        }
        if let Some(reason) = &volume.read_only {
            return Err(Error::ReadOnly(reason.clone()));
        }
        while let Some((at, group)) = volume.pending.pop_front_if(|(at, _)| *at <= position) {
            volume.durable.apply(&self.options, &group, None);
            volume.committed = at;
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<()> {
        let appended = self.appended();
        self.commit(appended)
    }

    fn maintain(&self) -> Result<()> {
        Ok(())
    }

    fn statfs(&self, total: Usage) -> StatFs {
        let free_bytes = self
            .options
            .capacity_bytes
            .saturating_sub(price_bytes(total));
        let block_bytes = u64::from(self.options.block_bytes);
        StatFs {
            blocks: self.options.capacity_bytes / block_bytes,
            free: free_bytes / block_bytes,
            files: total.inodes,
            files_free: free_bytes / INODE_PRICE_BYTES,
        }
    }

    fn stop(&self, reason: &str) {
        self.refuse_writes(reason);
    }
}

#[cfg(test)]
mod tests;
