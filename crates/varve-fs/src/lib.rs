//! What every UNIX file system shares.
//!
//! Inodes and attributes, directories, names, permissions, the buffer cache,
//! read-ahead, space accounting and the vnode operations, generic over a
//! [`Layout`], which alone knows how blocks are placed.

mod error;
mod inode;
mod layout;
mod memory_layout;
mod types;

pub use error::{Error, Result};
pub use inode::{Inode, flags};
pub use layout::{
    BlockPointer, Cause, Group, Item, Layout, LayoutGeometry, Mapping, Position, Purpose, StatFs,
    Usage,
};
pub use memory_layout::{MemoryLayout, MemoryOptions, MemoryPointer};
pub use types::{FileKind, InodeNo, Timestamp, Version, View};
