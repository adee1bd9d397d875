//! A node of a file's index: up to 126 pointers, stored without the empty ones.
//!
//! ```text
//! plain:  | NodeHeader (48 bytes, with a bitmap of the slots in use) | one Pointer per bit … |
//! packed: | NodeHeader                                               | columns, see packed.rs |
//! ```
//!
//! On volumes that allow it, a node is packed if that takes fewer sectors.
//!
//! A node of height 1 points to data blocks, a node of height h to nodes of height h-1.
//! It names its owner and its place in the tree, so that a misplaced write is found. A
//! node of a sparse file is only as long as its pointers.

use super::index::Spot;
use super::packed::Columns;
use super::{Malformed, Pointer, SECTOR};
use varve_fs::{InodeNo, Version};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of every node.
pub const MAGIC: u32 = u32::from_le_bytes(*b"VNOD");
/// Pointers in a full node: as many as fit 4096 bytes.
pub const FANOUT: u64 = 126;

/// Least sectors of a packed node. So a node of one sector is plain, and grows by no more
/// than the pointers that are added.
pub const PACKED_SECTORS: u64 = 2;
const PACKED_LEAST: usize = (PACKED_SECTORS * SECTOR) as usize;

/// Values of [`NodeHeader::form`].
pub mod node_form {
    /// Pointers one by one.
    pub const PLAIN: u8 = 0;
    /// Pointers in columns: on volumes with
    /// [`PACKED`](crate::format::superblock::incompat_flags::PACKED) only.
    pub const PACKED: u8 = 1;
}

/// Fixed part of a node.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct NodeHeader {
    /// Always [`MAGIC`].
    pub magic: U32,
    /// The file's version.
    pub version: U32,
    /// Inode number.
    pub ino: U64,
    /// Number of this node within its height.
    pub index: U64,
    /// Height in the tree, from 1.
    pub height: u8,
    /// One of [`node_form`].
    pub form: u8,
    /// Zero.
    pub spare: [u8; 6],
    /// Bit `i` is set if slot `i` has a pointer.
    pub bitmap: [u8; 16],
}
const _: () = assert!(size_of::<NodeHeader>() == 48);
const _: () = assert!(48 + FANOUT as usize * size_of::<Pointer>() <= 4096);

impl NodeHeader {
    /// The slots in use, one bit each.
    fn slots(&self) -> u128 {
        u128::from_le_bytes(self.bitmap) & ((1 << FANOUT) - 1)
    }
}

/// Place of a node: file, height and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId {
    /// Inode number.
    pub ino: InodeNo,
    /// Height in the tree, from 1.
    pub height: u8,
    /// Number within the height.
    pub index: u64,
}

impl NodeId {
    /// The node at a spot of a file's index.
    pub fn of(ino: InodeNo, at: Spot) -> Self {
        let Spot { height, index } = at;
        NodeId { ino, height, index }
    }

    /// The spot of the node in its index.
    pub fn spot(&self) -> Spot {
        Spot {
            height: self.height,
            index: self.index,
        }
    }
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
    /// All pointers, empty ones included.
    pub fn slots(&self) -> &[Pointer] {
        &*self.slots
    }

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

    /// Encodes the node in whole sectors; packed if that takes fewer and `packed` allows
    /// it.
    pub fn encode(&self, id: NodeId, version: Version, packed: bool) -> Vec<u8> {
        let slots = self
            .iter()
            .fold(0u128, |slots, (slot, _)| slots | 1 << slot);
        let mut header = NodeHeader {
            magic: U32::new(MAGIC),
            version: U32::new(version),
            ino: U64::new(id.ino.0),
            index: U64::new(id.index),
            height: id.height,
            form: node_form::PLAIN,
            spare: [0; 6],
            bitmap: slots.to_le_bytes(),
        };
        let length = whole_sectors(slots.count_ones() as usize * size_of::<Pointer>());
        if packed
            && length > PACKED_LEAST
            && let Some(bytes) = self.pack(&mut header, length)
        {
            return bytes;
        }
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(header.as_bytes());
        for (_, pointer) in self.iter() {
            bytes.extend_from_slice(pointer.as_bytes());
        }
        bytes.resize(length, 0);
        bytes
    }

    /// Encodes the node packed; `None` if a pointer has a tag, or it is not shorter than
    /// the `plain` form.
    fn pack(&self, header: &mut NodeHeader, plain: usize) -> Option<Vec<u8>> {
        let mut columns = Columns::empty();
        if !columns.fill(self.iter().map(|(_, pointer)| pointer)) {
            return None;
        }
        let widths = columns.header();
        let count = header.slots().count_ones() as usize;
        let length = whole_sectors(widths.bytes(count)).max(PACKED_LEAST);
        if length >= plain {
            return None;
        }
        header.form = node_form::PACKED;
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(header.as_bytes());
        columns.put(&widths, &mut bytes);
        bytes.resize(length, 0);
        Some(bytes)
    }

    /// Parses the stored form of node `id`; `packed` states whether the volume may have
    /// packed nodes.
    ///
    /// # Errors
    /// If the bytes are not that node.
    pub fn decode(bytes: &[u8], id: NodeId, packed: bool) -> Result<Self, Malformed> {
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
        let slots = header.slots();
        let count = slots.count_ones() as usize;
        let mut columns = None;
        match header.form {
            node_form::PLAIN => {}
            node_form::PACKED if packed => {
                let columns = columns.insert(Columns::empty());
                columns.parse(rest, count).map_err(bad)?;
            }
            node_form::PACKED => return Err(bad("packed, on a volume without such".into())),
            form => return Err(bad(format!("of unknown form {form}"))),
        }
        let mut node = Node::default();
        let mut left = slots;
        for nth in 0..count {
            let slot = left.trailing_zeros() as usize;
            left &= left - 1;
            let pointer = if let Some(columns) = &columns {
                columns.pointer(nth)
            } else {
                let (pointer, behind) = Pointer::read_from_prefix(rest)
                    .map_err(|_| bad("pointers cut short".into()))?;
                rest = behind;
                pointer
            };
            if pointer.is_none() || !pointer.is_sane() || (id.height > 1 && pointer.is_unwritten())
            {
                return Err(bad(format!("slot {slot} is malformed")));
            }
            node.slots[slot] = pointer;
        }
        Ok(node)
    }
}

/// Bytes of a node with `bytes` after its header, in whole sectors.
fn whole_sectors(bytes: usize) -> usize {
    (size_of::<NodeHeader>() + bytes).next_multiple_of(SECTOR as usize)
}
