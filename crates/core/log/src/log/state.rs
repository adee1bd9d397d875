//! Where the log stands.

use super::placement::Placement;
use crate::format::Mark;
use crate::heads::LogEnd;
use crate::segments::Holes;

/// The end of the log, where it is written.
#[derive(Debug)]
pub struct LogState {
    /// Behind the last partial, and where each head stands.
    pub end: LogEnd,
    /// The end of the last whole group.
    pub mark: Mark,
    /// Which head takes what.
    pub placement: Placement,
    /// Random identity of this mount.
    pub mount_id: u64,
    /// Number of this mount.
    pub incarnation: u32,
    /// Segments whose holes may be written into.
    pub holes: Vec<Holes>,
}
