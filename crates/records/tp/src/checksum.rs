//! What tells whole bytes from damaged ones.

/// CRC-32C of these bytes, begun with a seed.
#[inline]
pub(crate) fn checksum(seed: u32, bytes: &[u8]) -> u32 {
    let crc = varve_device::crc32c(bytes);
    crc ^ seed.wrapping_mul(0x9e37_79b1)
}
