//! A device that can be disconnected, as when its process is killed.

use std::io::{Error, ErrorKind, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use varve_device::{Device, DeviceError, Geometry, Operation, Result, Zones};

/// A device that forwards all requests until [`SwitchedDevice::cut`], and none
/// afterwards.
#[derive(Debug)]
pub struct SwitchedDevice {
    inner: Arc<dyn Device>,
    is_cut: AtomicBool,
}

impl SwitchedDevice {
    /// Returns a connection to `inner` that can be cut.
    pub fn new(inner: Arc<dyn Device>) -> Arc<Self> {
        Arc::new(SwitchedDevice {
            inner,
            is_cut: AtomicBool::new(false),
        })
    }

    /// Makes every request fail from now on.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    fn pass(&self, operation: Operation, offset: u64, length: u64) -> Result<()> {
        if self.is_cut.load(Ordering::SeqCst) {
            let gone = Error::new(ErrorKind::NotConnected, "the process is dead");
            return Err(DeviceError::new(self, operation, offset, length, gone));
        }
        Ok(())
    }
}

impl Device for SwitchedDevice {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.pass(Operation::Read, offset, buffer.len() as u64)?;
        self.inner.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        self.pass(Operation::Write, offset, 0)?;
        self.inner.write(offset, buffers)
    }

    fn flush(&self) -> Result<()> {
        self.pass(Operation::Flush, 0, 0)?;
        self.inner.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.pass(Operation::Discard, offset, length)?;
        self.inner.discard(offset, length)
    }

    fn zones(&self) -> Option<Zones> {
        self.inner.zones()
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}
