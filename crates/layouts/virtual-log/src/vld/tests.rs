//! The virtual log disk compared with plain memory, reopened, damaged and crashed.

mod anywhere;
mod bench;
mod crash;
mod damage;
mod doubt;
mod held;

use std::io::IoSlice;
use std::sync::Arc;

use varve_device::{Clock, Device, MemoryDevice, VirtualClock};
use varve_disk::{SimulatedDisk, drives};

use super::*;
use crate::medium::{InDrive, InOrder};
use bench::{Draw, anywhere, check, memory, options, reopened};

/// Makes random requests, compactions, checkpoints and reopenings. After each, the
/// bytes are those of plain memory.
fn same_as_memory<M: Medium + Clone>(
    medium: M,
    format: FormatOptions,
    synchronous: bool,
    seed: u64,
) {
    let anywhere = if format.anywhere { ", anywhere" } else { "" };
    eprintln!("seed {seed}, {}{anywhere}", medium.name());
    Vld::format(&medium, format).unwrap();
    let run = Options {
        synchronous,
        ..Options::default()
    };
    let open = || Vld::open(medium.clone(), run).unwrap();
    let (mut vld, _) = open();
    let size = vld.geometry().size;
    let model = MemoryDevice::new(size);
    let mut draw = Draw(seed);
    for step in 0..700 {
        let sectors = 1 + draw.below(40).min(draw.below(40));
        let offset = draw.below(size / 512 - sectors) * 512;
        let mut bytes = vec![0; sectors as usize * 512];
        match draw.below(20) {
            0..=8 => {
                bytes
                    .iter_mut()
                    .for_each(|byte| *byte = draw.below(256) as u8);
                let (head, tail) = bytes.split_at(bytes.len() / 3);
                let both = [IoSlice::new(head), IoSlice::new(tail)];
                vld.write(offset, &both).unwrap();
                model.write(offset, &both).unwrap();
            }
            9..=14 => {
                let mut expected = bytes.clone();
                vld.read(offset, &mut bytes).unwrap();
                model.read(offset, &mut expected).unwrap();
                assert!(
                    bytes == expected,
                    "step {step}, {sectors} sectors at {offset}"
                );
            }
            15 => {
                // Only whole blocks are discarded.
                let block = u64::from(format.block_bytes);
                let (start, end) = (offset / block * block, (offset + 8 * block) / block * block);
                let end = end.min(size);
                vld.discard(start, end - start).unwrap();
                model.discard(start, end - start).unwrap();
            }
            16 | 17 => vld.flush().unwrap(),
            18 => {
                let until = vld.medium().now_ns().map_or(0, |now| now + 50_000_000);
                let granularity = match draw.below(2) {
                    0 => Granularity::Track,
                    _ => Granularity::Blocks(3),
                };
                vld.compact(until, granularity).unwrap();
            }
            _ => {
                match draw.below(3) {
                    0 => vld.checkpoint().unwrap(),
                    1 => vld.flush().unwrap(),
                    _ => vld.park().unwrap(),
                }
                let map = vld.map();
                vld = open().0;
                assert_eq!(vld.map(), map);
            }
        }
        check(&vld);
    }
    let (mut mine, mut theirs) = (vec![0; size as usize], vec![0; size as usize]);
    vld.read(0, &mut mine).unwrap();
    model.read(0, &mut theirs).unwrap();
    assert!(mine == theirs);
}

#[test]
fn the_same_requests_give_the_bytes_of_memory_on_any_device() {
    for (unit, block, synchronous, seed) in [
        (512, 4096, false, 1),
        (512, 512, true, 2),
        (4096, 4096, false, 3),
        (1024, 4096, true, 4),
    ] {
        let format = options(block, None);
        let anywhere = (unit < block).then_some(anywhere(block, None));
        for format in [Some(format), anywhere].into_iter().flatten() {
            let medium = Arc::new(InOrder(memory(2 << 20, unit)));
            same_as_memory(medium, format, synchronous, seed);
        }
    }
}

#[test]
fn the_same_requests_give_the_bytes_of_memory_on_drives() {
    for (drive, seed) in [
        (drives::st19101(), 5),
        (drives::hp97560(), 6),
        (drives::m2694(), 7),
    ] {
        let drive = drive.with_cylinders(2);
        for format in [options(4096, None), anywhere(4096, None)] {
            let clock = Arc::new(VirtualClock::new(0, 0));
            let disk = Arc::new(SimulatedDisk::new(drive.clone(), clock, seed));
            same_as_memory(Arc::new(InDrive(disk)), format, seed % 2 == 0, seed);
        }
    }
}

#[test]
fn a_full_volume_is_overwritten_for_ever() {
    for unit in [512, 4096] {
        let medium = Arc::new(InOrder(memory(1 << 20, unit)));
        Vld::format(&medium, options(4096, None)).unwrap();
        let (vld, _) = Vld::open(medium.clone(), Options::default()).unwrap();
        let blocks = vld.layout().logical_blocks;
        let size = vld.geometry().size;
        vld.write(0, &[IoSlice::new(&vec![1; size as usize])])
            .unwrap();
        let mut draw = Draw(8);
        for nth in 0..3000u64 {
            let at = draw.below(blocks) * 4096;
            vld.write(at, &[IoSlice::new(&[nth as u8; 4096])]).unwrap();
            if nth % 3 == 0 {
                vld.flush().unwrap();
            }
        }
        vld.flush().unwrap();
        let statistics = vld.statistics();
        assert_eq!(statistics.blocks_mapped, blocks);
        let (again, recovery) = reopened(&vld);
        assert_eq!(recovery.source, Source::Scan);
        assert_eq!(again.map(), vld.map());
    }
}

/// The paper's benchmark on its own drive (Wang et al. 1999, §5.3 and §5.4): random
/// synchronous updates of 4 KiB at 80 % utilisation, in bursts after idle time. The
/// factor in the paper's figure 9 is "almost an order of magnitude".
#[test]
fn random_updates_are_seven_times_faster_than_in_place() {
    let drive = || drives::st19101().with_cylinders(11);
    let clock = Arc::new(VirtualClock::new(0, 0));
    let disk = Arc::new(SimulatedDisk::new(drive(), clock.clone(), 9));
    let blocks = disk.geometry().size / 4096 * 8 / 10;
    let medium = Arc::new(InDrive(disk));
    Vld::format(&medium, options(4096, Some(blocks * 4096))).unwrap();
    let run = Options {
        synchronous: true,
        ..Options::default()
    };
    let (vld, _) = Vld::open(medium, run).unwrap();
    for block in 0..blocks {
        vld.write(block * 4096, &[IoSlice::new(&[7; 4096])])
            .unwrap();
    }
    let mut draw = Draw(9);
    let mut update = |device: &dyn Device, clock: &VirtualClock| {
        let begun = clock.monotonic_ns();
        for _ in 0..300 {
            let at = draw.below(blocks) * 4096;
            device.write(at, &[IoSlice::new(&[3; 4096])]).unwrap();
        }
        clock.monotonic_ns() - begun
    };
    let eager_ns: u64 = (0..5)
        .map(|_| {
            vld.compact(clock.monotonic_ns() + 60_000_000_000, Granularity::Track)
                .unwrap();
            update(&vld, &clock)
        })
        .sum();
    let clock = Arc::new(VirtualClock::new(0, 0));
    let plain = SimulatedDisk::new(drive(), clock.clone(), 9);
    let in_place_ns: u64 = (0..5).map(|_| update(&plain, &clock)).sum();
    let times = in_place_ns as f64 / eager_ns as f64;
    assert!(times >= 7.0, "{times}: {in_place_ns} and {eager_ns} ns");
}

#[test]
fn an_idle_disk_makes_empty_tracks() {
    let clock = Arc::new(VirtualClock::new(0, 0));
    let drive = drives::st19101().with_cylinders(4);
    let disk = Arc::new(SimulatedDisk::new(drive, clock.clone(), 1));
    let medium = Arc::new(InDrive(disk));
    Vld::format(&medium, options(4096, Some(6 << 20))).unwrap();
    for granularity in [Granularity::Track, Granularity::Blocks(4)] {
        let (vld, _) = Vld::open(medium.clone(), Options::default()).unwrap();
        let mut draw = Draw(3);
        for _ in 0..3000 {
            let at = draw.below(1500) * 4096;
            vld.write(at, &[IoSlice::new(&[1; 4096])]).unwrap();
            vld.flush().unwrap();
        }
        let before = vld.statistics().tracks_empty;
        let none = vld.compact(clock.monotonic_ns(), granularity).unwrap();
        assert_eq!(none, Compaction::default(), "no time, no work");
        let done = vld
            .compact(clock.monotonic_ns() + 10_000_000_000, granularity)
            .unwrap();
        assert!(
            done.tracks_emptied >= 3 && done.blocks_moved > 30,
            "{done:?}"
        );
        assert!(vld.statistics().tracks_empty > before);
        let map = vld.map();
        assert_eq!(reopened(&vld).0.map(), map);
    }
}

#[test]
fn the_same_seed_gives_the_same_nanosecond() {
    let run = |seed| {
        let clock = Arc::new(VirtualClock::new(0, 0));
        let drive = drives::hp97560_vlog().with_cylinders(3);
        let disk = Arc::new(SimulatedDisk::new(drive, clock.clone(), seed));
        let medium = Arc::new(InDrive(disk));
        Vld::format(&medium, options(4096, None)).unwrap();
        let (vld, _) = Vld::open(medium, Options::default()).unwrap();
        let mut draw = Draw(4);
        for _ in 0..300 {
            let at = draw.below(vld.layout().logical_blocks) * 4096;
            vld.write(at, &[IoSlice::new(&[1; 4096])]).unwrap();
            vld.flush().unwrap();
        }
        vld.compact(clock.monotonic_ns() + 1_000_000_000, Granularity::Track)
            .unwrap();
        clock.monotonic_ns()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// Extents follow the map, and zeroing discards whole blocks only.
#[test]
fn extents_and_zeroing_follow_the_map() {
    let medium = Arc::new(InOrder(memory(1 << 20, 512)));
    Vld::format(&medium, options(4096, None)).unwrap();
    let (vld, _) = Vld::open(medium, Options::default()).unwrap();
    let size = vld.geometry().size;
    let extent = |offset: u64, length| {
        let found = vld.extent(offset, length).unwrap();
        (found.length, found.hole)
    };
    assert_eq!(extent(0, size), (size, true));
    vld.write(8192, &[IoSlice::new(&[7; 8192])]).unwrap();
    assert_eq!(extent(0, size), (8192, true));
    assert_eq!(extent(8704, size - 8704), (7680, false));
    assert_eq!(extent(8704, 512), (512, false));
    assert_eq!(extent(16_384, 512), (512, true));
    assert!(!vld.zero(8192, 512).unwrap() && !vld.zero(8704, 4096).unwrap());
    assert_eq!(extent(8192, 8192), (8192, false));
    assert!(vld.zero(8192, 4096).unwrap());
    assert_eq!(extent(0, size), (12_288, true));
    let mut back = [1; 8192];
    vld.read(8192, &mut back).unwrap();
    assert_eq!(back[..4096], [0; 4096]);
    assert_eq!(back[4096..], [7; 4096]);
    assert!(vld.extent(size, 512).is_err() && vld.zero(size, 4096).is_err());
}
