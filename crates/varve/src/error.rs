//! Errors that say what was attempted, on what, and why it failed.

use crate::host::Holder;
use std::io;
use std::path::PathBuf;
use varve_device::OpenError;

/// The result of every call of the facade.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation on a path of the volume's tree.
    #[error("cannot {operation} {}: {source}", path.display())]
    File {
        /// What was attempted, as a verb.
        operation: &'static str,
        /// The path as given.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: varve_fs::Error,
    },
    /// An operation on the volume as a whole.
    #[error("cannot {operation}: {source}")]
    Tree {
        /// What was attempted, as a verb.
        operation: &'static str,
        /// Why it failed.
        #[source]
        source: varve_fs::Error,
    },
    /// The image or device could not be opened or created.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Somebody else has the volume open.
    #[error("{} is in use{}", path.display(), holder_text(.holder.as_deref()))]
    InUse {
        /// The image or device.
        path: PathBuf,
        /// Who holds it, as far as the volume tells.
        holder: Option<Box<Holder>>,
    },
    /// The image holds no volume, or a damaged one.
    #[error(transparent)]
    Layout(#[from] varve_lfs::Error),
    /// Making a volume would destroy something.
    #[error("{} {problem}; {advice}", path.display())]
    Refused {
        /// The image or device.
        path: PathBuf,
        /// What stands in the way.
        problem: String,
        /// What to do about it.
        advice: &'static str,
    },
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
    pub(crate) fn tree(operation: &'static str) -> impl FnOnce(varve_fs::Error) -> Self {
        move |source| Error::Tree { operation, source }
    }

    /// The Linux error number that fits best.
    pub fn errno(&self) -> i32 {
        use rustix::io::Errno;
        match self {
            Error::File { source, .. } | Error::Tree { source, .. } => source.errno(),
            Error::Open(OpenError::InUse { .. }) | Error::InUse { .. } => {
                Errno::BUSY.raw_os_error()
            }
            Error::Open(OpenError::Io { source, .. }) => {
                source.raw_os_error().unwrap_or(Errno::IO.raw_os_error())
            }
            Error::Open(_) | Error::Layout(varve_lfs::Error::Format(_)) => {
                Errno::INVAL.raw_os_error()
            }
            Error::Layout(_) => Errno::IO.raw_os_error(),
            Error::Refused { .. } => Errno::EXIST.raw_os_error(),
        }
    }

    /// True if the error means that a file or name does not exist.
    pub fn is_not_found(&self) -> bool {
        self.errno() == rustix::io::Errno::NOENT.raw_os_error()
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = io::Error::from_raw_os_error(error.errno()).kind();
        io::Error::new(kind, error)
    }
}
