//! An NVMe-like device: channels, latency, queue depth.
//!
//! Pages are spread over `channels * ways` flash units. Reading senses a page
//! in its unit, then moves it over the unit's channel; writing moves it into a
//! buffer, is answered, and is programmed in the background by the units in
//! turn. Commands beyond the queue's depth wait for one to complete. What a
//! translation layer moves by itself is not modelled.
//!
//! All figures are estimates of the class ([`FlashParameters::nvme`]); the
//! model is for comparing layouts, not products.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use varve_device::{
    Clock, Device, Geometry, MemoryDevice, Operation, Result, VirtualClock, check_request,
    total_length,
};

use crate::drive::Access;

/// What a flash device is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlashParameters {
    /// For people.
    pub name: &'static str,
    /// Buses to the flash.
    pub channels: u32,
    /// Units that share a channel and work at once.
    pub ways: u32,
    /// Bytes moved at once; a smaller request moves a whole page.
    pub page_bytes: u32,
    /// From a unit's cells into its register.
    pub sense_ns: u64,
    /// Into its cells, for one page's share of what is programmed at once.
    pub program_ns: u64,
    /// Of one channel.
    pub channel_bytes_per_s: u64,
    /// Of the host's link.
    pub link_bytes_per_s: u64,
    /// Handling of a command.
    pub overhead_ns: u64,
    /// Commands in flight.
    pub queue_depth: u32,
    /// What may wait to be programmed.
    pub buffer_bytes: u64,
    /// The buffer survives a power cut: a flush need not wait for it.
    pub protected: bool,
}

impl FlashParameters {
    /// A data-centre NVMe drive of today, estimated: 4 KiB read in about 80 us
    /// at depth 1, about 700,000 of them a second at depth 64, 3.2 GB/s in
    /// sequence, writes answered from a protected buffer in about 12 us.
    pub fn nvme() -> Self {
        FlashParameters {
            name: "nvme",
            channels: 8,
            ways: 8,
            page_bytes: 4096,
            sense_ns: 60_000,
            program_ns: 100_000,
            channel_bytes_per_s: 800_000_000,
            link_bytes_per_s: 3_200_000_000,
            overhead_ns: 10_000,
            queue_depth: 64,
            buffer_bytes: 16 << 20,
            protected: true,
        }
    }
}

/// When a command was taken up and when it was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlashService {
    /// A place in the queue was free.
    pub begin_ns: u64,
    /// The host has its answer.
    pub end_ns: u64,
}

/// The state of one flash device, without bytes. Commands are given to it in
/// order of their issue, and may overlap.
#[derive(Debug, Clone)]
pub struct FlashModel {
    parameters: FlashParameters,
    units: Vec<u64>,
    channels: Vec<u64>,
    link_ns: u64,
    /// When the commands in flight end.
    in_flight: BinaryHeap<Reverse<u64>>,
    /// Pages in the buffer: when each is programmed.
    buffered: VecDeque<u64>,
    /// The unit that programs next.
    next_unit: usize,
}

impl FlashModel {
    /// An idle device.
    ///
    /// # Panics
    /// If a count, size or rate is zero, or the buffer does not hold a page.
    pub fn new(parameters: FlashParameters) -> Self {
        let p = &parameters;
        assert!(p.channels > 0 && p.ways > 0 && p.queue_depth > 0, "{p:?}");
        assert!(
            p.page_bytes > 0 && p.buffer_bytes >= u64::from(p.page_bytes),
            "{p:?}"
        );
        assert!(p.channel_bytes_per_s > 0 && p.link_bytes_per_s > 0, "{p:?}");
        let units = (p.channels * p.ways) as usize;
        FlashModel {
            units: vec![0; units],
            channels: vec![0; p.channels as usize],
            link_ns: 0,
            in_flight: BinaryHeap::new(),
            buffered: VecDeque::new(),
            next_unit: 0,
            parameters,
        }
    }

    /// Serves a command issued at `now_ns` for `length` bytes at byte `offset`.
    pub fn serve(&mut self, now_ns: u64, access: Access, offset: u64, length: u64) -> FlashService {
        let begin_ns = self.admit(now_ns);
        let start = begin_ns + self.parameters.overhead_ns;
        let page = u64::from(self.parameters.page_bytes);
        let pages = offset / page..(offset + length).div_ceil(page);
        let end_ns = match access {
            Access::Read => self.read(start, pages, length),
            Access::Write => self.write(start, pages.end - pages.start, length),
        };
        self.in_flight.push(Reverse(end_ns));
        FlashService { begin_ns, end_ns }
    }

    /// Serves a flush issued at `now_ns`.
    pub fn flush(&mut self, now_ns: u64) -> FlashService {
        let begin_ns = self.admit(now_ns);
        let mut end_ns = begin_ns + self.parameters.overhead_ns;
        if !self.parameters.protected {
            let programmed = self.buffered.iter().copied().max();
            end_ns = end_ns.max(programmed.unwrap_or(0));
        }
        self.in_flight.push(Reverse(end_ns));
        FlashService { begin_ns, end_ns }
    }

    /// When a command issued at `now_ns` gets its place in the queue.
    fn admit(&mut self, now_ns: u64) -> u64 {
        while self.in_flight.peek().is_some_and(|end| end.0 <= now_ns) {
            self.in_flight.pop();
        }
        let mut begin = now_ns;
        while self.in_flight.len() >= self.parameters.queue_depth as usize {
            begin = self.in_flight.pop().map_or(begin, |end| begin.max(end.0));
        }
        begin
    }

    fn move_ns(bytes: u64, bytes_per_s: u64) -> u64 {
        let ns = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Takes `busy_ns` of a shared bus for a command that is there from
    /// `start`; the earliest moment at which the bus can be done with it. A bus
    /// is a rate, not a line: data that is ready first goes first.
    fn share(bus_ns: &mut u64, start: u64, busy_ns: u64) -> u64 {
        *bus_ns = start.max(*bus_ns) + busy_ns;
        *bus_ns
    }

    fn read(&mut self, start: u64, pages: std::ops::Range<u64>, length: u64) -> u64 {
        let page_bytes = u64::from(self.parameters.page_bytes);
        let moving = FlashModel::move_ns(page_bytes, self.parameters.channel_bytes_per_s);
        let (mut first, mut last) = (u64::MAX, start);
        for page in pages {
            let unit = (page % self.units.len() as u64) as usize;
            let channel = unit % self.channels.len();
            let sensed = self.units[unit].max(start) + self.parameters.sense_ns;
            let shared = FlashModel::share(&mut self.channels[channel], start, moving);
            let moved = (sensed + moving).max(shared);
            self.units[unit] = moved;
            (first, last) = (first.min(moved), last.max(moved));
        }
        // The link carries the first page while others are still read.
        let rate = self.parameters.link_bytes_per_s;
        let whole = FlashModel::move_ns(length, rate);
        let shared = FlashModel::share(&mut self.link_ns, start, whole);
        let tail = FlashModel::move_ns(length.min(page_bytes), rate);
        shared.max(first.min(last) + whole).max(last + tail)
    }

    fn write(&mut self, start: u64, pages: u64, length: u64) -> u64 {
        let page_bytes = u64::from(self.parameters.page_bytes);
        let moving = FlashModel::move_ns(page_bytes, self.parameters.channel_bytes_per_s);
        let capacity = (self.parameters.buffer_bytes / page_bytes) as usize;
        let linking = FlashModel::move_ns(length, self.parameters.link_bytes_per_s);
        let mut arrived = FlashModel::share(&mut self.link_ns, start, linking);
        for _ in 0..pages {
            while self.buffered.front().is_some_and(|&done| done <= arrived) {
                self.buffered.pop_front();
            }
            if self.buffered.len() >= capacity {
                let oldest = self.buffered.pop_front().unwrap_or(arrived);
                arrived = arrived.max(oldest);
            }
            let unit = self.next_unit;
            self.next_unit = (unit + 1) % self.units.len();
            let channel = unit % self.channels.len();
            let free = arrived.max(self.units[unit]);
            let shared = FlashModel::share(&mut self.channels[channel], arrived, moving);
            self.units[unit] = shared.max(free + moving) + self.parameters.program_ns;
            self.buffered.push_back(self.units[unit]);
        }
        arrived
    }
}

/// A flash device on a virtual clock. One call at a time: deeper queues are
/// for simulators that use [`FlashModel`].
#[derive(Debug)]
pub struct FlashDevice<D: Device = MemoryDevice> {
    inner: D,
    clock: Arc<VirtualClock>,
    model: Mutex<FlashModel>,
    spent_ns: AtomicU64,
}

impl<D: Device> FlashDevice<D> {
    /// A flash device whose bytes are on `inner`.
    ///
    /// # Panics
    /// As [`FlashModel::new`].
    pub fn new(inner: D, parameters: FlashParameters, clock: Arc<VirtualClock>) -> Self {
        FlashDevice {
            inner,
            clock,
            model: Mutex::new(FlashModel::new(parameters)),
            spent_ns: AtomicU64::new(0),
        }
    }

    /// What keeps the bytes.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Nanoseconds that callers have waited for it so far.
    pub fn spent_ns(&self) -> u64 {
        self.spent_ns.load(Relaxed)
    }

    fn spend(&self, serve: impl FnOnce(&mut FlashModel, u64) -> FlashService) {
        let mut model = self.model.lock();
        let now = self.clock.monotonic_ns();
        let took_ns = serve(&mut model, now).end_ns - now;
        self.spent_ns.fetch_add(took_ns, Relaxed);
        self.clock.advance(Duration::from_nanos(took_ns));
    }
}

impl<D: Device> Device for FlashDevice<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let length = buffer.len() as u64;
        check_request(self, Operation::Read, offset, length)?;
        self.spend(|model, now| model.serve(now, Access::Read, offset, length));
        self.inner.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        let length = total_length(buffers);
        check_request(self, Operation::Write, offset, length)?;
        self.spend(|model, now| model.serve(now, Access::Write, offset, length));
        self.inner.write(offset, buffers)
    }

    fn flush(&self) -> Result<()> {
        self.spend(FlashModel::flush);
        self.inner.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_request(self, Operation::Discard, offset, length)?;
        self.inner.discard(offset, length)
    }

    fn name(&self) -> String {
        let name = self.model.lock().parameters.name;
        format!("simulated {name} on {}", self.inner.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random_reads(depth: usize, count: u64) -> u64 {
        let mut model = FlashModel::new(FlashParameters::nvme());
        let mut ends = VecDeque::from(vec![0; depth]);
        let (mut state, mut last) = (1u64, 0);
        for _ in 0..count {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            let now = ends.pop_front().unwrap();
            let page = (state >> 20) % (1 << 24);
            let end = model.serve(now, Access::Read, page * 4096, 4096).end_ns;
            let at = ends.partition_point(|&other| other <= end);
            ends.insert(at, end);
            last = last.max(end);
        }
        last
    }

    #[test]
    fn reads_have_the_estimated_latency_and_rate() {
        let alone = random_reads(1, 1000) / 1000;
        assert!((70_000..90_000).contains(&alone), "{alone} ns at depth 1");
        let per_s = 100_000 * 1_000_000_000 / random_reads(256, 100_000);
        assert!(
            (550_000..800_000).contains(&per_s),
            "{per_s} reads a second"
        );
        let shallow = 20_000 * 1_000_000_000 / random_reads(4, 20_000);
        assert!(
            (45_000..56_000).contains(&shallow),
            "{shallow} a second at depth 4"
        );
    }

    #[test]
    fn writes_are_answered_from_the_buffer_until_it_is_full() {
        let mut model = FlashModel::new(FlashParameters::nvme());
        let first = model.serve(0, Access::Write, 0, 4096);
        assert!(first.end_ns < 15_000, "{first:?}");
        let (mut now, mut bytes) = (first.end_ns, 0u64);
        while bytes < 1 << 30 {
            now = model.serve(now, Access::Write, bytes, 1 << 20).end_ns;
            bytes += 1 << 20;
        }
        // 64 units, each a page in 100 us and its move: 2.5 GB/s at most.
        let rate = bytes as f64 / now as f64;
        assert!((2.0..2.6).contains(&rate), "{rate} GB/s");
    }

    #[test]
    fn only_an_unprotected_buffer_makes_flushes_wait() {
        for (protected, wait) in [(true, false), (false, true)] {
            let mut model = FlashModel::new(FlashParameters {
                protected,
                ..FlashParameters::nvme()
            });
            let written = model.serve(0, Access::Write, 0, 4096).end_ns;
            let flushed = model.flush(written).end_ns;
            assert_eq!(flushed - written > 50_000, wait);
        }
    }

    #[test]
    fn the_device_keeps_bytes_and_moves_the_clock() {
        let clock = Arc::new(VirtualClock::new(0, 0));
        let inner = MemoryDevice::new(1 << 20);
        let device = FlashDevice::new(inner, FlashParameters::nvme(), clock.clone());
        device.write(4096, &[IoSlice::new(&[7; 512])]).unwrap();
        let mut read = [0; 512];
        device.read(4096, &mut read).unwrap();
        assert_eq!(read, [7; 512]);
        assert!(clock.monotonic_ns() > 70_000);
        assert_eq!(device.spent_ns(), clock.monotonic_ns());
        assert!(device.read(1 << 20, &mut read).is_err());
        assert!(device.name().contains("nvme"));
    }
}
