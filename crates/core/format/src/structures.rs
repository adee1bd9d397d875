//! Units, checksums, and arrays of structures.

use varve_device::Crc32c;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Size of a sector, the unit of addresses and of packing, in bytes.
pub const SECTOR: u64 = varve_device::SECTOR;

/// Signature of a volume on the virtual log, by which other layouts recognise such a
/// volume.
pub const VIRTUAL_LOG_MAGIC: [u8; 8] = *b"VARVEVL\x01";

/// Returns all whole structures at the beginning of `bytes`. Bytes at the end that are
/// too few for another one are ignored.
pub fn entries<T: FromBytes + Immutable + KnownLayout + Unaligned>(bytes: &[u8]) -> &[T] {
    let count = bytes.len() / size_of::<T>();
    <[T]>::ref_from_prefix_with_elems(bytes, count).map_or(&[], |(entries, _)| entries)
}

/// Returns the same structures as [`entries`], mutable.
pub fn entries_mut<T: FromBytes + IntoBytes + KnownLayout + Unaligned>(
    bytes: &mut [u8],
) -> &mut [T] {
    let count = bytes.len() / size_of::<T>();
    <[T]>::mut_from_prefix_with_elems(bytes, count).map_or(&mut [], |(entries, _)| entries)
}

/// Returns the CRC-32C of several pieces, as if they were one.
pub fn crc32c_of(pieces: &[&[u8]]) -> u32 {
    let mut crc = Crc32c::default();
    pieces.iter().for_each(|piece| crc.update(piece));
    crc.value()
}
