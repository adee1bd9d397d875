//! How a volume is mounted.

use varve_format::OwnerIdentity;
use varve_vlog::eager::Policy;

/// How a VLFS volume is mounted.
#[derive(Clone, Debug)]
pub struct VlfsMountOptions {
    /// Nothing is written; recovery happens in memory.
    pub read_only: bool,
    /// Bytes for decoded metadata, the inode map left out.
    pub cache_bytes: u64,
    /// Fixes the mount's random identity, for reproducible runs.
    pub seed: Option<u64>,
    /// A checkpoint is due after this many bytes written.
    pub checkpoint_bytes: u64,
    /// A checkpoint is due after this many seconds with changes.
    pub checkpoint_seconds: u64,
    /// What guides eager writing where there is a head; default: an empty track
    /// is filled to a half. Records of changes die soon, so that behind each
    /// block a free one is left, and to fill those takes longer.
    pub policy: Policy,
    /// When the compactor works.
    pub compaction: Watermarks,
    /// Units whose owners the compactor knows at once, 32 bytes each.
    pub owners_units: u64,
    /// Recorded in the owner record.
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

/// When the compactor works, by the share of what is free that lies in empty
/// regions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watermarks {
    /// It begins below this share, in `[0, 1]`; default 0.25. 1: whenever there
    /// is something to gain.
    pub begin: f64,
    /// It ends at this share, in `[0, 1]`; default 0.5.
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
    /// Whenever nobody waits: for drives, where moving costs nothing but time.
    pub const ALWAYS: Watermarks = Watermarks {
        begin: 1.0,
        end: 1.0,
    };
}
