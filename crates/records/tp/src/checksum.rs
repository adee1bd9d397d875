//! Checksums that detect damaged bytes.

/// Returns the CRC-32C of the bytes, started with a seed.
#[inline]
pub(crate) fn checksum(seed: u32, bytes: &[u8]) -> u32 {
    let crc = varve_device::crc32c(bytes);
    crc ^ seed.wrapping_mul(0x9e37_79b1)
}
