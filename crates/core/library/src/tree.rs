//! The tree of a volume, on any of the layouts.
//!
//! The layout is hidden from users of the library: [`crate::Volume`] calls
//! `mounted/operations.rs`, which dispatches each call.

use std::sync::Arc;
use varve_ffs::Ffs;
use varve_fs::FileSystem;
use varve_lfs::Lfs;
use varve_vlfs::Vlfs;

/// The file system below an open volume.
#[derive(Clone, Debug)]
pub enum Tree {
    /// File system on the segmented log.
    Log(Arc<FileSystem<Lfs>>),
    /// File system on the virtual log.
    VirtualLog(Arc<FileSystem<Vlfs>>),
    /// File system that is updated in place.
    InPlace(Arc<FileSystem<Ffs>>),
}

/// Calls the same expression on whichever layout the tree has.
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
    /// Returns the file system if the volume is on the segmented log.
    pub fn log(&self) -> Option<&Arc<FileSystem<Lfs>>> {
        match self {
            Tree::Log(fs) => Some(fs),
            Tree::VirtualLog(_) | Tree::InPlace(_) => None,
        }
    }

    /// Evicts all clean blocks and inodes, so that later reads use the device. For
    /// measurements.
    pub fn drop_caches(&self) {
        on!(self, fs => {
            fs.drop_caches();
            fs.layout().drop_caches();
        });
    }

    /// Returns the UUID of the volume.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        on!(self, fs => fs.layout().superblock().uuid)
    }

    pub(crate) fn label(&self) -> String {
        on!(self, fs => fs.layout().superblock().label_text())
    }

    pub(crate) fn block_bytes(&self) -> u32 {
        on!(self, fs => fs.layout().superblock().block_bytes.get())
    }

    /// Returns the reason why the volume takes no changes, if there is one.
    pub(crate) fn stopped(&self) -> Option<String> {
        on!(self, fs => fs.layout().stopped())
    }
}
