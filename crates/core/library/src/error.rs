//! Errors that name the operation, its object and the cause.

use crate::conflict::Conflict;
use crate::host::Holder;
use rustix::io::Errno;
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use varve_device::OpenError;
use varve_lfs::shipping::ShipError;

/// Result of the library's calls.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a call failed. Its text names the operation, the path and the cause.
///
/// It converts into a [`std::io::Error`] of the same kind, which contains it as its
/// source.
///
/// ```
/// use std::io::{self, ErrorKind};
/// let volume = varve::Volume::in_memory(16 << 20)?;
/// let error = volume.read("/no/such").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// assert_eq!(error.errno(), 2);
/// assert_eq!(error.to_string(), "cannot open /no/such: no such file or directory");
/// assert_eq!(io::Error::from(error).kind(), ErrorKind::NotFound);
/// # Ok::<(), varve::Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Failure>);

#[derive(Debug, thiserror::Error)]
enum Failure {
    /// An operation on a path of the volume's tree.
    #[error("cannot {operation} {}: {cause}", path.display())]
    Path {
        operation: &'static str,
        path: PathBuf,
        #[source]
        cause: Cause,
    },
    /// An operation on the volume as a whole.
    #[error("cannot {operation}: {cause}")]
    Volume {
        operation: &'static str,
        #[source]
        cause: Cause,
    },
    /// The image or device could not be opened or created.
    #[error(transparent)]
    Open(OpenError),
    /// Another process has the volume open.
    #[error("{} is in use{}", path.display(), holder_text(.holder.as_ref()))]
    InUse {
        path: PathBuf,
        holder: Option<Holder>,
    },
    /// The image contains no volume, or a damaged one.
    #[error(transparent)]
    Layout(varve_lfs::Error),
    /// A stream cannot be replayed onto the volume.
    #[error(transparent)]
    Ship(varve_lfs::shipping::ShipError),
    /// The image contains no volume on the virtual log, or a damaged one.
    #[error(transparent)]
    VirtualLog(varve_vlfs::Error),
    /// The image contains no volume that is updated in place, or a damaged one.
    #[error(transparent)]
    InPlace(varve_ffs::Error),
    /// The target is not what the caller expects, or the call would destroy data.
    #[error("{} {problem}; {advice}", path.display())]
    Refused {
        path: PathBuf,
        problem: String,
        advice: Cow<'static, str>,
        errno: Errno,
    },
}

/// Why an operation on an open volume failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Cause {
    #[error("a conflict with another change: {0}")]
    Conflict(Conflict),
    #[error(transparent)]
    Tree(varve_fs::Error),
    #[error("the volume was closed")]
    Closed,
    #[error("the file was not opened for that")]
    Access,
    #[error("{0}")]
    Argument(&'static str),
    #[error("the content is not valid UTF-8")]
    NotText,
}

impl Cause {
    fn errno(&self) -> i32 {
        let errno = match self {
            Cause::Tree(error) => return error.errno(),
            Cause::Conflict(_) => Errno::AGAIN,
            // A mount whose server has exited returns the same error.
            Cause::Closed => Errno::NOTCONN,
            Cause::Access => Errno::BADF,
            Cause::Argument(_) => Errno::INVAL,
            Cause::NotText => Errno::ILSEQ,
        };
        errno.raw_os_error()
    }
}

fn holder_text(holder: Option<&Holder>) -> String {
    match holder {
        Some(holder) => {
            format!(": {holder}; unmount it there, or wait until it is done, and try again")
        }
        None => ": it is mounted, or another process has it open; unmount it or end that process, and try \
                 again".into(),
    }
}

impl Error {
    pub(crate) fn at(operation: &'static str, path: &Path, cause: Cause) -> Self {
        Error(Box::new(Failure::Path {
            operation,
            path: path.to_owned(),
            cause,
        }))
    }

    pub(crate) fn of_volume(operation: &'static str, cause: Cause) -> Self {
        Error(Box::new(Failure::Volume { operation, cause }))
    }

    pub(crate) fn in_use(path: PathBuf, holder: Option<Holder>) -> Self {
        Error(Box::new(Failure::InUse { path, holder }))
    }

    pub(crate) fn host(path: &Path, action: &'static str, source: io::Error) -> Self {
        Error::from(OpenError::Io {
            path: path.to_owned(),
            action,
            source,
        })
    }

    pub(crate) fn refused(
        path: &Path,
        errno: Errno,
        problem: impl Into<String>,
        advice: impl Into<Cow<'static, str>>,
    ) -> Self {
        Error(Box::new(Failure::Refused {
            path: path.to_owned(),
            problem: problem.into(),
            advice: advice.into(),
            errno,
        }))
    }

    /// Returns the kind that `std::fs` would give the error. Kinds that concern volumes:
    ///
    /// | kind | cause |
    /// |---|---|
    /// | `ResourceBusy` | the volume is in use |
    /// | `AlreadyExists` | the place for a new volume contains data |
    /// | `InvalidData` | there is no volume, or the file of [`crate::Volume::read_to_string`] is not UTF-8 |
    /// | `NotConnected` | the volume was closed |
    /// | `WouldBlock` | a conflict of transactions, see [`Error::is_conflict`] |
    pub fn kind(&self) -> io::ErrorKind {
        match &*self.0 {
            Failure::Path {
                cause: Cause::NotText,
                ..
            }
            | Failure::Layout(
                varve_lfs::Error::NoVolume { .. } | varve_lfs::Error::NoCheckpoint { .. },
            )
            | Failure::VirtualLog(varve_vlfs::Error::NoVolume { .. })
            | Failure::InPlace(varve_ffs::Error::NoVolume { .. }) => io::ErrorKind::InvalidData,
            _ => io::Error::from_raw_os_error(self.errno()).kind(),
        }
    }

    /// Returns the Linux error number that fits best.
    pub fn errno(&self) -> i32 {
        let errno = match &*self.0 {
            Failure::Path { cause, .. } | Failure::Volume { cause, .. } => return cause.errno(),
            Failure::Open(OpenError::InUse { .. }) | Failure::InUse { .. } => Errno::BUSY,
            Failure::Open(OpenError::Io { source, .. }) => {
                return source.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
            }
            Failure::Open(_)
            | Failure::Layout(varve_lfs::Error::Format(_) | varve_lfs::Error::Unfit(_))
            | Failure::VirtualLog(varve_vlfs::Error::Format(_) | varve_vlfs::Error::Unfit(_))
            | Failure::InPlace(varve_ffs::Error::Format(_) | varve_ffs::Error::Unfit(_)) => {
                Errno::INVAL
            }
            Failure::Layout(
                varve_lfs::Error::DoesNotFit { .. } | varve_lfs::Error::OutOfSegments,
            ) => Errno::NOSPC,
            Failure::Layout(_) | Failure::VirtualLog(_) | Failure::InPlace(_) => Errno::IO,
            Failure::Ship(
                ShipError::Unfit(_) | ShipError::OtherHistory { .. } | ShipError::IsACopy(_),
            ) => Errno::INVAL,
            Failure::Ship(_) => Errno::IO,
            Failure::Refused { errno, .. } => *errno,
        };
        errno.raw_os_error()
    }

    /// Returns true if a transaction conflicted with another change, or was aborted to
    /// resolve a deadlock. A new attempt may succeed.
    pub fn is_conflict(&self) -> bool {
        let (Failure::Path { cause, .. } | Failure::Volume { cause, .. }) = &*self.0 else {
            return false;
        };
        matches!(
            cause,
            Cause::Conflict(_) | Cause::Tree(varve_fs::Error::Deadlock)
        )
    }

    /// Returns the file, and the part of it, on which two transactions conflict; `None`
    /// for other errors, including deadlocks.
    pub fn conflict(&self) -> Option<&Conflict> {
        match &*self.0 {
            Failure::Volume {
                cause: Cause::Conflict(conflict),
                ..
            } => Some(conflict),
            _ => None,
        }
    }

    /// Returns the path that the call was given: one in the volume's tree, or that of the
    /// image.
    pub fn path(&self) -> Option<&Path> {
        match &*self.0 {
            Failure::Path { path, .. }
            | Failure::InUse { path, .. }
            | Failure::Refused { path, .. } => Some(path),
            Failure::Open(OpenError::Io { path, .. } | OpenError::InUse { path }) => Some(path),
            _ => None,
        }
    }
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        Error(Box::new(Failure::Open(error)))
    }
}

impl From<varve_lfs::Error> for Error {
    fn from(error: varve_lfs::Error) -> Self {
        Error(Box::new(Failure::Layout(error)))
    }
}

impl From<ShipError> for Error {
    fn from(error: ShipError) -> Self {
        match error {
            ShipError::Volume(error) => error.into(),
            other => Error(Box::new(Failure::Ship(other))),
        }
    }
}

impl From<varve_vlfs::Error> for Error {
    fn from(error: varve_vlfs::Error) -> Self {
        Error(Box::new(Failure::VirtualLog(error)))
    }
}

impl From<varve_ffs::Error> for Error {
    fn from(error: varve_ffs::Error) -> Self {
        Error(Box::new(Failure::InPlace(error)))
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::new(error.kind(), error)
    }
}
