//! A device whose host allocates blocks at their first write, like that of an image file.

use std::collections::BTreeSet;
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use varve_device::{Device, Extent, Geometry, Result, SECTOR};

/// Bytes that a host allocates at once.
const UNIT: u64 = 4096;

/// A device that forwards all requests. A unit that reads as zeros, and was not written
/// since it was discarded, as far as this device knows, is a hole.
#[derive(Debug)]
pub struct SlowHoles {
    inner: Arc<dyn Device>,
    /// Units that were written.
    written: Mutex<BTreeSet<u64>>,
    filling: AtomicU64,
}

impl SlowHoles {
    /// Returns a device over another one.
    pub fn new(inner: Arc<dyn Device>) -> Self {
        SlowHoles {
            inner,
            written: Mutex::default(),
            filling: AtomicU64::new(0),
        }
    }

    fn written(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if this part of a unit is a hole.
    fn is_hole(&self, at: u64, to: u64) -> Result<bool> {
        if self.written().contains(&(at / UNIT)) {
            return Ok(false);
        }
        let mut bytes = vec![0; (to - at) as usize];
        self.inner.read(at, &mut bytes)?;
        Ok(bytes.iter().all(|byte| *byte == 0))
    }

    /// Returns the number of writes that began in a hole.
    pub fn filling_writes(&self) -> u64 {
        self.filling.load(Relaxed)
    }
}

impl Device for SlowHoles {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.inner.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        let length: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let hole = self.extent(offset, length)?.hole;
        self.filling.fetch_add(hole.into(), Relaxed);
        let units = offset / UNIT..(offset + length).div_ceil(UNIT);
        self.written().extend(units);
        self.inner.write(offset, buffers)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        let gone = offset.div_ceil(UNIT)..(offset + length) / UNIT;
        self.written().retain(|unit| !gone.contains(unit));
        self.inner.discard(offset, length)
    }

    fn extent(&self, offset: u64, length: u64) -> Result<Extent> {
        let end = offset + length;
        let (mut at, mut hole) = (offset, None);
        while at < end {
            let to = ((at / UNIT + 1) * UNIT).min(end);
            let here = self.is_hole(at, to)?;
            if *hole.get_or_insert(here) != here {
                break;
            }
            at = to;
        }
        debug_assert!((at - offset).is_multiple_of(SECTOR));
        Ok(Extent {
            length: at - offset,
            hole: hole == Some(true),
        })
    }

    fn fills_holes_slowly(&self) -> bool {
        true
    }

    fn set_size(&self, size: Option<u64>) -> Result<u64> {
        self.inner.set_size(size)
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}
