//! How far an index of pointers reaches.

use super::inode::MAX_HEIGHT;
use super::node::FANOUT;

/// One past the highest logical block an index can hold.
pub const MAX_BLOCK: u64 = 1 << 48;

/// Blocks below one pointer at `height`.
pub fn span(height: u8) -> u64 {
    FANOUT.saturating_pow(u32::from(height))
}

/// Blocks a root of `slots` pointers at `height` can hold.
pub fn capacity(slots: usize, height: u8) -> u64 {
    span(height).saturating_mul(slots as u64)
}

/// Least height at which `slots` pointers reach `block`.
pub fn height_for(slots: usize, block: u64) -> u8 {
    (0..=MAX_HEIGHT)
        .find(|&height| capacity(slots, height) > block)
        .unwrap_or(MAX_HEIGHT)
}
