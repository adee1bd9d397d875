//! Units and checksums, and structures behind each other.

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
