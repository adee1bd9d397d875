//! What the one writer has, under the lock of that name.

use crate::owners::Owners;
use crate::runs::Runs;
use crate::space::Space;
use crate::unfolded::Unfolded;
use std::collections::BTreeSet;
use varve_fs::Usage;
use varve_vlog::virtual_log::VirtualLog;

/// What `writer` locks.
pub struct Writer {
    pub space: Space,
    pub log: VirtualLog,
    /// What the transaction in the making has written.
    pub runs: Runs,
    /// What brief transactions say.
    pub unfolded: Unfolded,
    /// Pieces of the map that changed without an inode being written.
    pub dirty: BTreeSet<u32>,
    /// Whose units are, for the compactor.
    pub owners: Owners,
    pub usage: Usage,
    /// Blocks of data stored.
    pub stored: u64,
    /// Blocks of extended attributes that take more than a unit.
    pub long_xattrs: u64,
    /// Groups appended; of these, taken along by a transaction; durable.
    pub appended: u64,
    pub sealed: u64,
    pub durable: u64,
    /// Serial and record of both checkpoints; `None` if damaged.
    pub checkpoints: [Option<(u64, u64)>; 2],
    /// When the newest was taken, on the monotonic clock.
    pub checkpoint_ns: u64,
    /// Bytes written since.
    pub since_checkpoint: u64,
}
