//! Index nodes, blocks of the ifile and inodes: decoded once, and cached.

use super::{ReadCause, Reader};
use crate::error::{Error, Result};
use crate::format::ifile::InodePlace;
use crate::format::index::INDEX;
use crate::format::inode::{InodeImage, Root};
use crate::format::node::{Node, NodeId};
use crate::format::{Malformed, Pointer, SECTOR, crc32c};
use crate::reader::Tree;
use quick_cache::Weighter;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::Block;
use varve_device::sync::RwLock;
use varve_fs::InodeNo;

/// A place in the log, distinguished from earlier contents of the same place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct MetaKey {
    sector: u64,
    slot: u8,
    incarnation: u32,
}

impl MetaKey {
    /// The key of an index node or a block of the ifile.
    fn block(pointer: &Pointer) -> Self {
        MetaKey {
            sector: pointer.sector(),
            slot: 0xff,
            incarnation: pointer.incarnation(),
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

/// Places of metadata to which no image refers any more. If they are not removed, they
/// displace useful entries: every checkpoint writes much of the index anew, and a cache
/// keeps longest what was used often.
#[derive(Debug, Default)]
pub struct Obsolete(Vec<MetaKey>);

impl Obsolete {
    /// Adds an index node, or a block of the ifile.
    pub fn block(&mut self, pointer: &Pointer) {
        self.0.push(MetaKey::block(pointer));
    }

    /// Adds an inode.
    pub fn inode(&mut self, place: &InodePlace) {
        self.0.push(inode_key(place));
    }
}

/// The block of an ifile that was asked for last, and the slot of the root that leads to
/// it. The block below a slot never changes.
#[derive(Default)]
pub(super) struct LastPage(RwLock<Option<Page>>);

struct Page {
    slot: Pointer,
    block: u64,
    content: (Pointer, Arc<Block>),
}

/// Decoded metadata, verified once.
#[derive(Clone)]
pub(super) enum Meta {
    Node(NodeId, Arc<Node>),
    Block(Arc<Block>),
    Inode(Arc<InodeImage>),
}

#[derive(Clone)]
pub(super) struct ByBytes;

impl Weighter<MetaKey, Meta> for ByBytes {
    fn weight(&self, _: &MetaKey, value: &Meta) -> u64 {
        match value {
            Meta::Node(..) => 4096 + 64,
            Meta::Block(bytes) => bytes.len() as u64 + 64,
            Meta::Inode(image) => 512 + image.inode.inline.len() as u64,
        }
    }
}

impl Reader {
    /// Drops places to which nothing refers.
    pub fn forget(&self, obsolete: &Obsolete) {
        for key in &obsolete.0 {
            self.meta.remove(key);
        }
    }

    /// An index node.
    ///
    /// # Errors
    /// If it is damaged or is another node; device errors.
    pub fn node(&self, pointer: &Pointer, id: NodeId) -> Result<Arc<Node>> {
        let key = MetaKey::block(pointer);
        if let Some(node) = self.patched_node(pointer, id) {
            return Ok(node);
        }
        // A second pointer to a node is not answered from memory. Decoding refuses it, so
        // that no crafted index is larger than its volume.
        if let Some(Meta::Node(place, node)) = self.meta.get(&key)
            && place == id
        {
            return Ok(node);
        }
        let bytes = self.block_for(ReadCause::Metadata, pointer, id.ino, id.index)?;
        let node = self.decoded_node(&bytes, id).map_err(|source| {
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

    /// Decodes a node.
    ///
    /// # Errors
    /// If the bytes are not that node.
    pub fn decoded_node(&self, bytes: &[u8], id: NodeId) -> std::result::Result<Node, Malformed> {
        Node::decode(bytes, id, self.geometry.packed)
    }

    /// Caches a node that has just been written.
    pub fn keep_node(&self, pointer: &Pointer, id: NodeId, node: Arc<Node>) {
        let key = MetaKey::block(pointer);
        self.meta.insert(key, Meta::Node(id, node));
    }

    /// A block of the ifile, filled up to the block size.
    ///
    /// # Errors
    /// As [`Reader::block`].
    pub fn ifile_block(&self, pointer: &Pointer, block: u64) -> Result<Arc<Block>> {
        match self.patched_block(pointer, block) {
            Some(bytes) => Ok(bytes),
            None => self.page(pointer, InodeNo::IFILE, block),
        }
    }

    /// A block of the volume's own files, filled up to the block size and kept in
    /// memory.
    ///
    /// # Errors
    /// As [`Reader::block`].
    pub fn page(&self, pointer: &Pointer, ino: InodeNo, block: u64) -> Result<Arc<Block>> {
        let key = MetaKey::block(pointer);
        if let Some(Meta::Block(bytes)) = self.meta.get(&key) {
            return Ok(bytes);
        }
        let mut bytes = self.block(pointer, ino, block)?;
        bytes.resize(self.geometry.block_bytes as usize);
        let bytes = Arc::new(bytes);
        self.meta.insert(key, Meta::Block(Arc::clone(&bytes)));
        Ok(bytes)
    }

    /// Pointer and content of block `block` of an ifile with this root, filled up to the
    /// block size. Of inodes read one after the other most are in the same block as the
    /// one before.
    ///
    /// # Errors
    /// As [`Reader::block`].
    pub fn ifile_page(&self, root: &Root, block: u64) -> Result<Option<(Pointer, Arc<Block>)>> {
        let slot = usize::try_from(INDEX.number(root.height, block)).unwrap_or(usize::MAX);
        let Some(&slot) = root.slots.get(slot) else {
            return Ok(None);
        };
        let patched = self.is_patched();
        if let Some(page) = &*self.last_page.0.read()
            && page.block == block
            && page.slot == slot
            && !patched
        {
            return Ok(Some(page.content.clone()));
        }
        let tree = Tree {
            reader: self,
            ino: InodeNo::IFILE,
            root,
        };
        let Some(pointer) = tree.get(block)? else {
            return Ok(None);
        };
        let content = (pointer, self.ifile_block(&pointer, block)?);
        if !patched {
            *self.last_page.0.write() = Some(Page {
                slot,
                block,
                content: content.clone(),
            });
        }
        Ok(Some(content))
    }

    /// Drops the block that [`Reader::ifile_page`] found last.
    pub(super) fn forget_page(&self) {
        *self.last_page.0.write() = None;
    }

    /// Caches an ifile block that has just been written.
    pub fn keep_ifile_block(&self, pointer: &Pointer, bytes: Arc<Block>) {
        let key = MetaKey::block(pointer);
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
        let image = self.with_inode_bytes(place, ino, |bytes| InodeImage::decode(bytes, ino))?;
        let image = image.map_err(|source| {
            Error::damaged(self.geometry.segment_of(place.sector), place.sector, source)
        })?;
        let image = Arc::new(image);
        self.keep_inode(place, Arc::clone(&image));
        Ok(image)
    }

    /// An inode image, if it can be found without the device.
    pub fn cached_inode(&self, place: &InodePlace) -> Option<Arc<InodeImage>> {
        match self.meta.get(&inode_key(place)) {
            Some(Meta::Inode(image)) => Some(image),
            _ => None,
        }
    }

    /// Caches an inode image whose place is known.
    pub fn keep_inode(&self, place: &InodePlace, image: Arc<InodeImage>) {
        self.meta.insert(inode_key(place), Meta::Inode(image));
    }

    /// Passes the stored bytes of an inode, verified, to `take`.
    ///
    /// # Errors
    /// As [`Reader::inode`].
    fn with_inode_bytes<T>(
        &self,
        place: &InodePlace,
        ino: InodeNo,
        take: impl Fn(&[u8]) -> T,
    ) -> Result<T> {
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
        // The checksum covers the inode alone, so each source is tried after the other.
        let verified = |bytes: &[u8]| {
            let inode = &bytes[offset..offset + inode_bytes];
            match crc32c(inode) {
                found if found == place.crc => Ok(take(inode)),
                found => Err(found),
            }
        };
        let length = (sectors * SECTOR) as usize;
        if self.durability.any_in_flight() {
            let mut bytes = vec![0; length];
            if self.durability.serve(place.sector, &mut bytes)
                && let Ok(taken) = verified(&bytes)
            {
                return Ok(taken);
            }
        }
        if let Some(Ok(taken)) = self.in_window(place.sector, length, verified) {
            self.counters.window_hits.fetch_add(1, Relaxed);
            return Ok(taken);
        }
        let byte = place.sector * SECTOR;
        let whose = |_: &Error| self.counters.failures.attribute(byte, ino, 0);
        let mut bytes = vec![0; length];
        self.miss(ReadCause::Metadata, place.sector, &mut bytes)
            .inspect_err(whose)?;
        let first = match verified(&bytes) {
            Ok(taken) => return Ok(taken),
            Err(first) => first,
        };
        self.counters.checksum_retries.fetch_add(1, Relaxed);
        self.read_for(ReadCause::Metadata, place.sector, &mut bytes)
            .inspect_err(whose)?;
        let again = verified(&bytes);
        let found = *again.as_ref().err().unwrap_or(&place.crc);
        self.tell_mismatch(place.sector, inode_bytes, place.crc, first, found);
        self.counters.failures.attribute(byte, ino, 0);
        again.map_err(|found| {
            damaged(format!(
                "checksum is {found:#010x}, want {:#010x}",
                place.crc
            ))
        })
    }
}
