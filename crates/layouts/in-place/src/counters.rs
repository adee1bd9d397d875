//! Counters of a mounted volume.

use varve_device::sync::atomic::AtomicU64;

/// Counts of events since the mount.
#[derive(Debug, Default)]
pub struct Counters {
    pub groups: AtomicU64,
    pub data_bytes: AtomicU64,
    pub records: AtomicU64,
    pub record_bytes: AtomicU64,
    pub ordered_commits: AtomicU64,
    pub flushes: AtomicU64,
    pub checkpoints: AtomicU64,
    pub sectors_placed: AtomicU64,
}
