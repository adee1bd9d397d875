//! Files as the store uses them.
//!
//! The contract on durability:
//! - A write is durable once a later [`StoredFile::sync`] of that file has returned `Ok`.
//!   Until then its sectors may reach the medium in any order and any subset; one sector
//!   of 512 bytes is written atomically.
//! - After a failed sync the state of everything written since the last good one is
//!   unknown.
//! - Names are durable when the call that creates, changes or removes them returns.

mod device;
mod host;
mod memory;
mod named;
mod overlay;

pub use device::DeviceStorage;
pub(crate) use device::{look_at_table, table_seed};
pub use host::HostStorage;
pub use memory::{Choice, CrashImages, Fault, MemoryStorage, Survival};
pub(crate) use named::{Named, failed, place};
pub use overlay::OverlayStorage;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// A flat directory of files.
pub trait Storage: Send + Sync + Debug {
    /// Opens a file. If it is missing and `create` is set, an empty one is created.
    ///
    /// # Errors
    /// `NotFound`, and errors of the medium.
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn StoredFile>>;

    /// Returns the names of all files, in any order.
    ///
    /// # Errors
    /// Errors of the medium.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Renames a file and replaces one that has the new name. After a crash the file has
    /// either the old or the new name.
    ///
    /// # Errors
    /// `NotFound`, and errors of the medium.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Excludes every other process until the storage is dropped; a read-only storage
    /// excludes every process that writes. A process that owns the lock may call this
    /// again.
    ///
    /// # Errors
    /// `WouldBlock` if another process owns it.
    fn lock(&self) -> io::Result<()>;
}

/// An open file. All methods may be called from several threads at once.
pub trait StoredFile: Send + Sync + Debug {
    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` beyond the end, and errors of the medium.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes all bytes at `offset`; a gap behind the former end reads as zeros.
    ///
    /// # Errors
    /// Errors of the medium, after which any part of the bytes may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes everything written durable.
    ///
    /// # Errors
    /// Errors of the medium. A later success does not prove that the data is stored, so a
    /// caller must not retry.
    fn sync(&self) -> io::Result<()>;

    /// Sets the length of the file in bytes; new bytes are zero.
    ///
    /// # Errors
    /// Errors of the medium.
    fn truncate(&self, bytes: u64) -> io::Result<()>;

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Errors of the medium.
    fn size(&self) -> io::Result<u64>;
}
