//! The real log-structured layout on a platform.
//!
//! The cleaner works when no segment is left, and in idle time, segment by
//! segment: it cannot stop within one.

use super::Platform;
use super::mounted::{Mounted, Volume};
use super::store::Store;
use crate::error::LabError;
use std::sync::Arc;
use varve_device::Clock;
use varve_fs::{FileSystem, InodeNo, Layout};
use varve_lfs::cleaner::Pace;
use varve_lfs::policy::{Candidate, Coalescing};
use varve_lfs::{FormatOptions, Lfs, MountOptions, Statistics};

/// Bytes of a segment: half of the paper's (§4.4), because on a disk of 23 MB
/// the reserve of 512 KB segments would not leave 80 %.
pub const SEGMENT_BYTES: u32 = 256 << 10;

/// Bytes that are put in order by one call.
const AT_ONCE: u64 = 8 << 20;

/// A fresh volume of the platform's on all of `store`.
///
/// # Errors
/// It cannot be made or mounted.
pub fn log_structured(
    platform: &Platform,
    store: Arc<Store>,
    seed: u64,
) -> Result<Mounted<Lfs>, LabError> {
    let clock: Arc<dyn Clock> = Arc::clone(store.clock()) as Arc<dyn Clock>;
    let format = FormatOptions {
        segment_bytes: platform.segment_bytes,
        seed: Some(seed),
        ..FormatOptions::default()
    };
    Lfs::format(&*store, &*clock, &format).map_err(LabError::system)?;
    let mount = || {
        let options = MountOptions {
            seed: Some(seed),
            read_threads: store
                .overlap()
                .map_or(0, |overlap| overlap.read_ahead_threads),
            policy: platform.cleaning.policy,
            holes: platform.cleaning.holes,
            // Only when no segment is left, as in the paper.
            pace: Pace {
                running: false,
                ..Pace::default()
            },
            ..MountOptions::default()
        };
        let device: Arc<Store> = Arc::clone(&store);
        Lfs::mount(device, Arc::clone(&clock), options).map_err(LabError::system)
    };
    let layout = mount()?;
    FileSystem::format(&layout, &*clock, (0, 0)).map_err(LabError::system)?;
    layout.unmount().map_err(LabError::system)?;
    drop(layout);
    Mounted::new(mount()?, store, platform)
}

/// Cleans the segment that has least in it, if that gains anything. One with nothing in
/// it waits for a checkpoint only.
fn clean_one(volume: &Lfs) -> Result<bool, LabError> {
    let candidates = volume.cleaner().candidates();
    let worth = |c: &&Candidate| c.live_bytes > 0 && c.is_worth_it();
    let worth = candidates.iter().filter(worth);
    match worth.min_by_key(|c| (c.live_bytes, c.segment)) {
        None => Ok(false),
        Some(candidate) => {
            let cleaned = volume.cleaner().clean_segment(candidate.segment);
            cleaned.map_err(LabError::system)
        }
    }
}

impl Volume for Lfs {
    fn forget(&self) {
        self.drop_caches();
    }

    fn log(&self) -> Option<Statistics> {
        Some(self.statistics())
    }

    fn coalesce(&self, file: InodeNo) -> Result<(), LabError> {
        let mut from = Some(0);
        while let Some(at) = from {
            let done = self
                .cleaner()
                .coalesce(&Coalescing::thorough(), file, at, AT_ONCE);
            let done = done.map_err(LabError::system)?;
            if done.short_of_room {
                let cleaned = self.cleaner().clean_batch().map_err(LabError::system)?;
                self.checkpoint().map_err(LabError::system)?;
                if cleaned == 0 {
                    break;
                }
            }
            from = done.next;
        }
        Ok(())
    }

    fn tidy(&self, store: &Store, until_ns: u64) -> Result<(), LabError> {
        let mut cleaned = false;
        while store.now_ns() < until_ns && clean_one(self)? {
            cleaned = true;
        }
        if cleaned {
            // Only a checkpoint makes room of what was cleaned.
            self.checkpoint().map_err(LabError::system)?;
        }
        Ok(())
    }
}
