//! The root object: what a volume is.

use super::codec::{Flaw, Reader, Writer};
use super::{Decoded, check_size};

/// The root object's name below the store's prefix.
pub(crate) const ROOT: &str = "varve-volume";

const MAGIC: [u8; 8] = *b"VARVEBKT";

/// What never changes of a volume in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The identity of the volume's objects, drawn when it was made.
    pub volume: u128,
    /// The size of an extent in bytes, a power of two from 64 KiB to 64 MiB: the largest
    /// size of an object with bytes of the volume.
    pub extent_bytes: u64,
    /// The size of the device in bytes when it was made.
    pub size: u64,
}

impl Root {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MAGIC, 64);
        writer
            .u128(self.volume)
            .u64(self.extent_bytes)
            .u64(self.size);
        writer.end()
    }

    pub(crate) fn decode(object: &[u8]) -> Decoded<Self> {
        let mut reader = Reader::new(object, MAGIC, "the root of a volume")?;
        let root = Root {
            volume: reader.u128()?,
            extent_bytes: reader.u64()?,
            size: reader.u64()?,
        };
        reader.end()?;
        root.check()?;
        Ok(root)
    }

    pub(crate) fn check(&self) -> Decoded<()> {
        let extent = self.extent_bytes;
        if !extent.is_power_of_two() || !(64 << 10..=64 << 20).contains(&extent) {
            return Err(Flaw::Value("size of an extent"));
        }
        check_size(self.size)
    }
}
