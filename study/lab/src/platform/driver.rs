//! A drive behind a driver that has a queue, as a kernel's has.
//!
//! A write is accepted and answered; it is on the medium when the drive has come to it.
//! A read waits for its turn and for the drive; a flush waits for all that was accepted
//! before it. First come, first served: the order of writes is kept, and nobody is
//! favoured. What waits takes memory: beyond so many bytes, writers wait.

use super::processor::pass_until;
use parking_lot::Mutex;
use std::collections::VecDeque;
use varve_device::{Clock, Result};
use varve_disk::SimulatedDisk;

/// See the module's head.
#[derive(Debug)]
pub struct Driver {
    queue_bytes: u64,
    under_way: Mutex<UnderWay>,
}

/// Writes that are accepted: when each is on the medium, and its bytes.
#[derive(Debug, Default)]
struct UnderWay {
    writes: VecDeque<(u64, u64)>,
    bytes: u64,
}

impl UnderWay {
    /// Forgets what is done.
    fn settle(&mut self, now_ns: u64) {
        while let Some(&(end_ns, bytes)) = self.writes.front()
            && end_ns <= now_ns
        {
            self.writes.pop_front();
            self.bytes -= bytes;
        }
    }
}

impl Driver {
    /// One in which nothing waits, and `queue_bytes` may.
    pub fn new(queue_bytes: u64) -> Self {
        Driver {
            queue_bytes,
            under_way: Mutex::default(),
        }
    }

    /// Accepts a write, once there is room for it.
    ///
    /// # Errors
    /// The drive refuses it.
    pub fn write(&self, disk: &SimulatedDisk, offset: u64, bytes: &[u8]) -> Result<()> {
        let length = bytes.len() as u64;
        while let Some(end_ns) = self.full_until(disk.clock().monotonic_ns(), length) {
            pass_until(disk.clock(), end_ns);
        }
        let end_ns = disk.write_by(offset, bytes)?;
        let mut under_way = self.under_way.lock();
        under_way.writes.push_back((end_ns, length));
        under_way.bytes += length;
        Ok(())
    }

    /// When there may be room for so many bytes, if there is none.
    fn full_until(&self, now_ns: u64, length: u64) -> Option<u64> {
        let mut under_way = self.under_way.lock();
        under_way.settle(now_ns);
        let fits = under_way.bytes + length <= self.queue_bytes;
        let first = under_way.writes.front().filter(|_| !fits);
        first.map(|(end_ns, _)| *end_ns)
    }

    /// Waits until all that was accepted is on the medium.
    pub fn flush(&self, disk: &SimulatedDisk) {
        let last = self.under_way.lock().writes.back().copied();
        if let Some((end_ns, _)) = last {
            pass_until(disk.clock(), end_ns);
        }
    }
}
