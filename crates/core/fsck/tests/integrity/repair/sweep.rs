//! Every block of a volume is cleared, one after the other.

use crate::tree::{Tree, populate};
use crate::volume::{Image, Volume, checked};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;
use varve_device::{Device, MemoryDevice, VirtualClock};
use varve_fs::{InodeNo, Layout, View};
use varve_fsck::repair::{RepairOptions, RepairReport, repair};
use varve_lfs::{FormatOptions, superblock_offsets};

pub fn mend(device: &Arc<MemoryDevice>, data: bool) -> RepairReport {
    let clock = Arc::new(VirtualClock::new(3_000_000_000_000, 1000));
    let options = RepairOptions {
        data,
        seed: Some(99),
        ..RepairOptions::default()
    };
    repair(device.clone(), clock, &options).unwrap()
}

pub fn bytes_of(device: &MemoryDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.geometry().size as usize];
    device.read(0, &mut bytes).unwrap();
    bytes
}

/// Repairs a volume, and verifies everything that repair promises. Returns the
/// differences from `before`.
pub fn repaired(
    device: &Arc<MemoryDevice>,
    before: &Tree,
    what: &str,
) -> (RepairReport, Vec<String>) {
    let report = mend(device, true);
    assert!(report.is_whole(), "{what}: not whole\n{report}");
    let check = checked(&Image::from(device.snapshot()), true);
    assert!(check.is_spotless(), "{what}: {check}\nafter {report}");
    let image = bytes_of(device);
    let second = mend(device, true);
    assert!(!second.changed(), "{what}: again {second}");
    assert!(image == bytes_of(device), "{what}: the second time wrote");
    let after = Tree::of(device);
    let losses: Vec<&str> = (report.actions.iter())
        .filter(|action| action.loss)
        .map(|action| action.text.as_str())
        .collect();
    let mut all = Vec::new();
    for difference in before.differences(&after) {
        assert!(
            !difference.what.contains("WRONG"),
            "{what}: {difference}\n{report}"
        );
        let text = difference.to_string();
        let by_number = format!("inode {}", difference.ino);
        let named = losses.iter().any(|loss| {
            loss.contains(&difference.path)
                || loss.match_indices(&by_number).any(|(at, found)| {
                    !loss[at + found.len()..].starts_with(|c: char| c.is_ascii_digit())
                })
        });
        let below_lost = losses.iter().any(|loss| loss.contains("lost+found"))
            && (text.contains("lost+found") || text.contains("is gone") || text.contains("links"));
        assert!(
            named || below_lost,
            "{what}: nobody says that {difference}\n{report}"
        );
        all.push(text);
    }
    (report, all)
}

pub fn patient(segment_bytes: u32) -> (Arc<MemoryDevice>, Tree) {
    let options = FormatOptions {
        segment_bytes,
        ..FormatOptions::default()
    };
    let volume = Volume::with(16 << 20, options);
    populate(&volume);
    volume.unmount();
    let tree = Tree::of(&volume.device);
    (volume.device.clone(), tree)
}

fn clear(device: &MemoryDevice, offset: u64, length: usize) -> Arc<MemoryDevice> {
    let damaged = Arc::new(MemoryDevice::from_image(&device.snapshot()));
    damaged.apply_write(offset, &vec![0; length]).unwrap();
    damaged
}

/// Returns the units of the volume that contain data.
fn written_units(device: &MemoryDevice, unit: usize) -> Vec<u64> {
    bytes_of(device)
        .chunks(unit)
        .enumerate()
        .filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0))
        .map(|(nth, _)| (nth * unit) as u64)
        .collect()
}

#[test]
fn a_sound_volume_is_left_alone() {
    let (device, tree) = patient(0);
    let image = bytes_of(&device);
    let report = mend(&device, true);
    assert!(report.is_whole() && !report.changed(), "{report}");
    assert!(image == bytes_of(&device));
    assert_eq!(tree, Tree::of(&device));
}

#[test]
fn any_block_cleared() {
    let (device, tree) = patient(128 << 10);
    let units = written_units(&device, 4096);
    let mut mended = 0;
    for &unit in units.iter().step_by(stride()) {
        let damaged = clear(&device, unit, 4096);
        let (report, _) = repaired(&damaged, &tree, &format!("4096 bytes at {unit:#x}"));
        mended += u64::from(report.changed());
    }
    eprintln!("{mended} of {} units meant something", units.len());
    assert!(mended > 80);
}

#[test]
fn superblocks_records_and_ifile_cost_nothing() {
    let (device, tree) = patient(128 << 10);
    let superblock = varve_lfs::Lfs::find_superblock(&*device).unwrap();
    let mut places: Vec<(u64, usize)> = superblock_offsets(&superblock)
        .map(|offset| (offset, 4096))
        .collect();
    let slot = superblock.record_bytes.get();
    for nth in 0..u64::from(superblock.record_count.get()) {
        places.push((
            superblock.ring_offset.get() + nth * u64::from(slot),
            slot as usize,
        ));
    }
    let clock = Arc::new(VirtualClock::new(0, 0));
    let options = varve_lfs::MountOptions {
        read_only: true,
        ..varve_lfs::MountOptions::default()
    };
    let lfs = varve_lfs::Lfs::mount(device.clone(), clock, options).unwrap();
    let mut ifile = lfs.map(View::Live, InodeNo::IFILE, 0, 1 << 40).unwrap();
    assert!(ifile.len() > 3);
    for mapping in ifile.drain(..) {
        let pointer = mapping.pointer;
        let bytes = usize::from(pointer.sectors()) * 512;
        places.push((pointer.sector() * 512, bytes));
    }
    for (offset, length) in places {
        let what = format!("{length} bytes at {offset:#x}");
        let (_, differences) = repaired(&clear(&device, offset, length), &tree, &what);
        assert!(differences.is_empty(), "{what}: {differences:?}");
    }
}

#[test]
fn random_sectors_garbled() {
    let seed: u64 = std::env::var("VARVE_SEED").map_or(1, |seed| seed.parse().unwrap());
    let (device, tree) = patient(0);
    let units = written_units(&device, 512);
    for round in 0..30 {
        let seed = seed * 1000 + round;
        eprintln!("reproduce: VARVE_SEED={seed}");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let damaged = Arc::new(MemoryDevice::from_image(&device.snapshot()));
        for _ in 0..rng.random_range(1..20) {
            let offset = units[rng.random_range(0..units.len())];
            let garbage: Vec<u8> = (0..512).map(|_| rng.random()).collect();
            damaged.apply_write(offset, &garbage).unwrap();
        }
        if !records_left(&damaged) {
            continue;
        }
        repaired(&damaged, &tree, &format!("seed {seed}"));
    }
}

/// The server crashed: the log behind the checkpoint is part of the volume, and clearing
/// a block of it costs only changes logged there and later.
#[test]
fn a_volume_that_was_not_unmounted() {
    let (device, clock) = crate::volume::formatted(16 << 20, FormatOptions::default());
    let volume = Volume::mount(device, clock, 2);
    populate(&volume);
    let home = volume.lookup(InodeNo::ROOT, "home");
    for n in 0..12 {
        let file = volume.file(home, &format!("late{n}"));
        volume.write(file, 0, &crate::volume::pattern(n, 9000));
        // Each sync proves that the one before was durable.
        volume.system.sync().unwrap();
    }
    let device = Arc::new(MemoryDevice::from_image(&volume.device.snapshot()));
    drop(volume);
    let before = bytes_of(&device);
    let report = mend(&device, true);
    assert!(report.is_whole() && !report.changed(), "{report}");
    assert!(before == bytes_of(&device));
    let mut short = 0;
    for &unit in written_units(&device, 4096).iter().step_by(stride() * 2) {
        let what = format!("4096 bytes at {unit:#x}");
        let damaged = clear(&device, unit, 4096);
        let report = mend(&damaged, true);
        assert!(report.is_whole(), "{what}: {report}");
        let cut = |text: &str| text.contains("the log behind the damage");
        short += u64::from(report.actions.iter().any(|a| cut(&a.text)));
        let check = checked(&Image::from(damaged.snapshot()), true);
        assert!(check.is_spotless(), "{what}: {check}");
        let image = bytes_of(&damaged);
        assert!(!mend(&damaged, true).changed(), "{what}");
        assert!(image == bytes_of(&damaged));
        Tree::of(&damaged);
    }
    assert!(short > 3, "{short} times the log was cut short");
}

/// Returns the interval between cleared units; `VARVE_SWEEP=1` clears all.
fn stride() -> usize {
    std::env::var("VARVE_SWEEP").map_or(4, |stride| stride.parse().unwrap())
}

fn records_left(device: &Arc<MemoryDevice>) -> bool {
    let clock = Arc::new(VirtualClock::new(0, 0));
    varve_fsck::check::check(
        device.clone(),
        clock,
        &varve_fsck::check::CheckOptions::default(),
    )
    .is_ok()
}
