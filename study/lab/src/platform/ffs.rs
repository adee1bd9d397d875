//! The real layout that updates in place on a platform, with synchronous metadata.
//!
//! The file system of Wang et al. 1999 (§4.3) is an FFS of blocks of 4 KB and
//! fragments of 1 KB, in cylinder groups of 16 cylinders, with clusters of 56 KB.
//! Names and inodes are on the medium before a call that changes names is answered;
//! what else is written waits in memory, and goes to its place when a quarter of it
//! is dirty, or when somebody waits for it.

use super::mounted::{Mounted, Volume};
use super::store::Store;
use super::{BLOCK, Platform};
use crate::error::LabError;
use std::sync::Arc;
use varve_device::{Clock, Device};
use varve_ffs::allocate::Policy;
use varve_ffs::format::Metadata;
use varve_ffs::{FfsFormatOptions, FfsMountOptions};
use varve_fs::FileSystem;

/// Cylinders of a group, on 4.4BSD by default.
pub const GROUP_CYLINDERS: u32 = 16;
/// Bytes for each inode of 512 bytes: 1700 files on 21 MB.
const INODE_RATIO: u64 = 12 << 10;
/// Space that users do not get. The files of V6 to V9 leave the reserve of 12 % free by
/// their size (V333).
const MINFREE_PERCENT: u32 = 0;

/// A configuration: what it places where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ffs {
    /// Bytes in a block.
    pub block_bytes: u32,
    /// Bytes in a fragment, on a virtual log disk, too (V262).
    pub fragment_bytes: u32,
    /// Blocks of a cluster.
    pub maxcontig: u32,
    /// Blocks between two clusters of a file.
    pub rotdelay: u32,
    /// Cylinders of a group.
    pub group_cylinders: u32,
}

impl Ffs {
    /// That of Wang et al.
    pub const UFS: Ffs = Ffs {
        block_bytes: BLOCK as u32,
        fragment_bytes: 1024,
        maxcontig: 14,
        rotdelay: 0,
        group_cylinders: GROUP_CYLINDERS,
    };

    /// How it is made on such a store.
    fn format(self, store: &Store, seed: u64) -> FfsFormatOptions {
        let block = u64::from(self.block_bytes);
        let cylinder_bytes = store.drive().map(|drive| {
            drive.look(|mechanism, _| {
                let geometry = &mechanism.drive().geometry;
                geometry.bytes() / u64::from(geometry.cylinders())
            })
        });
        let blocks = store.geometry().size / block;
        FfsFormatOptions {
            block_bytes: self.block_bytes,
            fragment_bytes: self.fragment_bytes,
            // Without cylinders, as many as are usual.
            group_blocks: cylinder_bytes.map_or(0, |bytes| {
                (u64::from(self.group_cylinders) * bytes / block).min(blocks)
            }),
            inode_ratio: INODE_RATIO,
            metadata: Metadata::Synchronous,
            minfree_percent: MINFREE_PERCENT,
            policy: Policy::Ffs {
                maxcontig: self.maxcontig,
                rotdelay: self.rotdelay,
                clusters: false,
            },
            seed: Some(seed),
            ..FfsFormatOptions::default()
        }
    }
}

/// A fresh volume of the platform's on all of `store`.
///
/// # Errors
/// It cannot be made or mounted.
pub fn update_in_place(
    platform: &Platform,
    shape: Ffs,
    store: Arc<Store>,
    seed: u64,
) -> Result<Mounted<varve_ffs::Ffs>, LabError> {
    let clock: Arc<dyn Clock> = Arc::clone(store.clock()) as Arc<dyn Clock>;
    let format = shape.format(&store, seed);
    varve_ffs::format(&*store, &*clock, &format).map_err(LabError::system)?;
    let options = FfsMountOptions {
        seed: Some(seed),
        // Two synchronous writes for a new name (C46).
        overwrites_directories: true,
        ..FfsMountOptions::default()
    };
    let device: Arc<dyn Device> = Arc::clone(&store) as Arc<dyn Device>;
    let layout = varve_ffs::Ffs::mount(device, Arc::clone(&clock), options);
    let layout = layout.map_err(LabError::system)?;
    FileSystem::format(&layout, &*clock, (0, 0)).map_err(LabError::system)?;
    Mounted::new(layout, store, platform)
}

impl Volume for varve_ffs::Ffs {
    fn forget(&self) {
        self.drop_caches();
    }

    /// There is nothing to tidy but a virtual log disk beneath.
    fn tidy(&self, store: &Store, until_ns: u64) -> Result<(), LabError> {
        store.idle(until_ns)
    }
}
