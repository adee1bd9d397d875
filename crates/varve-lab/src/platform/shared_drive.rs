//! A simulated drive that several threads of a simulation ask at once: each
//! waits for its own request, in the queue and while it is served, and the
//! others go on meanwhile. First come, first served: no order of the queue
//! favours anybody. A flush has nothing to do, as the drive has no write cache.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::Arc;
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
    /// When requests end that nobody has been told of, by tag.
    ends_ns: HashMap<u64, u64>,
}

impl Queue {
    /// When a request ends, if it has been begun; begins the next one if the
    /// drive is free.
    fn end_of(&mut self, tag: u64, now_ns: u64) -> Option<u64> {
        if self.busy_until_ns <= now_ns
            && let Some(begun) = self.waiting.serve_next()
        {
            self.busy_until_ns = begun.service.end_ns;
            self.ends_ns.insert(begun.arrival.tag, begun.service.end_ns);
        }
        self.ends_ns.remove(&tag)
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
                ends_ns: HashMap::new(),
            }),
        }
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
            let (end_ns, busy_until_ns) = {
                let mut queue = self.queue.lock();
                let end_ns = queue.end_of(tag, self.clock.monotonic_ns());
                (end_ns, queue.busy_until_ns)
            };
            match end_ns {
                Some(end_ns) => return self.until(end_ns),
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
