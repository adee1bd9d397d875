//! What can go wrong, and where.

use std::io;
use varve_locks::LockError;

/// The result of every operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation: what happened, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage refused a request.
    #[error("{file}: {operation} at byte {offset} failed: {source}")]
    Io {
        /// The file's name.
        file: String,
        /// What was attempted.
        operation: &'static str,
        /// Where in the file.
        offset: u64,
        /// The storage's reason.
        #[source]
        source: io::Error,
    },
    /// Bytes on the medium are not what was written. Restore from a backup.
    #[error("{file}: damaged at byte {offset}: {what}")]
    Damaged {
        /// The file's name.
        file: String,
        /// Where in the file; of the log its LSN.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A write, sync or abort has failed, so what is on the medium is unknown.
    /// Everything acknowledged is safe: open the environment again.
    #[error("the environment has failed before and must be opened again: {0}")]
    Poisoned(String),
    /// The log has reached its limit, as a transaction has been open for long, or
    /// there is no room for more of it. Nothing was changed; abort the transaction.
    #[error("the log is full: {needed} bytes more are needed")]
    LogFull {
        /// Bytes that do not fit.
        needed: u64,
    },
    /// Every frame of the buffer is in use, for about a second. Give the environment more
    /// memory.
    #[error("all {frames} frames of the buffer are pinned")]
    BufferFull {
        /// Frames there are.
        frames: usize,
    },
    /// The transaction was chosen to give way in a deadlock. Abort it, try again.
    #[error("deadlock: this transaction has to give way; abort it and try again")]
    Deadlock,
    /// A lock was not granted in the time allowed. Abort the transaction.
    #[error("a lock was not granted in the time allowed")]
    LockTimeout,
    /// Somebody else has changed the record and committed since the snapshot of this
    /// transaction ([`Isolation::Snapshot`](crate::Isolation::Snapshot)). Abort it, try
    /// again.
    #[error("somebody else has changed the record meanwhile; abort and try again")]
    WriteConflict,
    /// Old values that the snapshot needs are no longer kept, as it has been open for
    /// long while others changed much, or one transaction has changed very much. Begin
    /// anew, or allow more with [`Options::versions`](crate::Options::versions).
    #[error("the snapshot is too old: more than {limit} bytes of old values would be kept")]
    SnapshotTooOld {
        /// Bytes that are kept at most.
        limit: usize,
    },
    /// The transaction has ended, or failed to roll back.
    #[error("the transaction has ended")]
    Ended,
    /// A key of more than 1 GiB, or a table's name of more bytes than an eighth of a page.
    #[error("a key or a name of {bytes} bytes; {limit} are allowed")]
    KeyTooLong {
        /// Bytes of the key or name.
        bytes: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// A value of more than 1 GiB.
    #[error("a value of {bytes} bytes; 1 GiB is allowed")]
    ValueTooLong {
        /// Bytes of the value.
        bytes: usize,
    },
    /// There is no table of that name.
    #[error("no table is called {0:?}")]
    NoTable(String),
    /// There is a table of that name already.
    #[error("a table is called {0:?} already")]
    TableExists(String),
    /// The table has an index, whose function the environment was not opened with: it
    /// cannot be written.
    #[error("table {table:?} has the index {index:?}, which the environment was not told of")]
    IndexNotGiven {
        /// The table's name.
        table: String,
        /// The index's.
        index: String,
    },
    /// A table that has indices, or is one, keeps its name.
    #[error("{0:?} is an index or has one: it keeps its name")]
    Indexed(String),
    /// The table was dropped after it was opened.
    #[error("the table has been dropped")]
    TableDropped,
    /// There is no record of that number.
    #[error("there is no record {0}")]
    NoRecord(u64),
    /// A file of records has one of the highest number: none can be appended.
    #[error("there is no number left for a record more")]
    NoNumber,
    /// The table was made with other types.
    #[error("table {table:?} holds {found}, not {wanted}")]
    WrongType {
        /// The table's name.
        table: String,
        /// Its types.
        found: String,
        /// Those asked for.
        wanted: String,
    },
    /// The environment was made by another version, or its files are not one.
    #[error("{file}: {what}")]
    Incompatible {
        /// The file's name.
        file: String,
        /// What does not fit.
        what: String,
    },
    /// Another process has the environment open and does not share it, or shares it and is
    /// stopped.
    #[error(
        "another process has the environment open, and does not share it or does not answer: \
         end it, or let it go on"
    )]
    InUse,
    /// A copy cannot go on without a part of its original's log.
    #[error("{file}: missing; the log from {from} to {to} is needed first")]
    LogMissing {
        /// The file in which it would be.
        file: String,
        /// Where the copy stands, as an LSN.
        from: u64,
        /// Where what there is begins.
        to: u64,
    },
    /// The process that held the environment is gone, and with it this transaction. The
    /// next one opens the environment again. Or it has not answered for five seconds: it is
    /// stopped. Then the transaction ends as soon as it goes on, and the next one gets
    /// [`Error::InUse`].
    #[error("the process that held the environment is gone or stopped; {}", fate(.committing))]
    HolderDied {
        /// It went while it was asked to commit: it may have.
        committing: bool,
    },
    /// The process that holds the environment refused a request.
    #[error("the holder of the environment: {0}")]
    Holder(String),
    /// The environment, or the transaction, is for reading only.
    #[error("it was opened for reading only")]
    ReadOnly,
    /// An option makes no sense.
    #[error("option {option}: {what}")]
    Option {
        /// Its name.
        option: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// Keys of a bulk load must grow, and its table must be empty.
    #[error("bulk load: {0}")]
    BulkLoad(&'static str),
}

/// What becomes of a transaction whose holder has died.
fn fate(committing: &bool) -> &'static str {
    match committing {
        true => "nobody knows whether the transaction is committed",
        false => "the transaction is undone",
    }
}

impl Error {
    /// True if the transaction should be aborted and tried again.
    pub fn is_conflict(&self) -> bool {
        matches!(
            self,
            Error::Deadlock
                | Error::LockTimeout
                | Error::WriteConflict
                | Error::SnapshotTooOld { .. }
        )
    }

    /// Damage of the log at an LSN, by which commits behind it may be lost.
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
