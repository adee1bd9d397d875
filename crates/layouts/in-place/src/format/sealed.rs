//! A sealed sector: 504 bytes of content, an owner, and a checksum that also
//! covers where the sector is and in which volume. Maps, inodes and indirect
//! blocks are made of them, so that a change writes, and tears, nothing else.

use varve_format::{Malformed, crc32c_of};

/// Bytes in a sector.
pub const SECTOR_BYTES: usize = 512;
/// Bytes of content in a sealed one.
pub const CONTENT_BYTES: usize = 504;

/// The bytes of one sector.
pub type Sector = [u8; SECTOR_BYTES];

/// What a sealed sector's checksum covers besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The volume's tag.
    pub tag: u64,
    /// Address of the sector.
    pub sector: u64,
    /// The inode's low bits, or the cylinder group.
    pub owner: u32,
}

impl Seal {
    fn crc(&self, sector: &Sector) -> u32 {
        let (address, tag) = (self.sector.to_le_bytes(), self.tag.to_le_bytes());
        crc32c_of(&[&sector[..CONTENT_BYTES + 4], &address, &tag])
    }

    /// Fills in owner and checksum.
    pub fn close(&self, sector: &mut Sector) {
        sector[CONTENT_BYTES..CONTENT_BYTES + 4].copy_from_slice(&self.owner.to_le_bytes());
        let crc = self.crc(sector);
        sector[CONTENT_BYTES + 4..].copy_from_slice(&crc.to_le_bytes());
    }

    /// Compares both.
    ///
    /// # Errors
    /// If the checksum differs, or the sector is somebody else's.
    pub fn check(&self, sector: &Sector, structure: &'static str) -> Result<(), Malformed> {
        let field = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&sector[at..at + 4]);
            u32::from_le_bytes(bytes)
        };
        let (found, expected) = (self.crc(sector), field(CONTENT_BYTES + 4));
        if found != expected {
            return Err(Malformed::new(
                structure,
                format!(
                    "at sector {} the checksum is {found:#010x}, want {expected:#010x}",
                    self.sector
                ),
            ));
        }
        match field(CONTENT_BYTES) {
            owner if owner == self.owner => Ok(()),
            owner => Err(Malformed::new(
                structure,
                format!(
                    "sector {} is of {owner}, not of {}",
                    self.sector, self.owner
                ),
            )),
        }
    }
}
