//! The tree of a volume, on whichever layout.
//!
//! Users of the library never see which: [`crate::Volume`] asks through
//! `mounted/operations.rs`, where a call goes to the one or the other.

use std::sync::Arc;
use varve_ffs::Ffs;
use varve_fs::FileSystem;
use varve_lfs::Lfs;
use varve_vlfs::Vlfs;

/// The file system below an open volume.
#[derive(Clone, Debug)]
pub enum Tree {
    /// On the segmented log.
    Log(Arc<FileSystem<Lfs>>),
    /// On the virtual log.
    VirtualLog(Arc<FileSystem<Vlfs>>),
    /// Updated in place.
    InPlace(Arc<FileSystem<Ffs>>),
}

/// A call that reads the same for all layouts.
macro_rules! on {
    ($tree:expr, $fs:ident => $call:expr) => {
        match $tree {
            $crate::tree::Tree::Log($fs) => $call,
            $crate::tree::Tree::VirtualLog($fs) => $call,
            $crate::tree::Tree::InPlace($fs) => $call,
        }
    };
}
pub(crate) use on;

impl Tree {
    /// The segmented log's file system, if the volume is on it.
    pub fn log(&self) -> Option<&Arc<FileSystem<Lfs>>> {
        match self {
            Tree::Log(fs) => Some(fs),
            Tree::VirtualLog(_) | Tree::InPlace(_) => None,
        }
    }

    /// Forgets every clean block and inode, so that what is read next comes
    /// from the device. For measurements.
    pub fn drop_caches(&self) {
        on!(self, fs => {
            fs.drop_caches();
            fs.layout().drop_caches();
        });
    }

    /// The volume's UUID.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        on!(self, fs => fs.layout().superblock().uuid)
    }

    pub(crate) fn label(&self) -> String {
        on!(self, fs => fs.layout().superblock().label_text())
    }

    pub(crate) fn block_bytes(&self) -> u32 {
        on!(self, fs => fs.layout().superblock().block_bytes.get())
    }

    /// Why it takes no changes, if so.
    pub(crate) fn stopped(&self) -> Option<String> {
        on!(self, fs => fs.layout().stopped())
    }
}
