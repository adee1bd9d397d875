//! Counters of a mounted volume.

use varve_device::sync::atomic::AtomicU64;

/// Counts of events since the mount.
#[derive(Debug, Default)]
pub struct Counters {
    pub transactions: AtomicU64,
    pub brief: AtomicU64,
    pub records: AtomicU64,
    pub flushes: AtomicU64,
    pub checkpoints: AtomicU64,
    pub reliefs: AtomicU64,
    pub units_moved: AtomicU64,
    pub regions_emptied: AtomicU64,
    pub units_immovable: AtomicU64,
}
