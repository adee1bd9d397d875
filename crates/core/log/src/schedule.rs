//! When checkpoints are taken.

use crate::history::HistoryChanges;

/// When the last checkpoint was, and what the next one does.
#[derive(Debug)]
pub struct Schedule {
    /// Number of the next checkpoint.
    pub next_serial: u64,
    /// Monotonic nanoseconds when the last one was taken.
    pub last_ns: u64,
    /// What the next one changes in the table of snapshots.
    pub(crate) history: HistoryChanges,
}
