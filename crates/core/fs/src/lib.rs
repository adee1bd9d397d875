//! The part of a UNIX file system that does not depend on the placement of blocks.
//!
//! Inodes and attributes, directories, names, permissions, the buffer cache, read-ahead,
//! space accounting and the vnode operations, generic over a [`Layout`], which alone
//! knows how blocks are placed.

mod account;
mod attr;
mod attributes;
pub mod caches;
mod content;
pub mod directory;
mod epochs;
mod error;
mod file_system;
#[doc(hidden)]
pub mod fuzzing;
mod hash;
mod inode;
mod isolation;
mod layout;
mod locks;
mod maintenance;
mod memory;
mod memory_layout;
mod mount;
mod names;
mod names_check;
mod options;
#[doc(hidden)]
pub mod planted;
mod scan;
mod setattr;
mod snapshots;
mod space;
mod statistics;
mod transactions;
mod types;
mod uses;
mod via;

#[cfg(test)]
mod tests;

pub use attr::{Attr, Caller, Entry, Rename, SetAttr, SetTime, Whence};
pub use attributes::attributes_flaw;
pub use attributes::file_flags::{Access, FileFlags};
pub use content::held::HeldWrite;
pub use error::{Conflict, Contended, Error, Result};
pub use file_system::FileSystem;
pub use inode::{Inode, flags};
pub use layout::{
    Answer, BlockPointer, Cause, Group, IMAGES_AT_MOST, Item, Layout, LayoutGeometry, Mapping,
    Position, Promise, Purpose, Request, StatFs, Unwritten, Usage, VolumeSnapshot, Waiting,
};
pub use memory_layout::{MemoryLayout, MemoryOptions, MemoryPointer};
pub use names_check::check_names;
pub use options::{Atime, Options, ReadAheadWindow};
pub use scan::{Scan, ScanError, ScanPiece, ScanWindow, ScannedFile, ScannedPart};
pub use snapshots::{
    Change, ChangeKind, FormerFile, Received, ReceivedMark, RemovedName, Restored, Schedule,
    SendHeader, SendItem, Sent, SnapshotTree, TransferError, item_kind, parse_time, show_time,
};
pub use statistics::FsStatistics;
pub use transactions::{Appended, Changed, Isolation, Ticket, Transaction, TransactionOptions};
pub use types::{FileKind, InodeNo, SnapshotNo, SpillNo, Timestamp, Version, View};
pub use varve_locks::Detection;
pub use via::HeldTimes;
