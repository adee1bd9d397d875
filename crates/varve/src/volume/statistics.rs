//! What a volume has done since it was opened.

use varve_fs::{FileSystem, FsStatistics, StatFs};
use varve_lfs::Lfs;

/// A reading of every counter, layer by layer.
#[derive(Clone, Copy, Debug)]
pub struct Statistics {
    /// Operations, cache and groups.
    pub tree: FsStatistics,
    /// What was written and read, and why.
    pub layout: varve_lfs::Statistics,
    /// Room on the volume, in blocks.
    pub space: StatFs,
}

impl Statistics {
    /// Reads the counters of an open volume's file system.
    pub fn of(fs: &FileSystem<Lfs>) -> Self {
        Statistics {
            tree: fs.statistics(),
            layout: fs.layout().statistics(),
            space: fs.statfs(),
        }
    }

    /// Bytes written to the log and moved by the cleaner, per byte of data
    /// and directories that users gave: 1 at best, 0 if they gave none.
    pub fn write_amplification(&self) -> f64 {
        let l = &self.layout;
        let all = l.data_bytes
            + l.inode_bytes
            + l.summary_bytes
            + l.padding_bytes
            + l.node_bytes
            + l.ifile_bytes
            + l.cleaner_bytes;
        match l.data_bytes {
            0 => 0.0,
            data => all as f64 / data as f64,
        }
    }

    /// Bytes moved to and from the device by the log and its cleaner per byte
    /// of new data: the write cost. 0 if nothing was written.
    ///
    /// Source: Rosenblum & Ousterhout 1992, §3.4.
    pub fn write_cost(&self) -> f64 {
        let l = &self.layout;
        match l.data_bytes {
            0 => 0.0,
            data => (data + l.cleaner_bytes + l.cleaner_read_bytes) as f64 / data as f64,
        }
    }
}
