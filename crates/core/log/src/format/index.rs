//! The reach of an index of pointers.

use super::inode::MAX_HEIGHT;
use super::node::FANOUT;
pub use varve_format::index::{Fanout, Index, Spot};

/// The shape of every index.
pub const INDEX: Fanout = Fanout(FANOUT);

/// One more than the highest logical block of an index.
pub const MAX_BLOCK: u64 = 1 << 48;

/// Least height at which `slots` pointers reach `block`.
pub fn height_for(slots: usize, block: u64) -> u8 {
    (0..=MAX_HEIGHT)
        .find(|&height| INDEX.capacity(slots, height) > block)
        .unwrap_or(MAX_HEIGHT)
}
