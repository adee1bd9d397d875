//! Reasons for which a volume in a store cannot be made, opened or written.

use crate::format::{Flaw, Holder};
use crate::store::StoreError;
use std::io;
use std::time::Duration;

/// The result of making and opening a volume.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a volume cannot be made, opened or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store did not do what it was asked to.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no volume.
    #[error("there is no volume in {0}")]
    NoVolume(String),
    /// There is a volume already.
    #[error("there is a volume in {0} already")]
    AlreadyExists(String),
    /// Another writer has not closed the volume.
    #[error(
        "{store} is written by process {} of host {}, last {} s ago; \
         the option takeover ends its access", .holder.process, .holder.host, .idle.as_secs()
    )]
    InUse {
        /// The store's name.
        store: String,
        /// The writer.
        holder: Holder,
        /// The time since its last log object, by the clocks of both.
        idle: Duration,
    },
    /// Another writer took the volume over.
    #[error(
        "process {} of host {} took {store} over; what was flushed before is stored, \
         and nothing is written any more", .holder.process, .holder.host
    )]
    Fenced {
        /// The store's name.
        store: String,
        /// The other writer.
        holder: Holder,
    },
    /// An object is damaged.
    #[error("{store}: {object} is damaged: {flaw}")]
    Damaged {
        /// The store's name.
        store: String,
        /// The object's name.
        object: String,
        /// The flaw.
        flaw: Flaw,
    },
    /// An object that the volume needs is not there.
    #[error("{store}: {object} is missing")]
    Missing {
        /// The store's name.
        store: String,
        /// The object's name.
        object: String,
    },
    /// The store lets several writers create one object.
    #[error(
        "{0} let {1} of 8 writers create one object; a volume needs a store in which \
         the first one wins"
    )]
    NotCreateOnly(String, usize),
    /// The volume was opened for reading.
    #[error("{0} was opened for reading")]
    ReadOnly(String),
    /// The device has failed before, or is closed.
    #[error("{0}")]
    Stopped(String),
}

impl Error {
    /// The error for callers of a device. Only damaged and missing objects are errors of
    /// the medium; all others say nothing about the stored bytes.
    pub fn into_io(self) -> io::Error {
        use crate::store::Cause;
        match &self {
            Error::Store(StoreError {
                cause: Cause::Missing | Cause::Malformed,
                ..
            })
            | Error::Damaged { .. }
            | Error::Missing { .. } => io::Error::new(io::ErrorKind::InvalidData, self),
            _ => io::Error::other(varve_device::Service(Box::new(self))),
        }
    }
}
