//! Sectors of metadata: on the device, and newer ones in memory.

use crate::error::{Error, Result};
use crate::format::{Geometry, SECTOR_BYTES, Sector, Slot};
use std::collections::{BTreeMap, HashMap};
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::Arc;
use varve_device::{Block, BufferPool, Device, PooledBuffer};
use varve_fs::InodeNo;
use varve_fs::caches::{Cache, cache_of};

/// Memory of one cached sector and its index entry, in bytes, approximately.
const SECTOR_COST: u64 = 640;
/// Number of inodes that are read together. Inodes of files that are created together
/// are adjacent, and between two reads of their table the disk arm moves to the files'
/// content.
const INODES_AT_ONCE: u64 = 32;
/// Number of bytes written by one request.
const WRITE_BYTES: usize = 1 << 20;
/// Number of such requests whose bytes are gathered before they are written in
/// parallel.
const GATHERED: usize = 8;

/// The device, and a cache of its sectors.
pub(crate) struct Store {
    pub device: Arc<dyn Device>,
    pub geometry: Geometry,
    clean: Cache<u64, Arc<Sector>>,
    /// Number of sectors in a unit.
    step: u64,
    /// Buffers for gathered bytes.
    pool: Arc<BufferPool>,
}

/// The first sector of a block of content, and the content.
pub(crate) type Piece = (u64, Arc<Block>);

/// Sectors that differ from the device's, as of the last group appended.
#[derive(Default)]
pub(crate) struct Tables {
    pub newer: HashMap<u64, Arc<Sector>>,
}

/// A source of sectors.
pub(crate) trait Sectors {
    fn geometry(&self) -> &Geometry;

    /// Returns a sector, and whether it has its stored form with a seal.
    fn sector(&self, sector: u64) -> Result<(Arc<Sector>, bool)>;

    /// Returns a sealed sector of `owner`.
    fn sealed(&self, sector: u64, owner: u32, structure: &'static str) -> Result<Arc<Sector>> {
        let (bytes, is_sealed) = self.sector(sector)?;
        if is_sealed {
            let seal = self.geometry().seal(sector, owner);
            seal.check(&bytes, structure)?;
        }
        Ok(bytes)
    }

    /// Returns the content of an inode's sector.
    fn slot(&self, ino: InodeNo) -> Result<Slot> {
        let (sector, _) = self.sector(self.geometry().inode_sector(ino.0))?;
        let decoded = Slot::decode(&sector, self.geometry(), ino);
        decoded.map_err(|source| Error::DamagedInode { ino, source })
    }
}

/// The sectors that readers see.
pub(crate) struct Newest<'a> {
    pub store: &'a Store,
    pub tables: &'a Tables,
}

impl Sectors for Newest<'_> {
    fn geometry(&self) -> &Geometry {
        &self.store.geometry
    }

    fn sector(&self, sector: u64) -> Result<(Arc<Sector>, bool)> {
        match self.tables.newer.get(&sector) {
            Some(found) => Ok((Arc::clone(found), true)),
            None => Ok((self.store.fetch(sector)?, true)),
        }
    }
}

/// The sectors of the device, with newer ones over them.
pub(crate) struct Over<'a> {
    pub store: &'a Store,
    pub newer: &'a BTreeMap<u64, Arc<Sector>>,
}

impl Over<'_> {
    /// Returns adjacent sectors, by one request if all can be read, otherwise one by
    /// one.
    pub fn sectors(&self, first: u64, count: u64) -> impl Iterator<Item = Result<Sector>> {
        let read = self.store.read(first, count);
        (first..first + count).zip(0..).map(move |(at, nth)| {
            match (self.newer.get(&at), &read) {
                (Some(newer), _) => Ok(**newer),
                (None, Ok(bytes)) => Ok(bytes.as_chunks::<SECTOR_BYTES>().0[nth]),
                // The sector that cannot be read may be another one.
                (None, Err(_)) => {
                    let bytes = self.store.read(at, 1)?;
                    Ok(bytes.as_chunks::<SECTOR_BYTES>().0[0])
                }
            }
        })
    }
}

impl Sectors for Over<'_> {
    fn geometry(&self) -> &Geometry {
        &self.store.geometry
    }

    fn sector(&self, sector: u64) -> Result<(Arc<Sector>, bool)> {
        match self.newer.get(&sector) {
            Some(found) => Ok((Arc::clone(found), true)),
            None => Ok((self.store.fetch(sector)?, true)),
        }
    }
}

fn run_bytes(run: &[Piece]) -> usize {
    run.iter().map(|(_, bytes)| bytes.len()).sum()
}

/// Divides pieces into runs that are adjacent, with up to `most` bytes each.
fn runs(pieces: &[Piece], most: usize) -> Vec<&[Piece]> {
    let mut bytes = 0;
    let follows = |one: &Piece, next: &Piece| {
        bytes += one.1.len();
        let end = one.0 + (one.1.len() / SECTOR_BYTES) as u64;
        let goes_on = end == next.0 && bytes + next.1.len() <= most;
        bytes *= usize::from(goes_on);
        goes_on
    };
    pieces.chunk_by(follows).collect()
}

impl Store {
    pub fn new(device: Arc<dyn Device>, geometry: Geometry, cache_bytes: u64) -> Self {
        let sectors = (cache_bytes / SECTOR_COST).max(64) as usize;
        Store {
            device,
            geometry,
            clean: cache_of(sectors),
            step: geometry.unit_sectors(),
            pool: BufferPool::new(WRITE_BYTES, GATHERED),
        }
    }

    /// Reads sectors from the device.
    pub fn read(&self, first: u64, count: u64) -> Result<Vec<u8>> {
        let start = first / self.step * self.step;
        let end = (first + count).next_multiple_of(self.step);
        let mut bytes = vec![0; ((end - start) as usize) * SECTOR_BYTES];
        self.device.read(start * SECTOR_BYTES as u64, &mut bytes)?;
        if start < first {
            bytes.drain(..(first - start) as usize * SECTOR_BYTES);
        }
        bytes.truncate(count as usize * SECTOR_BYTES);
        Ok(bytes)
    }

    /// Reads adjacent blocks with the given lengths, in bytes.
    pub fn read_blocks(
        &self,
        first: u64,
        bytes: impl Iterator<Item = usize> + Clone,
    ) -> Result<Vec<Block>> {
        let aligned = |bytes: usize| bytes.is_multiple_of(self.step as usize * SECTOR_BYTES);
        if first.is_multiple_of(self.step) && bytes.clone().all(aligned) {
            let mut blocks: Vec<Block> = bytes.map(Block::unfilled).collect();
            let mut places: Vec<_> = blocks.iter_mut().map(|b| IoSliceMut::new(b)).collect();
            let offset = first * SECTOR_BYTES as u64;
            self.device.read_vectored(offset, &mut places)?;
            return Ok(blocks);
        }
        let all: usize = bytes.clone().sum();
        let read = self.read(first, (all / SECTOR_BYTES) as u64)?;
        let mut rest = &read[..];
        let next = |bytes| {
            let (block, behind) = rest.split_at(bytes);
            rest = behind;
            Block::from(block)
        };
        Ok(bytes.map(next).collect())
    }

    /// Returns the sectors that are read together with this one: its block, or its
    /// neighbours in a table of inodes.
    fn beside(&self, sector: u64) -> Range<u64> {
        let each = self.geometry.block_sectors();
        let block = sector / each * each;
        let Some(slot) = self.geometry.slot_at(sector) else {
            return block..block + each;
        };
        let table = sector - slot;
        let first = slot / INODES_AT_ONCE * INODES_AT_ONCE;
        let end = (first + INODES_AT_ONCE).min(self.geometry.group_inodes);
        table + first..table + end
    }

    /// Returns a sector of the device, and caches its neighbours, too.
    pub fn fetch(&self, sector: u64) -> Result<Arc<Sector>> {
        if let Some(found) = self.clean.get(&sector) {
            return Ok(found);
        }
        let beside = self.beside(sector);
        let (first, bytes) = match self.read(beside.start, beside.end - beside.start) {
            Ok(bytes) => (beside.start, bytes),
            // The neighbours may be the sectors that cannot be read.
            Err(_) => (sector, self.read(sector, 1)?),
        };
        let mut wanted = None;
        for (at, bytes) in (first..).zip(bytes.as_chunks::<SECTOR_BYTES>().0) {
            let found = Arc::new(*bytes);
            if at == sector {
                wanted = Some(Arc::clone(&found));
            }
            self.clean.insert(at, found);
        }
        wanted.ok_or(Error::Full)
    }

    /// Records that the device now has this sector.
    pub fn is_in_place(&self, sector: u64, bytes: Arc<Sector>) {
        self.clean.insert(sector, bytes);
    }

    /// Drops the cache, whose sectors can be read again.
    pub fn drop_caches(&self) {
        self.clean.clear();
    }

    /// Writes pieces to their places. Adjacent pieces are written together, up to
    /// `most` bytes by one request. Pieces consist of whole blocks of the device.
    pub fn write(&self, pieces: &mut [Piece], most: usize) -> Result<()> {
        pieces.sort_by_key(|(sector, _)| *sector);
        let mut runs = &runs(pieces, most)[..];
        while !runs.is_empty() {
            let mut bytes = 0;
            let fits = |run: &&&[Piece]| {
                bytes += run_bytes(run);
                bytes <= GATHERED * WRITE_BYTES
            };
            let (now, later) = runs.split_at(runs.iter().take_while(fits).count().max(1));
            runs = later;
            // A single piece is written without a copy.
            let gathered = now
                .iter()
                .map(|run| (run.len() > 1).then(|| self.gather(run)));
            let gathered: Vec<Option<PooledBuffer>> = gathered.collect();
            let writes = now.iter().zip(&gathered).map(|(run, gathered)| {
                let bytes = gathered.as_deref().unwrap_or(&run[0].1);
                (run[0].0 * SECTOR_BYTES as u64, bytes)
            });
            let writes: Vec<(u64, &[u8])> = writes.collect();
            self.device.write_many(&writes)?;
        }
        Ok(())
    }

    /// Returns the bytes of adjacent pieces.
    fn gather(&self, run: &[Piece]) -> PooledBuffer {
        let mut buffer = self.pool.take(run_bytes(run));
        let mut rest = &mut buffer[..];
        for (_, bytes) in run {
            let (place, behind) = rest.split_at_mut(bytes.len());
            place.copy_from_slice(bytes);
            rest = behind;
        }
        buffer
    }

    /// Writes sectors, which form whole units, to their places.
    pub fn write_sectors(&self, sectors: &BTreeMap<u64, Arc<Sector>>) -> Result<()> {
        let mut buffers: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut next = 0;
        for (&sector, bytes) in sectors {
            match buffers.last_mut() {
                Some((_, buffer)) if sector == next && buffer.len() < WRITE_BYTES => {
                    buffer.extend_from_slice(&bytes[..]);
                }
                _ => buffers.push((sector * SECTOR_BYTES as u64, bytes.to_vec())),
            }
            next = sector + 1;
        }
        let writes: Vec<(u64, &[u8])> = buffers.iter().map(|(at, b)| (*at, &b[..])).collect();
        Ok(self.device.write_many(&writes)?)
    }

    /// Returns the sectors of the unit that contains this one.
    pub fn unit(&self, sector: u64) -> Range<u64> {
        let first = sector / self.step * self.step;
        first..first + self.step
    }
}
