//! Every byte on the device, declared once.
//!
//! Structures only: no I/O and no policy. Integers are little-endian and unaligned, sizes
//! and offsets are checked at compile time, and each structure is validated when it is
//! read, because bytes from a device are input. `docs/spec/log.md` documents these
//! structures; a test compares them.

pub mod checkpoint;
pub mod history;
pub mod ifile;
pub mod index;
pub mod map;
mod mark;
pub mod node;
pub mod packed;
pub mod shape;
pub mod summary;
pub mod superblock;
#[cfg(test)]
mod tests;

pub use checkpoint::{CheckpointHeader, LogPosition, UsageDelta};
pub use ifile::{ImapEntry, UsageEntry};
pub use mark::Mark;
pub use node::NodeHeader;
pub use packed::PackedHeader;
pub use summary::SummaryHeader;
pub use superblock::Superblock;

// Shared with other formats.
pub use varve_format::{
    DiskInode, Malformed, Pointer, SECTOR, crc32c, crc32c_of, entries, entries_mut, inode, owner,
    pointer,
};
