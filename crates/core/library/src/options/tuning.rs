//! Choices about cleaners, threads and caches.

use varve_lfs::cleaner::Pace;
use varve_lfs::policy::PolicyKind;

/// How the inside of an open volume works: for servers and measurements.
///
/// ```
/// use varve::{VolumeOptions, admin::Tuning};
/// let mut options = VolumeOptions::new();
/// options.tune(Tuning { discard: true, ..Tuning::default() });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Which segments the cleaner takes first. Default: greedy.
    pub cleaner_policy: PolicyKind,
    /// Blocks may be written into holes of segments when clean ones are short.
    /// Default: on.
    pub holes: bool,
    /// When the volume's own cleaner works; its `threaded` follows whether the
    /// volume has threads. Default: whenever clean segments run low.
    pub cleaner: Pace,
    /// Threads that fetch ahead of sequential readers; 0 fetches within the
    /// read that missed. Default: 4.
    pub read_ahead_threads: usize,
    /// Files' blocks stay in the cache once they have been written back. Off
    /// under a mount, whose kernel keeps them. Default: on.
    pub keep_written: bool,
    /// Tell the device about segments that became clean. Default: off.
    pub discard: bool,
    /// Verify the tree in the background after a roll-forward. Default: on.
    pub verify: bool,
    /// On the virtual log: make empty regions of scattered free room while
    /// nobody uses the volume. Default: off.
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
