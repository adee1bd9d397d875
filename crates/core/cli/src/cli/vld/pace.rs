//! Real time: a request takes as long on the host as on the simulated drive.
//!
//! Requests are passed to the drive one at a time, in the order of arrival, and are
//! answered when the host's clock has reached the drive's. While there is no request, the
//! drive's clock follows the host's, so that the platter rotates.

use parking_lot::Mutex;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};
use varve_device::{Clock, Device, Extent, Geometry, Result, VirtualClock};

/// Ties a drive's clock to the host's.
#[derive(Debug)]
pub struct RealTime {
    clock: Arc<VirtualClock>,
    /// The host's time at which the drive's clock was at `origin_ns`.
    begun: Instant,
    origin_ns: u64,
    turn: Mutex<()>,
}

impl RealTime {
    pub fn new(clock: Arc<VirtualClock>) -> Self {
        RealTime {
            origin_ns: clock.monotonic_ns(),
            clock,
            begun: Instant::now(),
            turn: Mutex::new(()),
        }
    }

    /// Runs a request on the drive, and waits for its simulated duration.
    pub fn wait_for<T>(&self, work: impl FnOnce() -> T) -> T {
        let (done, end_ns) = {
            let _turn = self.turn.lock();
            let host_ns = self.origin_ns + self.begun.elapsed().as_nanos() as u64;
            let behind = host_ns.saturating_sub(self.clock.monotonic_ns());
            self.clock.advance(Duration::from_nanos(behind));
            (work(), self.clock.monotonic_ns())
        };
        let due = self.begun + Duration::from_nanos(end_ns - self.origin_ns);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        done
    }
}

/// A device on a simulated drive, at that drive's speed.
#[derive(Debug)]
pub struct Paced<D> {
    pub inner: D,
    pub time: Arc<RealTime>,
}

impl<D: Device> Device for Paced<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.time.wait_for(|| self.inner.read(offset, buffer))
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        self.time.wait_for(|| self.inner.write(offset, buffers))
    }

    fn flush(&self) -> Result<()> {
        self.time.wait_for(|| self.inner.flush())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.time.wait_for(|| self.inner.discard(offset, length))
    }

    fn zero(&self, offset: u64, length: u64) -> Result<bool> {
        self.time.wait_for(|| self.inner.zero(offset, length))
    }

    fn extent(&self, offset: u64, length: u64) -> Result<Extent> {
        self.inner.extent(offset, length)
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_device::MemoryDevice;
    use varve_disk::{SimulatedDisk, drives};

    #[test]
    fn requests_take_what_the_drive_takes_and_the_platter_turns_meanwhile() {
        let clock = Arc::new(VirtualClock::new(0, 0));
        let drive = drives::by_name("hp97560").unwrap();
        let disk = SimulatedDisk::over(MemoryDevice::new(64 << 20), drive, Arc::clone(&clock), 1);
        let paced = Paced {
            inner: disk,
            time: Arc::new(RealTime::new(Arc::clone(&clock))),
        };
        let begun = Instant::now();
        let mut bytes = [0; 4096];
        for nth in 0..4 {
            let offset = nth * 7919 * 4096 % (64 << 20);
            paced.read(offset, &mut bytes).unwrap();
            let (host, drive) = (begun.elapsed().as_nanos() as u64, clock.monotonic_ns());
            assert!(host >= drive, "request {nth}: {host} ns of {drive}");
        }
        assert!(
            clock.monotonic_ns() > 4_000_000,
            "four seeks take milliseconds"
        );
        std::thread::sleep(Duration::from_millis(30));
        paced.read(0, &mut bytes).unwrap();
        assert!(
            clock.monotonic_ns() > 34_000_000,
            "an idle drive's time passes"
        );
    }
}
