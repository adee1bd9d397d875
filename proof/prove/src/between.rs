//! A flush between the requests of one group, as by another thread's fsync.
//!
//! The explorer runs one thread, so the writes of one group follow each other directly.
//! This device asks the log to make all completed writes durable whenever a group
//! continues with another request. So its first partials can be durable, and known to be
//! durable, without the rest.

use std::io::IoSlice;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use varve_device::{Clock, Device, Geometry, Result, SECTOR};
use varve_fs::{Layout, Position};
use varve_lfs::format::SummaryHeader;
use varve_lfs::format::summary::summary_flags;
use varve_lfs::{Lfs, MountOptions};

/// A device that forwards all requests, and flushes between the partials of a group.
#[derive(Debug)]
pub struct FlushBetween {
    inner: Arc<dyn Device>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    log: Weak<Lfs>,
    /// True if the last partial written did not end its group.
    begun: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

/// Mounts the log on a device that flushes between the partials of a group.
///
/// # Errors
/// The same as [`Lfs::mount`].
pub fn mount(
    device: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    options: MountOptions,
) -> varve_lfs::Result<Arc<Lfs>> {
    let between = Arc::new(FlushBetween {
        inner: device,
        state: Mutex::default(),
    });
    let log = Arc::new(Lfs::mount(between.clone(), clock, options)?);
    between.lock().log = Arc::downgrade(&log);
    Ok(log)
}

impl FlushBetween {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Flushes all completed writes if these partials continue a group.
    fn look(&self, offset: u64, partials: &[IoSlice<'_>]) {
        let (log, begun) = {
            let state = self.lock();
            (state.log.upgrade(), state.begun)
        };
        let Some(log) = log else { return };
        let tag = log.superblock().volume_tag();
        let mut sector = offset / SECTOR;
        for (nth, bytes) in partials.iter().enumerate() {
            let Ok(header) = SummaryHeader::parse(bytes, tag, sector) else {
                return;
            };
            if nth == 0 && begun {
                // The log detects a failure itself.
                let _ = log.commit(Position(header.serial.get() - 1));
            }
            self.lock().begun = !header.has(summary_flags::LAST);
            sector += bytes.len() as u64 / SECTOR;
        }
    }
}

impl Device for FlushBetween {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.inner.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        self.look(offset, buffers);
        self.inner.write(offset, buffers)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.inner.discard(offset, length)
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}
