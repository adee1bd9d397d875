//! What the tests share.

use std::sync::Arc;

use varve_device::{Device, Geometry, MemoryDevice};

use super::super::*;

/// A seeded stream of numbers.
pub struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 20) % end
    }
}

/// Memory whose physical block, and so the unit, is `unit` bytes.
pub fn memory(size: u64, unit: u32) -> MemoryDevice {
    MemoryDevice::with_geometry(Geometry {
        size,
        logical_block: 512,
        physical_block: unit,
    })
}

pub fn options(block_bytes: u32, logical_bytes: Option<u64>) -> FormatOptions {
    FormatOptions {
        block_bytes,
        logical_bytes,
        volume: 0x1234_5678_9abc_def0,
        anywhere: false,
    }
}

/// The volume as another opening finds it, while this one is still there.
pub fn reopened<M: Medium + Clone>(vld: &Vld<M>) -> (Vld<M>, Recovery) {
    let look = Options {
        read_only: true,
        ..Options::default()
    };
    Vld::open(vld.medium().clone(), look).unwrap()
}

/// The number in the first bytes of every logical block; every block is read
/// whole, so its checksum holds.
pub fn versions(device: &impl Device, blocks: u64, block_bytes: u32) -> Vec<u64> {
    let mut bytes = vec![0; block_bytes as usize];
    let version = |block: u64| {
        device
            .read(block * u64::from(block_bytes), &mut bytes)
            .unwrap_or_else(|error| panic!("{error}"));
        u64::from_le_bytes(bytes[..8].try_into().unwrap())
    };
    (0..blocks).map(version).collect()
}

/// A block that says which version it is.
pub fn block(version: u64, block_bytes: u32) -> Vec<u8> {
    let mut bytes = vec![version as u8; block_bytes as usize];
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// A medium that tests hold as well.
pub type Shared<D> = Arc<crate::medium::InOrder<D>>;
