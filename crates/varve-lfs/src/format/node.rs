//! A node of a file's index: up to 126 pointers, stored without the empty ones.
//!
//! ```text
//! | NodeHeader (48 bytes, with a bitmap of the slots in use) | one Pointer per bit … |
//! ```
//!
//! A node of height 1 points to data blocks, a node of height h to nodes of
//! height h-1. It names its owner and its place in the tree, so that a
//! misplaced write is found. Sparse files pay for the pointers they have.

use super::{Malformed, Pointer, SECTOR};
use varve_fs::{InodeNo, Version};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of every node.
pub const MAGIC: u32 = u32::from_le_bytes(*b"VNOD");
/// Pointers in a full node: what fits 4096 bytes.
pub const FANOUT: u64 = 126;

/// Fixed part of a node.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct NodeHeader {
    /// [`MAGIC`].
    pub magic: U32,
    /// The file's version.
    pub version: U32,
    /// The file.
    pub ino: U64,
    /// Number of this node within its height.
    pub index: U64,
    /// From 1.
    pub height: u8,
    /// Zero.
    pub spare: [u8; 7],
    /// Bit `i` is set if slot `i` holds a pointer.
    pub bitmap: [u8; 16],
}
const _: () = assert!(size_of::<NodeHeader>() == 48);
const _: () = assert!(48 + FANOUT as usize * size_of::<Pointer>() <= 4096);

/// Where a node belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId {
    /// The file.
    pub ino: InodeNo,
    /// From 1.
    pub height: u8,
    /// Number within the height.
    pub index: u64,
}

/// A node in memory: all its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    slots: Box<[Pointer; FANOUT as usize]>,
}

impl Default for Node {
    fn default() -> Self {
        Node {
            slots: Box::new([Pointer::NONE; FANOUT as usize]),
        }
    }
}

impl Node {
    /// The pointer in `slot`.
    pub fn get(&self, slot: usize) -> Pointer {
        self.slots[slot]
    }

    /// Replaces the pointer in `slot` and returns the former one.
    pub fn set(&mut self, slot: usize, pointer: Pointer) -> Pointer {
        std::mem::replace(&mut self.slots[slot], pointer)
    }

    /// Slots in use, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Pointer)> + '_ {
        self.slots
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, p)| !p.is_none())
    }

    /// True if no slot is in use.
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(Pointer::is_none)
    }

    /// The stored form, whole sectors.
    pub fn encode(&self, id: NodeId, version: Version) -> Vec<u8> {
        let mut bitmap = [0u8; 16];
        let mut bytes = vec![0; size_of::<NodeHeader>()];
        for (slot, pointer) in self.iter() {
            bitmap[slot / 8] |= 1 << (slot % 8);
            bytes.extend_from_slice(pointer.as_bytes());
        }
        let header = NodeHeader {
            magic: U32::new(MAGIC),
            version: U32::new(version),
            ino: U64::new(id.ino.0),
            index: U64::new(id.index),
            height: id.height,
            spare: [0; 7],
            bitmap,
        };
        bytes[..size_of::<NodeHeader>()].copy_from_slice(header.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(SECTOR as usize), 0);
        bytes
    }

    /// Parses the stored form of node `id`.
    ///
    /// # Errors
    /// If the bytes are not that node.
    pub fn decode(bytes: &[u8], id: NodeId) -> Result<Self, Malformed> {
        let bad = |problem: String| Malformed::new("index node", format!("{id:?}: {problem}"));
        let (header, mut rest) =
            NodeHeader::ref_from_prefix(bytes).map_err(|_| bad("too short".into()))?;
        if header.magic.get() != MAGIC {
            return Err(bad("no node here".into()));
        }
        if header.ino.get() != id.ino.0
            || header.height != id.height
            || header.index.get() != id.index
        {
            return Err(bad(format!(
                "node {} of height {} of inode {} stands in its place",
                header.index, header.height, header.ino
            )));
        }
        let mut node = Node::default();
        for slot in 0..FANOUT as usize {
            if header.bitmap[slot / 8] & (1 << (slot % 8)) == 0 {
                continue;
            }
            let (pointer, behind) =
                Pointer::read_from_prefix(rest).map_err(|_| bad("pointers cut short".into()))?;
            rest = behind;
            if pointer.is_none() || !pointer.is_sane() || (id.height > 1 && pointer.is_unwritten())
            {
                return Err(bad(format!("slot {slot} is malformed")));
            }
            node.slots[slot] = pointer;
        }
        Ok(node)
    }
}
