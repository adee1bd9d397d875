//! A device that misbehaves according to a plan.
//!
//! Invariants:
//! - The same plan, seed and requests (in the same order) give the same misbehaviour.
//! - At most one fault strikes a request, latency apart: the first of the plan that is
//!   due. The other faults remain due.
//! - [`FaultDevice::report`] counts a fault when it strikes a request, not when it is
//!   planned: that is the denominator of a rate of detection. A stale read of bytes
//!   that were never overwritten does not count.
//! - Requests that break the device's contract are refused before any fault is
//!   considered, and count for none.
//!
//! Requests are served one at a time.

mod cache;
mod plan;
mod state;

use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::clock::VirtualClock;
use crate::device::{Device, DeviceError, Geometry, Operation, Result, Zones};
use crate::memory::{MemoryDevice, MemoryImage};
use crate::request::{check_request, gather};

use cache::BlockMap;
pub use plan::{Fault, FaultKind, FaultReport, Repeat, random_faults};
pub use state::Injection;
use state::{Shot, State};

/// A device with faults.
///
/// Without a volatile cache, writes reach the wrapped device at once. With one, they
/// wait for an honest flush, and [`FaultDevice::power_cut`] loses them. Faults in which
/// a flush loses writes or does nothing turn the cache on.
#[derive(Debug)]
pub struct FaultDevice<D: Device> {
    inner: D,
    clock: Option<Arc<VirtualClock>>,
    state: Mutex<State>,
}

impl<D: Device> FaultDevice<D> {
    /// Wraps `inner`, which works correctly until faults are injected. `seed` decides
    /// which bit, sector or address is affected where the fault leaves it open.
    pub fn new(inner: D, seed: u64) -> Self {
        FaultDevice {
            inner,
            clock: None,
            state: Mutex::new(State::new(seed)),
        }
    }

    /// Sets the clock that [`FaultKind::Latency`] advances. Without a clock that fault
    /// never strikes.
    pub fn with_clock(mut self, clock: Arc<VirtualClock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Turns the volatile cache on: writes wait for the next honest flush.
    pub fn with_volatile_cache(self) -> Self {
        self.state.lock().cache.get_or_insert_default();
        self
    }

    /// Adds a fault to the end of the plan. It counts requests from now on.
    pub fn inject(&self, fault: Fault) {
        self.state.lock().arm(fault);
    }

    /// Removes all faults from the plan. Their effects remain, and so does the report.
    pub fn clear_faults(&self) {
        self.state.lock().disarm();
    }

    /// Returns how often each kind of fault has struck.
    pub fn report(&self) -> FaultReport {
        self.state.lock().report.clone()
    }

    /// Returns the first 65,536 faults that have struck, in order.
    pub fn injections(&self) -> Vec<Injection> {
        self.state.lock().injections.clone()
    }

    /// Returns the number of requests of any kind, served or refused, so far. A plan
    /// that fails every request, one per run, counts on this scale.
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// Cuts the power: bytes that were not flushed are lost. Returns the number of
    /// bytes lost, which is 0 without a volatile cache.
    pub fn power_cut(&self) -> u64 {
        let mut state = self.state.lock();
        let block = u64::from(self.geometry().logical_block);
        let cached = state.cache.as_mut().map(std::mem::take);
        cached.map_or(0, |cache| cache.len() as u64 * block)
    }

    /// Returns the wrapped device, which lacks the bytes in the volatile cache.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Returns the wrapped device, as after a power cut.
    pub fn into_inner(self) -> D {
        self.inner
    }

    /// Flips one bit of the byte at `offset` at once, as decay does.
    ///
    /// # Errors
    /// If the wrapped device refuses.
    ///
    /// # Panics
    /// If `bit` is not below 8.
    pub fn flip_bit(&self, offset: u64, bit: u32) -> Result<()> {
        assert!(bit < 8, "bit {bit} of a byte");
        self.damage(offset, FaultKind::BitFlipAtRest, |block, at, _| {
            block[at] ^= 1 << bit;
        })
    }

    /// Replaces the logical block around `offset` by zeros, at once.
    ///
    /// # Errors
    /// If the wrapped device refuses.
    pub fn zero_sector(&self, offset: u64) -> Result<()> {
        self.damage(offset, FaultKind::ZeroedSector, |block, _, _| block.fill(0))
    }

    /// Replaces the logical block around `offset` by seeded garbage, at once.
    ///
    /// # Errors
    /// If the wrapped device refuses.
    pub fn garbage_sector(&self, offset: u64) -> Result<()> {
        self.damage(offset, FaultKind::GarbageSector, |block, _, random| {
            random.fill(block);
        })
    }

    fn damage(
        &self,
        offset: u64,
        kind: FaultKind,
        change: impl FnOnce(&mut [u8], usize, &mut crate::random::Random),
    ) -> Result<()> {
        let length = u64::from(self.geometry().logical_block);
        let within = (offset % length) as usize;
        let start = offset - offset % length;
        check_request(self, Operation::Write, start, length)?;
        let mut state = self.state.lock();
        let mut block = vec![0; length as usize];
        self.fetch(&state, start, &mut block)?;
        change(&mut block, within, &mut state.random);
        self.store(&mut state, start, &block)?;
        state.note(kind, Operation::Write, start, length);
        Ok(())
    }

    fn failure(
        &self,
        operation: Operation,
        offset: u64,
        length: u64,
        source: impl Into<io::Error>,
    ) -> DeviceError {
        DeviceError::new(self, operation, offset, length, source)
    }

    /// Returns the first fault that is due for a request, after any latency.
    fn strike(
        &self,
        state: &mut State,
        operation: Operation,
        offset: u64,
        length: u64,
    ) -> Option<Shot> {
        let block = u64::from(self.geometry().logical_block);
        if let Some(clock) = &self.clock {
            let late_ns = state.latency(operation, offset, length);
            clock.advance(Duration::from_nanos(late_ns));
        }
        state.strike(operation, offset, length, block)
    }

    /// Reads as an honest device does.
    fn fetch(&self, state: &State, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.inner.read(offset, buffer)?;
        if let Some(cache) = &state.cache {
            cache.overlay(self.geometry().logical_block, offset, buffer);
        }
        Ok(())
    }

    /// Writes as an honest device does.
    fn store(&self, state: &mut State, offset: u64, bytes: &[u8]) -> Result<()> {
        let block = self.geometry().logical_block;
        if let Some(mut history) = state.history.take() {
            let mut old = vec![0; bytes.len()];
            self.fetch(state, offset, &mut old)?;
            history.insert(block, offset, &old);
            state.history = Some(history);
        }
        match &mut state.cache {
            Some(cache) => cache.insert(block, offset, bytes),
            None => self.inner.write(offset, &[IoSlice::new(bytes)])?,
        }
        state.heal(offset, bytes.len() as u64);
        Ok(())
    }

    /// Moves cached blocks to the wrapped device, in ascending runs.
    fn drain(&self, cache: BlockMap) -> Result<()> {
        for (offset, bytes) in cache.runs(self.geometry().logical_block) {
            self.inner.write(offset, &[IoSlice::new(&bytes)])?;
        }
        Ok(())
    }

    /// Returns another address for a misdirected request: `distance` bytes further,
    /// modulo the size of the device, or a random one if `distance` is 0.
    fn elsewhere(&self, state: &mut State, offset: u64, length: u64, distance: u64) -> u64 {
        let Geometry {
            size,
            logical_block,
            ..
        } = self.geometry();
        let block = u64::from(logical_block);
        let places = (size - length) / block + 1;
        let step = match distance / block % places {
            0 if places > 1 => 1 + state.random.below(places - 1),
            step => step,
        };
        (offset / block + step) % places * block
    }

    fn read_struck(
        &self,
        state: &mut State,
        shot: &Shot,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<()> {
        let length = buffer.len() as u64;
        let fail = |source| Err(self.failure(Operation::Read, offset, length, source));
        match shot.kind {
            FaultKind::ReadError | FaultKind::DeadDevice => fail(Errno::IO.into()),
            FaultKind::ShortRead => {
                let delivered = shot.prefix(&mut state.random, self.geometry(), length);
                self.fetch(state, offset, &mut buffer[..delivered])?;
                let reason = format!("only {delivered} bytes were delivered");
                fail(io::Error::new(ErrorKind::UnexpectedEof, reason))
            }
            FaultKind::StaleRead => {
                self.fetch(state, offset, buffer)?;
                let block = self.geometry().logical_block;
                if let Some(history) = &state.history {
                    history.overlay(block, offset, buffer);
                }
                Ok(())
            }
            FaultKind::BitFlipOnRead => {
                self.fetch(state, offset, buffer)?;
                let bits = (shot.overlap.end - shot.overlap.start) * 8;
                let bit = (shot.overlap.start - offset) * 8 + state.random.below(bits);
                buffer[(bit / 8) as usize] ^= 1 << (bit % 8);
                Ok(())
            }
            FaultKind::MisdirectedRead => {
                let other = self.elsewhere(state, offset, length, shot.argument);
                self.fetch(state, other, buffer)
            }
            other => unreachable!("{other:?} does not strike reads"),
        }
    }

    fn write_struck(
        &self,
        state: &mut State,
        shot: &Shot,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let length = bytes.len() as u64;
        let fail = |source: Errno| Err(self.failure(Operation::Write, offset, length, source));
        match shot.kind {
            FaultKind::WriteError | FaultKind::DeadDevice => fail(Errno::IO),
            FaultKind::NoSpace => fail(Errno::NOSPC),
            FaultKind::TornWrite | FaultKind::SilentTornWrite => {
                let taken = shot.prefix(&mut state.random, self.geometry(), length);
                self.store(state, offset, &bytes[..taken])?;
                match shot.kind {
                    FaultKind::TornWrite => fail(Errno::IO),
                    _ => Ok(()),
                }
            }
            FaultKind::LostWrite => Ok(()),
            FaultKind::MisdirectedWrite => {
                let other = self.elsewhere(state, offset, length, shot.argument);
                self.store(state, other, bytes)
            }
            FaultKind::BitFlipAtRest | FaultKind::ZeroedSector | FaultKind::GarbageSector => {
                let mut bytes = bytes.to_vec();
                self.decay(state, shot, offset, &mut bytes);
                self.store(state, offset, &bytes)
            }
            other => unreachable!("{other:?} does not strike writes"),
        }
    }

    /// Damages one logical block of the bytes that are about to be stored at `offset`.
    fn decay(&self, state: &mut State, shot: &Shot, offset: u64, bytes: &mut [u8]) {
        let block = u64::from(self.geometry().logical_block);
        let Range { start, end } = shot.overlap;
        // The overlap may begin inside a block; the damage is confined to whole blocks.
        let first = (start - offset) / block;
        let last = (end - offset).div_ceil(block);
        let hit = (first + state.random.below(last - first)) * block;
        let sector = &mut bytes[hit as usize..(hit + block) as usize];
        match shot.kind {
            FaultKind::ZeroedSector => sector.fill(0),
            FaultKind::GarbageSector => state.random.fill(sector),
            _ => {
                let bit = state.random.below(block * 8);
                sector[(bit / 8) as usize] ^= 1 << (bit % 8);
            }
        }
    }

    fn flush_struck(&self, state: &mut State, shot: &Shot) -> Result<()> {
        match shot.kind {
            FaultKind::FlushLies => return Ok(()),
            FaultKind::FlushFails | FaultKind::DeadDevice => {}
            FaultKind::FlushFailsLosing => {
                let mut cache = state.cache.as_mut().map(std::mem::take).unwrap_or_default();
                let random = &mut state.random;
                cache.retain(|| random.coin());
                self.drain(cache)?;
            }
            other => unreachable!("{other:?} does not strike flushes"),
        }
        Err(self.failure(Operation::Flush, 0, 0, Errno::IO))
    }
}

impl FaultDevice<MemoryDevice> {
    /// Cuts the power and returns the remaining image: the bytes that an honest flush
    /// made durable.
    pub fn crash(&self) -> MemoryImage {
        self.power_cut();
        self.inner.snapshot()
    }
}

impl<D: Device> Device for FaultDevice<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let length = buffer.len() as u64;
        check_request(self, Operation::Read, offset, length)?;
        let state = &mut *self.state.lock();
        match self.strike(state, Operation::Read, offset, length) {
            Some(shot) => self.read_struck(state, &shot, offset, buffer),
            None => self.fetch(state, offset, buffer),
        }
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        let bytes = gather(buffers);
        check_request(self, Operation::Write, offset, bytes.len() as u64)?;
        let state = &mut *self.state.lock();
        match self.strike(state, Operation::Write, offset, bytes.len() as u64) {
            Some(shot) => self.write_struck(state, &shot, offset, &bytes),
            None => self.store(state, offset, &bytes),
        }
    }

    fn flush(&self) -> Result<()> {
        let state = &mut *self.state.lock();
        if let Some(shot) = self.strike(state, Operation::Flush, 0, 0) {
            return self.flush_struck(state, &shot);
        }
        if let Some(cache) = state.cache.as_mut().map(std::mem::take) {
            self.drain(cache)?;
        }
        self.inner.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_request(self, Operation::Discard, offset, length)?;
        let state = &mut *self.state.lock();
        if self
            .strike(state, Operation::Discard, offset, length)
            .is_some()
        {
            return Err(self.failure(Operation::Discard, offset, length, Errno::IO));
        }
        if let Some(cache) = &mut state.cache {
            cache.remove(self.geometry().logical_block, offset, length);
        }
        self.inner.discard(offset, length)
    }

    fn zones(&self) -> Option<Zones> {
        self.inner.zones()
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

#[cfg(test)]
mod tests;
