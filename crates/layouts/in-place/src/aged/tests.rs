//! A free map can be stored and read, and is exactly the free space of a volume aged by
//! it.

use super::*;
use crate::tests::{again, create, made_with, memory, mounted, read, sound, write};
use crate::{FfsFormatOptions, check};
use std::sync::Arc;
use varve_device::Device;
use varve_fs::Caller;

const KIB: u64 = 1 << 10;

/// Returns a map of two groups: holes of a block, of fragments, of parts of fragments; and
/// a run.
fn map() -> FreeMap {
    let hole = |start: u64, length: u64| start * KIB..(start + length) * KIB;
    let holed = (0..50).map(|nth| hole(64 * nth, 8)).collect();
    let mixed = vec![
        hole(10, 3),
        hole(100, 1),
        200 * KIB + 100..201 * KIB,
        hole(1024, 1024),
    ];
    FreeMap::new(8192, 4096 * KIB, vec![holed, mixed]).unwrap()
}

/// Returns the free space of a volume that is not being written to.
fn free_on(volume: &Ffs) -> FreeMap {
    let geometry = &volume.store.geometry;
    let unit = u64::from(geometry.fragment_bytes);
    let mut groups = vec![Vec::new(); geometry.groups() as usize];
    for run in volume.writer.lock().room.free_runs() {
        // The head of a group separates it from the one before: no run is in two groups.
        let group = run.start / geometry.group_fragments();
        let first = geometry.data_fragments(group).start;
        groups[group as usize].push((run.start - first) * unit..(run.end() - first) * unit);
    }
    let data = geometry.data_fragments(0);
    let bytes = (data.end - data.start) * unit;
    FreeMap::new(geometry.block_bytes, bytes, groups).unwrap()
}

fn options(map: &FreeMap) -> FfsFormatOptions {
    FfsFormatOptions {
        block_bytes: 8192,
        group_data_blocks: map.group_bytes() / 8192,
        minfree_percent: 0,
        ..FfsFormatOptions::named("ffs-m8r0").unwrap()
    }
}

fn aged(map: &FreeMap, options: &FfsFormatOptions, bytes: u64) -> Result<Arc<dyn Device>> {
    let device = memory(bytes, 512);
    let system = made_with(&device, options);
    let ino = create(&system, "aged");
    system.unmount().unwrap();
    system.layout().unmount().unwrap();
    drop(system);
    let volume = mounted(&device);
    volume.age(ino, map)?;
    volume.unmount()?;
    Ok(device)
}

#[test]
fn what_the_map_has_free_is_free_and_nothing_else() {
    let map = map();
    let device = aged(&map, &options(&map), crate::bytes_for(&map)).unwrap();
    sound(&device);
    let volume = mounted(&device);
    let found = free_on(&volume);
    // The root directory has a fragment.
    let mut expected = map.groups[0].clone();
    expected[0].start = KIB;
    assert_eq!(found.groups[0], expected);
    // A fragment that is only partly free is in use.
    let (mut expected, all) = (map.groups[1].clone(), &found.groups[1]);
    expected.remove(2);
    assert_eq!(*all, expected);
    assert_eq!(found.group_bytes(), map.group_bytes());
    assert!(found.groups[2..].iter().all(Vec::is_empty), "{found:?}");
    drop(volume);
    let system = again(&device);
    let ino = system
        .lookup(&Caller::root(), varve_fs::InodeNo::ROOT, b"aged")
        .unwrap()
        .ino;
    assert_eq!(read(&system, ino, 0, 20_000), vec![0; 20_000]);
    let free = system.statfs().free;
    let file = create(&system, "new");
    write(&system, file, 0, &[1; 300_000]).unwrap();
    system.sync().unwrap();
    assert!(system.statfs().free < free);
    // The volume is young again.
    system
        .unlink(&Caller::root(), varve_fs::InodeNo::ROOT, b"aged")
        .unwrap();
    system.unmount().unwrap();
    system.layout().unmount().unwrap();
    sound(&device);
    let checked = check(Arc::clone(&device), crate::tests::clock(), false).unwrap();
    assert!(checked.free_space.runs < 25, "{:?}", checked.free_space);
}

#[test]
fn volumes_that_do_not_fit_the_map_are_refused() {
    let map = map();
    let smaller = FfsFormatOptions {
        group_data_blocks: map.group_bytes() / 8192 - 1,
        ..options(&map)
    };
    let refused = aged(&map, &smaller, crate::bytes_for(&map));
    assert!(matches!(refused, Err(Error::Unfit(_))), "{refused:?}");
    let one_group = FfsFormatOptions {
        group_data_blocks: 2 * map.group_bytes() / 8192,
        ..options(&map)
    };
    let refused = aged(&map, &one_group, 12 << 20);
    assert!(matches!(refused, Err(Error::Unfit(_))), "{refused:?}");
    let others = FfsFormatOptions {
        block_bytes: 8192,
        ..FfsFormatOptions::named("buddy").unwrap()
    };
    let refused = aged(&map, &others, 64 << 20);
    assert!(matches!(refused, Err(Error::Unfit(_))), "{refused:?}");
}

#[test]
fn what_is_in_use_stays_in_use() {
    let map = map();
    let device = memory(crate::bytes_for(&map), 512);
    let system = made_with(&device, &options(&map));
    let used = create(&system, "used");
    write(&system, used, 0, &[5; 30_000]).unwrap();
    let ino = create(&system, "aged");
    system.unmount().unwrap();
    system.layout().age(ino, &map).unwrap();
    let free = system.layout().statistics().fragments_free * KIB;
    // At least one hole is used by the file.
    let lost = map.free_bytes() - free;
    assert!((4 * KIB..40 * KIB).contains(&lost), "{lost}");
    system.layout().unmount().unwrap();
    drop(system);
    sound(&device);
    assert_eq!(read(&again(&device), used, 0, 40_000), [5; 30_000]);
}

#[test]
fn a_map_is_stored_and_nonsense_is_refused() {
    let map = map();
    let stored = Stored::from(map.clone());
    assert_eq!(FreeMap::try_from(stored.clone()), Ok(map));
    let wrong = |change: &dyn Fn(&mut Stored)| {
        let mut stored = stored.clone();
        change(&mut stored);
        assert!(FreeMap::try_from(stored).is_err());
    };
    wrong(&|s| s.version = 2);
    wrong(&|s| s.format.clear());
    wrong(&|s| s.block_bytes = 0);
    wrong(&|s| s.block_bytes = 12_288);
    wrong(&|s| s.group_bytes = 0);
    wrong(&|s| s.group_bytes += 1);
    wrong(&|s| s.group_bytes = u64::MAX / 8192 * 8192);
    wrong(&|s| s.group_bytes = 1 << 48);
    wrong(&|s| s.groups.clear());
    wrong(&|s| s.groups[0].swap(0, 1));
    wrong(&|s| s.groups[0][3].1 = 0);
    wrong(&|s| s.groups[0][3].1 = u64::MAX);
    wrong(&|s| s.groups[1][0].0 = u64::MAX);
}
