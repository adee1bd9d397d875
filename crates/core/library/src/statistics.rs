//! Counters of a volume since it was opened.

use varve_fs::{FileSystem, FsStatistics, StatFs};
use varve_lfs::{Lfs, Utilisation};

/// A snapshot of all counters, layer by layer.
#[derive(Clone, Copy, Debug)]
pub struct Statistics {
    /// Operations, cache and groups.
    pub tree: FsStatistics,
    /// Device writes and reads by purpose.
    pub layout: varve_lfs::Statistics,
    /// Segments by utilisation.
    pub utilisation: Utilisation,
    /// Free and used space of the volume, in blocks.
    pub space: StatFs,
    /// Bytes per block.
    pub block_bytes: u32,
}

impl Statistics {
    /// Reads the counters of an open volume's file system.
    pub fn of(fs: &FileSystem<Lfs>) -> Self {
        Statistics {
            tree: fs.statistics(),
            layout: fs.layout().statistics(),
            utilisation: fs.layout().utilisation(),
            space: fs.statfs(),
            block_bytes: fs.layout().superblock().block_bytes.get(),
        }
    }
}
