//! What a torn partial leaves where the log goes on, and clearing it.
//!
//! The log ends at a partial that is not whole: a unit of it never reached the
//! medium. The next life writes at the same place, perhaps the same bytes among
//! others, and of that write a power cut may leave just the missing unit. Then
//! the refused partial is whole after all, fits the chain, and brings back what
//! the life in between has seen to be gone. So its header goes, durably, before
//! that life's first append.
//!
//! Invariants:
//! - Only a header that could follow the log's end is cleared. It lies in one
//!   sector, which is never torn: what stands there otherwise never becomes one.
//! - The places where a head goes on are enough. Whatever else was left behind names a predecessor
//!   by checksum: this header, one that chains to it, or one whose place has
//!   durably been written since. None of them is ever accepted again.
//! - Nothing accepted is touched: the place lies behind the log's end. Cut
//!   short, the clearing has happened or not, and the next mount looks again.

use crate::chain::Summary;
use crate::error::Result;
use crate::format::SECTOR;
use crate::geometry::Geometry;
use crate::heads::LogEnd;
use std::io::IoSlice;
use varve_device::Device;

/// Byte address of the header of a partial that could follow in this head, once
/// whole; `image` holds the segment of its place.
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
/// One block of the device, which is written whole or not at all: if more were
/// torn, the header could stay while the rest of the write completes it.
///
/// # Errors
/// If the device refuses.
pub fn clear(device: &dyn Device, byte: u64) -> Result<()> {
    tracing::info!(byte, "clearing the header of a torn partial");
    let zeros = vec![0; device.geometry().logical_block.max(SECTOR as u32) as usize];
    Ok(device.write(byte, &[IoSlice::new(&zeros)])?)
}
