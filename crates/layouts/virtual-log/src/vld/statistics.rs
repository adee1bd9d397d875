//! What a virtual log disk did.

/// Counts since the volume was opened, and its present state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VldStatistics {
    /// Blocks written for the host.
    pub blocks_written: u64,
    /// Blocks read back because the host wrote a part of one.
    pub blocks_merged: u64,
    /// Map records written.
    pub records_written: u64,
    /// Transactions.
    pub commits: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Blocks that the compactor moved.
    pub blocks_moved: u64,
    /// Blocks that lay astride and were moved to where a block begins, in idle time
    /// or because new blocks needed the room.
    pub blocks_realigned: u64,
    /// Tracks that it emptied.
    pub tracks_emptied: u64,
    /// Map records that had to be written to another place after a failure.
    pub records_retried: u64,
    /// Blocks that had to be written to another place after a failure.
    pub writes_retried: u64,
    /// Logical blocks that hold something.
    pub blocks_mapped: u64,
    /// Data blocks that lie across the border of two blocks of the medium.
    pub blocks_astride: u64,
    /// Blocks with no used unit.
    pub blocks_free: u64,
    /// Tracks with no used unit.
    pub tracks_empty: u64,
    /// Records that are overwritten but kept, because others hang on them.
    pub records_waiting: u64,
}
