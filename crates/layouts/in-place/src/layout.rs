//! [`varve_fs::Layout`] for a volume that is updated in place.

use crate::Ffs;
use crate::error::{Error as Inner, Result as InnerResult};
use crate::format::{INLINE_BYTES, Metadata, Place, SECTOR_BYTES, Slot};
use crate::room::Room;
use crate::store::{Newest, Sectors};
use crate::tree::visit;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::Block;
use varve_format::crc32c;
use varve_format::range::must_begin_within;
use varve_fs::planted::{self, Planted};
use varve_fs::{
    Answer, FileKind, Group, Inode, InodeNo, Layout, LayoutGeometry, Mapping, Position, Promise,
    Purpose, Request, Result, StatFs, Unwritten, Usage, Version, View, Waiting,
};

/// Number of blocks of the reserve that must be whole.
const WHOLE_RESERVE: u64 = 64;
/// Maximum number of bytes that one request reads.
const RUN_BYTES: u64 = 1 << 20;

impl Layout for Ffs {
    type Pointer = Place;

    fn geometry(&self) -> LayoutGeometry {
        let geometry = &self.store.geometry;
        let block_bytes = u64::from(geometry.block_bytes);
        LayoutGeometry {
            block_bytes: geometry.block_bytes,
            inline_bytes: INLINE_BYTES,
            xattr_bytes: geometry.block_bytes as usize,
            max_file_bytes: (geometry.file_blocks_max() * block_bytes).min(1 << 60),
            group_bytes: self.prices.group_bytes(),
            // A group that is larger does not fit in the journal.
            bounds_groups: self.metadata() == Metadata::Journal,
            hash_seed: self.superblock.hash_seed.get(),
            case_fold: self.superblock.options & 1 != 0,
            snapshots: false,
            read_only: self.stopped(),
        }
    }

    fn promise(&self) -> Promise {
        match self.metadata() {
            Metadata::Journal => Promise::GroupsButOverwrites,
            Metadata::Synchronous => Promise::Ordered,
            Metadata::Asynchronous => Promise::UntilCommit,
        }
    }

    fn usage(&self) -> Usage {
        self.writer.lock().usage
    }

    fn allocate_inode(&self, near: InodeNo, kind: FileKind) -> Result<(InodeNo, Version)> {
        Ok(self.new_number(near, kind == FileKind::Directory)?)
    }

    fn forget_inode(&self, ino: InodeNo) {
        self.numbers.lock().give_back(ino.0);
    }

    fn read_inode(&self, _view: View, ino: InodeNo) -> Result<Inode> {
        Ok(self.with_image(ino, |_, image| Ok(image.inode.clone()))?)
    }

    fn read_xattrs(&self, _view: View, ino: InodeNo) -> Result<Vec<u8>> {
        // The tables stay locked, so that the space is not given to another file
        // meanwhile.
        Ok(self.with_image(ino, |newest, image| {
            let (place, length) = (image.xattrs, image.inode.xattr_bytes as usize);
            if place.is_none() {
                return Ok(Vec::new());
            }
            let mut bytes = newest.store.read(place.sector(), place.sectors().into())?;
            let found = crc32c(&bytes);
            if found != place.crc() {
                return Err(Inner::BadBlock {
                    ino,
                    block: 0,
                    sector: place.sector(),
                    found,
                    expected: place.crc(),
                });
            }
            bytes.truncate(length);
            Ok(bytes)
        })?)
    }

    fn unfinished(&self) -> Result<Vec<InodeNo>> {
        if planted::is(Planted::OrphansNotFreed) {
            return Ok(Vec::new());
        }
        Ok(self.unfinished.iter().map(|&ino| InodeNo(ino)).collect())
    }

    fn map(
        &self,
        _view: View,
        ino: InodeNo,
        first: u64,
        count: u64,
    ) -> Result<Vec<Mapping<Place>>> {
        let to = first.saturating_add(count);
        Ok(self.with_image(ino, |newest, image| {
            let mut found = Vec::new();
            visit(newest, image, first, to, &mut |block, pointer| {
                found.push(Mapping { block, pointer });
                true
            })?;
            Ok(found)
        })?)
    }

    fn next_mapped(&self, _view: View, ino: InodeNo, from: u64) -> Result<Option<u64>> {
        Ok(self.with_image(ino, |newest, image| {
            let mut next = None;
            visit(newest, image, from, u64::MAX, &mut |block, _| {
                next = Some(block);
                false
            })?;
            Ok(next)
        })?)
    }

    fn read(&self, ino: InodeNo, blocks: &[Mapping<Place>]) -> Result<Vec<Arc<Block>>> {
        Ok(self.read_blocks(ino, blocks)?)
    }

    fn admit(&self, request: &Request) -> Result<Answer> {
        self.writable()?;
        let waiting = &request.waiting;
        if request.writes_back && self.is_short_of(&waiting.unwritten) {
            return Ok(Answer::WriteBack);
        }
        // All operations at once might exceed a record; a single one does not.
        if waiting.operations > 1 && self.prices.all_sectors(waiting) > self.prices.largest_sectors
        {
            return Ok(Answer::Alone);
        }
        Ok(self.fits(request))
    }

    fn make_space(&self, request: &Request) -> Result<Answer> {
        // Space that was given up is free once its record is durable and in place.
        self.write_checkpoint()?;
        Ok(match self.fits(request) {
            Answer::Granted => Answer::Granted,
            _ => Answer::Refused,
        })
    }

    fn gains(&self) -> u64 {
        // Space that was given up is free after a checkpoint.
        self.counts.checkpoints.load(Relaxed)
    }

    fn append(&self, group: Group) -> Result<Position> {
        Ok(self.append_group(group)?)
    }

    fn commit(&self, position: Position) -> Result<()> {
        Ok(self.commit_through(position.0)?)
    }

    fn commit_data(&self, position: Position) -> Result<bool> {
        Ok(self.commit_data_through(position.0)?)
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(self.write_checkpoint()?)
    }

    fn maintain(&self) -> Result<()> {
        if self.stopped().is_some() {
            return Ok(());
        }
        let due = {
            let writer = self.writer.lock();
            let now = self.clock.monotonic_ns();
            let age_s = now.saturating_sub(writer.checkpoint_ns) / 1_000_000_000;
            let changed = writer.head > writer.tail
                || writer.durable < writer.appended
                || !writer.committed.is_empty();
            let journal = self.store.geometry.journal_bytes();
            (writer.head - writer.tail) > journal / 2
                || (changed && age_s >= self.options.checkpoint_seconds)
        };
        match due {
            true => self.checkpoint(),
            false => Ok(()),
        }
    }

    fn statfs(&self, total: Usage) -> StatFs {
        self.answer_statfs(total)
    }

    fn trim(&self, range: Range<u64>, bytes_min: u64) -> Result<u64> {
        let geometry = &self.store.geometry;
        must_begin_within(range.start, geometry.block_byte(geometry.blocks))?;
        Ok(self.trim_free(&range, bytes_min)?)
    }

    fn stop(&self, reason: &str) {
        Ffs::stop(self, reason.to_owned());
    }
}

impl Ffs {
    /// Drops the caches of data that can be read again, for measurements.
    pub fn drop_caches(&self) {
        self.store.drop_caches();
    }

    pub(crate) fn new_number(
        &self,
        near: InodeNo,
        directory: bool,
    ) -> InnerResult<(InodeNo, Version)> {
        let mut taken = self.numbers.lock().allocate(near, directory);
        let is_leaving = || self.numbers.lock().is_leaving();
        if taken.is_none() && !self.rehearsing && is_leaving() {
            // Numbers that were freed can be reused after a commit; the checkpoint
            // waits for it.
            self.write_checkpoint()?;
            taken = self.numbers.lock().allocate(near, directory);
        }
        let (ino, version) = taken.ok_or(Inner::Full)?;
        if let Some(version) = version {
            return Ok((InodeNo(ino), version));
        }
        let tables = self.tables.read();
        let newest = Newest {
            store: &self.store,
            tables: &tables,
        };
        let slot = newest.slot(InodeNo(ino));
        drop(tables);
        let mut numbers = self.numbers.lock();
        match slot {
            Ok(Slot::Free(version)) => {
                numbers.learn(ino, version);
                Ok((InodeNo(ino), version))
            }
            Ok(Slot::Used(_)) => Err(Inner::DamagedInode {
                ino: InodeNo(ino),
                source: varve_format::Malformed::new("inode", "it is in use, its map says free"),
            }),
            Err(error) => Err(error),
        }
    }

    /// Calls `look` with the image of a file while no group is appended, so that the
    /// inode and its indirect blocks are of one moment.
    fn with_image<T>(
        &self,
        ino: InodeNo,
        look: impl FnOnce(&Newest<'_>, &crate::format::Image) -> InnerResult<T>,
    ) -> InnerResult<T> {
        if ino.0 >= self.store.geometry.inodes() || !self.has_file(ino) {
            return Err(Inner::NoInode(ino));
        }
        let tables = self.tables.read();
        let newest = Newest {
            store: &self.store,
            tables: &tables,
        };
        match newest.slot(ino)? {
            Slot::Used(image) => look(&newest, &image),
            Slot::Free(_) => Err(Inner::NoInode(ino)),
        }
    }

    fn has_file(&self, ino: InodeNo) -> bool {
        self.numbers.lock().has_file(ino.0)
    }

    /// Reads blocks; adjacent ones are read by one request. Journalled blocks may be
    /// newer in memory.
    fn read_blocks(&self, ino: InodeNo, blocks: &[Mapping<Place>]) -> InnerResult<Vec<Arc<Block>>> {
        let mut found = Vec::with_capacity(blocks.len());
        let follows = |one: &Mapping<Place>, next: &Mapping<Place>| {
            let (one, next) = (one.pointer, next.pointer);
            !one.is_checked()
                && !next.is_checked()
                && one.sector + u64::from(one.sectors) == next.sector
        };
        let most = RUN_BYTES / u64::from(self.store.geometry.block_bytes);
        for run in blocks.chunk_by(follows) {
            for run in run.chunks(most as usize) {
                let first = run[0];
                if first.pointer.is_checked() {
                    found.push(Arc::new(self.read_checked(ino, &first)?.into()));
                    continue;
                }
                let bytes = run
                    .iter()
                    .map(|mapping| usize::from(mapping.pointer.sectors) * SECTOR_BYTES);
                let read = self.store.read_blocks(first.pointer.sector, bytes)?;
                found.extend(read.into_iter().map(Arc::new));
            }
        }
        Ok(found)
    }

    fn read_checked(&self, ino: InodeNo, mapping: &Mapping<Place>) -> InnerResult<Vec<u8>> {
        let place = mapping.pointer;
        let sectors = u64::from(place.sectors);
        let newer: Vec<_> = {
            let tables = self.tables.read();
            let find = |at: u64| tables.newer.get(&at).cloned();
            (place.sector..place.sector + sectors).map(find).collect()
        };
        let mut bytes = match newer.iter().all(Option::is_some) {
            true => vec![0; sectors as usize * SECTOR_BYTES],
            false => self.store.read(place.sector, sectors)?,
        };
        for (part, newer) in bytes.chunks_exact_mut(SECTOR_BYTES).zip(newer) {
            if let Some(newer) = newer {
                part.copy_from_slice(&newer[..]);
            }
        }
        // A mount that overwrites directories stores none.
        let found = if place.crc == 0 { 0 } else { crc32c(&bytes) };
        match found == place.crc || planted::is(Planted::UncheckedRead) {
            true => Ok(bytes),
            false => Err(Inner::BadBlock {
                ino,
                block: mapping.block,
                sector: place.sector,
                found,
                expected: place.crc,
            }),
        }
    }

    /// Returns whether the pending changes fit now, or would fit after a checkpoint.
    fn fits(&self, request: &Request) -> Answer {
        if request.purpose == Purpose::Shrink {
            return Answer::Granted;
        }
        let need = (self.prices).blocks(&request.waiting, request.purpose == Purpose::Rewrite);
        let writer = self.writer.lock();
        let left = match request.purpose {
            Purpose::Grow => self.blocks_to_grow(&writer.room),
            Purpose::Rewrite | Purpose::Shrink => writer.room.free_blocks(),
        };
        match writer.room.given_up() {
            _ if need <= left => Answer::Granted,
            0 => Answer::Refused,
            _ => Answer::Clean,
        }
    }

    /// Returns true if the pending changes should be appended, because they may take
    /// much of the remaining space.
    fn is_short_of(&self, unwritten: &Unwritten) -> bool {
        if unwritten.bytes == 0 {
            return false;
        }
        let waiting = Waiting {
            unwritten: *unwritten,
            ..Waiting::default()
        };
        let left = self.blocks_to_grow(&self.writer.lock().room);
        self.prices.blocks(&waiting, false) > left / 2
            || self.prices.sectors(unwritten) > self.prices.largest_sectors / 2
    }

    /// Returns the number of free blocks beyond the reserve. Most of the reserve may
    /// consist of fragments; the part that rewrites need must be whole blocks.
    fn blocks_to_grow(&self, room: &Room) -> u64 {
        let geometry = &self.store.geometry;
        let reserve = geometry.reserve_blocks;
        let whole = room
            .free_blocks()
            .saturating_sub(reserve.min(WHOLE_RESERVE));
        let all = room.free_fragments() / geometry.block_fragments();
        whole.min(all.saturating_sub(reserve))
    }

    fn answer_statfs(&self, total: Usage) -> StatFs {
        let geometry = &self.store.geometry;
        let writer = self.writer.lock();
        let fragments = writer.room.free_fragments() + writer.room.given_up();
        let sectors = (fragments * geometry.fragment_sectors()) as i64;
        let more = total.sectors as i64 - writer.usage.sectors as i64;
        let free = (sectors - more).max(0) as u64 / geometry.block_sectors();
        StatFs {
            blocks: geometry.data_blocks() - geometry.reserve_blocks,
            free: free.saturating_sub(geometry.reserve_blocks),
            files: total.inodes,
            files_free: (geometry.inodes() - 2).saturating_sub(total.inodes),
        }
    }
}
