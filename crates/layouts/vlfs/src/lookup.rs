//! Reading: units are verified by their checksums, and newer state in memory is found
//! before them.

use crate::error::{Error, Result};
use crate::format::{Entry, Extent, Image, Measures, Node, NodeId, Place};
use crate::near::Near;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use varve_format::{Malformed, SECTOR, crc32c};
use varve_fs::caches::{Cache, cache_of};
use varve_fs::{InodeNo, Version};
use varve_vlog::{Access, Medium};

/// Number of attempts to read.
const READS: usize = 3;

/// The device, and caches of decoded metadata by place and checksum.
pub struct Store {
    pub medium: Arc<dyn Medium>,
    pub measures: Measures,
    nodes: Cache<(u64, u32), Arc<Node>>,
    images: Cache<(u64, u32), Arc<Image>>,
    /// Units near metadata that was read, and near data.
    near: Near,
    near_data: Near,
}

impl Store {
    /// Creates a store with caches of `cache_bytes` bytes of decoded metadata.
    pub fn new(medium: Arc<dyn Medium>, measures: Measures, cache_bytes: u64) -> Self {
        // Each kind has half of them; a decoded unit is about a third larger.
        let each = (cache_bytes / 2 / (u64::from(measures.unit_bytes) * 4 / 3)).max(64) as usize;
        let (unit_bytes, per_block) = (measures.unit_bytes, measures.units_per_block());
        Store {
            medium,
            measures,
            nodes: cache_of(each),
            images: cache_of(each),
            near: Near::new(unit_bytes, per_block, measures.eager_units()),
            near_data: Near::new(unit_bytes, per_block, measures.eager_units()),
        }
    }

    /// Drops the caches, whose content can be read again.
    pub fn drop_caches(&self) {
        self.nodes.clear();
        self.images.clear();
        self.near.clear();
        self.near_data.clear();
    }

    /// Reads bytes that the host has requested, by one command.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn read_for_host(&self, unit: u64, bytes: &mut [u8]) -> varve_device::Result<()> {
        self.medium.command(Access::Read);
        let begun_ns = self.medium.now_ns().unwrap_or(0);
        self.medium.read(self.measures.unit_byte(unit), bytes)?;
        self.medium.deliver(begun_ns, bytes.len() as u64);
        Ok(())
    }

    /// Reads one unit of an inode's metadata, perhaps together with its neighbours.
    ///
    /// # Errors
    /// `BadUnit` if its checksum does not match, or errors of the device.
    fn unit(&self, ino: InodeNo, unit: u64, crc: u32) -> Result<Vec<u8>> {
        match self.unit_nearby(unit).filter(|bytes| crc32c(bytes) == crc) {
            Some(bytes) => Ok(bytes),
            None => self.unit_alone(ino, unit, crc),
        }
    }

    /// Returns the unit as it was read together with others, now or before; `None` if
    /// it must be read by itself, or the read failed.
    fn unit_nearby(&self, unit: u64) -> Option<Vec<u8>> {
        if let Some(bytes) = self.near.get(unit, 1) {
            return Some(bytes);
        }
        let run = self.near.around(unit);
        if run.is_empty() {
            return None;
        }
        let mut bytes = vec![0; (run.end - run.start) as usize * self.measures.unit_bytes as usize];
        self.medium.command(Access::Read);
        let at = self.measures.unit_byte(run.start);
        self.medium.read(at, &mut bytes).ok()?;
        self.near.keep(run.start, bytes);
        self.near.get(unit, 1)
    }

    fn unit_alone(&self, ino: InodeNo, unit: u64, crc: u32) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.measures.unit_bytes as usize];
        let at = self.measures.unit_byte(unit);
        let mut outcome = Ok(0);
        for _ in 0..READS {
            self.medium.command(Access::Read);
            outcome = self.medium.read(at, &mut bytes).map(|()| crc32c(&bytes));
            if matches!(outcome, Ok(found) if found == crc) {
                return Ok(bytes);
            }
        }
        let source = Malformed::checksum("unit", outcome?, crc);
        Err(Error::BadUnit { ino, unit, source })
    }

    fn malformed(ino: InodeNo, unit: u64) -> impl FnOnce(Malformed) -> Error {
        move |source| Error::BadUnit { ino, unit, source }
    }

    /// Returns the node at a place.
    ///
    /// # Errors
    /// If the unit is not that node, or errors of the device.
    pub fn node(&self, place: &Place, id: NodeId) -> Result<Arc<Node>> {
        let key = (place.sector, place.crc);
        if let Some(node) = self.nodes.get(&key) {
            return Ok(node);
        }
        let unit = place.sector / self.measures.unit_sectors();
        let ino = InodeNo(id.ino);
        let bytes = self.unit(ino, unit, place.crc)?;
        let node = Node::decode(&bytes, &self.measures, id).map_err(Self::malformed(ino, unit))?;
        let node = Arc::new(node);
        self.nodes.insert(key, Arc::clone(&node));
        Ok(node)
    }

    /// Returns the inode of an entry.
    ///
    /// # Errors
    /// `NoInode` for a free number; also if the unit is not that inode, or errors of
    /// the device.
    pub fn image(&self, entry: &Entry, ino: u64) -> Result<Arc<Image>> {
        let ino = InodeNo(ino);
        let unit = entry.unit().ok_or(Error::NoInode(ino))?;
        let key = (unit, entry.crc());
        if let Some(image) = self.images.get(&key)
            && image.inode.ino == ino
        {
            return Ok(image);
        }
        let bytes = self.unit(ino, unit, entry.crc())?;
        let image = Image::decode(&bytes, &self.measures, ino);
        let image = image.map_err(Self::malformed(ino, unit))?;
        let image = Arc::new(image);
        self.images.insert(key, Arc::clone(&image));
        Ok(image)
    }

    /// Caches a node that was just written.
    pub fn remember(&self, place: &Place, node: Arc<Node>) {
        self.nodes.insert((place.sector, place.crc), node);
    }

    /// Caches an inode that was just written.
    pub fn remember_image(&self, entry: &Entry, image: Arc<Image>) {
        if let Some(unit) = entry.unit() {
            self.images.insert((unit, entry.crc()), image);
        }
    }

    /// Removes a node from the cache, because the tree no longer refers to it.
    pub fn forget(&self, place: &Place) {
        self.nodes.remove(&(place.sector, place.crc));
    }

    /// Removes an inode from the cache.
    pub fn forget_image(&self, entry: &Entry) {
        if let Some(unit) = entry.unit() {
            self.images.remove(&(unit, entry.crc()));
        }
    }

    /// Returns the stored sectors of a block, from bytes that begin with them.
    ///
    /// # Errors
    /// `BadBlock` if the checksum does not match.
    pub fn checked(
        &self,
        place: &Place,
        ino: InodeNo,
        block: u64,
        bytes: &[u8],
    ) -> Result<Vec<u8>> {
        let stored = &bytes[..usize::from(place.sectors) * SECTOR as usize];
        let found = crc32c(stored);
        match found == place.crc {
            true => Ok(stored.to_vec()),
            false => Err(Error::BadBlock {
                ino,
                block,
                sector: place.sector,
                found,
                expected: place.crc,
            }),
        }
    }

    /// Returns the units of a block as they were read together with others, now or
    /// before; `None` if no unit near them was read lately, or the read failed.
    fn block_nearby(&self, extent: Extent) -> Option<Vec<u8>> {
        let units = extent.units.into();
        if let Some(bytes) = self.near_data.get(extent.unit, units) {
            return Some(bytes);
        }
        let run = self.near_data.around(extent.unit);
        if run.end < extent.end() {
            return None;
        }
        let mut bytes = vec![0; (run.end - run.start) as usize * self.measures.unit_bytes as usize];
        self.read_for_host(run.start, &mut bytes).ok()?;
        self.near_data.keep(run.start, bytes);
        self.near_data.get(extent.unit, units)
    }

    /// Returns the stored sectors of one block, or of extended attributes.
    ///
    /// # Errors
    /// `BadBlock`, or errors of the device, after three attempts.
    pub fn block(&self, place: &Place, ino: InodeNo, block: u64) -> Result<Vec<u8>> {
        if !place.is_stored() {
            return Ok(vec![0; usize::from(place.sectors) * SECTOR as usize]);
        }
        let extent = self.measures.extent_of(place);
        if let Some(bytes) = self.block_nearby(extent)
            && let Ok(stored) = self.checked(place, ino, block, &bytes)
        {
            return Ok(stored);
        }
        let mut bytes = vec![0; extent.units as usize * self.measures.unit_bytes as usize];
        let mut once = || {
            self.read_for_host(extent.unit, &mut bytes)?;
            self.checked(place, ino, block, &bytes)
        };
        let first = once();
        match first {
            Err(error) => (1..READS).find_map(|_| once().ok()).ok_or(error),
            found => found,
        }
    }
}

/// The state that readers see: the inode map, and over it the changes that no full
/// transaction has included yet.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Entries by inode number; numbers beyond the end were never used.
    pub map: Vec<Entry>,
    /// Inodes that changed.
    pub images: HashMap<u64, Arc<Image>>,
    /// Index nodes that changed, or are new. Every node above one of them is here, too.
    pub nodes: BTreeMap<NodeId, Arc<Node>>,
}

impl Tables {
    /// Returns the entry of a number.
    pub fn entry(&self, ino: u64) -> Entry {
        let at = usize::try_from(ino).unwrap_or(usize::MAX);
        self.map.get(at).copied().unwrap_or_default()
    }

    /// Sets the entry of a number.
    pub fn set(&mut self, ino: u64, entry: Entry) {
        let at = ino as usize;
        if at >= self.map.len() {
            self.map.resize(at + 1, Entry::default());
        }
        self.map[at] = entry;
    }

    /// Adds the changes of a group.
    pub fn adopt(
        &mut self,
        freed: BTreeMap<u64, Version>,
        images: HashMap<u64, Option<Image>>,
        nodes: BTreeMap<NodeId, Option<Node>>,
    ) {
        for (ino, version) in freed {
            self.set(ino, Entry::free(version));
        }
        for (ino, image) in images {
            match image {
                Some(image) => _ = self.images.insert(ino, Arc::new(image)),
                None => _ = self.images.remove(&ino),
            }
        }
        for (id, node) in nodes {
            match node {
                Some(node) => _ = self.nodes.insert(id, Arc::new(node)),
                None => _ = self.nodes.remove(&id),
            }
        }
    }

    /// Returns one more than the last number that has an inode, or an entry.
    pub fn end(&self) -> u64 {
        let changed = self.images.keys().max().map_or(0, |ino| ino + 1);
        changed.max(self.map.len() as u64)
    }

    /// Returns true if there is an inode with this number.
    pub fn has(&self, ino: u64) -> bool {
        self.images.contains_key(&ino) || self.entry(ino).unit().is_some()
    }

    /// Returns the newest inode with this number.
    ///
    /// # Errors
    /// As [`Store::image`].
    pub fn image(&self, store: &Store, ino: u64) -> Result<Arc<Image>> {
        match self.images.get(&ino) {
            Some(image) => Ok(Arc::clone(image)),
            None => store.image(&self.entry(ino), ino),
        }
    }

    /// Returns the newest version of a node, if the node exists.
    ///
    /// # Errors
    /// As [`Store::node`].
    pub fn node(&self, store: &Store, id: NodeId, place: &Place) -> Result<Option<Arc<Node>>> {
        match self.nodes.get(&id) {
            Some(node) => Ok(Some(Arc::clone(node))),
            None if place.is_none() => Ok(None),
            None => store.node(place, id).map(Some),
        }
    }
}
