//! Reading stored blocks: checksums, retries, clustering, windows.
//!
//! Every byte that leaves here has matched the checksum of the pointer that
//! led to it. Bytes that are still on their way to the device are served from
//! the segment writer's buffers, so a reader never waits for a write. When
//! misses are neighbours in the log, as when files are read in the order they
//! were written, a whole window is fetched and later misses are served from
//! it: read-ahead that crosses files.

use crate::durability::Durability;
use crate::error::{Error, Result};
use crate::failures::{FailureKind, FailureOutcome};
use crate::format::ifile::InodePlace;
use crate::format::inode::InodeImage;
use crate::format::node::{Node, NodeId};
use crate::format::{Malformed, Pointer, SECTOR, crc32c};
use crate::geometry::Geometry;
use crate::locks::assert_may_wait;
use crate::statistics::Counters;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use varve_device::sync::{Mutex, RwLock};
use varve_device::{BufferPool, Device, PooledBuffer};
use varve_fs::InodeNo;
use varve_fs::planted::{self, Planted};

/// Bytes fetched at once when misses are neighbours in the log.
const WINDOW_BYTES: u64 = 256 << 10;
/// Windows kept.
const WINDOWS: usize = 16;
/// Most bytes one request reads.
const RUN_BYTES: u64 = (1 << 20) + (64 << 10);
/// Buffers for requests that are kept for the next one.
const POOLED: usize = 8;
/// Attempts at a failing read before giving up.
const ATTEMPTS: u32 = 3;

/// A place in the log, told apart from what stood there before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct MetaKey {
    sector: u64,
    slot: u8,
    incarnation: u32,
}

/// Decoded metadata, verified once.
#[derive(Clone)]
enum Meta {
    Node(NodeId, Arc<Node>),
    Block(Arc<Vec<u8>>),
    Inode(Arc<InodeImage>),
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<MetaKey, Meta> for ByBytes {
    fn weight(&self, _: &MetaKey, value: &Meta) -> u64 {
        match value {
            Meta::Node(..) => 4096 + 64,
            Meta::Block(bytes) => bytes.len() as u64 + 64,
            Meta::Inode(image) => 512 + image.inode.inline.len() as u64,
        }
    }
}

struct Window {
    first_sector: u64,
    bytes: Arc<PooledBuffer>,
}

/// Streams of misses told apart: a file's inode and its data may lie in
/// different places of the log, each read in order.
const STREAMS: usize = 8;

#[derive(Default)]
struct Windows {
    /// Newest last.
    kept: VecDeque<Window>,
    /// Sectors behind recent misses, newest last, one for each stream.
    streams: VecDeque<u64>,
}

impl Windows {
    /// Notes a miss of `sectors` sectors; true if it continues a stream.
    fn note(&mut self, sector: u64, sectors: u64) -> bool {
        let near = |end: &u64| sector.abs_diff(*end) <= WINDOW_BYTES / SECTOR;
        let stream = self.streams.iter().rposition(near);
        match stream {
            Some(stream) => {
                self.streams.remove(stream);
            }
            None if self.streams.len() == STREAMS => {
                self.streams.pop_front();
            }
            None => {}
        }
        self.streams.push_back(sector + sectors);
        stream.is_some()
    }
}

/// Reads stored blocks of one volume.
pub struct Reader {
    device: Arc<dyn Device>,
    geometry: Geometry,
    align: u64,
    meta: Cache<MetaKey, Meta, ByBytes>,
    /// For runs, and for windows.
    pools: [Arc<BufferPool>; 2],
    windows: Mutex<Windows>,
    durability: Arc<Durability>,
    counters: Arc<Counters>,
    patches: Patches,
}

/// What repair knows better than the medium: metadata that cannot be read, as
/// it was found out from elsewhere. Empty in every other use.
#[derive(Default)]
struct Patches {
    any: AtomicBool,
    /// By sector and what should be there.
    nodes: RwLock<ByPlace<NodeId, Node>>,
    /// Of the ifile.
    blocks: RwLock<ByPlace<u64, Vec<u8>>>,
    /// Slot and number.
    inodes: RwLock<ByPlace<(u8, InodeNo), InodeImage>>,
}

type ByPlace<K, V> = HashMap<(u64, K), Arc<V>>;

impl Reader {
    /// A reader that keeps at most `cache_bytes` of decoded metadata.
    pub fn new(
        device: Arc<dyn Device>,
        geometry: Geometry,
        cache_bytes: u64,
        durability: Arc<Durability>,
        counters: Arc<Counters>,
    ) -> Self {
        let align = u64::from(device.geometry().logical_block).max(SECTOR);
        let meta = Cache::with_weighter((cache_bytes / 4096) as usize + 16, cache_bytes, ByBytes);
        Reader {
            device,
            geometry,
            align,
            meta,
            pools: [
                BufferPool::new(RUN_BYTES as usize + 8192, POOLED),
                BufferPool::new(WINDOW_BYTES as usize + 8192, POOLED),
            ],
            windows: Mutex::default(),
            durability,
            counters,
            patches: Patches::default(),
        }
    }

    /// True if something is read otherwise than it is stored.
    pub fn is_patched(&self) -> bool {
        self.patches.any.load(Relaxed)
    }

    /// From now on `pointer` leads to `node`, whatever is stored there.
    pub fn patch_node(&self, pointer: &Pointer, id: NodeId, node: Arc<Node>) {
        self.patches.any.store(true, Relaxed);
        let key = (pointer.sector(), id);
        self.patches.nodes.write().insert(key, node);
    }

    /// What [`Reader::patch_node`] put there.
    pub fn patched_node(&self, pointer: &Pointer, id: NodeId) -> Option<Arc<Node>> {
        if !self.is_patched() {
            return None;
        }
        let nodes = self.patches.nodes.read();
        nodes.get(&(pointer.sector(), id)).map(Arc::clone)
    }

    /// From now on `pointer` leads to this block of the ifile.
    pub fn patch_ifile_block(&self, pointer: &Pointer, block: u64, bytes: Arc<Vec<u8>>) {
        self.patches.any.store(true, Relaxed);
        let key = (pointer.sector(), block);
        self.patches.blocks.write().insert(key, bytes);
    }

    /// From now on this inode stands at `place`.
    pub fn patch_inode(&self, place: &InodePlace, image: Arc<InodeImage>) {
        self.patches.any.store(true, Relaxed);
        let key = (place.sector, (place.slot, image.inode.ino));
        self.patches.inodes.write().insert(key, image);
    }

    fn patched_block(&self, pointer: &Pointer, block: u64) -> Option<Arc<Vec<u8>>> {
        if !self.is_patched() {
            return None;
        }
        let blocks = self.patches.blocks.read();
        blocks.get(&(pointer.sector(), block)).map(Arc::clone)
    }

    fn patched_inode(&self, place: &InodePlace, ino: InodeNo) -> Option<Arc<InodeImage>> {
        if !self.is_patched() {
            return None;
        }
        let inodes = self.patches.inodes.read();
        inodes
            .get(&(place.sector, (place.slot, ino)))
            .map(Arc::clone)
    }

    /// Reads whole sectors from the device, trying again if it fails.
    fn device_read(&self, sector: u64, bytes: &mut [u8]) -> Result<()> {
        assert_may_wait();
        let mut attempt = 1;
        let mut failed = None;
        loop {
            self.counters.device_reads.fetch_add(1, Relaxed);
            self.counters
                .bytes_read
                .fetch_add(bytes.len() as u64, Relaxed);
            let read = || self.device.read(sector * SECTOR, bytes);
            let tried = self.counters.using(read);
            let place = (sector * SECTOR, bytes.len() as u64);
            let segment = self.geometry.segment_of(sector);
            let log = &self.counters.failures;
            match tried {
                Ok(()) => {
                    if let Some(error) = failed {
                        self.counters.reads_cured.fetch_add(1, Relaxed);
                        let cured = FailureOutcome::Cured;
                        log.note(FailureKind::Read, cured, place, segment, error);
                    }
                    return Ok(());
                }
                Err(error) if attempt == ATTEMPTS => {
                    self.counters.reads_failed.fetch_add(1, Relaxed);
                    let lost = FailureOutcome::Failed;
                    log.note(FailureKind::Read, lost, place, segment, &error.source);
                    return Err(error.into());
                }
                Err(error) => {
                    self.counters.read_retries.fetch_add(1, Relaxed);
                    tracing::warn!(%error, attempt, "read failed, trying again");
                    failed = Some(error.source);
                    attempt += 1;
                }
            }
        }
    }

    /// Reads `sectors` sectors from `sector`, aligned as the device needs.
    /// The returned range holds them.
    fn read_aligned(
        &self,
        sector: u64,
        sectors: u64,
    ) -> Result<(PooledBuffer, std::ops::Range<usize>)> {
        let step = self.align / SECTOR;
        let first = sector - sector % step;
        let end = (sector + sectors).next_multiple_of(step);
        let bytes = ((end - first) * SECTOR) as usize;
        let pool = usize::from(bytes <= WINDOW_BYTES as usize + 8192);
        let mut buffer = self.pools[pool].take(bytes);
        self.device_read(first, &mut buffer)?;
        let start = ((sector - first) * SECTOR) as usize;
        Ok((buffer, start..start + (sectors * SECTOR) as usize))
    }

    /// Bytes straight from the device, for recovery, the cleaner and fsck.
    ///
    /// # Errors
    /// If the range is outside the segments or the device fails.
    pub fn read_uncached(&self, sector: u64, bytes: &mut [u8]) -> Result<()> {
        let sectors = (bytes.len() as u64).div_ceil(SECTOR);
        if self.durability.serve(sector, bytes) {
            return Ok(());
        }
        if (sector * SECTOR).is_multiple_of(self.align)
            && (bytes.len() as u64).is_multiple_of(self.align)
        {
            return self.device_read(sector, bytes);
        }
        let (buffer, range) = self.read_aligned(sector, sectors)?;
        bytes.copy_from_slice(&buffer[range][..bytes.len()]);
        Ok(())
    }

    /// Reads stored sectors that must have the checksum `crc`.
    fn read_checked(
        &self,
        sector: u64,
        bytes: &mut [u8],
        crc: u32,
    ) -> Result<std::result::Result<(), u32>> {
        if self.durability.serve(sector, bytes) && crc32c(bytes) == crc {
            return Ok(Ok(()));
        }
        if self.take_from_window(sector, bytes) && crc32c(bytes) == crc {
            self.counters.window_hits.fetch_add(1, Relaxed);
            return Ok(Ok(()));
        }
        self.miss(sector, bytes)?;
        if planted::is(Planted::UncheckedRead) {
            return Ok(Ok(()));
        }
        let mut found = crc32c(bytes);
        if found != crc {
            // The first answer may be a stale window or a transient fault.
            self.counters.checksum_retries.fetch_add(1, Relaxed);
            let first = found;
            self.read_uncached(sector, bytes)?;
            found = crc32c(bytes);
            self.tell_mismatch(sector, bytes.len(), crc, first, found);
        }
        Ok(if found == crc { Ok(()) } else { Err(found) })
    }

    /// Counts and notes a checksum that was `first` and, read again, `found`.
    pub(crate) fn tell_mismatch(
        &self,
        sector: u64,
        bytes: usize,
        want: u32,
        first: u32,
        found: u32,
    ) {
        let (counter, outcome) = if found == want {
            (&self.counters.checksums_cured, FailureOutcome::Cured)
        } else {
            (&self.counters.checksum_failures, FailureOutcome::Failed)
        };
        counter.fetch_add(1, Relaxed);
        let place = (sector * SECTOR, bytes as u64);
        let segment = self.geometry.segment_of(sector);
        let text = format!("checksum {first:#010x}, want {want:#010x}");
        let log = &self.counters.failures;
        log.note(FailureKind::Checksum, outcome, place, segment, text);
    }

    fn take_from_window(&self, sector: u64, bytes: &mut [u8]) -> bool {
        let windows = self.windows.lock();
        let hit = windows.kept.iter().rev().find_map(|window| {
            let offset = (sector.checked_sub(window.first_sector)? * SECTOR) as usize;
            let end = offset.checked_add(bytes.len())?;
            (end <= window.bytes.len()).then(|| (Arc::clone(&window.bytes), offset))
        });
        drop(windows);
        match hit {
            Some((window, offset)) => {
                bytes.copy_from_slice(&window[offset..offset + bytes.len()]);
                true
            }
            None => false,
        }
    }

    /// Reads what no buffer holds: just that, or the window around it when
    /// the last miss was a neighbour.
    fn miss(&self, sector: u64, bytes: &mut [u8]) -> Result<()> {
        let sectors = bytes.len() as u64 / SECTOR;
        let near = self.windows.lock().note(sector, sectors);
        if !near || bytes.len() as u64 >= WINDOW_BYTES {
            return self.read_uncached(sector, bytes);
        }
        let Some(segment) = self.geometry.segment_of(sector) else {
            return self.read_uncached(sector, bytes);
        };
        let end = self.geometry.byte(segment, self.geometry.segment_bytes) / SECTOR;
        let count = (WINDOW_BYTES / SECTOR).min(end - sector).max(sectors);
        let Ok((buffer, range)) = self.read_aligned(sector, count) else {
            // A neighbour may be unreadable; what was asked for may not.
            return self.read_uncached(sector, bytes);
        };
        self.counters.windows_read.fetch_add(1, Relaxed);
        bytes.copy_from_slice(&buffer[range.start..range.start + bytes.len()]);
        let first_sector = sector - range.start as u64 / SECTOR;
        let mut windows = self.windows.lock();
        if windows.kept.len() == WINDOWS {
            windows.kept.pop_front();
        }
        windows.note(sector, count);
        windows.kept.push_back(Window {
            first_sector,
            bytes: Arc::new(buffer),
        });
        Ok(())
    }

    /// Drops windows over a segment that is about to be written anew.
    pub fn forget_segment(&self, segment: u32) {
        let first = self.geometry.byte(segment, 0) / SECTOR;
        let end = self.geometry.byte(segment, self.geometry.segment_bytes) / SECTOR;
        self.windows.lock().kept.retain(|window| {
            let behind = window.first_sector + window.bytes.len() as u64 / SECTOR;
            behind <= first || window.first_sector >= end
        });
    }

    /// Drops everything that could be read again.
    pub fn forget_all(&self) {
        self.meta.clear();
        self.windows.lock().kept.clear();
    }

    fn in_bounds(&self, pointer: &Pointer) -> bool {
        self.geometry
            .within_segment(pointer.sector(), u64::from(pointer.sectors()))
    }

    /// The stored sectors of one data block.
    ///
    /// # Errors
    /// `BadBlock` if they are not what the pointer says; device errors.
    pub fn block(&self, pointer: &Pointer, ino: InodeNo, block: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::from(pointer.sectors()) * SECTOR as usize];
        if pointer.is_unwritten() {
            return Ok(bytes);
        }
        if !self.in_bounds(pointer) {
            return Err(self.bad_pointer(pointer, ino, block));
        }
        let read = self.read_checked(pointer.sector(), &mut bytes, pointer.crc());
        if !matches!(read, Ok(Ok(()))) {
            let byte = pointer.sector() * SECTOR;
            self.counters.failures.attribute(byte, ino, block);
        }
        match read? {
            Ok(()) => Ok(bytes),
            Err(found) => Err(self.bad_block(pointer, ino, block, found)),
        }
    }

    fn bad_pointer(&self, pointer: &Pointer, ino: InodeNo, block: u64) -> Error {
        let problem = format!("{ino}, block {block}: a pointer leads outside of every segment");
        Error::damaged(None, pointer.sector(), Malformed::new("pointer", problem))
    }

    fn bad_block(&self, pointer: &Pointer, ino: InodeNo, block: u64, found: u32) -> Error {
        let sector = pointer.sector();
        let error = Error::BadBlock {
            ino,
            block,
            sector,
            found,
            expected: pointer.crc(),
        };
        tracing::error!(%error, "stored block is damaged");
        error
    }

    /// Several blocks of one file, neighbours on the device in one request.
    ///
    /// # Errors
    /// As [`Reader::block`].
    pub fn run(&self, ino: InodeNo, blocks: &[(u64, Pointer)]) -> Result<Vec<Arc<Vec<u8>>>> {
        let mut contents = Vec::with_capacity(blocks.len());
        let mut rest = blocks;
        while let Some((first, tail)) = rest.split_first() {
            let last = first.1.sector() + RUN_BYTES / SECTOR;
            let more = tail
                .iter()
                .zip(rest)
                .take_while(|(next, before)| {
                    varve_fs::BlockPointer::follows(&next.1, &before.1)
                        && self.in_bounds(&next.1)
                        && next.1.end_sector() <= last
                })
                .count();
            if more == 0 || first.1.is_unwritten() || !self.in_bounds(&first.1) {
                contents.push(Arc::new(self.block(&first.1, ino, first.0)?));
                rest = tail;
                continue;
            }
            let (run, behind) = rest.split_at(more + 1);
            self.read_run(ino, run, &mut contents)?;
            rest = behind;
        }
        Ok(contents)
    }

    fn read_run(
        &self,
        ino: InodeNo,
        run: &[(u64, Pointer)],
        contents: &mut Vec<Arc<Vec<u8>>>,
    ) -> Result<()> {
        let first = run[0].1.sector();
        let sectors = run[run.len() - 1].1.end_sector() - first;
        if self.durability.overlaps(first, sectors) {
            for (block, pointer) in run {
                contents.push(Arc::new(self.block(pointer, ino, *block)?));
            }
            return Ok(());
        }
        let (buffer, range);
        let mut small;
        let mut fresh = true;
        let bytes: &[u8] = if sectors * SECTOR >= WINDOW_BYTES {
            (buffer, range) = self.read_aligned(first, sectors)?;
            self.windows.lock().note(first, sectors);
            &buffer[range]
        } else {
            small = vec![0; (sectors * SECTOR) as usize];
            if self.take_from_window(first, &mut small) {
                self.counters.window_hits.fetch_add(1, Relaxed);
                fresh = false;
            } else {
                self.miss(first, &mut small)?;
            }
            &small
        };
        for (block, pointer) in run {
            let start = ((pointer.sector() - first) * SECTOR) as usize;
            let stored = &bytes[start..start + pointer.stored_bytes() as usize];
            let found = crc32c(stored);
            if found == pointer.crc() {
                contents.push(Arc::new(stored.to_vec()));
                continue;
            }
            contents.push(Arc::new(self.block(pointer, ino, *block)?));
            if fresh {
                self.counters.checksum_retries.fetch_add(1, Relaxed);
                let (sector, want) = (pointer.sector(), pointer.crc());
                self.tell_mismatch(sector, stored.len(), want, found, want);
                let byte = sector * SECTOR;
                self.counters.failures.attribute(byte, ino, *block);
            }
        }
        Ok(())
    }

    /// An index node.
    ///
    /// # Errors
    /// If it is damaged or is another node; device errors.
    pub fn node(&self, pointer: &Pointer, id: NodeId) -> Result<Arc<Node>> {
        let key = MetaKey {
            sector: pointer.sector(),
            slot: 0xff,
            incarnation: pointer.incarnation(),
        };
        if let Some(node) = self.patched_node(pointer, id) {
            return Ok(node);
        }
        // A second pointer to a node is not answered from memory: decoding
        // refuses it, so that no crafted index is larger than its volume.
        if let Some(Meta::Node(place, node)) = self.meta.get(&key)
            && place == id
        {
            return Ok(node);
        }
        let bytes = self.block(pointer, id.ino, id.index)?;
        let node = Node::decode(&bytes, id).map_err(|source| {
            Error::damaged(
                self.geometry.segment_of(pointer.sector()),
                pointer.sector(),
                source,
            )
        })?;
        let node = Arc::new(node);
        self.meta.insert(key, Meta::Node(id, Arc::clone(&node)));
        Ok(node)
    }

    /// Keeps a node that has just been written.
    pub fn keep_node(&self, pointer: &Pointer, id: NodeId, node: Arc<Node>) {
        let key = MetaKey {
            sector: pointer.sector(),
            slot: 0xff,
            incarnation: pointer.incarnation(),
        };
        self.meta.insert(key, Meta::Node(id, node));
    }

    /// A block of the ifile, filled up to the block size.
    ///
    /// # Errors
    /// As [`Reader::block`].
    pub fn ifile_block(&self, pointer: &Pointer, block: u64) -> Result<Arc<Vec<u8>>> {
        let key = MetaKey {
            sector: pointer.sector(),
            slot: 0xfe,
            incarnation: pointer.incarnation(),
        };
        if let Some(bytes) = self.patched_block(pointer, block) {
            return Ok(bytes);
        }
        if let Some(Meta::Block(bytes)) = self.meta.get(&key) {
            return Ok(bytes);
        }
        let mut bytes = self.block(pointer, InodeNo::IFILE, block)?;
        bytes.resize(self.geometry.block_bytes as usize, 0);
        let bytes = Arc::new(bytes);
        self.meta.insert(key, Meta::Block(Arc::clone(&bytes)));
        Ok(bytes)
    }

    /// Keeps an ifile block that has just been written.
    pub fn keep_ifile_block(&self, pointer: &Pointer, bytes: Arc<Vec<u8>>) {
        let key = MetaKey {
            sector: pointer.sector(),
            slot: 0xfe,
            incarnation: pointer.incarnation(),
        };
        self.meta.insert(key, Meta::Block(bytes));
    }

    /// An inode image.
    ///
    /// # Errors
    /// If it is damaged or is another inode; device errors.
    pub fn inode(&self, place: &InodePlace, ino: InodeNo) -> Result<Arc<InodeImage>> {
        if let Some(image) = self.patched_inode(place, ino) {
            return Ok(image);
        }
        if let Some(image) = self.cached_inode(place)
            && image.inode.ino == ino
        {
            return Ok(image);
        }
        let bytes = self.inode_bytes(place, ino)?;
        let image = InodeImage::decode(&bytes, ino).map_err(|source| {
            Error::damaged(self.geometry.segment_of(place.sector), place.sector, source)
        })?;
        let image = Arc::new(image);
        self.keep_inode(place, Arc::clone(&image));
        Ok(image)
    }

    /// An inode image, if no device need be asked.
    pub fn cached_inode(&self, place: &InodePlace) -> Option<Arc<InodeImage>> {
        match self.meta.get(&inode_key(place)) {
            Some(Meta::Inode(image)) => Some(image),
            _ => None,
        }
    }

    /// Keeps an inode image whose place is known.
    pub fn keep_inode(&self, place: &InodePlace, image: Arc<InodeImage>) {
        self.meta.insert(inode_key(place), Meta::Inode(image));
    }

    /// The stored bytes of an inode, verified.
    ///
    /// # Errors
    /// As [`Reader::inode`].
    pub fn inode_bytes(&self, place: &InodePlace, ino: InodeNo) -> Result<Vec<u8>> {
        let inode_bytes = self.geometry.inode_bytes as usize;
        let offset = usize::from(place.slot) * inode_bytes;
        let sectors = ((offset + inode_bytes) as u64).div_ceil(SECTOR);
        let damaged = |problem: String| {
            Error::damaged(
                self.geometry.segment_of(place.sector),
                place.sector,
                Malformed::new("inode", format!("{ino}: {problem}")),
            )
        };
        if !self.geometry.within_segment(place.sector, sectors) {
            return Err(damaged(
                "the inode map leads outside of every segment".into(),
            ));
        }
        let mut bytes = vec![0; (sectors * SECTOR) as usize];
        let cut = |bytes: &[u8]| bytes[offset..offset + inode_bytes].to_vec();
        // The checksum covers the inode alone, so each source is tried in turn.
        if self.durability.serve(place.sector, &mut bytes) && crc32c(&cut(&bytes)) == place.crc {
            return Ok(cut(&bytes));
        }
        if self.take_from_window(place.sector, &mut bytes) && crc32c(&cut(&bytes)) == place.crc {
            self.counters.window_hits.fetch_add(1, Relaxed);
            return Ok(cut(&bytes));
        }
        let byte = place.sector * SECTOR;
        let whose = |_: &Error| self.counters.failures.attribute(byte, ino, 0);
        self.miss(place.sector, &mut bytes).inspect_err(whose)?;
        let first = crc32c(&cut(&bytes));
        if first != place.crc {
            self.counters.checksum_retries.fetch_add(1, Relaxed);
            self.read_uncached(place.sector, &mut bytes)
                .inspect_err(whose)?;
            let found = crc32c(&cut(&bytes));
            self.tell_mismatch(place.sector, inode_bytes, place.crc, first, found);
            self.counters.failures.attribute(byte, ino, 0);
        }
        let found = crc32c(&cut(&bytes));
        if found == place.crc {
            Ok(cut(&bytes))
        } else {
            Err(damaged(format!(
                "checksum is {found:#010x}, want {:#010x}",
                place.crc
            )))
        }
    }
}

fn inode_key(place: &InodePlace) -> MetaKey {
    MetaKey {
        sector: place.sector,
        slot: place.slot,
        incarnation: place.incarnation,
    }
}
