//! A simulated drive that several threads of a simulation ask at once: each
//! waits for its own request, in the queue and while it is served, and the
//! others go on meanwhile. First come, first served: no order of the queue
//! favours anybody. A flush has nothing to do, as the drive has no write cache.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;
use varve_device::sync::turns;
use varve_device::{
    Clock, Device, Geometry, MemoryDevice, Operation, Result, SECTOR, VirtualClock, check_request,
    total_length,
};
use varve_disk::{Arrival, Discipline, DiskQueue, Drive, Mechanism, Request};

/// See the module's head.
#[derive(Debug)]
pub struct SharedDrive {
    bytes: MemoryDevice,
    clock: Arc<VirtualClock>,
    queue: Mutex<Queue>,
}

#[derive(Debug)]
struct Queue {
    waiting: DiskQueue,
    next_tag: u64,
    /// When the request that is served, or was last, ends.
    busy_until_ns: u64,
    /// When requests begin and end that nobody has been told of, by tag.
    times_ns: HashMap<u64, (u64, u64)>,
    /// What each thread's requests have taken so far.
    taken: HashMap<ThreadId, Taken>,
}

/// What requests of one thread have taken, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Behind requests of others.
    pub queued_ns: u64,
    /// While they were served.
    pub served_ns: u64,
}

impl Queue {
    /// When a request begins and ends, if it has been begun; begins the next one
    /// if the drive is free.
    fn times_of(&mut self, tag: u64, now_ns: u64) -> Option<(u64, u64)> {
        if self.busy_until_ns <= now_ns
            && let Some(begun) = self.waiting.serve_next()
        {
            let begins_ns = self.busy_until_ns.max(begun.arrival.at_ns);
            self.busy_until_ns = begun.service.end_ns;
            let times = (begins_ns, begun.service.end_ns);
            self.times_ns.insert(begun.arrival.tag, times);
        }
        self.times_ns.remove(&tag)
    }
}

impl SharedDrive {
    /// A drive with nothing on it. `seed` turns the platter.
    pub fn new(drive: Drive, clock: Arc<VirtualClock>, seed: u64) -> Self {
        let bytes = MemoryDevice::with_geometry(Geometry {
            size: drive.geometry.bytes(),
            logical_block: SECTOR as u32,
            physical_block: SECTOR as u32,
        });
        let mechanism = Mechanism::new(Arc::new(drive), seed);
        SharedDrive {
            bytes,
            clock,
            queue: Mutex::new(Queue {
                waiting: DiskQueue::new(mechanism, Discipline::Fcfs, 1),
                next_tag: 0,
                busy_until_ns: 0,
                times_ns: HashMap::new(),
                taken: HashMap::new(),
            }),
        }
    }

    /// What requests of the calling thread have taken so far.
    pub fn taken(&self) -> Taken {
        let here = std::thread::current().id();
        self.queue
            .lock()
            .taken
            .get(&here)
            .copied()
            .unwrap_or_default()
    }

    /// Time passes until `at_ns`.
    fn until(&self, at_ns: u64) {
        let rest = Duration::from_nanos(at_ns.saturating_sub(self.clock.monotonic_ns()));
        if !turns::wait(Some(rest), &|| false) {
            self.clock.advance(rest);
        }
    }

    fn serve(&self, request: Request) {
        let at_ns = self.clock.monotonic_ns();
        let tag = {
            let mut queue = self.queue.lock();
            let tag = queue.next_tag;
            queue.next_tag += 1;
            queue.waiting.push(Arrival {
                at_ns,
                request,
                tag,
            });
            tag
        };
        loop {
            let (times, busy_until_ns) = {
                let mut queue = self.queue.lock();
                let times = queue.times_of(tag, self.clock.monotonic_ns());
                if let Some((begins_ns, ends_ns)) = times {
                    let taken = queue.taken.entry(std::thread::current().id()).or_default();
                    taken.queued_ns += begins_ns - at_ns;
                    taken.served_ns += ends_ns - begins_ns;
                }
                (times, queue.busy_until_ns)
            };
            match times {
                Some((_, ends_ns)) => return self.until(ends_ns),
                None => self.until(busy_until_ns),
            }
        }
    }
}

impl Device for SharedDrive {
    fn geometry(&self) -> Geometry {
        self.bytes.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let length = buffer.len() as u64;
        check_request(self, Operation::Read, offset, length)?;
        self.serve(Request::read(offset / SECTOR, length / SECTOR));
        self.bytes.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        let length = total_length(buffers);
        check_request(self, Operation::Write, offset, length)?;
        self.serve(Request::write(offset / SECTOR, length / SECTOR));
        self.bytes.write(offset, buffers)
    }

    fn flush(&self) -> Result<()> {
        self.bytes.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.bytes.discard(offset, length)
    }

    fn name(&self) -> String {
        "shared simulated drive".into()
    }
}
