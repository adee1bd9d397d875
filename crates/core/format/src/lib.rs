//! Parts of the on-disk formats that the layouts share: sectors, checksums, pointers,
//! inodes, indexes, the owner record, and the identity of a volume. Bytes only: no I/O.

pub mod identity;
pub mod index;
pub mod inode;
mod malformed;
pub mod owner;
pub mod pointer;
pub mod range;
mod structures;

pub use inode::DiskInode;
pub use malformed::Malformed;
pub use owner::OwnerIdentity;
pub use pointer::Pointer;
pub use structures::{SECTOR, VIRTUAL_LOG_MAGIC, crc32c_of, entries, entries_mut};
pub use varve_device::crc32c;
