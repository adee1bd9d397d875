//! What can go wrong with a stream, its original and its copy.

use crate::error::Error;
use crate::format::Mark;
use std::io;

/// The result of shipping and replaying.
pub type Result<T> = std::result::Result<T, ShipError>;

/// Why a stream was not written, or not replayed to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShipError {
    /// The volume failed.
    #[error(transparent)]
    Volume(#[from] Error),
    /// Reading or writing the stream failed.
    #[error("{0}: {1}")]
    Io(&'static str, #[source] io::Error),
    /// The log does not have what follows the mark.
    #[error("the log behind {mark} is gone ({why}): make a new base")]
    LogGone {
        /// Where the copy stands.
        mark: Mark,
        /// What is there instead.
        why: String,
    },
    /// The mark is not one of this log.
    #[error("{mark} is not of this volume's history: {why}; make a new base")]
    OtherHistory {
        /// The mark.
        mark: Mark,
        /// Where they part.
        why: String,
    },
    /// The original is a copy itself.
    #[error(
        "the volume is a copy of another and stands at its {0}: ship from that one, or write to \
         this one, which makes it an original"
    )]
    IsACopy(Mark),
    /// What is no stream, or ends in the middle.
    #[error("behind {after} the stream is no good: {problem}")]
    BadStream {
        /// The last record that was.
        after: Mark,
        /// What is wrong.
        problem: String,
    },
    /// It is not a stream that this volume can follow.
    #[error("{0}")]
    Unfit(String),
}

impl ShipError {
    pub(super) fn bad_header(problem: &str) -> Self {
        ShipError::Unfit(format!("this is no stream of `varve ship`: {problem}"))
    }
}
