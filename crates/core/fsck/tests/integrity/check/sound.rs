//! Undamaged volumes.

use crate::volume::{Image, Volume, checked, formatted, step};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;
use varve_device::MemoryDevice;
use varve_fsck::check::{CheckReport, FindingKind};
use varve_lfs::FormatOptions;

/// The report must have no errors, and no warnings except for a slot that a crash may
/// have torn.
#[track_caller]
fn sound(report: &CheckReport) {
    let warnings = report.warnings.iter();
    let odd = warnings.filter(|w| w.kind != FindingKind::CheckpointSlot);
    assert!(report.errors.is_empty() && odd.count() == 0, "{report}");
}

#[test]
fn a_new_volume() {
    let (device, _) = formatted(8 << 20, FormatOptions::default());
    let report = checked(&Image::from(device.snapshot()), true);
    assert!(report.is_spotless(), "{report}");
    assert_eq!(report.counts.inodes, 1);
    assert_eq!(report.counts.directories, 1);
    assert_eq!(report.counts.blocks, 0);
}

#[test]
fn a_populated_volume_unmounted_crashed_and_remounted() {
    let volume = Volume::new(16 << 20);
    volume.populate();
    sound(&volume.check());
    volume.system.sync().unwrap();
    let report = volume.check();
    sound(&report);
    assert!(report.recovery.groups > 0);
    assert_eq!(report.counts.directories, 4);
    let crashed = volume.crash(5);
    sound(&crashed.check());
    crashed.unmount();
    let report = crashed.check();
    assert!(report.is_spotless(), "{report}");
    assert!(report.recovery.clean);
    assert!(report.counts.verified_blocks > 200, "{:?}", report.counts);
    assert_eq!(report.counts.names, 2 + 19 + 4 + 150);
}

#[test]
fn odd_geometries() {
    for (block, segment, inode) in [(4096, 64 << 10, 512), (16384, 256 << 10, 1024)] {
        let options = FormatOptions {
            block_bytes: block,
            segment_bytes: segment,
            inode_bytes: inode,
            ..FormatOptions::default()
        };
        let volume = Volume::with(32 << 20, options);
        volume.populate();
        volume.system.sync().unwrap();
        sound(&volume.check());
        volume.unmount();
        sound(&volume.check());
    }
}

#[test]
fn random_histories_with_crashes_checkpoints_and_cleaning() {
    for seed in 0..6 {
        eprintln!("seed {seed}");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut volume = Volume::with(
            6 << 20,
            FormatOptions {
                segment_bytes: 64 << 10,
                ..FormatOptions::default()
            },
        );
        for turn in 0..1500 {
            step(&volume, &mut rng);
            if turn % 25 == 0 {
                let report = volume.check();
                let clear = report.errors.is_empty();
                assert!(clear, "seed {seed}, turn {turn}: {report}");
                sound(&report);
            }
            if turn % 400 == 399 {
                volume = volume.crash(seed * 100 + turn);
                sound(&volume.check());
            }
        }
        volume.unmount();
        sound(&volume.check());
    }
}

#[test]
fn eight_mebibytes_take_milliseconds() {
    let volume = Volume::new(8 << 20);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    for _ in 0..600 {
        step(&volume, &mut rng);
    }
    volume.system.sync().unwrap();
    let image = volume.device.snapshot();
    for data in [false, true] {
        let start = std::time::Instant::now();
        const ROUNDS: u32 = 50;
        for _ in 0..ROUNDS {
            let device = Arc::new(MemoryDevice::from_image(&image));
            sound(&checked(&Image(device), data));
        }
        eprintln!("data {data}: {:?} per check", start.elapsed() / ROUNDS);
    }
}
