//! Functions that the tests share.

use std::sync::Arc;

use varve_device::{Device, Geometry, MemoryDevice};

use super::super::*;

/// A stream of random numbers, determined by its seed.
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

/// Returns a memory device whose physical block, and so the unit, has `unit` bytes.
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

/// Returns options for a volume whose data may begin at any unit.
pub fn anywhere(block_bytes: u32, logical_bytes: Option<u64>) -> FormatOptions {
    FormatOptions {
        anywhere: true,
        ..options(block_bytes, logical_bytes)
    }
}

/// Checks that log and free space agree with map and records, and that the data astride
/// is within its bound. This is for volumes on which no write has failed.
pub fn check<M: Medium>(vld: &Vld<M>) {
    let (state, layout) = (vld.state.read(), vld.layout());
    state.log.check();
    let mut masks = vec![0; layout.physical_blocks as usize];
    for block in (0..layout.eager_start()).chain([layout.last_block()]) {
        masks[block as usize] = state.free.full_mask();
    }
    let mut use_units = |units: std::ops::Range<u64>| {
        for unit in units {
            let (block, bit) = state.free.place(unit);
            assert_eq!(masks[block as usize] & bit, 0, "unit {unit} has two users");
            masks[block as usize] |= bit;
        }
    };
    for unit in state.log.units() {
        use_units(unit..unit + 1);
    }
    let mapped = state.map.mapped().map(|(_, entry)| entry.place);
    let mut astride = 0;
    for place in mapped.chain(state.replaced.iter().copied()) {
        let unit = layout.place_unit(place);
        use_units(unit..unit + u64::from(layout.units_per_block()));
        astride += u64::from(layout.is_astride(place));
    }
    let found = (0..layout.physical_blocks as u32).map(|block| state.free.mask(block));
    assert!(found.eq(masks), "units are taken that nothing uses");
    assert_eq!(state.mapped, state.map.mapped().count() as u64);
    assert_eq!(state.astride.len() as u64, astride);
    assert!(astride <= layout.astride_max(state.mapped));
}

/// Opens the volume a second time, read-only, while this one is still open.
pub fn reopened<M: Medium + Clone>(vld: &Vld<M>) -> (Vld<M>, Recovery) {
    let look = Options {
        read_only: true,
        ..Options::default()
    };
    Vld::open(vld.medium().clone(), look).unwrap()
}

/// Returns the number in the first bytes of every logical block. Each block is read
/// whole, so its checksum is verified.
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

/// Returns a block that begins with its version.
pub fn block(version: u64, block_bytes: u32) -> Vec<u8> {
    let mut bytes = vec![version as u8; block_bytes as usize];
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// A medium to which the test also has access.
pub type Shared<D> = Arc<crate::medium::InOrder<D>>;
