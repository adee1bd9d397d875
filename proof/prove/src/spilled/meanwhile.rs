//! A device for tests that calls a function once, in the middle of a flush.

use std::sync::{Arc, Mutex};
use varve_device::{Device, DeviceError, Geometry, MemoryDevice, RecordingDevice};

type Hook = Box<dyn FnOnce() + Send>;

/// A recording device that calls a function once, in the middle of its next flush.
pub(super) struct Meanwhile {
    pub inner: Arc<RecordingDevice<MemoryDevice>>,
    /// The function that the next flush calls.
    pub hook: Mutex<Option<Hook>>,
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

impl Device for Meanwhile {
    fn name(&self) -> String {
        self.inner.name()
    }
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.read(offset, buffer)
    }
    fn write(&self, offset: u64, buffers: &[std::io::IoSlice<'_>]) -> Result<(), DeviceError> {
        self.inner.write(offset, buffers)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        let hook = self.hook.lock().expect("no panic within").take();
        if let Some(hook) = hook {
            hook();
        }
        self.inner.flush()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset, length)
    }
}
