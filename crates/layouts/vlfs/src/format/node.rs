//! An index node: one unit of places, of data blocks at height 1, of nodes one level
//! lower at a greater height. It names its owner and its position in the tree.
//!
//! A file has two indexes, its forks, which differ in their roots only.
//!
//! The log's nodes (`varve-lfs/src/format/node.rs`) are packed, as short as their
//! pointers allow. Here a unit is the smallest piece that is written. A place needs
//! neither birth nor incarnation, because nothing is overwritten that the tree leads
//! to.

use super::place::{DiskPlace, PLACE_BYTES};
use super::{Malformed, Measures, Place, entries};
use varve_format::index::Spot;
use varve_fs::Version;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: u32 = u32::from_le_bytes(*b"VLFN");

/// The fixed part of a node; the places follow.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct NodeHeader {
    magic: U32,
    /// Version of the file.
    version: U32,
    ino: U64,
    /// Number of this node within its height.
    index: U64,
    height: u8,
    /// Fork: 0 for the content, 1 for the extended attributes.
    fork: u8,
    spare: [u8; 6],
}
const _: () = assert!(size_of::<NodeHeader>() == 32);

/// Returns the number of places in a node of `unit_bytes` bytes.
pub(super) fn fanout(unit_bytes: u32) -> usize {
    (unit_bytes as usize - size_of::<NodeHeader>()) / PLACE_BYTES
}

/// One of the two indexes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fork {
    /// The content of the file.
    Content,
    /// The extended attributes, as a sequence of bytes.
    Attributes,
}

impl Fork {
    /// Both forks, the content first.
    pub const ALL: [Fork; 2] = [Fork::Content, Fork::Attributes];

    /// Returns the stored number.
    fn code(self) -> u8 {
        match self {
            Fork::Content => 0,
            Fork::Attributes => 1,
        }
    }
}

/// Identifies a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId {
    /// Inode number of the file.
    pub ino: u64,
    /// Index of the file.
    pub fork: Fork,
    /// Height, from 1.
    pub height: u8,
    /// Number within the height.
    pub index: u64,
}

impl NodeId {
    /// Returns the node's spot in its index.
    pub fn spot(&self) -> Spot {
        Spot {
            height: self.height,
            index: self.index,
        }
    }

    /// Returns the node of the same index at another spot.
    pub fn at(self, spot: Spot) -> Self {
        NodeId {
            height: spot.height,
            index: spot.index,
            ..self
        }
    }
}

/// A node in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The places, as many as the fanout.
    pub slots: Box<[Place]>,
}

impl Node {
    /// Creates a node without places.
    pub fn empty(measures: &Measures) -> Self {
        Node {
            slots: vec![Place::NONE; measures.fanout()].into(),
        }
    }

    /// Returns true if the node has no place.
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(Place::is_none)
    }

    /// Returns the stored form: one unit.
    pub fn encode(&self, measures: &Measures, id: NodeId, version: Version) -> Vec<u8> {
        let header = NodeHeader {
            magic: MAGIC.into(),
            version: version.into(),
            ino: id.ino.into(),
            index: id.index.into(),
            height: id.height,
            fork: id.fork.code(),
            spare: [0; 6],
        };
        let mut bytes = header.as_bytes().to_vec();
        for slot in &self.slots {
            bytes.extend_from_slice(slot.to_disk().as_bytes());
        }
        bytes.resize(measures.unit_bytes as usize, 0);
        bytes
    }

    /// Parses the stored form of node `id`.
    ///
    /// # Errors
    /// If the bytes are not that node.
    pub fn decode(bytes: &[u8], measures: &Measures, id: NodeId) -> Result<Self, Malformed> {
        let bad = |problem: String| Malformed::new("index node", format!("{id:?}: {problem}"));
        let (header, rest) =
            NodeHeader::ref_from_prefix(bytes).map_err(|_| bad("too short".into()))?;
        if header.magic.get() != MAGIC {
            return Err(bad("no node here".into()));
        }
        let found = (
            header.ino.get(),
            header.fork,
            header.height,
            header.index.get(),
        );
        if found != (id.ino, id.fork.code(), id.height, id.index) {
            return Err(bad(format!("node {found:?} stands in its place")));
        }
        let slots: Box<[Place]> = entries::<DiskPlace>(rest)
            .iter()
            .take(measures.fanout())
            .map(Place::of_disk)
            .collect();
        if slots.len() != measures.fanout() {
            return Err(bad("cut short".into()));
        }
        for slot in &slots {
            slot.check(measures).map_err(|e| bad(e.problem))?;
            if slot.is_unwritten() && (id.height > 1 || id.fork == Fork::Attributes) {
                return Err(bad("an unwritten node, or attributes".into()));
            }
        }
        Ok(Node { slots })
    }
}
