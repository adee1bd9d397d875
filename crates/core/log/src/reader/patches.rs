//! What repair knows better than the medium: metadata that cannot be read, as
//! it was found out from elsewhere. There are none in every other use.

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

/// See the module's head.
#[derive(Default)]
pub(super) struct Patches {
    any: AtomicBool,
    /// By sector and what should be there.
    nodes: RwLock<ByPlace<NodeId, Node>>,
    /// Of the ifile.
    blocks: RwLock<ByPlace<u64, Block>>,
    /// Slot and number.
    inodes: RwLock<ByPlace<(u8, InodeNo), InodeImage>>,
}

type ByPlace<K, V> = HashMap<(u64, K), Arc<V>>;

impl Reader {
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
    pub fn patch_ifile_block(&self, pointer: &Pointer, block: u64, bytes: Arc<Block>) {
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
