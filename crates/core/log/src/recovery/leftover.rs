//! The leftover of a torn partial where the log continues, and clearing it.
//!
//! The log ends at a partial that is not whole: a unit of it never reached the medium.
//! The next mount writes at the same place, perhaps partly the same bytes, and a power
//! cut may leave just the missing unit of that write. Then the refused partial is whole
//! after all, fits the chain, and restores data that the mount in between has seen
//! removed. So its header is cleared, durably, before that mount's first append.
//!
//! Invariants:
//! - Only a header that could follow the log's end is cleared. It is in one sector, which
//!   is never torn: other bytes at that place never become a header.
//! - Clearing the places where heads continue is enough. Any other leftover names a
//!   predecessor by checksum: this header, one that chains to it, or one whose place has
//!   durably been written since. None of them is ever accepted again.
//! - No accepted partial is touched: the place is after the log's end. If the clearing is
//!   interrupted, it has happened or not, and the next mount checks again.

use crate::chain::Summary;
use crate::error::Result;
use crate::format::SECTOR;
use crate::geometry::Geometry;
use crate::heads::LogEnd;
use std::io::IoSlice;
use varve_device::Device;

/// Byte address of the header of a partial that could follow in this head, once whole;
/// `image` is the content of the segment.
pub fn find(
    image: &[u8],
    geometry: &Geometry,
    volume_tag: u64,
    end: &LogEnd,
    head: usize,
) -> Option<u64> {
    let (segment, offset, _) = geometry.successor(&end.at(head));
    let bytes = &image[offset as usize..];
    let header = Summary::header(bytes, geometry, volume_tag, segment, offset).ok()?;
    let follows = end.follows(geometry, head, &header).is_ok();
    follows.then(|| geometry.byte(segment, offset))
}

/// Clears the header at `byte`. The caller flushes before anything is appended.
///
/// It writes one block of the device, which is written whole or not at all: if a larger
/// write were torn, the header could remain while the rest of the write completes it.
///
/// # Errors
/// Device errors.
pub fn clear(device: &dyn Device, byte: u64) -> Result<()> {
    tracing::info!(byte, "clearing the header of a torn partial");
    let zeros = vec![0; device.geometry().logical_block.max(SECTOR as u32) as usize];
    Ok(device.write(byte, &[IoSlice::new(&zeros)])?)
}
