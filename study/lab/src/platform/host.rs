//! What the processor costs.
//!
//! The paper gives clock rates and a picture that is lost, so the cycles are
//! estimates, made before anything was measured with them and the same for all
//! systems: a synchronous write of 4 KiB takes 33,000 cycles, 0.66 ms at 50 MHz, of
//! which 3000 are those of a drive's firmware, which ran on the host. V7 says what half and twice as much would change.

use super::processor::Processor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use varve_device::VirtualClock;

/// A processor: how fast it is, and how well its code is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Host {
    /// Its name.
    pub name: &'static str,
    /// Cycles a second.
    pub hz: u64,
    /// Factor on every cost.
    pub effort: f64,
}

impl Host {
    /// Wang et al. 1999, §4: 50 MHz.
    pub const SPARCSTATION_10: Host = Host {
        name: "SPARCstation-10",
        hz: 50_000_000,
        effort: 1.0,
    };
    /// The same: 167 MHz.
    pub const ULTRASPARC_170: Host = Host {
        name: "UltraSPARC-170",
        hz: 167_000_000,
        effort: 1.0,
    };

    /// With so many times the cycles.
    #[must_use]
    pub fn with_effort(self, effort: f64) -> Self {
        Host { effort, ..self }
    }
}

/// A system call.
pub const CALL: u64 = 2000;
/// Looking up, making or removing a name, beside the call.
pub const NAME: u64 = 20_000;
/// The file system's way to one block: map, cache, locks.
pub const FILE_BLOCK: u64 = 8000;
/// Copying a byte between user and kernel.
pub const COPY_BYTE: u64 = 2;
/// A disk command: driver, interrupt, waking who waits.
pub const COMMAND: u64 = 12_000;
/// Firmware of a drive, for a command. The paper's drives, regular and virtual log disk
/// alike, are modules of the host's kernel (§4.1, §4.2), so that the host pays.
pub const FIRMWARE: u64 = 3000;

/// What a call about a name takes more on a volume that has had transactions of each kind:
/// instructions, counted by `examples/protection.rs` (4854 and 8297), a cycle each.
pub const PROTECTION_NAME: u64 = 3443;
/// The same of a read or a write (1947 and 2100).
pub const PROTECTION_DATA: u64 = 153;

/// The processor of a platform: charges the clock, and keeps count.
#[derive(Debug)]
pub struct Cpu {
    host: Host,
    clock: Arc<VirtualClock>,
    shared: Option<Processor>,
    spent_ns: AtomicU64,
}

impl Cpu {
    /// One that has done nothing.
    pub fn new(host: Host, clock: Arc<VirtualClock>) -> Self {
        Cpu {
            host,
            clock,
            shared: None,
            spent_ns: AtomicU64::new(0),
        }
    }

    /// The same, which threads share.
    #[must_use]
    pub fn shared(self, quantum_ns: u64) -> Self {
        Cpu {
            shared: Some(Processor::new(Arc::clone(&self.clock), quantum_ns)),
            ..self
        }
    }

    /// Works for so many cycles of the table above.
    pub fn work(&self, cycles: u64) {
        let cycles = (cycles as f64 * self.host.effort) as u64;
        let ns = cycles * 1_000_000_000 / self.host.hz;
        self.spent_ns.fetch_add(ns, Relaxed);
        match &self.shared {
            Some(processor) => processor.kernel(ns),
            None => self.clock.advance(Duration::from_nanos(ns)),
        }
    }

    /// A program computes for so long on a host of effort 1.
    pub fn compute(&self, seconds: f64) {
        let ns = (seconds * self.host.effort * 1e9) as u64;
        self.spent_ns.fetch_add(ns, Relaxed);
        match &self.shared {
            Some(processor) => processor.program(ns),
            None => self.clock.advance(Duration::from_nanos(ns)),
        }
    }

    /// Reading or writing `bytes` of a file, in blocks, and `call` cycles for being
    /// asked to.
    pub fn transfer(&self, call: u64, bytes: u64) {
        let blocks = bytes.div_ceil(super::BLOCK);
        self.work(call + blocks * FILE_BLOCK + bytes * COPY_BYTE);
    }

    /// A call about a name.
    pub fn name(&self) {
        self.work(CALL + NAME);
    }

    /// Time it has worked.
    pub fn spent_ns(&self) -> u64 {
        self.spent_ns.load(Relaxed)
    }
}
