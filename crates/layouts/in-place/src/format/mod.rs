//! The structures on the device, without I/O. `docs/spec/in-place.md` has the diagram.

mod geometry;
mod head;
mod inode;
mod metadata;
mod place;
mod policy;
mod record;
mod sealed;
mod superblock;
#[cfg(test)]
mod tests;

pub use geometry::{Geometry, GroupMap};
pub(crate) use geometry::{Holds, group_meta_blocks, is_block};
pub use head::{DiskUsage, JournalHead};
pub use inode::{DIRECT, INDIRECT, INLINE_BYTES, Image, Slot};
pub use metadata::Metadata;
pub use place::{Place, place_flags};
pub use policy::DiskPolicy;
pub use record::{Identity, RecordHeader, Run, record_bytes};
pub use sealed::{CONTENT_BYTES, SECTOR_BYTES, Seal, Sector};
pub use superblock::{IN_PLACE, MAGIC, Superblock};

/// Number of inodes or fragments for which a sector of a map has bits.
pub const BITS_PER_SECTOR: u64 = CONTENT_BYTES as u64 * 8;
/// Number of places in a sector of an indirect block.
pub const PLACES_PER_SECTOR: u64 = (CONTENT_BYTES / place::PLACE_BYTES) as u64;
