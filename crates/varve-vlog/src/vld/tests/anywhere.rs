//! Volumes whose data may begin at any unit.

use std::io::IoSlice;
use std::sync::Arc;

use varve_device::{Clock, VirtualClock};
use varve_disk::{SimulatedDisk, drives};

use super::bench::{Draw, anywhere, check, memory, reopened};
use super::*;
use crate::medium::{InDrive, InOrder};

const BLOCK: u64 = 4096;

/// A drive of so many cylinders, and its clock.
fn in_drive(cylinders: u32) -> (Arc<InDrive<MemoryDevice>>, Arc<VirtualClock>) {
    let clock = Arc::new(VirtualClock::new(0, 0));
    let drive = drives::st19101().with_cylinders(cylinders);
    let disk = SimulatedDisk::new(drive, clock.clone(), 1);
    (Arc::new(InDrive(Arc::new(disk))), clock)
}

fn put<M: Medium>(vld: &Vld<M>, block: u64, byte: u8) {
    let at = block * BLOCK;
    vld.write(at, &[IoSlice::new(&[byte; BLOCK as usize])])
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn blocks_alone_lie_anywhere_and_runs_where_blocks_begin() {
    let (medium, _) = in_drive(4);
    let layout = Vld::format(&medium, anywhere(4096, Some(4 << 20))).unwrap();
    assert_eq!(layout.superblock().version.get(), 2);
    let (vld, _) = Vld::open(medium, Options::default()).unwrap();
    vld.write(0, &[IoSlice::new(&[1; 64 * BLOCK as usize])])
        .unwrap();
    assert_eq!(vld.statistics().blocks_astride, 0);
    let mut draw = Draw(1);
    for _ in 0..100 {
        put(&vld, draw.below(64), 2);
        vld.flush().unwrap();
    }
    check(&vld);
    assert!(vld.statistics().blocks_astride > 10);
    let (again, _) = reopened(&vld);
    check(&again);
    assert_eq!(
        again.statistics().blocks_astride,
        vld.statistics().blocks_astride
    );
}

/// Fills the volume block by block, most of it overwritten before the rest is
/// new, and forgets and writes at random when it is full. Returns how much of the
/// room for data astride was used at most, in `[0, 1]`.
fn filled_and_overwritten<M: Medium + Clone>(medium: M, seed: u64) -> f64 {
    eprintln!("seed {seed}, {}", medium.name());
    Vld::format(&medium, anywhere(4096, None)).unwrap();
    let (vld, _) = Vld::open(medium.clone(), Options::default()).unwrap();
    let blocks = vld.layout().logical_blocks;
    let first = blocks * 7 / 8;
    let mut draw = Draw(seed);
    let mut most = 0;
    (0..first).for_each(|block| put(&vld, block, 1));
    for nth in 0..4 * blocks {
        put(&vld, draw.below(first), nth as u8);
        most = most.max(vld.statistics().blocks_astride);
        if nth % 3 == 0 {
            vld.flush().unwrap();
        }
    }
    check(&vld);
    let spare = vld.layout().astride_max(first);
    (first..blocks).for_each(|block| put(&vld, block, 3));
    check(&vld);
    assert!(vld.statistics().blocks_astride <= vld.layout().astride_max(blocks));
    for nth in 0..4 * blocks {
        match draw.below(10) {
            0 => vld.discard(draw.below(blocks) * BLOCK, BLOCK).unwrap(),
            1..=3 => vld.flush().unwrap(),
            _ => put(&vld, draw.below(blocks), nth as u8),
        }
        if nth % 64 == 0 {
            check(&vld);
        }
    }
    vld.flush().unwrap();
    check(&vld);
    assert_eq!(reopened(&vld).0.map(), vld.map());
    most as f64 / spare as f64
}

#[test]
fn a_full_volume_with_data_anywhere_is_overwritten_for_ever() {
    for (unit, seed) in [(512, 1), (512, 2), (1024, 3), (2048, 4)] {
        let medium = Arc::new(InOrder(memory(1 << 20, unit)));
        assert!(filled_and_overwritten(medium, seed) > 0.2);
    }
    // Units as large as blocks: nothing can lie astride.
    Vld::format(&InOrder(memory(1 << 20, 4096)), anywhere(4096, None)).unwrap_err();
    for (cylinders, seed) in [(1, 6), (2, 7)] {
        assert!(filled_and_overwritten(in_drive(cylinders).0, seed) > 0.9);
    }
}

#[test]
fn idle_time_leaves_nothing_astride() {
    for granularity in [Granularity::Track, Granularity::Blocks(4)] {
        let (medium, clock) = in_drive(2);
        let layout = Vld::format(&medium, anywhere(4096, None)).unwrap();
        let (vld, _) = Vld::open(medium, Options::default()).unwrap();
        let blocks = layout.logical_blocks * 8 / 10;
        (0..blocks).for_each(|block| put(&vld, block, 1));
        let mut draw = Draw(2);
        for _ in 0..2 * blocks {
            put(&vld, draw.below(blocks), 2);
            vld.flush().unwrap();
        }
        assert!(vld.statistics().blocks_astride > 50);
        let before = vld.statistics().tracks_empty;
        let until = clock.monotonic_ns() + 600_000_000_000;
        while !vld.compact(until, granularity).unwrap().finished {}
        check(&vld);
        let after = vld.statistics();
        assert_eq!(after.blocks_astride, 0);
        assert!(after.tracks_empty > before, "{after:?}");
    }
}

/// What cannot be read cannot be moved: new blocks are written all the same while
/// there is room, and whoever reads it is told.
#[test]
fn what_lies_astride_and_cannot_be_read_stays() {
    let medium = Arc::new(InOrder(memory(1 << 20, 512)));
    let layout = Vld::format(&medium, anywhere(4096, None)).unwrap();
    let (vld, _) = Vld::open(medium.clone(), Options::default()).unwrap();
    let half = layout.logical_blocks / 2;
    (0..half).for_each(|block| put(&vld, block, 1));
    for nth in 0..half {
        put(&vld, nth * 7 % half, 2);
        vld.flush().unwrap();
    }
    let bad = (0..half as u32).find(|&nth| layout.is_astride(vld.map().get(nth).place));
    let bad = bad.expect("some lie astride");
    let place = vld.map().get(bad).place;
    let damaged = [0x5a; BLOCK as usize];
    medium
        .0
        .apply_write(layout.place_byte(place), &damaged)
        .unwrap();
    (half..layout.logical_blocks).for_each(|block| put(&vld, block, 3));
    vld.flush().unwrap();
    assert_eq!(vld.map().get(bad).place, place);
    assert!(
        vld.read(u64::from(bad) * BLOCK, &mut [0; BLOCK as usize])
            .is_err()
    );
}
