//! Patches of repair: unreadable metadata, replaced by what was reconstructed from other
//! sources. In every other use there are none.

use super::Reader;
use crate::format::Pointer;
use crate::format::ifile::InodePlace;
use crate::format::inode::InodeImage;
use crate::format::node::{Node, NodeId};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use varve_device::Block;
use varve_device::sync::RwLock;
use varve_fs::InodeNo;

/// The patches, by place.
#[derive(Default)]
pub(super) struct Patches {
    any: AtomicBool,
    /// Index nodes, by sector and expected identity.
    nodes: RwLock<ByPlace<NodeId, Node>>,
    /// Blocks of the ifile.
    blocks: RwLock<ByPlace<u64, Block>>,
    /// Inodes, by slot and number.
    inodes: RwLock<ByPlace<(u8, InodeNo), InodeImage>>,
}

type ByPlace<K, V> = HashMap<(u64, K), Arc<V>>;

impl Reader {
    /// True if there is any patch.
    pub fn is_patched(&self) -> bool {
        self.patches.any.load(Relaxed)
    }

    /// Makes `pointer` refer to `node`, regardless of the stored bytes.
    pub fn patch_node(&self, pointer: &Pointer, id: NodeId, node: Arc<Node>) {
        self.patches.any.store(true, Relaxed);
        let key = (pointer.sector(), id);
        self.patches.nodes.write().insert(key, node);
    }

    /// The node set by [`Reader::patch_node`].
    pub fn patched_node(&self, pointer: &Pointer, id: NodeId) -> Option<Arc<Node>> {
        if !self.is_patched() {
            return None;
        }
        let nodes = self.patches.nodes.read();
        nodes.get(&(pointer.sector(), id)).map(Arc::clone)
    }

    /// Makes `pointer` refer to this block of the ifile.
    pub fn patch_ifile_block(&self, pointer: &Pointer, block: u64, bytes: Arc<Block>) {
        self.patches.any.store(true, Relaxed);
        let key = (pointer.sector(), block);
        self.patches.blocks.write().insert(key, bytes);
    }

    /// Makes `place` contain this inode.
    pub fn patch_inode(&self, place: &InodePlace, image: Arc<InodeImage>) {
        self.patches.any.store(true, Relaxed);
        let key = (place.sector, (place.slot, image.inode.ino));
        self.patches.inodes.write().insert(key, image);
    }

    pub(super) fn patched_block(&self, pointer: &Pointer, block: u64) -> Option<Arc<Block>> {
        if !self.is_patched() {
            return None;
        }
        let blocks = self.patches.blocks.read();
        blocks.get(&(pointer.sector(), block)).map(Arc::clone)
    }

    pub(super) fn patched_inode(
        &self,
        place: &InodePlace,
        ino: InodeNo,
    ) -> Option<Arc<InodeImage>> {
        if !self.is_patched() {
            return None;
        }
        let inodes = self.patches.inodes.read();
        inodes
            .get(&(place.sector, (place.slot, ino)))
            .map(Arc::clone)
    }
}
