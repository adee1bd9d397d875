//! The structures of VLFS on its device: bytes only, no I/O.
//!
//! `docs/spec/vlfs.md` describes the structures declared here. Integers are
//! little-endian, and every structure is checked when it is parsed.

mod change;
mod delta;
mod entry;
mod image;
mod node;
mod place;
mod record;
mod regions;
mod superblock;
#[cfg(test)]
mod tests;

pub use change::Change;
pub use delta::Delta;
pub use entry::Entry;
pub use image::Image;
pub use node::{Fork, Node, NodeId};
pub use place::Place;
pub use record::{Record, Run, Totals};
pub use regions::CheckpointHeader;
pub use superblock::{
    CHANGES, Extent, LONG_XATTRS, MAGIC, Measures, OWN_TAG, PARTS, Superblock, VERSION,
};

pub(super) use varve_format::{Malformed, SECTOR, crc32c, entries};
