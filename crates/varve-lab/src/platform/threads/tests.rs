//! Threads on virtual time, and the drive that they share.

use super::Threads;
use crate::platform::seagate;
use crate::platform::shared_drive::SharedDrive;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;
use varve_device::sync::{Condvar, Mutex};
use varve_device::{Clock, Device, VirtualClock};

const MS: u64 = 1_000_000;

/// What a thread does.
type Work<'w> = &'w (dyn Fn(&SharedDrive, &VirtualClock) + Sync);

/// Runs each of `work` on a thread of its own; when each ended.
fn together(work: &[Work<'_>], seed: u64) -> Vec<u64> {
    let clock = Arc::new(VirtualClock::new(0, 0));
    let drive = SharedDrive::new(seagate(), Arc::clone(&clock), seed);
    let (threads, part) = Threads::new(Arc::clone(&clock));
    let (drive, clock, threads) = (&drive, &*clock, &threads);
    std::thread::scope(|scope| {
        let part = part;
        let running: Vec<_> = work
            .iter()
            .map(|work| {
                let seat = threads.seat();
                scope.spawn(move || {
                    let _part = threads.begin(seat);
                    work(drive, clock);
                    clock.monotonic_ns()
                })
            })
            .collect();
        part.see_off();
        let end = |thread: std::thread::ScopedJoinHandle<'_, u64>| thread.join().unwrap();
        running.into_iter().map(end).collect()
    })
}

fn read(drive: &SharedDrive, block: u64) {
    drive.read(block * 4096, &mut [0; 4096]).unwrap();
}

#[test]
fn a_drive_serves_who_comes_first_and_the_same_every_time() {
    let near = |drive: &SharedDrive, _: &VirtualClock| (0..20).for_each(|n| read(drive, n));
    let far = |drive: &SharedDrive, _: &VirtualClock| (0..20).for_each(|n| read(drive, 5000 - n));
    let ends = together(&[&near, &far], 3);
    assert_eq!(ends, together(&[&near, &far], 3));
    assert_ne!(
        ends,
        together(&[&near, &far], 4),
        "the platter stands elsewhere"
    );
    let alone = together(&[&near], 3)[0];
    assert!(ends[0] > 2 * alone, "{ends:?}: the arm goes to and fro");
}

#[test]
fn who_wants_a_lock_waits_for_who_holds_it_while_others_go_on() {
    let held = Mutex::new(0);
    let holder = |drive: &SharedDrive, _: &VirtualClock| {
        let mut held = held.lock();
        (0..10).for_each(|n| {
            drive
                .write(n * 409_600, &[IoSlice::new(&[1; 512])])
                .unwrap()
        });
        *held = 1;
    };
    let wants = |_: &SharedDrive, _: &VirtualClock| assert_eq!(*held.lock(), 1);
    let other = |drive: &SharedDrive, _: &VirtualClock| read(drive, 7);
    let ends = together(&[&holder, &wants, &other], 1);
    assert_eq!(ends[1], ends[0], "as soon as it is free");
    assert!(ends[2] < ends[0], "{ends:?}");
}

#[test]
fn conditions_are_met_or_time_passes() {
    let (told, changed) = (Mutex::new(false), Condvar::default());
    let pause = |clock: &VirtualClock, ms: u64| {
        let nobody = (Mutex::new(()), Condvar::default());
        nobody
            .1
            .wait_for(&mut nobody.0.lock(), Duration::from_millis(ms));
        clock.monotonic_ns()
    };
    let teller = |_: &SharedDrive, clock: &VirtualClock| {
        assert_eq!(pause(clock, 5), 5 * MS);
        *told.lock() = true;
        changed.notify_all();
    };
    let waiter = |_: &SharedDrive, _: &VirtualClock| {
        let mut told = told.lock();
        while !*told {
            changed.wait(&mut told);
        }
    };
    let impatient = |_: &SharedDrive, _: &VirtualClock| {
        let mut told = told.lock();
        changed.wait_for(&mut told, Duration::from_millis(2));
        assert!(!*told);
    };
    let ends = together(&[&teller, &waiter, &impatient], 1);
    assert_eq!(ends, [5 * MS, 5 * MS, 2 * MS]);
}
