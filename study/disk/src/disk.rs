//! A mechanical disk as a device on a virtual clock.
//!
//! A call takes no host time beyond its computation; it moves the clock to the
//! moment at which the disk would have answered. Bytes are kept by any device:
//! sparse memory, or an image file that is to behave like an old drive.
//!
//! Invariants:
//! - Requests are served one at a time, in the order in which they come; the
//!   clock is moved before the call returns, and by nothing else meanwhile
//!   ([`SimulatedDisk::read_by`] and [`SimulatedDisk::write_by`] do not move it).
//! - Writes go through to the medium: a flush has nothing left to do and costs
//!   nothing, as hosts send none to such a disk. (The contract of [`Device`]
//!   still holds for what keeps the bytes, and a flush is passed on to it.)
//! - A request that the bytes' keeper refuses has taken its time all the same.
//! - Several threads, or several disks on one clock, are served in turn, each
//!   for as long as it takes: two disks at work at once are an
//!   [`array`](crate::array) or a simulator's business.

use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use varve_device::{
    Clock, CounterSnapshot, Device, DeviceCounters, DeviceError, Extent, Geometry, MemoryDevice,
    Operation, Result, SECTOR, VirtualClock, check_request, total_length,
};

use crate::drive::{Access, Drive};
use crate::mechanism::{Mechanism, Request, Service};
use crate::times::Times;

/// A simulated disk over a device that keeps its bytes.
#[derive(Debug)]
pub struct SimulatedDisk<D: Device = MemoryDevice> {
    inner: D,
    name: &'static str,
    size: u64,
    clock: Arc<VirtualClock>,
    state: Mutex<State>,
    counters: DeviceCounters,
}

#[derive(Debug)]
struct State {
    mechanism: Mechanism,
    times: Times,
    from_buffer: u64,
}

/// What a disk did, and what its time went to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskStatistics {
    /// Requests and bytes.
    pub requests: CounterSnapshot,
    /// Reads that waited for no sector.
    pub from_buffer: u64,
    /// Time by cause.
    pub times: Times,
}

impl SimulatedDisk {
    /// A disk whose bytes are in memory, sparse: a drive of any size costs what
    /// is written to it. `seed` turns the platter.
    pub fn new(drive: Drive, clock: Arc<VirtualClock>, seed: u64) -> Self {
        let inner = MemoryDevice::with_geometry(Geometry {
            size: drive.geometry.bytes(),
            logical_block: SECTOR as u32,
            physical_block: SECTOR as u32,
        });
        SimulatedDisk::over(inner, drive, clock, seed)
    }
}

impl<D: Device> SimulatedDisk<D> {
    /// A disk whose bytes are on `inner`. The smaller of the two is its size.
    pub fn over(inner: D, drive: Drive, clock: Arc<VirtualClock>, seed: u64) -> Self {
        let own = inner.geometry();
        let size = own.size.min(drive.geometry.bytes());
        SimulatedDisk {
            size: size - size % u64::from(own.logical_block),
            inner,
            name: drive.name,
            clock,
            state: Mutex::new(State {
                mechanism: Mechanism::new(Arc::new(drive), seed),
                times: Times::default(),
                from_buffer: 0,
            }),
            counters: DeviceCounters::default(),
        }
    }

    /// What keeps the bytes.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// The clock it moves.
    pub fn clock(&self) -> &Arc<VirtualClock> {
        &self.clock
    }

    /// Where the arm is and what the buffer holds, as a copy.
    pub fn mechanism(&self) -> Mechanism {
        self.state.lock().mechanism.clone()
    }

    /// Looks at the mechanism without copying it; also told the time.
    pub fn look<T>(&self, at: impl FnOnce(&Mechanism, u64) -> T) -> T {
        let state = self.state.lock();
        at(&state.mechanism, self.clock.monotonic_ns())
    }

    /// Requests, bytes and times so far.
    pub fn statistics(&self) -> DiskStatistics {
        let state = self.state.lock();
        DiskStatistics {
            requests: self.counters.snapshot(),
            from_buffer: state.from_buffer,
            times: state.times,
        }
    }

    /// Charges what a command costs before anything moves, and nothing else:
    /// for a drive's own software, which takes one command of the host and then
    /// works through [`SimulatedDisk::inside`].
    pub fn command(&self, access: Access) {
        let mut state = self.state.lock();
        let overhead_ns = state.mechanism.drive().overhead_ns(access);
        state.times.overhead_ns += overhead_ns;
        self.clock.advance(Duration::from_nanos(overhead_ns));
    }

    /// The data of a write comes over the bus, to a drive whose own software
    /// writes it afterwards. It waits only for as much as [`Mechanism`] waits
    /// for: the first sector, or what keeps the bus ahead of the head. The rest
    /// comes while it writes.
    pub fn receive(&self, bytes: u64) {
        let mut state = self.state.lock();
        let lead_ns = state.mechanism.drive().lead_ns(bytes / SECTOR);
        state.times.transfer_ns += lead_ns;
        self.clock.advance(Duration::from_nanos(lead_ns));
    }

    /// The data of a read, which the drive's own software got from `begun_ns`
    /// until now, goes over the bus: the last sector after it was read, and all
    /// of it no faster than the bus is.
    pub fn deliver(&self, begun_ns: u64, bytes: u64) {
        let mut state = self.state.lock();
        let now_ns = self.clock.monotonic_ns();
        let drive = state.mechanism.drive();
        let last_ns = now_ns + drive.bus_ns((bytes / SECTOR).min(1));
        let end_ns = last_ns.max(begun_ns + drive.bus_ns(bytes / SECTOR));
        state.times.transfer_ns += end_ns - now_ns;
        self.clock.advance(Duration::from_nanos(end_ns - now_ns));
    }

    /// The disk as its own software sees it: no command overhead, no bus.
    pub fn inside(&self) -> Inside<'_, D> {
        Inside(self)
    }

    /// Serves a request from `now_ns` without moving the clock. Offset and
    /// length have been checked.
    pub(crate) fn serve_at(&self, now_ns: u64, request: Request) -> Service {
        let mut state = self.state.lock();
        let service = state.mechanism.serve(now_ns, request);
        state.times += service.times;
        state.from_buffer +=
            u64::from(service.from_buffer && request.access == Access::Read && request.sectors > 0);
        service
    }

    pub(crate) fn counters(&self) -> &DeviceCounters {
        &self.counters
    }

    /// Reads without moving the clock: answers when the disk will have done it, after
    /// all that it was given before. The bytes are there at once.
    ///
    /// # Errors
    /// As [`Device::read`].
    pub fn read_by(&self, offset: u64, buffer: &mut [u8]) -> Result<u64> {
        let length = buffer.len() as u64;
        check_request(self, Operation::Read, offset, length)?;
        let end_ns = self.end_of(Request::read(offset / SECTOR, length / SECTOR));
        self.inner.read(offset, buffer)?;
        self.counters.count_read(length);
        Ok(end_ns)
    }

    /// Writes without moving the clock: answers when the disk will have done it, after
    /// all that it was given before. Who reads finds the bytes at once.
    ///
    /// # Errors
    /// As [`Device::write`].
    pub fn write_by(&self, offset: u64, bytes: &[u8]) -> Result<u64> {
        let length = bytes.len() as u64;
        check_request(self, Operation::Write, offset, length)?;
        let end_ns = self.end_of(Request::write(offset / SECTOR, length / SECTOR));
        self.inner.write(offset, &[IoSlice::new(bytes)])?;
        self.counters.count_write(length);
        Ok(end_ns)
    }

    fn end_of(&self, request: Request) -> u64 {
        self.serve_at(self.clock.monotonic_ns(), request).end_ns
    }

    /// Serves a request now and moves the clock to its end.
    fn serve(&self, access: Access, offset: u64, length: u64, inside: bool) {
        let request = Request {
            access,
            sector: offset / SECTOR,
            sectors: length / SECTOR,
            inside,
        };
        let mut state = self.state.lock();
        let now = self.clock.monotonic_ns();
        let service = state.mechanism.serve(now, request);
        state.times += service.times;
        state.from_buffer += u64::from(service.from_buffer && access == Access::Read && length > 0);
        self.clock
            .advance(Duration::from_nanos(service.end_ns.saturating_sub(now)));
    }

    fn read_as(&self, offset: u64, buffer: &mut [u8], inside: bool) -> Result<()> {
        let length = buffer.len() as u64;
        check_request(self, Operation::Read, offset, length)?;
        self.serve(Access::Read, offset, length, inside);
        self.inner.read(offset, buffer)?;
        self.counters.count_read(length);
        Ok(())
    }

    fn write_as(&self, offset: u64, buffers: &[IoSlice<'_>], inside: bool) -> Result<()> {
        let length = total_length(buffers);
        check_request(self, Operation::Write, offset, length)?;
        self.serve(Access::Write, offset, length, inside);
        self.inner.write(offset, buffers)?;
        self.counters.count_write(length);
        Ok(())
    }
}

impl<D: Device> Device for SimulatedDisk<D> {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.size,
            ..self.inner.geometry()
        }
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_as(offset, buffer, false)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        self.write_as(offset, buffers, false)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()?;
        self.counters.count_flush();
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_request(self, Operation::Discard, offset, length)?;
        self.inner.discard(offset, length)?;
        self.counters.count_discard();
        Ok(())
    }

    /// As what keeps the bytes says: the drive itself knows of no holes, and a
    /// question takes no time.
    fn extent(&self, offset: u64, length: u64) -> Result<Extent> {
        check_request(self, Operation::Read, offset, length)?;
        self.inner.extent(offset, length)
    }

    fn name(&self) -> String {
        format!("simulated {} on {}", self.name, self.inner.name())
    }
}

/// A disk as the software inside it sees it.
#[derive(Debug)]
pub struct Inside<'a, D: Device>(&'a SimulatedDisk<D>);

impl<D: Device> Device for Inside<'_, D> {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0.read_as(offset, buffer, true)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        self.0.write_as(offset, buffers, true)
    }

    fn flush(&self) -> Result<()> {
        self.0.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.0.discard(offset, length)
    }

    fn name(&self) -> String {
        self.0.name()
    }
}

/// An error about a request that a simulated device cannot serve.
pub(crate) fn invalid<D: Device + ?Sized>(
    device: &D,
    operation: Operation,
    offset: u64,
    length: u64,
    reason: String,
) -> DeviceError {
    let source = std::io::Error::new(ErrorKind::InvalidInput, reason);
    DeviceError::new(device, operation, offset, length, source)
}

#[cfg(test)]
mod tests;
