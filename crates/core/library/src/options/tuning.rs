//! Options of cleaners, threads and caches.

use varve_lfs::cleaner::Pace;
use varve_lfs::policy::PolicyKind;

/// Internal options of an open volume, for servers and measurements.
///
/// ```
/// use varve::{VolumeOptions, admin::Tuning};
/// let mut options = VolumeOptions::new();
/// options.tune(Tuning { discard: true, ..Tuning::default() });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Policy by which the cleaner chooses segments. Default: greedy.
    pub cleaner_policy: PolicyKind,
    /// True if blocks may be written into holes of segments when clean segments are
    /// short. Default: true.
    pub holes: bool,
    /// Schedule of the volume's own cleaner; its `threaded` is set from whether the
    /// volume has threads. Default: it runs whenever clean segments run low.
    pub cleaner: Pace,
    /// Number of threads that prefetch for sequential readers; with 0 the read that
    /// misses fetches ahead itself. Default: 4.
    pub read_ahead_threads: usize,
    /// True if file blocks remain in the cache after write-back. A mount sets it to false
    /// because the kernel caches them. Default: true.
    pub keep_written: bool,
    /// True if segments that became clean are discarded on the device. Default: false.
    pub discard: bool,
    /// True if the tree is verified in the background after a roll-forward. Default:
    /// true.
    pub verify: bool,
    /// On the virtual log: true if scattered free space is compacted into empty regions
    /// while the volume is idle. Default: false.
    pub compact: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            cleaner_policy: PolicyKind::default(),
            holes: true,
            cleaner: Pace::default(),
            read_ahead_threads: 4,
            keep_written: true,
            discard: false,
            verify: true,
            compact: false,
        }
    }
}
