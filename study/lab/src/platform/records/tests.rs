//! TPC-B on a drive of its own, without a file system: the record store's files lie on the
//! drive by `DeviceStorage`, and only the drive takes time. So what a commit costs is what
//! the drive's model says.

use crate::platform::shared_drive::SharedDrive;
use crate::platform::threads::Threads;
use std::sync::Arc;
use varve_device::{Clock, Device, VirtualClock};
use varve_disk::{SimulatedDisk, drives};
use varve_tp::storage::DeviceStorage;
use varve_tp::tpcb::{Store as _, Transfer};
use varve_tp::{Durability, Environment, Options};

const ACCOUNTS: u32 = 1000;
/// Bytes of a segment of the log, and room of a file: one is enough for all of a test.
const SEGMENT: u32 = 1 << 20;

fn bank(drive: Arc<dyn Device>, durability: Durability) -> Environment {
    let storage = DeviceStorage::new(drive, SEGMENT.into()).unwrap();
    let mut options = Options::new();
    options
        .background(false)
        .memory(4 << 20)
        .segment(SEGMENT)
        .log(8 * u64::from(SEGMENT))
        .durability(durability);
    options.open_storage(Arc::new(storage)).unwrap()
}

/// Does so many transactions, each until it is committed.
fn work(bank: &Environment, count: u64, mut random: u64, mut done: impl FnMut()) {
    for _ in 0..count {
        let transfer = Transfer::draw(&mut random, ACCOUNTS);
        while let Err(error) = bank.transfer(&transfer) {
            assert!(error.is_conflict(), "{error}");
        }
        done();
    }
}

/// How long each transaction of one user took, and when all of it ended, bank opened again
/// and read, in nanoseconds.
fn alone(durability: Durability, seed: u64) -> (Vec<u64>, u64) {
    let clock = Arc::new(VirtualClock::new(0, 0));
    let drive = SimulatedDisk::new(drives::hp97560(), Arc::clone(&clock), seed);
    let drive = Arc::new(drive);
    let first = bank(drive.clone(), durability);
    first.load(ACCOUNTS).unwrap();
    let (mut took, mut last) = (Vec::new(), clock.monotonic_ns());
    work(&first, 100, seed, || {
        took.push(clock.monotonic_ns() - last);
        last = clock.monotonic_ns();
    });
    let sums = first.sums().unwrap();
    drop(first);
    let again = bank(drive, durability);
    assert!(again.recovery().redone > 0);
    assert_eq!(again.sums().unwrap(), sums);
    assert!(sums[0] != 0 && sums == [sums[0]; 4], "{sums:?}");
    (took, clock.monotonic_ns())
}

#[test]
fn the_same_seed_gives_the_same_instants() {
    let first = alone(Durability::Durable, 7);
    assert_eq!(first, alone(Durability::Durable, 7));
    assert_ne!(first, alone(Durability::Durable, 8));
}

/// Batches lie one behind the other: the next one's place has just passed the head, and
/// comes by again after a revolution.
#[test]
fn a_durable_commit_waits_for_a_revolution() {
    let drive = drives::hp97560();
    let revolution_ns = drive.rotation.revolution_ns();
    for seed in 1..=3 {
        let (took, _) = alone(Durability::Durable, seed);
        let (first, others) = took.split_first().unwrap();
        assert!(*first > drive.write_overhead_ns, "{first} ns");
        for ns in others {
            let range = revolution_ns..2 * revolution_ns;
            assert!(range.contains(ns), "{ns} ns, not of {range:?}");
        }
        let (took, _) = alone(Durability::Buffered, seed);
        assert!(took.iter().all(|ns| *ns == 0), "it waits for no drive");
    }
}

/// How long the transactions of so many users took, all in all, and syncs of the log.
fn together(users: u64, each: u64, seed: u64) -> (u64, u64) {
    let clock = Arc::new(VirtualClock::new(0, 0));
    let drive = SharedDrive::new(drives::hp97560(), Arc::clone(&clock), seed);
    let bank = bank(Arc::new(drive), Durability::Durable);
    bank.load(ACCOUNTS).unwrap();
    let now = || (clock.monotonic_ns(), bank.statistics().log_syncs);
    let begun = now();
    let (threads, part) = Threads::new(Arc::clone(&clock));
    std::thread::scope(|scope| {
        let (part, threads, bank) = (part, &threads, &bank);
        for user in 1..=users {
            let seat = threads.seat();
            scope.spawn(move || {
                let _part = threads.begin(seat);
                work(bank, each, seed * 1000 + user, || {});
            });
        }
        part.see_off();
    });
    let sums = bank.sums().unwrap();
    assert!(sums[0] != 0 && sums == [sums[0]; 4], "{sums:?}");
    let ended = now();
    (ended.0 - begun.0, ended.1 - begun.1)
}

#[test]
fn who_commits_in_a_group_shares_its_revolution() {
    for seed in 1..=2 {
        let (alone_ns, alone_syncs) = together(1, 96, seed);
        let (group_ns, group_syncs) = together(8, 12, seed);
        assert_eq!(alone_syncs, 96);
        assert!(2 * group_syncs < alone_syncs, "{group_syncs} groups");
        assert!(2 * group_ns < alone_ns, "{group_ns} and {alone_ns} ns");
        assert_eq!((group_ns, group_syncs), together(8, 12, seed));
    }
}
