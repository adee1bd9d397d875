//! How fast the device is, as the volume's own requests show.
//!
//! Work that nobody waits for goes to the device in portions, each of which
//! keeps it busy for a short time whatever device it is: so who comes meanwhile
//! waits for one of them, and a mebibyte that is nothing to a flash drive is
//! not a second of an old disk's.
//!
//! A request takes what any request takes (an arm's way to the place) and what
//! its bytes take. Short requests show the first, and the rest of the long ones
//! is the second. Only those count that found nobody else at the device: short
//! ones would wait behind long ones, and long ones behind short ones, until both
//! seemed to take the same. Both are decaying means, in which a device that slows
//! down is noticed after a few requests.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use varve_device::Clock;

/// Requests of no more bytes show what any request takes.
const SHORT_BYTES: u64 = 16 << 10;
/// Requests of no fewer bytes show what bytes take.
const LONG_BYTES: u64 = 32 << 10;
/// What a portion's bytes may take. An arm's way costs about as much, so that
/// half of the time goes into bytes even where each portion is followed by
/// another's request.
const PORTION_NS: u64 = 5_000_000;
/// Least bytes of a portion: below that a disk does nothing but seek.
const LEAST_BYTES: u64 = 32 << 10;
/// Most bytes of a portion.
const MOST_BYTES: u64 = 4 << 20;
/// Bytes of a portion before anything is known.
const FIRST_BYTES: u64 = 128 << 10;
/// Part of a new measurement in a mean.
const FRESH: i64 = 8;
/// No request counts as more than so many of its kind, or of this length.
const OUTLIER: u64 = 4;
const LEAST_NS: u64 = 1_000_000;

/// See the module's head.
#[derive(Debug, Default)]
pub struct Speed {
    clock: OnceLock<Arc<dyn Clock>>,
    /// Nanoseconds of a short request; 0 before the first.
    short_ns: AtomicU64,
    /// Picoseconds that a byte of a long one takes beyond that, and how many
    /// have been seen. Noise may make it negative.
    byte_ps: AtomicI64,
    seen: AtomicU64,
}

impl Speed {
    /// Has requests timed from now on.
    pub fn set_clock(&self, clock: Arc<dyn Clock>) {
        let _ = self.clock.set(clock);
    }

    /// Makes a request that moves so many bytes, and learns from it if it
    /// succeeds: a refusal may come at once, or after many attempts.
    pub fn timed<T, E>(&self, bytes: u64, request: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let Some(clock) = self.clock.get() else {
            return request();
        };
        let begun_ns = clock.monotonic_ns();
        let outcome = request();
        if outcome.is_ok() {
            self.learn(bytes, clock.monotonic_ns().saturating_sub(begun_ns));
        }
        outcome
    }

    // What two threads learn at once, one may forget: a mean bears that.
    fn learn(&self, bytes: u64, took_ns: u64) {
        let mean = |before: i64, now: i64| before + (now - before) / FRESH;
        // One that had to wait for something says little of the device.
        let believed_ns = OUTLIER * self.request_ns(bytes).max(LEAST_NS);
        let took = took_ns.min(believed_ns) as i64;
        if bytes <= SHORT_BYTES {
            let short = match self.short_ns.load(Relaxed) {
                0 => took,
                before => mean(before as i64, took),
            };
            self.short_ns.store(short.max(0) as u64, Relaxed);
        } else if bytes >= LONG_BYTES {
            let beyond = took - self.short_ns.load(Relaxed) as i64;
            let ps = beyond.saturating_mul(1000) / i64::try_from(bytes).unwrap_or(i64::MAX);
            let byte_ps = match self.seen.fetch_add(1, Relaxed) {
                0 => ps,
                _ => mean(self.byte_ps.load(Relaxed), ps),
            };
            self.byte_ps.store(byte_ps, Relaxed);
        }
    }

    /// Bytes of a portion, a multiple of 4 KiB in [32 KiB, 4 MiB].
    pub fn portion_bytes(&self) -> u64 {
        if self.seen.load(Relaxed) == 0 {
            return FIRST_BYTES;
        }
        let byte_ps = self.byte_ps.load(Relaxed).max(1) as u64;
        let bytes = PORTION_NS * 1000 / byte_ps;
        bytes.clamp(LEAST_BYTES, MOST_BYTES) & !4095
    }

    /// Nanoseconds in which the device writes so many bytes in one request, as
    /// far as is known.
    pub fn request_ns(&self, bytes: u64) -> u64 {
        let byte_ps = self.byte_ps.load(Relaxed).max(0) as u64;
        self.short_ns.load(Relaxed) + bytes.saturating_mul(byte_ps) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use varve_device::VirtualClock;

    /// A device that takes `way_ns` for any request and `byte_ps` a byte.
    fn seen(way_ns: u64, byte_ps: u64) -> Speed {
        let clock = Arc::new(VirtualClock::new(0, 0));
        let speed = Speed::default();
        speed.set_clock(Arc::clone(&clock) as Arc<dyn Clock>);
        let request = |bytes: u64| {
            let took = Duration::from_nanos(way_ns + bytes * byte_ps / 1000);
            let _: Result<(), ()> = speed.timed(bytes, || {
                clock.advance(took);
                Ok(())
            });
        };
        for _ in 0..50 {
            request(4 << 10);
            request(speed.portion_bytes());
        }
        speed
    }

    #[test]
    fn a_portion_takes_as_long_on_any_device() {
        // An old disk, one of the nineties, one of today, flash, memory.
        let portions = [
            seen(28_000_000, 1_000_000),
            seen(8_000_000, 50_000),
            seen(8_000_000, 5_500),
            seen(100_000, 2_000),
            seen(0, 0),
        ]
        .map(|speed| speed.portion_bytes());
        assert_eq!(portions[0], LEAST_BYTES);
        assert!((90_000..120_000).contains(&portions[1]), "{portions:?}");
        assert!((850_000..1_000_000).contains(&portions[2]), "{portions:?}");
        assert!(
            (2_000_000..3_000_000).contains(&portions[3]),
            "{portions:?}"
        );
        assert_eq!(portions[4], MOST_BYTES);
    }

    #[test]
    fn refusals_say_nothing_of_it() {
        let clock = Arc::new(VirtualClock::new(0, 0));
        let speed = Speed::default();
        speed.set_clock(Arc::clone(&clock) as Arc<dyn Clock>);
        let after = |outcome: Result<(), ()>| {
            let tried = speed.timed(1 << 20, || {
                clock.advance(Duration::from_millis(1));
                outcome
            });
            assert_eq!(tried, outcome);
            speed.request_ns(1 << 20)
        };
        assert_eq!(after(Err(())), 0);
        assert!(after(Ok(())) > 900_000);
    }

    #[test]
    fn a_device_that_slows_down_is_noticed() {
        let speed = seen(0, 0);
        assert_eq!(speed.request_ns(1 << 20), 0);
        speed.learn(1 << 20, 1_000_000_000);
        assert!(speed.request_ns(1 << 20) < 1_000_000, "one says little");
        for _ in 0..40 {
            speed.learn(1 << 20, 1_000_000_000);
        }
        assert_eq!(speed.portion_bytes(), LEAST_BYTES);
        assert!(speed.request_ns(1 << 20) > 800_000_000);
    }
}
