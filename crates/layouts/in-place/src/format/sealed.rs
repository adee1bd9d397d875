//! A sealed sector: 504 bytes of content, an owner, and a checksum that also covers the
//! sector's address and the volume's tag. Maps, inodes and indirect blocks consist of
//! sealed sectors, so that a change writes, and tears, a single sector.

use varve_format::{Malformed, crc32c_of};

/// Size of a sector, in bytes.
pub const SECTOR_BYTES: usize = 512;
/// Size of the content of a sealed sector, in bytes.
pub const CONTENT_BYTES: usize = 504;

/// The bytes of one sector.
pub type Sector = [u8; SECTOR_BYTES];

/// The values that a sealed sector's checksum covers in addition to its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The volume's tag.
    pub tag: u64,
    /// Address of the sector.
    pub sector: u64,
    /// The low bits of the inode number, or the cylinder group.
    pub owner: u32,
}

impl Seal {
    fn crc(&self, sector: &Sector) -> u32 {
        let (address, tag) = (self.sector.to_le_bytes(), self.tag.to_le_bytes());
        crc32c_of(&[&sector[..CONTENT_BYTES + 4], &address, &tag])
    }

    /// Fills in the owner and the checksum.
    pub fn close(&self, sector: &mut Sector) {
        sector[CONTENT_BYTES..CONTENT_BYTES + 4].copy_from_slice(&self.owner.to_le_bytes());
        let crc = self.crc(sector);
        sector[CONTENT_BYTES + 4..].copy_from_slice(&crc.to_le_bytes());
    }

    /// Checks the owner and the checksum.
    ///
    /// # Errors
    /// If the checksum differs, or the sector belongs to another owner.
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
