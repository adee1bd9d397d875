//! Errors, with the file and the position.

use std::io;
use varve_locks::LockError;

/// Result of every operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation, with the position and the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage refused a request.
    #[error("{file}: {operation} at byte {offset} failed: {source}")]
    Io {
        /// Name of the file.
        file: String,
        /// Operation that failed.
        operation: &'static str,
        /// Byte offset in the file.
        offset: u64,
        /// Error of the storage.
        #[source]
        source: io::Error,
    },
    /// Bytes on the medium differ from those written. Restore from a backup.
    #[error("{file}: damaged at byte {offset}: {what}")]
    Damaged {
        /// Name of the file.
        file: String,
        /// Byte offset in the file; for the log an LSN.
        offset: u64,
        /// Kind of damage.
        what: String,
    },
    /// A write, sync or abort has failed, so the content of the medium is unknown. Every
    /// acknowledged commit is safe; open the environment again.
    #[error("the environment has failed before and must be opened again: {0}")]
    Poisoned(String),
    /// The log has reached its limit because a transaction has been open for long, or the
    /// storage has no space for more log. Nothing was changed; abort the transaction.
    #[error("the log is full: {needed} bytes more are needed")]
    LogFull {
        /// Bytes that do not fit.
        needed: u64,
    },
    /// Every frame of the buffer was pinned for about a second. Give the environment more
    /// memory.
    #[error("all {frames} frames of the buffer are pinned")]
    BufferFull {
        /// Number of frames.
        frames: usize,
    },
    /// The transaction was chosen as the victim of a deadlock. Abort it and try again.
    #[error("deadlock: this transaction has to give way; abort it and try again")]
    Deadlock,
    /// A lock was not granted within the timeout. Abort the transaction.
    #[error("a lock was not granted in the time allowed")]
    LockTimeout,
    /// Another transaction has changed the record and committed since the snapshot of
    /// this one ([`Isolation::Snapshot`](crate::Isolation::Snapshot)). Abort it and try
    /// again.
    #[error("somebody else has changed the record meanwhile; abort and try again")]
    WriteConflict,
    /// Old values that the snapshot needs were dropped, because it has been open for long
    /// while other transactions changed much, or one transaction has changed very much.
    /// Begin a new one, or allow more with
    /// [`Options::versions`](crate::Options::versions).
    #[error("the snapshot is too old: more than {limit} bytes of old values would be kept")]
    SnapshotTooOld {
        /// Limit in bytes of old values.
        limit: usize,
    },
    /// The transaction has ended, or failed to roll back.
    #[error("the transaction has ended")]
    Ended,
    /// A key has more than 1 GiB, or a table's name more bytes than an eighth of a page.
    #[error("a key or a name of {bytes} bytes; {limit} are allowed")]
    KeyTooLong {
        /// Bytes of the key or name.
        bytes: usize,
        /// Limit in bytes.
        limit: usize,
    },
    /// A value has more than 1 GiB.
    #[error("a value of {bytes} bytes; 1 GiB is allowed")]
    ValueTooLong {
        /// Bytes of the value.
        bytes: usize,
    },
    /// There is no table of that name.
    #[error("no table is called {0:?}")]
    NoTable(String),
    /// There is already a table of that name.
    #[error("a table is called {0:?} already")]
    TableExists(String),
    /// The table has an index whose function was not given when the environment was
    /// opened, so it cannot be written.
    #[error("table {table:?} has the index {index:?}, which the environment was not told of")]
    IndexNotGiven {
        /// Name of the table.
        table: String,
        /// Name of the index.
        index: String,
    },
    /// A table that has indices, or is an index, cannot be renamed.
    #[error("{0:?} is an index or has one: it keeps its name")]
    Indexed(String),
    /// The table was dropped after it was opened.
    #[error("the table has been dropped")]
    TableDropped,
    /// There is no record of that number.
    #[error("there is no record {0}")]
    NoRecord(u64),
    /// A table of records has used the highest number, so no record can be appended.
    #[error("there is no number left for a record more")]
    NoNumber,
    /// The table was created with other types.
    #[error("table {table:?} holds {found}, not {wanted}")]
    WrongType {
        /// Name of the table.
        table: String,
        /// Types of the table.
        found: String,
        /// Types requested.
        wanted: String,
    },
    /// The environment was made by another version, or its files are not an environment.
    #[error("{file}: {what}")]
    Incompatible {
        /// Name of the file.
        file: String,
        /// The property that does not fit.
        what: String,
    },
    /// Another process has the environment open and does not share it, or shares it and
    /// is stopped.
    #[error(
        "another process has the environment open, and does not share it or does not answer: \
         end it, or let it go on"
    )]
    InUse,
    /// A copy needs a missing part of its original's log.
    #[error("{file}: missing; the log from {from} to {to} is needed first")]
    LogMissing {
        /// File that would contain it.
        file: String,
        /// End of the copy's log, as an LSN.
        from: u64,
        /// Beginning of the available log, as an LSN.
        to: u64,
    },
    /// The process that had the environment open exited, which ended this transaction;
    /// the next one opens the environment again. Or that process has not answered for
    /// five seconds because it is stopped: the transaction then ends when it continues,
    /// and the next one fails with [`Error::InUse`].
    #[error("the process that held the environment is gone or stopped; {}", fate(.committing))]
    HolderDied {
        /// True if it exited during the commit, so that the transaction may be committed.
        committing: bool,
    },
    /// The process that has the environment open refused a request.
    #[error("the holder of the environment: {0}")]
    Holder(String),
    /// The environment, or the transaction, is read-only.
    #[error("it was opened for reading only")]
    ReadOnly,
    /// The value of an option is invalid.
    #[error("option {option}: {what}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// The reason.
        what: String,
    },
    /// Keys of a bulk load must ascend, and its table must be empty.
    #[error("bulk load: {0}")]
    BulkLoad(&'static str),
}

/// Returns the text on the outcome of a transaction whose holder exited.
fn fate(committing: &bool) -> &'static str {
    match committing {
        true => "nobody knows whether the transaction is committed",
        false => "the transaction is undone",
    }
}

impl Error {
    /// Returns true if the transaction should be aborted and tried again.
    pub fn is_conflict(&self) -> bool {
        matches!(
            self,
            Error::Deadlock
                | Error::LockTimeout
                | Error::WriteConflict
                | Error::SnapshotTooOld { .. }
        )
    }

    /// Returns an error for damage of the log at an LSN, by which later commits may be
    /// lost.
    pub(crate) fn log_lost(lsn: u64, what: impl std::fmt::Display) -> Self {
        let next = format!(
            "records from LSN {lsn} on may be lost; put the file back, or restore a backup and \
             the archive of the log (varve tp restore)"
        );
        Error::damaged("wal", lsn, format!("{what}; {next}"))
    }

    pub(crate) fn damaged(file: &str, offset: u64, what: impl Into<String>) -> Self {
        Error::Damaged {
            file: file.to_owned(),
            offset,
            what: what.into(),
        }
    }
}

impl From<LockError> for Error {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Deadlock => Error::Deadlock,
            LockError::Timeout => Error::LockTimeout,
            LockError::Cancelled => Error::Ended,
        }
    }
}
