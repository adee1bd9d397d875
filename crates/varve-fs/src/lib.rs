//! What every UNIX file system shares.
//!
//! Inodes and attributes, directories, names, permissions, the buffer cache,
//! read-ahead, space accounting and the vnode operations, generic over a
//! [`Layout`], which alone knows how blocks are placed.

mod acl;
mod alone;
mod attr;
mod cache;
mod capture;
mod changes;
mod commit;
mod copy;
mod create;
mod crowd;
pub mod directory;
mod directory_blocks;
mod epoch;
mod error;
mod fallocate;
mod file_flags;
mod file_system;
#[doc(hidden)]
pub mod fuzzing;
mod hash;
mod held;
mod inode;
mod layout;
mod locks;
mod maintenance;
mod memory_layout;
mod names;
mod options;
mod overlay;
mod parked;
mod passages;
mod permission;
#[doc(hidden)]
pub mod planted;
mod put;
mod read;
mod read_ahead;
mod readdir;
mod reaper;
mod rename;
mod seek;
mod setattr;
mod space;
mod statistics;
mod store;
mod truncate;
mod types;
mod unlink;
mod vnode;
mod vnode_table;
mod waits;
mod write;
mod write_back;
mod xattr;

#[cfg(test)]
mod tests;

pub use attr::{Attr, Caller, Entry, Rename, SetAttr, SetTime, Whence};
pub use error::{Error, Result};
pub use file_flags::{Access, FileFlags};
pub use file_system::FileSystem;
pub use held::{HeldTimes, HeldWrite};
pub use inode::{Inode, flags};
pub use layout::{
    BlockPointer, Cause, Group, IMAGES_AT_MOST, Item, Layout, LayoutGeometry, Mapping, Position,
    Purpose, StatFs, Unwritten, Usage, Waiting,
};
pub use memory_layout::{MemoryLayout, MemoryOptions, MemoryPointer};
pub use options::{Atime, Options};
pub use statistics::FsStatistics;
pub use types::{FileKind, InodeNo, Timestamp, Version, View};
