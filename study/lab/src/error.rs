//! Why an experiment cannot be run.

use crate::trace::TraceError;
use std::path::PathBuf;

/// Segments that an experiment may be asked for.
pub const SEGMENTS: std::ops::RangeInclusive<u32> = 150..=100_000;

/// Why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// It replays traces, and nobody said where they are.
    #[error("the experiment replays traces: say where they are")]
    NoTraces,
    /// Volumes of so many segments are not simulated.
    #[error(
        "{0} cannot have {1} segments: R3a, R3b, R3c and R4 can have {min} to {max}",
        min = SEGMENTS.start(),
        max = SEGMENTS.end()
    )]
    Segments(&'static str, u32),
    /// The experiment measures no machine, so none can be wrong.
    #[error("{0} has no machine that could be wrong: B, L, N3, N6, R1, R2, X1 and X3 have")]
    Wrong(&'static str),
    /// A trace cannot be used.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A result cannot be written or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file system under study failed.
    #[error("the file system under study failed: {0}")]
    System(String),
    /// What is studied panicked: a fault of ours, and no result.
    #[error("{0}, {1}: it panicked")]
    Panic(&'static str, String),
    /// The picture cannot be drawn.
    #[error("the picture cannot be drawn: {0}")]
    Picture(String),
}

impl LabError {
    /// What a file system or its log said.
    pub(crate) fn system(error: impl std::fmt::Display) -> Self {
        LabError::System(error.to_string())
    }
}
