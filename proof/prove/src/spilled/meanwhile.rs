//! A device that runs something once, in the middle of somebody's flush.

use std::sync::{Arc, Mutex};
use varve_device::{Device, DeviceError, Geometry, MemoryDevice, RecordingDevice};

type Hook = Box<dyn FnOnce() + Send>;

/// See the module's head.
pub(super) struct Meanwhile {
    pub inner: Arc<RecordingDevice<MemoryDevice>>,
    /// What is run, in the middle of the next flush.
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
