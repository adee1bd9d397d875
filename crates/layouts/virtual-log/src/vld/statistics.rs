//! Statistics of a virtual log disk.

/// Counts since the volume was opened, and its present state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VldStatistics {
    /// Number of blocks written for the host.
    pub blocks_written: u64,
    /// Number of blocks read because the host wrote a part of one.
    pub blocks_merged: u64,
    /// Number of map records written.
    pub records_written: u64,
    /// Number of transactions committed.
    pub commits: u64,
    /// Number of checkpoints.
    pub checkpoints: u64,
    /// Number of blocks that the compactor moved.
    pub blocks_moved: u64,
    /// Number of blocks astride that were moved to aligned places, in idle time or
    /// because new blocks needed the space.
    pub blocks_realigned: u64,
    /// Number of tracks that the compactor emptied.
    pub tracks_emptied: u64,
    /// Number of map records that were written to another place after a failure.
    pub records_retried: u64,
    /// Number of blocks that were written to another place after a failure.
    pub writes_retried: u64,
    /// Number of logical blocks that have a place.
    pub blocks_mapped: u64,
    /// Number of data blocks that extend over two blocks of the medium.
    pub blocks_astride: u64,
    /// Number of blocks without a used unit.
    pub blocks_free: u64,
    /// Number of tracks without a used unit.
    pub tracks_empty: u64,
    /// Number of records that are overwritten but kept, because other records depend on
    /// them.
    pub records_waiting: u64,
}
