//! The seam between workloads and what they run on: the library, or system
//! calls on any mounted directory.

use std::fmt;
use std::sync::Arc;
use varve_tp::storage::Storage;

/// The result of every call on a target.
pub type Outcome<T> = Result<T, Fault>;

/// Why a workload stopped.
#[derive(Debug)]
pub enum Fault {
    /// A call failed.
    System(String),
    /// The file system is full.
    NoSpace(String),
    /// What came back is not what was written.
    Data(String),
}

impl Fault {
    /// Wrong content or attributes.
    pub fn data(what: &str, id: u64, offset: u64) -> Self {
        Fault::Data(format!("DATA MISMATCH in {what} id={id} off={offset}"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::System(text) | Fault::NoSpace(text) | Fault::Data(text) => f.write_str(text),
        }
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// For reading.
    Read,
    /// An existing file, for writing.
    Write,
    /// For both, made if it is missing.
    ReadWrite,
    /// A new file, for both.
    New,
}

/// Room on the file system.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Bytes in all.
    pub capacity: u64,
    /// Share in use, `0..=1`.
    pub used: f64,
}

/// A file system under test.
pub trait Target: Sync {
    /// An open file.
    type File: TargetFile;

    /// Makes a directory.
    fn make_dir(&self, path: &str) -> Outcome<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &str) -> Outcome<()>;
    /// Removes a tree if it is there; never timed.
    fn remove_tree(&self, path: &str) -> Outcome<()>;
    /// Opens a file.
    fn open(&self, path: &str, how: How) -> Outcome<Self::File>;
    /// Removes a name.
    fn remove(&self, path: &str) -> Outcome<()>;
    /// Makes a hard link.
    fn link(&self, existing: &str, new: &str) -> Outcome<()>;
    /// Makes a symbolic link.
    fn symlink(&self, target: &str, link: &str) -> Outcome<()>;
    /// Renames.
    fn rename(&self, from: &str, to: &str) -> Outcome<()>;
    /// Size and number of links.
    fn stat(&self, path: &str) -> Outcome<(u64, u64)>;
    /// True if the path leads to something.
    fn exists(&self, path: &str) -> bool;
    /// Lists a directory, and counts the names that begin with `initial`.
    fn count_names(&self, path: &str, initial: u8) -> Outcome<u64>;
    /// Lists a directory and looks at everything in it: how many entries, and the sum of
    /// their sizes.
    fn total_bytes(&self, path: &str) -> Outcome<(u64, u64)>;
    /// Makes everything durable.
    fn sync(&self) -> Outcome<()>;
    /// Forgets everything that could be read again; a sync came before.
    fn forget(&self) -> Outcome<()>;
    /// A directory as the files of a record store.
    fn storage(&self, path: &str) -> Outcome<Arc<dyn Storage>>;
    /// Room on the file system.
    fn room(&self) -> Outcome<Room>;
}

/// An open file under test.
pub trait TargetFile: Send + Sync {
    /// Writes all of `data`.
    fn write_at(&self, offset: u64, data: &[u8]) -> Outcome<()>;
    /// Fills `buffer`; a file that is too short is an error.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Outcome<()>;
    /// Makes the content durable.
    fn sync_data(&self) -> Outcome<()>;
    /// Makes content and attributes durable.
    fn sync_all(&self) -> Outcome<()>;
    /// Closes the file; a failed close is an error where there is one.
    fn close(self) -> Outcome<()>;
}

/// Empties the host's page cache, where we may.
pub fn drop_host_caches() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // Dirty pages of a server's image, too.
    rustix::fs::sync();
    if let Err(error) = std::fs::write("/proc/sys/vm/drop_caches", "3\n") {
        tracing::warn!(%error, "the host's page cache was not emptied");
    }
    if let Err(error) = fetch_program() {
        tracing::warn!(%error, "this program's code is measured, too, as it is fetched");
    }
}

/// Brings back what the host dropped of this program itself: code that has not
/// run yet is fetched at its first call, which took a fifth of the time of
/// deleting 10,000 files.
fn fetch_program() -> std::io::Result<u64> {
    let mut program = std::fs::File::open("/proc/self/exe")?;
    std::io::copy(&mut program, &mut std::io::sink())
}
