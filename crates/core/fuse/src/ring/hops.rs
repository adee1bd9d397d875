//! Clients that hop from CPU to CPU.
//!
//! A queue per CPU pays as long as a client stays where it is. But the answer
//! that wakes a client comes from a thread that keeps the client's CPU busy for
//! another moment, so the scheduler of a host with idle CPUs moves the client to
//! one of these, and the next answer moves it back. Each hop wakes a halted
//! CPU: on a virtual machine with two of them, making a file took 200 us
//! instead of 40, with Linux 6.18.
//!
//! So the thread that has answered a hopping client yields its CPU again and
//! again, instead of leaving it idle, until the client has been answered once
//! more: that answer finds no idle CPU and leaves the client where it is.
//! Whoever else wants the CPU gets it. Measured, this takes less processor time
//! than the hops do. Where it does not help, because there are always other idle
//! CPUs, pauses between holds grow until they cost nothing.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The longest hold.
const HOLD_MAX: Duration = Duration::from_micros(200);
/// The pause after a first hold that did not help; it doubles from there.
const PAUSE_FAILED: Duration = Duration::from_millis(1);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(128);
/// Clients that are told apart, as long as their numbers are.
const SLOTS: usize = 64;

/// Where each client's last requests came from.
pub(crate) struct Hops {
    began: Instant,
    slots: [Slot; SLOTS],
}

/// One client. Updates may get lost between two threads: all that depends on
/// them is how fast we are.
#[derive(Default)]
struct Slot {
    /// A [`Track`], packed.
    track: AtomicU64,
    /// Nanoseconds since `began` before which there is no hold.
    not_before_ns: AtomicU64,
    /// Holds in a row that did not help.
    failures: AtomicU32,
}

impl Slot {
    fn pause(&self, not_before: Duration) {
        let ns = not_before.as_nanos() as u64;
        self.not_before_ns.store(ns, Relaxed);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Track {
    client: u32,
    cpu: u16,
    /// Hops in a row.
    hops: u8,
    /// Counts requests, and wraps.
    requests: u8,
}

impl Track {
    fn unpack(bits: u64) -> Self {
        Track {
            client: (bits >> 32) as u32,
            cpu: (bits >> 16) as u16,
            hops: (bits >> 8) as u8,
            requests: bits as u8,
        }
    }

    fn pack(self) -> u64 {
        u64::from(self.client) << 32
            | u64::from(self.cpu) << 16
            | u64::from(self.hops) << 8
            | u64::from(self.requests)
    }

    /// After a request of `client` on `cpu`.
    fn next(self, client: u32, cpu: u16) -> Self {
        let same = self.client == client;
        let hops = match same && self.cpu != cpu {
            true => self.hops.saturating_add(1),
            false => 0,
        };
        Track {
            client,
            cpu,
            hops,
            requests: self.requests.wrapping_add(1),
        }
    }

    /// Whether the client has settled since `start`, at its CPU or another;
    /// nothing as long as that is open.
    fn settled_since(self, start: Self) -> Option<bool> {
        let sent = self.requests.wrapping_sub(start.requests);
        let stayed = sent > 0 && self.cpu == start.cpu;
        let over = self.client != start.client || sent >= 2 || stayed;
        over.then_some(stayed || self.hops == 0)
    }
}

impl Hops {
    pub(super) fn new() -> Self {
        Hops {
            began: Instant::now(),
            slots: std::array::from_fn(|_| Slot::default()),
        }
    }

    /// Notes a request of `client` on `cpu`. True if its CPU is to be held
    /// after the answer.
    pub(super) fn note(&self, client: u32, cpu: u16) -> bool {
        let slot = self.slot(client);
        let track = Track::unpack(slot.track.load(Relaxed)).next(client, cpu);
        slot.track.store(track.pack(), Relaxed);
        if client == 0 || track.hops == 0 {
            return false;
        }
        let due = self.began.elapsed() >= Duration::from_nanos(slot.not_before_ns.load(Relaxed));
        if due {
            // Held on both sides, the client would have nowhere to go.
            slot.pause(self.began.elapsed() + HOLD_MAX);
        }
        due
    }

    /// Keeps the calling thread's CPU busy until `client`, which has just been
    /// answered, has sent two more requests: the answer to the first of them
    /// leaves it where it is.
    pub(super) fn hold(&self, client: u32) {
        let slot = self.slot(client);
        let start = Track::unpack(slot.track.load(Relaxed));
        let began = Instant::now();
        let settled = loop {
            let track = Track::unpack(slot.track.load(Relaxed));
            if let Some(settled) = track.settled_since(start) {
                break settled;
            }
            if began.elapsed() >= HOLD_MAX {
                break false;
            }
            thread::yield_now();
        };
        let pause = if settled {
            slot.failures.store(0, Relaxed);
            Duration::ZERO
        } else {
            let failures = slot.failures.load(Relaxed);
            slot.failures.store(failures.saturating_add(1), Relaxed);
            PAUSE_FAILED.saturating_mul(1u32.checked_shl(failures).unwrap_or(u32::MAX))
        };
        slot.pause(self.began.elapsed() + pause.min(PAUSE_MAX));
    }

    fn slot(&self, client: u32) -> &Slot {
        &self.slots[client as usize % SLOTS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_stays_is_left_alone() {
        let hops = Hops::new();
        assert!((0..1000).all(|_| !hops.note(7, 0)));
        // Of what nobody asked for, such as write-back, there is no number.
        assert!((0..1000).all(|n| !hops.note(0, n % 2)));
    }

    #[test]
    fn of_two_sides_one_is_held() {
        let held = loop {
            let hops = Hops::new();
            let held: Vec<bool> = (0..5).map(|n| hops.note(7, n % 2)).collect();
            // Interrupted for so long, the next hold is due.
            if hops.began.elapsed() < HOLD_MAX {
                break held;
            }
        };
        assert_eq!(held, [false, true, false, false, false]);
    }

    #[test]
    fn a_client_has_settled_when_two_requests_come_from_one_cpu() {
        let start = Track::default().next(7, 0).next(7, 1);
        assert_eq!(start.settled_since(start), None);
        assert_eq!(start.next(7, 1).settled_since(start), Some(true));
        let hopped = start.next(7, 0);
        assert_eq!(hopped.settled_since(start), None);
        assert_eq!(hopped.next(7, 0).settled_since(start), Some(true));
        // Its slot is another's now, or it is on a third CPU.
        assert_eq!(start.next(8, 2).settled_since(start), Some(true));
        assert_eq!(hopped.next(7, 2).settled_since(start), Some(false));
    }

    #[test]
    fn holds_that_never_help_become_rare() {
        let hops = Hops::new();
        let mut last_began = Duration::ZERO;
        for _ in 0..9 {
            hops.note(7, 0);
            last_began = hops.began.elapsed();
            hops.hold(7);
        }
        let slot = hops.slot(7);
        let not_before = Duration::from_nanos(slot.not_before_ns.load(Relaxed));
        assert!(not_before >= last_began + PAUSE_MAX);
    }

    #[test]
    fn tracks_survive_packing() {
        let track = Track {
            client: 0xdead_beef,
            cpu: 0x1234,
            hops: 0x56,
            requests: 0x78,
        };
        assert_eq!(Track::unpack(track.pack()), track);
    }
}
