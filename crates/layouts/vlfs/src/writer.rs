//! The state of the writer, under the lock of that name.

use crate::owners::Owners;
use crate::runs::Runs;
use crate::space::Space;
use crate::unfolded::Unfolded;
use std::collections::BTreeSet;
use varve_fs::Usage;
use varve_vlog::virtual_log::VirtualLog;

/// The state that the lock `writer` protects.
pub struct Writer {
    pub space: Space,
    pub log: VirtualLog,
    /// The runs that the present transaction has written.
    pub runs: Runs,
    /// The changes of brief transactions.
    pub unfolded: Unfolded,
    /// Pieces of the map that changed without the write of an inode.
    pub dirty: BTreeSet<u32>,
    /// The owners of units, for the compactor.
    pub owners: Owners,
    pub usage: Usage,
    /// Number of blocks of data that are stored.
    pub stored: u64,
    /// Number of blocks of extended attributes that take more than a unit.
    pub long_xattrs: u64,
    /// Number of groups appended. `sealed` counts those of them in a transaction, and
    /// `durable` the durable ones.
    pub appended: u64,
    pub sealed: u64,
    pub durable: u64,
    /// Serial and last record of both checkpoints; `None` if damaged.
    pub checkpoints: [Option<(u64, u64)>; 2],
    /// Time of the newest checkpoint, on the monotonic clock, in nanoseconds.
    pub checkpoint_ns: u64,
    /// Number of bytes written since the newest checkpoint.
    pub since_checkpoint: u64,
}
