//! A device that records the trace of its requests.
//!
//! The crash explorer turns the trace into the images that a power cut may leave.
//!
//! Invariants:
//! - A write is in the trace once it has returned `Ok`, in the order in which writes
//!   returned. A write that failed is not in it.
//! - A flush is in the trace once it has returned `Ok`, with the number of events that
//!   preceded its *start*: a write that returned while the flush ran is not made
//!   durable by it.
//! - A mark is where the caller set it: an operation marked as acknowledged is preceded
//!   by the flush that made it durable.

use std::io::IoSlice;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::device::{Device, Geometry, Result, Zones};
use crate::hash;
use crate::request::gather;

/// One event in the trace of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Bytes were written at byte `offset`.
    Write {
        /// Byte address.
        offset: u64,
        /// The bytes of all buffers of the request, one after the other.
        data: Arc<[u8]>,
    },
    /// A flush returned success.
    Flush {
        /// The events before this index of the trace are durable.
        covers: usize,
    },
    /// A range was declared to hold nothing of value.
    Discard {
        /// Byte address.
        offset: u64,
        /// Length, in bytes.
        length: u64,
    },
    /// The caller's note, for example that operation 17 was acknowledged.
    Mark(u64),
}

/// Returns a hash of a trace: the same seed must give the same hash.
pub fn trace_fingerprint(trace: &[Event]) -> u64 {
    trace.iter().fold(trace.len() as u64, |hash, event| {
        let (kind, first, second) = match event {
            Event::Write { offset, data } => (1, *offset, hash::bytes(data)),
            Event::Flush { covers } => (2, *covers as u64, 0),
            Event::Discard { offset, length } => (3, *offset, *length),
            Event::Mark(tag) => (4, *tag, 0),
        };
        hash::mix(hash::step(
            hash::step(hash::step(hash, kind), first),
            second,
        ))
    })
}

#[derive(Debug, Default)]
struct Trace {
    events: Vec<Event>,
    /// Number of times that the trace was taken. A flush during which the trace was
    /// taken covers nothing of the new trace.
    taken: u64,
}

/// A device that records the requests that pass through it.
#[derive(Debug)]
pub struct RecordingDevice<D: Device> {
    inner: D,
    trace: Mutex<Trace>,
}

impl<D: Device> RecordingDevice<D> {
    /// Wraps `inner` and records its requests from now on.
    pub fn new(inner: D) -> Self {
        RecordingDevice {
            inner,
            trace: Mutex::default(),
        }
    }

    /// Adds a mark with the number `tag` to the trace.
    pub fn mark(&self, tag: u64) {
        self.push(Event::Mark(tag));
    }

    /// Returns the events so far, and begins the trace anew.
    pub fn take_trace(&self) -> Vec<Event> {
        let mut trace = self.trace.lock();
        trace.taken += 1;
        std::mem::take(&mut trace.events)
    }

    /// Returns a copy of the events so far. The data is shared, not copied.
    pub fn trace(&self) -> Vec<Event> {
        self.trace.lock().events.clone()
    }

    /// Returns the number of events so far.
    pub fn len(&self) -> usize {
        self.trace.lock().events.len()
    }

    /// Returns true if the trace has no event.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the wrapped device.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Returns the wrapped device and drops the recorder.
    pub fn into_inner(self) -> D {
        self.inner
    }

    fn push(&self, event: Event) {
        self.trace.lock().events.push(event);
    }
}

impl<D: Device> Device for RecordingDevice<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.inner.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        self.inner.write(offset, buffers)?;
        self.push(Event::Write {
            offset,
            data: gather(buffers).into(),
        });
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        let (covers, taken) = {
            let trace = self.trace.lock();
            (trace.events.len(), trace.taken)
        };
        self.inner.flush()?;
        let mut trace = self.trace.lock();
        let covers = if trace.taken == taken { covers } else { 0 };
        trace.events.push(Event::Flush { covers });
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.inner.discard(offset, length)?;
        self.push(Event::Discard { offset, length });
        Ok(())
    }

    fn zones(&self) -> Option<Zones> {
        self.inner.zones()
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    #[test]
    fn events_are_in_order_and_passed_through() {
        let device = RecordingDevice::new(MemoryDevice::new(1 << 20));
        let data = [5; 1024];
        device
            .write(
                512,
                &[IoSlice::new(&data[..100]), IoSlice::new(&data[100..])],
            )
            .unwrap();
        device.mark(17);
        device.flush().unwrap();
        device.discard(512, 512).unwrap();
        assert_eq!(device.len(), 4);
        let trace = device.take_trace();
        assert_eq!(
            trace,
            [
                Event::Write {
                    offset: 512,
                    data: data.into()
                },
                Event::Mark(17),
                Event::Flush { covers: 2 },
                Event::Discard {
                    offset: 512,
                    length: 512
                },
            ]
        );
        assert!(device.is_empty());
        let mut read = [0; 512];
        device.read(1024, &mut read).unwrap();
        assert_eq!(read, [5; 512]);
        assert_eq!(device.into_inner().counters().snapshot().flushes, 1);
    }

    #[test]
    fn failed_requests_are_not_recorded() {
        let device = RecordingDevice::new(MemoryDevice::new(4096));
        device.write(4096, &[IoSlice::new(&[0; 512])]).unwrap_err();
        device.discard(0, 8192).unwrap_err();
        assert!(device.is_empty());
    }

    /// A device that, while it flushes, writes through the recorder.
    #[derive(Debug)]
    struct Meddler(std::sync::OnceLock<Arc<RecordingDevice<Arc<Meddler>>>>);

    impl Device for Meddler {
        fn geometry(&self) -> Geometry {
            MemoryDevice::new(4096).geometry()
        }
        fn read(&self, _: u64, _: &mut [u8]) -> Result<()> {
            Ok(())
        }
        fn write(&self, _: u64, _: &[IoSlice<'_>]) -> Result<()> {
            Ok(())
        }
        fn flush(&self) -> Result<()> {
            let recorder = self.0.get().unwrap();
            recorder.write(512, &[IoSlice::new(&[2; 512])])
        }
        fn name(&self) -> String {
            "meddler".to_owned()
        }
    }

    #[test]
    fn writes_during_a_flush_are_not_covered() {
        let meddler = Arc::new(Meddler(std::sync::OnceLock::new()));
        let recorder = Arc::new(RecordingDevice::new(meddler.clone()));
        meddler.0.set(recorder.clone()).unwrap();
        recorder.write(0, &[IoSlice::new(&[1; 512])]).unwrap();
        recorder.flush().unwrap();
        let trace = recorder.take_trace();
        assert_eq!(trace.len(), 3);
        assert_eq!(trace[2], Event::Flush { covers: 1 });
    }

    #[test]
    fn fingerprints_tell_order_and_data_apart() {
        let write = |byte| Event::Write {
            offset: 0,
            data: [byte; 512].into(),
        };
        let base = trace_fingerprint(&[write(1), write(2)]);
        assert_eq!(base, trace_fingerprint(&[write(1), write(2)]));
        assert_ne!(base, trace_fingerprint(&[write(2), write(1)]));
        assert_ne!(base, trace_fingerprint(&[write(1), write(3)]));
        assert_ne!(base, trace_fingerprint(&[write(1)]));
    }
}
