//! Reads at a pace that does not disturb other requests.
//!
//! All reads of a verification pass this device. Each read waits until the rate allows
//! it, and up to a limit until no other request waits for the device. While the device is
//! otherwise used, each read is followed by a pause of four times its duration. So a
//! foreground request waits for at most one read of a verification, and usually for none.

use super::control::Control;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use varve_device::sync::Mutex;
use varve_device::{Clock, Device, DeviceError, Geometry, Operation};
use varve_lfs::internal::Counters;

/// Longest wait of a read for other requests, and the interval of its tests.
const PATIENCE: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_micros(500);
/// Pause after a read while the device is otherwise used, as a multiple of the read's
/// duration.
const YIELD: u64 = 4;
/// Longest such pause in ns.
const YIELD_MAX_NS: u64 = 20_000_000;

#[derive(Debug, Default)]
struct Past {
    /// Time before which the rate allows no read, in monotonic ns.
    due_ns: u64,
    /// Number of other requests when the last read began.
    others: u64,
}

/// A read-only device with limited speed.
#[derive(Debug)]
pub struct PacedDevice {
    inner: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    control: Arc<Control>,
    /// Counters of the volume's own requests.
    others: Arc<Counters>,
    past: Mutex<Past>,
}

impl PacedDevice {
    pub fn new(
        inner: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        control: Arc<Control>,
        others: Arc<Counters>,
    ) -> Self {
        PacedDevice {
            inner,
            clock,
            control,
            others,
            past: Mutex::default(),
        }
    }

    /// Returns the number of other requests so far.
    fn requests(&self) -> u64 {
        let others = &self.others;
        others.device_reads.load(Relaxed)
            + others.device_writes.load(Relaxed)
            + others.flushes.load(Relaxed)
    }

    /// Waits for the rate, then for other requests. Returns true if there were any since
    /// the last read.
    fn wait_for_turn(&self, bytes: u64) -> bool {
        let now = self.clock.monotonic_ns();
        let rate = self.control.rate();
        let (wait_ns, busy) = {
            let mut past = self.past.lock();
            let cost = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
            let cost = u64::try_from(cost).unwrap_or(u64::MAX);
            // The wait is limited to this read's own cost, because a clock may not
            // advance.
            let start = past.due_ns.clamp(now, now.saturating_add(cost));
            past.due_ns = match rate {
                0 => now,
                _ => start.saturating_add(cost),
            };
            let requests = self.requests();
            let before = std::mem::replace(&mut past.others, requests);
            (if rate == 0 { 0 } else { start - now }, requests != before)
        };
        if wait_ns > 0 {
            self.control.wait(Duration::from_nanos(wait_ns));
        }
        let mut waited = Duration::ZERO;
        while self.others.users.load(Relaxed) > 0 && waited < PATIENCE && !self.control.stopping() {
            self.control.wait(LOOK);
            waited += LOOK;
        }
        busy || waited > Duration::ZERO
    }

    fn refuse(&self, operation: Operation) -> DeviceError {
        let source = std::io::ErrorKind::PermissionDenied;
        DeviceError::new(self, operation, 0, 0, source)
    }
}

impl Device for PacedDevice {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        // When the verification must stop, reads proceed without delay.
        let bytes = buffer.len() as u64;
        if self.control.stopping() {
            self.others.verified_read_bytes.fetch_add(bytes, Relaxed);
            return self.inner.read(offset, buffer);
        }
        let busy = self.wait_for_turn(bytes);
        let start = self.clock.monotonic_ns();
        let outcome = self.inner.read(offset, buffer);
        let took = self.clock.monotonic_ns().saturating_sub(start);
        self.control.update(|progress| progress.read_bytes += bytes);
        self.others.verified_read_bytes.fetch_add(bytes, Relaxed);
        if busy {
            let pause = took.saturating_mul(YIELD).min(YIELD_MAX_NS);
            self.control.wait(Duration::from_nanos(pause));
        }
        outcome
    }

    fn write(&self, _: u64, _: &[IoSlice<'_>]) -> Result<(), DeviceError> {
        Err(self.refuse(Operation::Write))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Err(self.refuse(Operation::Flush))
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}
