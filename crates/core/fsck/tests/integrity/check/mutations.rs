//! Arbitrary bytes may give findings, but never a panic or an endless loop.

use super::inspect::everything;
use crate::surgeon::Surgeon;
use crate::volume::{Image, Volume, checked, step};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;
use varve_device::VirtualClock;
use varve_fs::InodeNo;
use varve_fsck::check::{CheckOptions, check};
use varve_fsck::inspect::Inspector;
use varve_fsck::repair::{RepairOptions, repair};
use varve_lfs::format::CheckpointHeader;
use zerocopy::IntoBytes;

/// Returns a volume with some history; with `crashed`, the log continues behind the
/// checkpoint.
fn patient(seed: u64, crashed: bool) -> Surgeon {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let volume = Volume::new(8 << 20);
    for _ in 0..400 {
        step(&volume, &mut rng);
    }
    if crashed {
        volume.system.sync().unwrap();
    } else {
        volume.unmount();
    }
    Surgeon::new(&volume.device)
}

/// Check and inspection must end, with any result.
pub fn survives(surgeon: &Surgeon) {
    let options = CheckOptions {
        data: true,
        ..CheckOptions::default()
    };
    let clock = Arc::new(VirtualClock::new(0, 0));
    match check(surgeon.device(), clock.clone(), &options) {
        Ok(report) => drop(report.to_string()),
        Err(error) => drop(error.to_string()),
    }
    if let Ok(inspector) = Inspector::open(surgeon.device(), clock) {
        everything(&inspector);
    }
    mended(surgeon);
}

/// Repair must end, and a volume that it reports as whole must pass a check.
fn mended(surgeon: &Surgeon) {
    let clock = Arc::new(VirtualClock::new(0, 0));
    let device = surgeon.device();
    let options = RepairOptions {
        seed: Some(4),
        ..RepairOptions::default()
    };
    let Ok(first) = repair(device.clone(), clock.clone(), &options) else {
        return;
    };
    if !first.is_whole() {
        return;
    }
    let image = Image::from(device.snapshot());
    let report = checked(&image, true);
    assert!(report.errors.is_empty(), "{report}\nafter {first}");
    let second = repair(image.0.clone(), clock, &options).unwrap();
    assert!(!second.changed(), "after {first}\nagain {second}");
    assert_eq!(image.0.counters().snapshot().bytes_written, 0);
}

#[test]
fn random_bytes() {
    for crashed in [false, true] {
        let sound = patient(1, crashed);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
        for _ in 0..150 {
            let mut surgeon = sound.clone();
            for _ in 0..rng.random_range(1..200) {
                let at = rng.random_range(0..surgeon.bytes.len());
                surgeon.bytes[at] = rng.random();
            }
            survives(&surgeon);
        }
    }
}

/// Changes a few bytes, sometimes to values that often cause faults.
fn scramble(rng: &mut Xoshiro256PlusPlus, bytes: &mut [u8], from: usize) {
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(from..bytes.len());
        match rng.random_range(0..4) {
            0 => bytes[at..].iter_mut().take(8).for_each(|b| *b = 0xff),
            1 => bytes[at..].iter_mut().take(8).for_each(|b| *b = 0),
            2 => bytes[at] ^= 1 << rng.random_range(0..8),
            _ => bytes[at] = rng.random(),
        }
    }
}

/// Wrong values with right checksums, as in a crafted image.
#[test]
fn wrong_values_under_right_checksums() {
    let sound = patient(3, false);
    let highest = sound.record.header.next_ino.get();
    for seed in 0..400 {
        eprintln!("seed {seed}");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut surgeon = sound.clone();
        let ino = InodeNo(rng.random_range(2..highest));
        let used = matches!(
            surgeon.imap(ino),
            varve_lfs::format::ifile::ImapState::Used { .. }
        );
        match rng.random_range(0..7) {
            0 => surgeon.edit_record(|header: &mut CheckpointHeader| {
                scramble(&mut rng, header.as_mut_bytes(), 24);
            }),
            1 => {
                let block = surgeon.imap_block(ino);
                let draw = std::cell::RefCell::new(rng);
                let mut leaf = Surgeon::content(|bytes| scramble(&mut draw.borrow_mut(), bytes, 0));
                surgeon.edit_ifile(block, &mut leaf);
            }
            2 => {
                let draw = std::cell::RefCell::new(rng);
                let mut leaf = Surgeon::content(|bytes| scramble(&mut draw.borrow_mut(), bytes, 0));
                surgeon.edit_ifile(0, &mut leaf);
            }
            3 | 4 if used => surgeon.edit_inode_bytes(ino, |bytes| scramble(&mut rng, bytes, 0)),
            5 if used => {
                let draw = std::cell::RefCell::new(rng);
                let image = surgeon.inode(ino);
                let height = image.root.as_ref().map_or(0, |root| root.height);
                if image.inode.blocks > 0 && !image.root.unwrap().slots[0].is_unwritten() {
                    let mut leaf =
                        Surgeon::content(|bytes| scramble(&mut draw.borrow_mut(), bytes, 0));
                    surgeon.edit_pointer(ino, height, 0, &mut leaf);
                }
            }
            _ => {
                let mut leaf = Surgeon::content(|bytes| {
                    scramble(&mut Xoshiro256PlusPlus::seed_from_u64(seed), bytes, 40)
                });
                surgeon.edit_pointer(InodeNo::ROOT, 0, 0, &mut leaf);
            }
        }
        survives(&surgeon);
    }
}
