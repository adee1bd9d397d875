//! A device on which others do something between two requests: what comes
//! between a look and the move that follows from it, at that very moment and
//! every time.

use std::fmt;
use std::io::{Error, IoSlice};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use varve_device::{Device, DeviceError, Extent, Geometry, MemoryDevice, Operation, Result, Zones};

/// What is done before a request; true if before the next one as well.
type Errand = Box<dyn FnMut() -> bool + Send>;

/// See the module's head.
pub(in crate::cleaner) struct Errands {
    inner: Arc<MemoryDevice>,
    next: Mutex<Option<(Operation, Range<u64>, Errand)>>,
    refused: Mutex<Range<u64>>,
}

impl fmt::Debug for Errands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Errands {
    pub fn on(inner: Arc<MemoryDevice>) -> Self {
        Errands {
            inner,
            next: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// Has `errand` run before the next request of a kind that touches these
    /// bytes.
    pub fn before(
        &self,
        operation: Operation,
        bytes: Range<u64>,
        errand: impl FnMut() -> bool + Send + 'static,
    ) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        *next = Some((operation, bytes, Box::new(errand)));
    }

    /// No errand waits any more.
    pub fn is_done(&self) -> bool {
        self.next.lock().unwrap().is_none()
    }

    /// None waits from now on.
    pub fn forget(&self) {
        *self.next.lock().unwrap() = None;
    }

    /// Reads that touch these bytes fail from now on.
    pub fn refuse(&self, bytes: Range<u64>) {
        *self.refused.lock().unwrap() = bytes;
    }

    fn meet(&self, operation: Operation, offset: u64, length: u64) {
        let touches = |bytes: &Range<u64>| offset < bytes.end && bytes.start < offset + length;
        // It may make requests itself.
        let errand = {
            let mut next = self.next.lock().unwrap();
            next.take_if(|(of, bytes, _)| *of == operation && touches(bytes))
        };
        if let Some((of, bytes, mut errand)) = errand
            && errand()
        {
            *self.next.lock().unwrap() = Some((of, bytes, errand));
        }
    }
}

impl Device for Errands {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let length = buffer.len() as u64;
        self.meet(Operation::Read, offset, length);
        let refused = self.refused.lock().unwrap().clone();
        if offset < refused.end && refused.start < offset + length {
            return Err(DeviceError {
                device: self.name(),
                operation: Operation::Read,
                offset,
                length,
                source: Error::other("refused"),
            });
        }
        self.inner.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        let length: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        self.meet(Operation::Write, offset, length as u64);
        self.inner.write(offset, buffers)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.inner.discard(offset, length)
    }

    fn zero(&self, offset: u64, length: u64) -> Result<bool> {
        self.inner.zero(offset, length)
    }

    fn extent(&self, offset: u64, length: u64) -> Result<Extent> {
        self.inner.extent(offset, length)
    }

    fn zones(&self) -> Option<Zones> {
        self.inner.zones()
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}
