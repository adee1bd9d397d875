//! Requests that take long do not delay other requests, nor the end of a server.

use crate::support::{PATIENCE, Running};
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use varve_device::{Device, Geometry, Result};
use varve_nbd::protocol::command::*;

const SIZE: u64 = 1 << 30;
/// Number of zero bytes that are written at once.
const ZEROS: u64 = 1 << 20;

/// A device that stores nothing, records discards, and takes a moment for each write.
#[derive(Debug, Default)]
struct Noting {
    forgotten: Mutex<Vec<(u64, u64)>>,
    writes: AtomicU64,
}

impl Device for Noting {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: SIZE,
            logical_block: 512,
            physical_block: 4096,
        }
    }

    fn read(&self, _: u64, buffer: &mut [u8]) -> Result<()> {
        buffer.fill(0);
        Ok(())
    }

    fn write(&self, _: u64, _: &[IoSlice<'_>]) -> Result<()> {
        self.writes.fetch_add(1, SeqCst);
        std::thread::sleep(Duration::from_millis(10));
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.forgotten.lock().unwrap().push((offset, length));
        Ok(())
    }

    fn zero(&self, offset: u64, length: u64) -> Result<bool> {
        self.discard(offset, length).map(|()| true)
    }

    fn name(&self) -> String {
        "noting".into()
    }
}

/// A device that discards under a lock releases the lock between steps, and no block is
/// omitted between two steps.
#[test]
fn a_long_trim_is_done_in_steps_of_whole_blocks() {
    let device = Arc::new(Noting::default());
    let server = Running::new(device.clone());
    let mut client = server.client().go(true, false);
    for (kind, whole) in [(TRIM, 512), (WRITE_ZEROES, 4096)] {
        assert_eq!(client.call(kind, 0, 512, 200 << 20, &[]).error, 0);
        let forgotten = std::mem::take(&mut *device.forgotten.lock().unwrap());
        let mut next = whole;
        for &(offset, length) in &forgotten {
            assert_eq!(offset, next);
            assert!(
                length <= 64 << 20 && offset / (64 << 20) == (offset + length - 1) / (64 << 20)
            );
            next = offset + length;
        }
        assert_eq!(next, (200 << 20) + 512 - (512 % whole));
        assert_eq!(forgotten.len(), 4);
    }
}

#[test]
fn a_server_in_a_hurry_gives_up_a_long_request() {
    let device = Arc::new(Noting::default());
    let mut server = Running::new(device.clone());
    let mut client = server.client().go(true, false);
    client.send(WRITE_ZEROES, FLAG_NO_HOLE, 0, SIZE as u32, &[]);
    let begun = Instant::now();
    while device.writes.load(SeqCst) == 0 {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    server.stopper.stop(Duration::ZERO);
    server.stop();
    assert!(device.writes.load(SeqCst) < SIZE / ZEROS);
    assert!(client.is_closed());
}
