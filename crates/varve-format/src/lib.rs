//! What the on-disk formats of the layouts share: sectors, checksums, pointers,
//! inodes, indexes, the owner record, what makes a volume this one and no other.
//! Bytes only: no I/O.

pub mod identity;
pub mod index;
pub mod inode;
pub mod owner;
pub mod pointer;
pub mod range;

pub use inode::DiskInode;
pub use owner::OwnerIdentity;
pub use pointer::Pointer;
pub use varve_device::crc32c;

use varve_device::Crc32c;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes in a sector, the unit of addresses and of packing.
pub const SECTOR: u64 = varve_device::SECTOR;

/// Signature of a volume on the virtual log: other layouts tell what they were given.
pub const VIRTUAL_LOG_MAGIC: [u8; 8] = *b"VARVEVL\x01";

/// The whole structures that `bytes` begin with, as many as there are; what is
/// left at the end is too short for one.
pub fn entries<T: FromBytes + Immutable + KnownLayout + Unaligned>(bytes: &[u8]) -> &[T] {
    let count = bytes.len() / size_of::<T>();
    <[T]>::ref_from_prefix_with_elems(bytes, count).map_or(&[], |(entries, _)| entries)
}

/// As [`entries`], to be changed in place.
pub fn entries_mut<T: FromBytes + IntoBytes + KnownLayout + Unaligned>(
    bytes: &mut [u8],
) -> &mut [T] {
    let count = bytes.len() / size_of::<T>();
    <[T]>::mut_from_prefix_with_elems(bytes, count).map_or(&mut [], |(entries, _)| entries)
}

/// CRC-32C over several pieces, as if they were one.
pub fn crc32c_of(pieces: &[&[u8]]) -> u32 {
    let mut crc = Crc32c::default();
    pieces.iter().for_each(|piece| crc.update(piece));
    crc.value()
}

/// Why bytes were refused: the structure, and what about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{structure}: {problem}")]
pub struct Malformed {
    /// Which structure.
    pub structure: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

impl Malformed {
    /// Refuses bytes of a structure.
    pub fn new(structure: &'static str, problem: impl Into<String>) -> Self {
        Malformed {
            structure,
            problem: problem.into(),
        }
    }

    /// A checksum that differs.
    pub fn checksum(structure: &'static str, found: u32, expected: u32) -> Self {
        Self::new(
            structure,
            format!("checksum is {found:#010x}, want {expected:#010x}"),
        )
    }
}
