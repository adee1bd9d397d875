//! Errors of file-system calls, and the only map from them to `errno`.

use crate::types::InodeNo;
use varve_device::DeviceError;

/// The result of every file-system call.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason for which an operation failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such file or directory.
    #[error("no such file or directory")]
    NotFound,
    /// The name is taken.
    #[error("the name exists already")]
    Exists,
    /// A path component is not a directory.
    #[error("not a directory")]
    NotDirectory,
    /// The operation does not apply to directories.
    #[error("is a directory")]
    IsDirectory,
    /// The directory still has names.
    #[error("directory not empty")]
    NotEmpty,
    /// A name is longer than 255 bytes, or a path than 4095.
    #[error("name too long")]
    NameTooLong,
    /// An argument is invalid.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// The caller may not do this, regardless of the permission bits.
    #[error("operation not permitted")]
    NotPermitted,
    /// Permission bits forbid this.
    #[error("permission denied")]
    AccessDenied,
    /// The volume is full.
    #[error("no space left on the volume")]
    NoSpace,
    /// The volume, or this view of it, cannot be changed.
    #[error("the volume is read-only: {0}")]
    ReadOnly(String),
    /// A sync failed: the volume no longer takes writes, and changes that were not
    /// durable may be lost.
    #[error("not durable: {0}")]
    NotDurable(String),
    /// The file would exceed the largest size of the format.
    #[error("file too large")]
    TooLarge,
    /// The link count cannot grow further.
    #[error("too many links")]
    TooManyLinks,
    /// A path has too many symbolic links.
    #[error("too many levels of symbolic links")]
    TooManySymlinks,
    /// The attribute does not exist.
    #[error("no such attribute")]
    NoAttribute,
    /// A buffer is too small, or an attribute too large.
    #[error("result out of range")]
    Range,
    /// The operation or mode is not supported.
    #[error("operation not supported")]
    NotSupported,
    /// The layout keeps no former state.
    #[error(
        "only volumes with the layout log have snapshots: the others overwrite or free what was \
         there before; make the volume with `varve mkfs --layout log`, or if it has that layout and is \
         of an older version: `varve tune --snapshots`"
    )]
    NoSnapshots,
    /// No snapshot of the volume has this name, or is as old as this time.
    #[error("no such snapshot; `varve snapshot list` names those that exist")]
    NoSuchSnapshot,
    /// Another snapshot has the name.
    #[error("a snapshot with this name exists; delete or rename it first")]
    SnapshotExists,
    /// The file behind the handle was removed.
    #[error("stale file handle")]
    Stale,
    /// SEEK_DATA or SEEK_HOLE beyond the end.
    #[error("no data beyond this offset")]
    NoData,
    /// A directory that passes its project on would get a name of a file of another
    /// project.
    #[error("the file belongs to another project than the directory")]
    CrossesProjects,
    /// A transaction met a change made by another transaction since it began. None of its
    /// changes were applied.
    #[error("a conflict with another change: {0}")]
    Conflict(Conflict),
    /// The transaction has ended: it was aborted, or the volume was closed.
    #[error("the transaction has been aborted")]
    Aborted,
    /// The transaction was part of a deadlock, and the cheapest to abort.
    #[error("aborted to end a deadlock of transactions")]
    Deadlock,
    /// A lock was not granted within the transaction's time limit.
    #[error("aborted: a lock was not to be had in time")]
    TimedOut,
    /// The transaction would take more memory than transactions may.
    #[error(
        "the transaction is too large: what transactions keep in memory takes more than a \
         quarter of the cache; mount with a larger one (`varve mount --cache SIZE`)"
    )]
    TransactionTooLarge,
    /// A nested transaction is open within this one, which takes no other calls
    /// meanwhile.
    #[error("a transaction within this one has not ended")]
    Suspended,
    /// The object is in use.
    #[error("busy")]
    Busy,
    /// Stored bytes differ from those that were written. They are never returned as data.
    #[error("damaged: {detail}")]
    Damaged {
        /// The file, where one is known.
        ino: Option<InodeNo>,
        /// Description of the place, the bytes found, and the bytes expected.
        detail: String,
    },
    /// The device failed.
    #[error("{0}")]
    Device(std::sync::Arc<DeviceError>),
}

/// The object that two transactions changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The file or directory.
    pub ino: InodeNo,
    /// The part of it.
    pub of: Contended,
}

/// A part of a file or directory that a transaction changed or relied on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contended {
    /// The existence of the file.
    File,
    /// Content, from this byte on.
    Content(u64),
    /// The size.
    Size,
    /// Owner, permissions, flags or extended attributes.
    Attributes,
    /// The times of the last access and modification.
    Times,
    /// A name in the directory.
    Name(Vec<u8>),
    /// The directory's place in the tree, or that it is empty.
    Directory,
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ino = self.ino;
        match &self.of {
            Contended::File => write!(f, "{ino} is gone"),
            Contended::Content(at) => write!(f, "the content of {ino} at byte {at}"),
            Contended::Size => write!(f, "the size of {ino}"),
            Contended::Attributes => write!(f, "the attributes of {ino}"),
            Contended::Times => write!(f, "the times of {ino}"),
            Contended::Name(name) => {
                write!(f, "the name {} in {ino}", String::from_utf8_lossy(name))
            }
            Contended::Directory => write!(f, "the place or the names of directory {ino}"),
        }
    }
}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Self {
        Error::Device(std::sync::Arc::new(error))
    }
}

impl Error {
    pub(crate) fn conflict(ino: InodeNo, of: Contended) -> Self {
        Error::Conflict(Conflict { ino, of })
    }

    /// The Linux error number, the same as ext4 returns.
    pub fn errno(&self) -> i32 {
        match self {
            Error::NotFound | Error::NoSuchSnapshot => 2,
            Error::Exists | Error::SnapshotExists => 17,
            Error::NotDirectory => 20,
            Error::IsDirectory => 21,
            Error::NotEmpty => 39,
            Error::NameTooLong => 36,
            Error::Invalid(_) => 22,
            Error::NotPermitted => 1,
            Error::AccessDenied => 13,
            Error::NoSpace => 28,
            Error::ReadOnly(_) => 30,
            Error::TooLarge => 27,
            Error::TooManyLinks => 31,
            Error::TooManySymlinks => 40,
            Error::NoAttribute => 61,
            Error::Range => 34,
            Error::NotSupported | Error::NoSnapshots => 95,
            Error::Stale => 116,
            Error::NoData => 6,
            Error::CrossesProjects => 18,
            Error::Busy | Error::Suspended => 16,
            Error::Conflict(_) => 11,
            Error::Aborted => 125,
            Error::Deadlock => 35,
            Error::TimedOut => 110,
            Error::TransactionTooLarge => 12,
            Error::NotDurable(_) | Error::Damaged { .. } | Error::Device(_) => 5,
        }
    }
}
