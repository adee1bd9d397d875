//! The state of the log's end.

use super::placement::Placement;
use crate::format::Mark;
use crate::heads::LogEnd;
use crate::segments::Holes;

/// The end of the log, where it is written.
#[derive(Debug)]
pub struct LogState {
    /// The chain after the last partial, and the place of each head.
    pub end: LogEnd,
    /// The end of the last whole group.
    pub mark: Mark,
    /// Distribution among heads.
    pub placement: Placement,
    /// Random identity of this mount.
    pub mount_id: u64,
    /// Number of this mount.
    pub incarnation: u32,
    /// Segments whose holes may be written into.
    pub holes: Vec<Holes>,
}
