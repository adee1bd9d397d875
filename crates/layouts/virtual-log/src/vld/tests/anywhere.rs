//! Volumes whose data may begin at any unit.

use std::io::IoSlice;
use std::sync::Arc;

use varve_device::{Clock, VirtualClock};
use varve_disk::{SimulatedDisk, drives};

use super::bench::{Draw, anywhere, check, memory, reopened};
use super::*;
use crate::medium::{InDrive, InOrder};

const BLOCK: u64 = 4096;

/// Returns a drive with `cylinders` cylinders, and its clock.
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

/// Fills the volume block by block. Most blocks are overwritten before the rest is
/// written for the first time; once it is full, blocks are discarded and written at
/// random. Returns the largest used share of the bound on data astride, in `[0, 1]`.
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
        if nth % 3 < 2 {
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
        filled_and_overwritten(medium, seed);
    }
    // Units are as large as blocks, so no data can be astride.
    Vld::format(&InOrder(memory(1 << 20, 4096)), anywhere(4096, None)).unwrap_err();
    for (cylinders, seed) in [(1, 6), (2, 7)] {
        // Half of the bound is reserved for new blocks.
        assert!(filled_and_overwritten(in_drive(cylinders).0, seed) > 0.45);
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

/// Returns a volume in a drive of which half was written, and overwritten until as much
/// data is astride as allowed.
fn half_astride(synchronous: bool) -> (Vld<Arc<InDrive<MemoryDevice>>>, Arc<VirtualClock>, u64) {
    let (medium, clock) = in_drive(4);
    Vld::format(&medium, anywhere(4096, None)).unwrap();
    let run = Options {
        synchronous,
        ..Options::default()
    };
    let (vld, _) = Vld::open(medium, run).unwrap();
    let half = vld.layout().logical_blocks / 2;
    (0..half).for_each(|block| put(&vld, block, 1));
    let mut draw = Draw(5);
    for _ in 0..8 * half {
        put(&vld, draw.below(half), 2);
        vld.flush().unwrap();
    }
    let astride = vld.statistics().blocks_astride;
    assert!(
        2 * astride + 9 > vld.layout().astride_max(half),
        "{astride}"
    );
    (vld, clock, half)
}

/// Moving data astride for new blocks takes few transactions, each of many blocks.
#[test]
fn new_blocks_pay_little_for_what_lies_astride() {
    let (vld, _, half) = half_astride(false);
    let before = vld.statistics();
    (half..vld.layout().logical_blocks).for_each(|block| put(&vld, block, 3));
    check(&vld);
    let after = vld.statistics();
    let (moved, commits) = (
        after.blocks_realigned - before.blocks_realigned,
        after.commits - before.commits,
    );
    assert!(moved > 100 && moved <= before.blocks_astride, "{moved}");
    assert!(
        commits < half / 10,
        "{commits} for {half} blocks and {moved} moved"
    );
}

/// A block that cannot be read cannot be moved: the last new blocks are refused, and
/// existing ones can be overwritten without end. A reader of the block gets an error.
#[test]
fn what_lies_astride_and_cannot_be_read_is_not_written_past() {
    let (vld, _, half) = half_astride(false);
    let layout = *vld.layout();
    let astride = |(_, entry): &(u32, crate::format::Entry)| layout.is_astride(entry.place);
    let bad: Vec<u32> = (vld.map().mapped().filter(astride))
        .map(|(logical, _)| logical)
        .collect();
    for &logical in &bad {
        let at = layout.place_byte(vld.map().get(logical).place);
        let inner = vld.medium().0.inner();
        inner.apply_write(at, &[0x5a; BLOCK as usize]).unwrap();
    }
    let written = (half..layout.logical_blocks).take_while(|block| {
        let at = block * BLOCK;
        vld.write(at, &[IoSlice::new(&[3; BLOCK as usize])]).is_ok()
    });
    let written = written.count() as u64;
    assert!(
        written > half / 2 && written < layout.logical_blocks - half,
        "{written}"
    );
    check(&vld);
    let mut draw = Draw(6);
    for _ in 0..4 * half {
        put(&vld, half + draw.below(written), 4);
        if draw.below(3) == 0 {
            vld.flush().unwrap();
        }
    }
    check(&vld);
    for &logical in &bad {
        let mut bytes = [0; BLOCK as usize];
        vld.read(u64::from(logical) * BLOCK, &mut bytes)
            .unwrap_err();
        // Writing the block again repairs it, and releases its old space.
        put(&vld, u64::from(logical), 5);
    }
    vld.flush().unwrap();
    (half..layout.logical_blocks).for_each(|block| put(&vld, block, 6));
    check(&vld);
}

/// Blocks that follow each other without a record in between leave no gaps.
#[test]
fn only_what_is_waited_for_goes_anywhere() {
    let (medium, _) = in_drive(4);
    Vld::format(&medium, anywhere(4096, Some(4 << 20))).unwrap();
    let (vld, _) = Vld::open(medium, Options::default()).unwrap();
    (0..1024).for_each(|block| put(&vld, block, 1));
    vld.flush().unwrap();
    assert_eq!(vld.statistics().blocks_astride, 0, "new blocks");
    let mut draw = Draw(1);
    for _ in 0..5 {
        (0..10).for_each(|_| put(&vld, draw.below(1024), 2));
        vld.flush().unwrap();
    }
    assert!((1..=5).contains(&vld.statistics().blocks_astride));
}
