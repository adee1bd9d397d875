//! Shared flushes: all callers that wait for a flush share the next one.
//!
//! Invariants:
//! - A request for a flush is answered by a flush that began after the request, so it
//!   covers every write acknowledged on any connection before.
//! - After a flush that failed no flush succeeds any more: the state of the writes
//!   since the last good flush is unknown, so a later success would be false.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};
use varve_device::Device;

/// The flushes of one device.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    state: Mutex<State>,
    changed: Condvar,
    /// True once `State::failed` is set; it is read without the lock.
    stopped: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Number of flushes begun; the last of them is running or done.
    begun: u64,
    running: bool,
    failed: Option<String>,
}

impl State {
    /// Returns the number of flushes that succeeded.
    fn done(&self) -> u64 {
        self.begun - u64::from(self.running || self.failed.is_some())
    }
}

impl Flushes {
    /// Returns true if the device takes no changes any more.
    pub(crate) fn have_failed(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Makes the acknowledged writes durable. Returns true if this call flushed the
    /// device, and false if it shared another call's flush.
    pub(crate) fn flush(&self, device: &dyn Device) -> Result<bool, String> {
        let mut state = self.state.lock();
        let wanted = state.begun + 1;
        loop {
            if state.done() >= wanted {
                return Ok(false);
            }
            if let Some(reason) = &state.failed {
                return Err(reason.clone());
            }
            if !state.running {
                break;
            }
            self.changed.wait(&mut state);
        }
        state.begun += 1;
        state.running = true;
        drop(state);
        let mut end = End {
            flushes: self,
            failed: Some("flushing panicked".to_owned()),
        };
        let flushed = device.flush();
        end.failed = flushed.err().map(|error| error.to_string());
        end.failed.clone().map_or(Ok(true), Err)
    }
}

/// Ends a flush, also if the device panics.
struct End<'a> {
    flushes: &'a Flushes,
    failed: Option<String>,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut state = self.flushes.state.lock();
        state.running = false;
        if let Some(reason) = &self.failed {
            tracing::error!(
                reason,
                "a flush failed: nothing is written any more until the server is started again"
            );
            state.failed = Some(reason.clone());
            self.flushes.stopped.store(true, Ordering::Release);
        }
        self.flushes.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::IoSlice;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use varve_device::{DeviceError, Geometry, Operation};

    /// A device that counts flushes; each waits until the test lets it continue.
    #[derive(Debug, Default)]
    struct Slow {
        flushes: AtomicU64,
        open: AtomicBool,
        broken: AtomicBool,
    }

    impl Device for Slow {
        fn geometry(&self) -> Geometry {
            Geometry {
                size: 0,
                logical_block: 512,
                physical_block: 512,
            }
        }

        fn read(&self, _: u64, _: &mut [u8]) -> varve_device::Result<()> {
            Ok(())
        }

        fn write(&self, _: u64, _: &[IoSlice<'_>]) -> varve_device::Result<()> {
            Ok(())
        }

        fn flush(&self) -> varve_device::Result<()> {
            self.flushes.fetch_add(1, SeqCst);
            while !self.open.load(SeqCst) {
                std::thread::yield_now();
            }
            let source = std::io::Error::from_raw_os_error(5);
            match self.broken.load(SeqCst) {
                true => Err(DeviceError::new(self, Operation::Flush, 0, 0, source)),
                false => Ok(()),
            }
        }

        fn name(&self) -> String {
            "slow".into()
        }
    }

    #[test]
    fn all_who_ask_during_a_flush_share_the_next() {
        let (device, flushes) = (Slow::default(), Flushes::default());
        std::thread::scope(|scope| {
            let first = scope.spawn(|| flushes.flush(&device));
            while device.flushes.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            let later: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| flushes.flush(&device)))
                .collect();
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert_eq!(device.flushes.load(SeqCst), 1, "nobody overtakes");
            device.open.store(true, SeqCst);
            assert_eq!(first.join().unwrap(), Ok(true));
            let worked: usize = later
                .into_iter()
                .map(|thread| usize::from(thread.join().unwrap().unwrap()))
                .sum();
            // Callers that came too late for a running flush need another one.
            assert_eq!(worked as u64 + 1, device.flushes.load(SeqCst));
            assert!(worked >= 1);
        });
    }

    #[test]
    fn after_a_failure_none_succeeds() {
        let (device, flushes) = (Slow::default(), Flushes::default());
        device.open.store(true, SeqCst);
        assert_eq!(flushes.flush(&device), Ok(true));
        device.broken.store(true, SeqCst);
        assert!(flushes.flush(&device).is_err());
        device.broken.store(false, SeqCst);
        let again = flushes.flush(&device).unwrap_err();
        assert!(again.contains("slow: flush"), "{again}");
        assert_eq!(device.flushes.load(SeqCst), 2, "it is not asked again");
        assert!(flushes.have_failed());
    }
}
