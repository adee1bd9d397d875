//! CRC-32C (Castagnoli), the checksum of everything on a medium.

use crc_fast::{CrcAlgorithm, Digest};

/// Returns the CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// A CRC-32C that is computed over several pieces.
#[derive(Clone)]
pub struct Crc32c(Digest);

impl Default for Crc32c {
    fn default() -> Self {
        Crc32c(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }
}

impl Crc32c {
    /// Appends `bytes` to the input of the checksum.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the checksum of all pieces so far.
    pub fn value(&self) -> u32 {
        self.0.finalize() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_the_checksum_of_the_whole() {
        // The check value of the algorithm's catalogues.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let mut crc = Crc32c::default();
        crc.update(b"1234");
        assert_eq!(crc.value(), crc32c(b"1234"));
        crc.update(b"56789");
        assert_eq!(crc.value(), 0xe306_9283);
    }
}
