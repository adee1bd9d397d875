//! The account of what is durable, alone: partials land, callers wait for
//! them and share flushes. Nobody sleeps for ever, and nobody is told too much.

use crate::stage::explore;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use varve_device::sync::atomic::AtomicU64 as CheckedU64;
use varve_device::sync::thread;
use varve_device::{AlignedBuffer, Device, Geometry, MemoryDevice, Result};
use varve_lfs::{Durability, InFlight, PartialBytes};

/// Partials on their way.
const PARTIALS: u64 = 4;

/// Knows which partials it has taken, in their order, and which of them a
/// flush has covered.
#[derive(Debug)]
struct Medium {
    geometry: Geometry,
    taken: AtomicU64,
    covered: AtomicU64,
    /// A step of its own to the checker.
    steps: CheckedU64,
}

impl Device for Medium {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, _: u64, _: &mut [u8]) -> Result<()> {
        unreachable!("nobody reads here")
    }

    fn write(&self, _: u64, _: &[IoSlice<'_>]) -> Result<()> {
        self.steps.fetch_add(1, SeqCst);
        self.taken.fetch_add(1, SeqCst);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        let taken = self.taken.load(SeqCst);
        self.steps.fetch_add(1, SeqCst);
        self.covered.fetch_max(taken, SeqCst);
        Ok(())
    }

    fn name(&self) -> String {
        "medium".to_owned()
    }
}

pub fn story() {
    let medium = Arc::new(Medium {
        geometry: MemoryDevice::new(4096).geometry(),
        taken: AtomicU64::new(0),
        covered: AtomicU64::new(0),
        steps: CheckedU64::new(0),
    });
    let durability = Arc::new(Durability::default());
    let announce = |serial| {
        durability.announce(Arc::new(InFlight {
            serial,
            sector: serial,
            bytes: PartialBytes::new(AlignedBuffer::zeroed(512), 512),
            plugs: Vec::new(),
        }));
    };
    (1..=PARTIALS).for_each(announce);
    let writer = {
        let (durability, medium) = (Arc::clone(&durability), Arc::clone(&medium));
        thread::spawn(move || {
            for serial in 1..=PARTIALS {
                medium.write(serial * 512, &[]).unwrap();
                durability.landed(serial);
            }
        })
    };
    let waiters = [1, PARTIALS].map(|serial| {
        let (durability, medium) = (Arc::clone(&durability), Arc::clone(&medium));
        thread::spawn(move || {
            durability.commit(serial, &*medium).unwrap();
            let covered = medium.covered.load(SeqCst);
            assert!(covered >= serial, "{serial} is to be durable, {covered} is");
        })
    });
    for waiter in waiters {
        waiter.join().unwrap();
    }
    writer.join().unwrap();
}

#[test]
fn who_waits_is_woken_and_told_the_truth() {
    explore("who_waits_is_woken_and_told_the_truth", 4000, story);
}
