//! The real file system on the virtual log, inside the drive of a platform.
//!
//! The host pays for each command, and for each place that is chosen (for a run
//! of blocks, of index nodes or of inodes) what it pays for a block of the
//! virtual log disk, which chooses one for each: place and map, so that the map
//! record costs neither of them anything of its own. It pays at the end of the
//! command or the flush: no time passes between the choice of a place and its
//! write. Over the bus come the first sector of what is written before the
//! medium can begin, and everything that is read, as data and inodes are cached
//! on the host (Wang et al. 1999, §3.3). In idle time a checkpoint is taken, if
//! one is due, and the compactor works; the host pays for what that writes, too.
//!
//! An NVMe-like device has no inside: there each request is a command of its own, and
//! near is next.

use super::host::{COMMAND, FIRMWARE};
use super::mounted::{Mounted, Volume};
use super::store::Store;
use super::{BLOCK, Disk, Platform};
use crate::error::LabError;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use varve_device::{Clock, Device, Geometry, Result};
use varve_fs::{FileSystem, Layout};
use varve_vlfs::{Vlfs, VlfsFormatOptions, VlfsMountOptions, Watermarks, format};
use varve_vlog::free_space::Regions;
use varve_vlog::{Access, HeadPosition, Medium};

/// A drive from inside, whose commands cost the host.
#[derive(Debug)]
struct Inside {
    store: Arc<Store>,
    drive: Arc<dyn Medium>,
    /// Each request is a command.
    each: bool,
    /// Places that the host has not paid for.
    owed: AtomicU64,
}

/// What the records of the map and of changes begin with, behind a checksum
/// (`docs/spec/vlfs.md`).
const RECORDS: [&[u8]; 2] = [b"VLFM", b"VLFD"];

impl Inside {
    fn pay(&self) {
        let places = self.owed.swap(0, Relaxed);
        // For the request, however many places it takes, as on the other disks.
        self.store.cpu().work(places.min(1) * FIRMWARE);
    }

    /// For a request.
    fn ask(&self) {
        if self.each {
            self.store.cpu().work(COMMAND);
        }
    }
}

fn is_record(buffers: &[IoSlice<'_>]) -> bool {
    let magic = buffers.first().and_then(|bytes| bytes.get(4..8));
    magic.is_some_and(|magic| RECORDS.contains(&magic))
}

/// A fresh volume of the platform's on all of `store`.
///
/// # Errors
/// `store` is a virtual log disk; the volume cannot be made or mounted.
pub fn on_virtual_log(
    platform: &Platform,
    store: Arc<Store>,
    seed: u64,
) -> std::result::Result<Mounted<Vlfs>, LabError> {
    let clock: Arc<dyn Clock> = Arc::clone(store.clock()) as Arc<dyn Clock>;
    let drive = store.inside().ok_or_else(|| {
        let kind = Disk::VirtualLog;
        LabError::System(format!("VLFS on a {kind:?} disk"))
    })?;
    let medium: Arc<dyn Medium> = Arc::new(Inside {
        each: store.drive().is_none(),
        drive,
        store: Arc::clone(&store),
        owed: AtomicU64::new(0),
    });
    let options = VlfsFormatOptions {
        // The default, one for 16 KiB, is too few for 1500 small files.
        inodes: store.drive_bytes() / BLOCK,
        seed: Some(seed),
        ..VlfsFormatOptions::default()
    };
    format(&*medium, &*clock, &options).map_err(LabError::system)?;
    let options = VlfsMountOptions {
        seed: Some(seed),
        compaction: Watermarks::ALWAYS,
        ..VlfsMountOptions::default()
    };
    let layout = Vlfs::mount(medium, Arc::clone(&clock), options).map_err(LabError::system)?;
    FileSystem::format(&layout, &*clock, (0, 0)).map_err(LabError::system)?;
    Mounted::new(layout, store, platform)
}

impl Volume for Vlfs {
    fn forget(&self) {
        self.drop_caches();
    }

    fn tidy(&self, store: &Store, until_ns: u64) -> std::result::Result<(), LabError> {
        self.maintain().map_err(LabError::system)?;
        let may = |ns| store.now_ns() + ns < until_ns;
        self.compact(u64::MAX, &may).map_err(LabError::system)?;
        Ok(())
    }
}

impl Device for Inside {
    fn geometry(&self) -> Geometry {
        self.drive.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.ask();
        let begun_ns = self.store.now_ns();
        self.drive.read(offset, buffer)?;
        self.drive.deliver(begun_ns, buffer.len() as u64);
        Ok(())
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        let places = u64::from(!is_record(buffers));
        self.owed.fetch_add(places, Relaxed);
        self.ask();
        self.drive.write(offset, buffers)
    }

    fn flush(&self) -> Result<()> {
        self.pay();
        self.drive.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.drive.discard(offset, length)
    }

    fn name(&self) -> String {
        self.drive.name()
    }
}

impl Medium for Inside {
    fn command(&self, access: Access) {
        self.pay();
        if !self.each {
            self.store.cpu().work(COMMAND);
        }
        self.drive.command(access);
        if access == Access::Write {
            self.drive.receive(BLOCK);
        }
    }

    fn head(&self) -> Option<HeadPosition> {
        self.drive.head()
    }

    fn regions(&self, blocks: u32, block_bytes: u32) -> Regions {
        self.drive.regions(blocks, block_bytes)
    }

    fn now_ns(&self) -> Option<u64> {
        self.drive.now_ns()
    }
}
