//! The options of a mount.

use varve_format::OwnerIdentity;
use varve_vlog::eager::Policy;

/// The options with which a volume is mounted.
#[derive(Clone, Debug)]
pub struct VlfsMountOptions {
    /// True if nothing is written; recovery then changes memory only.
    pub read_only: bool,
    /// Memory for decoded metadata, in bytes, without the inode map.
    pub cache_bytes: u64,
    /// Determines the random identifier of the mount, for reproducible runs.
    pub seed: Option<u64>,
    /// Number of bytes written after which a checkpoint is due.
    pub checkpoint_bytes: u64,
    /// Number of seconds with changes after which a checkpoint is due.
    pub checkpoint_seconds: u64,
    /// Parameters of eager writing on a device with a head. By default an empty track
    /// is filled to a half: records of changes die soon and leave a free block behind
    /// each block, and filling those takes longer.
    pub policy: Policy,
    /// The watermarks of the compactor.
    pub compaction: Watermarks,
    /// Number of units whose owners the compactor knows at once, 32 bytes of memory
    /// each.
    pub owners_units: u64,
    /// The process that is named in the owner record.
    pub owner: OwnerIdentity,
}

impl Default for VlfsMountOptions {
    fn default() -> Self {
        VlfsMountOptions {
            read_only: false,
            cache_bytes: 16 << 20,
            seed: None,
            checkpoint_bytes: 128 << 20,
            checkpoint_seconds: 30,
            policy: Policy {
                fill: 0.5,
                ..Policy::default()
            },
            compaction: Watermarks::default(),
            owners_units: 1 << 19,
            owner: OwnerIdentity::default(),
        }
    }
}

/// The watermarks between which the compactor works, as shares of the free space that
/// is in empty regions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watermarks {
    /// The compactor begins below this share, in `[0, 1]`; default 0.25. With 1 it
    /// works whenever there is something to gain.
    pub begin: f64,
    /// The compactor ends at this share, in `[0, 1]`; default 0.5.
    pub end: f64,
}

impl Default for Watermarks {
    fn default() -> Self {
        Watermarks {
            begin: 0.25,
            end: 0.5,
        }
    }
}

impl Watermarks {
    /// The compactor works in all idle time: for drives, where moving costs only time.
    pub const ALWAYS: Watermarks = Watermarks {
        begin: 1.0,
        end: 1.0,
    };
}
