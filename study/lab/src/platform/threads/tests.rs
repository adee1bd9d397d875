//! Threads on virtual time, and the drive that they share.

use super::Threads;
use crate::platform::processor::Processor;
use crate::platform::seagate;
use crate::platform::shared_drive::SharedDrive;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;
use varve_device::sync::{Condvar, Mutex, turns};
use varve_device::{Clock, Device, VirtualClock, Workers};

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

/// What a thread does with a processor.
type Computes<'w> = &'w (dyn Fn(&Processor) + Sync);

/// Has each of `work` done by a thread of its own, on one processor; when each ended, ms.
fn computing(work: &[Computes<'_>]) -> Vec<u64> {
    let clock = Arc::new(VirtualClock::new(0, 0));
    let processor = Processor::new(Arc::clone(&clock), 10 * MS);
    let (threads, part) = Threads::new(Arc::clone(&clock));
    let (processor, clock, threads) = (&processor, &*clock, &threads);
    std::thread::scope(|scope| {
        let start = |work| {
            let (seat, work): (usize, Computes<'_>) = (threads.seat(), work);
            scope.spawn(move || {
                let _part = threads.begin(seat);
                work(processor);
                clock.monotonic_ns() / MS
            })
        };
        let running: Vec<_> = work.iter().map(|&work| start(work)).collect();
        part.see_off();
        let end = |thread: std::thread::ScopedJoinHandle<'_, u64>| thread.join().unwrap();
        running.into_iter().map(end).collect()
    })
}

#[test]
fn programs_take_turns_of_a_quantum() {
    let long = |processor: &Processor| processor.program(100 * MS);
    let short = |processor: &Processor| processor.program(15 * MS);
    assert_eq!(computing(&[&long]), [100]);
    assert_eq!(computing(&[&long, &short]), [115, 35]);
}

#[test]
fn the_kernel_goes_before_programs_and_ends_their_turn() {
    let program = |processor: &Processor| processor.program(20 * MS);
    let wakes = |processor: &Processor| {
        turns::wait(Some(Duration::from_millis(3)), &|| false);
        processor.kernel(2 * MS);
    };
    // It is in the kernel from 3 to 5; the first program had 3 ms, and then it is the
    // other's turn, from 5 to 15.
    assert_eq!(computing(&[&program, &program, &wakes]), [42, 35, 5]);
    let in_kernel = |processor: &Processor| processor.kernel(20 * MS);
    assert_eq!(
        computing(&[&in_kernel, &wakes]),
        [20, 22],
        "it is not interrupted"
    );
}

#[test]
fn threads_that_a_member_starts_take_part() {
    let clock = Arc::new(VirtualClock::new(0, 0));
    let (_threads, _part) = Threads::new(Arc::clone(&clock));
    let done = Arc::new(Mutex::new(Vec::new()));
    let (told, at) = (Arc::clone(&done), Arc::clone(&clock));
    let workers = Workers::new("sleepers", 2, 4, move |ms| {
        turns::wait(Some(Duration::from_millis(ms)), &|| false);
        told.lock().push(at.monotonic_ns() / MS);
    });
    (0..4).for_each(|nth| workers.give(5 + nth).unwrap());
    assert_eq!(clock.monotonic_ns(), 0, "they wait for a turn");
    drop(workers);
    assert_eq!(*done.lock(), [5, 6, 12, 14]);
}
