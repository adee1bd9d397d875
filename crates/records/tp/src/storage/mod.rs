//! Files, as the store sees them.
//!
//! The contract about durability:
//! - What was written is durable once a later [`StoredFile::sync`] of that file has
//!   returned `Ok`. Until then its sectors may reach the medium in any order and any
//!   subset; one sector of 512 bytes is written whole or not at all.
//! - After a failed sync nothing written since the last good one is known.
//! - Names are durable when the call that makes, changes or removes them returns.

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
    /// Opens a file, and makes it, empty, if it is not there and `create` is set.
    ///
    /// # Errors
    /// `NotFound`, and what the medium says.
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn StoredFile>>;

    /// The names of all files, in any order.
    ///
    /// # Errors
    /// What the medium says.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Gives a file another name, and takes the place of one that has it. Either the
    /// old name is there after a crash or the new one.
    ///
    /// # Errors
    /// `NotFound`, and what the medium says.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Keeps every other process out until the storage is dropped; of one that only reads,
    /// every process that writes. A process that has it may ask again.
    ///
    /// # Errors
    /// `WouldBlock` if another has it.
    fn lock(&self) -> io::Result<()>;
}

/// An open file. All methods may be called from several threads at once.
pub trait StoredFile: Send + Sync + Debug {
    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` beyond the end, and what the medium says.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes all bytes from `offset`; what lies between the end and there is zero.
    ///
    /// # Errors
    /// What the medium says; any part of it may have been written then.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes everything written durable.
    ///
    /// # Errors
    /// What the medium says. A caller must not retry and believe the retry.
    fn sync(&self) -> io::Result<()>;

    /// Gives the file so many bytes; new ones are zero.
    ///
    /// # Errors
    /// What the medium says.
    fn truncate(&self, bytes: u64) -> io::Result<()>;

    /// Bytes it has.
    ///
    /// # Errors
    /// What the medium says.
    fn size(&self) -> io::Result<u64>;
}
