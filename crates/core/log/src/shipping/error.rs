//! Errors of a stream, its original and its copy.

use crate::error::Error;
use crate::format::Mark;
use std::io;

/// The result of shipping and replaying.
pub type Result<T> = std::result::Result<T, ShipError>;

/// The reason for which a stream was not written, or not replayed to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShipError {
    /// The volume failed.
    #[error(transparent)]
    Volume(#[from] Error),
    /// Reading or writing the stream failed.
    #[error("{0}: {1}")]
    Io(&'static str, #[source] io::Error),
    /// The log no longer has the partials after the mark.
    #[error("the log behind {mark} is gone ({why}): make a new base")]
    LogGone {
        /// The copy's mark.
        mark: Mark,
        /// Description of the log found there instead.
        why: String,
    },
    /// The mark is not one of this log.
    #[error("{mark} is not of this volume's history: {why}; make a new base")]
    OtherHistory {
        /// The mark.
        mark: Mark,
        /// Description of the difference.
        why: String,
    },
    /// The original is a copy itself.
    #[error(
        "the volume is a copy of another and stands at its {0}: ship from that one, or write to \
         this one, which makes it an original"
    )]
    IsACopy(Mark),
    /// Bytes that are no stream, or a stream that ends early.
    #[error("behind {after} the stream is no good: {problem}")]
    BadStream {
        /// The last valid record.
        after: Mark,
        /// Description of the error.
        problem: String,
    },
    /// The stream is not one that this volume can follow.
    #[error("{0}")]
    Unfit(String),
}

impl ShipError {
    pub(super) fn bad_header(problem: &str) -> Self {
        ShipError::Unfit(format!("this is no stream of `varve ship`: {problem}"))
    }
}
