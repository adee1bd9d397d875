//! The device: bytes as memory's, time to the nanosecond.

use super::*;
use crate::{ReadAhead, drives};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

fn disk(drive: Drive, seed: u64) -> SimulatedDisk {
    SimulatedDisk::new(drive, Arc::new(VirtualClock::new(0, 0)), seed)
}

/// Random requests on a disk and on memory; the time at the end.
fn run(drive: Drive, disk_seed: u64, seed: u64) -> u64 {
    let disk = disk(drive, disk_seed);
    let memory = MemoryDevice::new(disk.geometry().size);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for _ in 0..400 {
        let sectors = 1 + random.next_u64() % 200;
        let offset = random.next_u64() % 2000 * 512;
        let mut bytes = vec![0; sectors as usize * 512];
        match random.next_u64() % 3 {
            0 => {
                random.fill_bytes(&mut bytes);
                disk.write(offset, &[IoSlice::new(&bytes)]).unwrap();
                memory.write(offset, &[IoSlice::new(&bytes)]).unwrap();
            }
            1 => {
                let mut expected = bytes.clone();
                disk.read(offset, &mut bytes).unwrap();
                memory.read(offset, &mut expected).unwrap();
                assert_eq!(bytes, expected);
            }
            _ => disk.flush().unwrap(),
        }
    }
    let now = disk.clock().monotonic_ns();
    assert_eq!(disk.statistics().times.total_ns(), now);
    now
}

#[test]
fn the_same_seed_gives_the_same_nanosecond() {
    for drive in drives::all() {
        for read_ahead in [ReadAhead::Sequential, ReadAhead::WholeTrack] {
            let drive = || drive.clone().with_read_ahead(read_ahead);
            assert_eq!(run(drive(), 1, 2), run(drive(), 1, 2));
            assert_ne!(run(drive(), 1, 2), run(drive(), 2, 2));
        }
    }
}

/// Instants computed on another day: a change here changes every experiment.
#[test]
fn instants_are_those_recorded() {
    let drives = [drives::hp97560(), drives::st19101(), drives::atlas10k()];
    assert_eq!(drives.map(|drive| run(drive, 1, 2)), RECORDED);
}

const RECORDED: [u64; 3] = [9_620_140_067, 1_631_295_093, 1_914_722_403];

#[test]
fn a_large_drive_costs_what_is_written() {
    let disk = disk(drives::st19101(), 1);
    assert!(disk.geometry().size > 9_000_000_000);
    let last = disk.geometry().size - 4096;
    disk.write(last, &[IoSlice::new(&[1; 4096])]).unwrap();
    assert_eq!(disk.inner().snapshot().allocated_bytes(), 4096);
    let error = disk.read(last + 4096, &mut [0; 512]).unwrap_err();
    assert!(error.device.contains("st19101"), "{error}");
}

#[test]
fn an_image_may_be_smaller_than_the_drive() {
    let clock = Arc::new(VirtualClock::new(0, 0));
    let image = MemoryDevice::new(1 << 20);
    let disk = SimulatedDisk::over(image, drives::hp97560(), clock, 1);
    assert_eq!(disk.geometry().size, 1 << 20);
    assert!(disk.read(1 << 20, &mut [0; 512]).is_err());
}

#[test]
fn software_inside_pays_one_command_for_many_requests() {
    let disk = disk(drives::hp97560(), 1);
    disk.command(Access::Write);
    let inside = disk.inside();
    for nth in 0..4 {
        inside
            .write(nth * 8192, &[IoSlice::new(&[2; 4096])])
            .unwrap();
    }
    let times = disk.statistics().times;
    assert_eq!(times.overhead_ns, 2_200_000);
    assert_eq!(times.total_ns(), disk.clock().monotonic_ns());
    assert_eq!(disk.statistics().requests.writes, 4);
}

#[test]
fn threads_are_served_in_turn() {
    let disk = disk(drives::st19101(), 1);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let disk = &disk;
            scope.spawn(move || {
                for nth in 0..50 {
                    let offset = (thread * 1000 + nth) * 4096;
                    disk.write(offset, &[IoSlice::new(&[3; 4096])]).unwrap();
                }
            });
        }
    });
    let statistics = disk.statistics();
    assert_eq!(statistics.requests.writes, 200);
    assert_eq!(statistics.times.total_ns(), disk.clock().monotonic_ns());
}

#[test]
fn software_inside_waits_for_the_bus_as_the_mechanism_does() {
    let clock = Arc::new(VirtualClock::new(0, 0));
    let drive = drives::st19101();
    let disk = SimulatedDisk::new(drive.clone(), clock.clone(), 1);
    // The bus is faster than the medium: the first sector is waited for, no more.
    let sector_ns = drive.bus_ns(1);
    disk.receive(4096);
    assert_eq!(clock.monotonic_ns(), sector_ns);
    disk.receive(0);
    // What was read in no time takes the bus's time; what took long, a sector's.
    let begun = clock.monotonic_ns();
    disk.deliver(begun, 4096);
    assert_eq!(clock.monotonic_ns() - begun, drive.bus_ns(8));
    clock.advance(Duration::from_millis(1));
    let now = clock.monotonic_ns();
    disk.deliver(begun, 4096);
    assert_eq!(clock.monotonic_ns() - now, sector_ns);
    let slow = drives::sd97560();
    assert!(slow.lead_ns(8) > 2 * slow.bus_ns(1), "the bus is behind");
    let times = disk.statistics().times;
    assert_eq!(times.total_ns(), times.transfer_ns);
}
