//! Tests of whole volumes: created, used, crashed and mounted again.

mod crafted;
mod data_only;
mod full;
mod journal;
mod largest;
mod ordered;
mod overwritten;
mod policies;
mod readers;
mod repaired;
mod threads;
mod torn;

use crate::*;
use std::sync::Arc;
use varve_device::{Clock, Device, MemoryDevice, VirtualClock};
use varve_fs::{Caller, FileSystem, InodeNo, Layout, Options};

pub(crate) type System = FileSystem<Ffs>;

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(1_600_000_000_000_000_000, 0))
}

fn options() -> Options {
    Options {
        read_ahead_threads: 0,
        ..Options::default()
    }
}

pub(crate) fn memory(size: u64, unit: u32) -> Arc<dyn Device> {
    Arc::new(MemoryDevice::with_geometry(varve_device::Geometry {
        size,
        logical_block: 512,
        physical_block: unit,
    }))
}

fn made(device: &Arc<dyn Device>) -> System {
    made_with(device, &FfsFormatOptions::default())
}

pub(crate) fn made_with(device: &Arc<dyn Device>, options: &FfsFormatOptions) -> System {
    let options = FfsFormatOptions {
        seed: Some(1),
        ..options.clone()
    };
    format(&**device, &*clock(), &options).unwrap();
    let layout = mounted(device);
    FileSystem::format(&*layout, &*clock(), (0, 0)).unwrap();
    FileSystem::mount(layout, clock(), self::options()).unwrap()
}

pub(crate) fn mounted(device: &Arc<dyn Device>) -> Arc<Ffs> {
    let options = FfsMountOptions {
        seed: Some(2),
        ..FfsMountOptions::default()
    };
    Arc::new(Ffs::mount(Arc::clone(device), clock(), options).unwrap())
}

pub(crate) fn again(device: &Arc<dyn Device>) -> System {
    FileSystem::mount(mounted(device), clock(), options()).unwrap()
}

/// Returns the inode's sector that readers see.
pub(crate) fn slot(layout: &Ffs, ino: InodeNo) -> crate::format::Slot {
    let tables = layout.tables.read();
    let newest = crate::store::Newest {
        store: &layout.store,
        tables: &tables,
    };
    crate::store::Sectors::slot(&newest, ino).unwrap()
}

pub(crate) fn sound(device: &Arc<dyn Device>) {
    let found = check(Arc::clone(device), clock(), true).unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
}

pub(crate) fn create(system: &System, name: &str) -> InodeNo {
    let root = Caller::root();
    let made = system.mknod(&root, InodeNo::ROOT, name.as_bytes(), 0o100644, 0);
    made.unwrap().ino
}

pub(crate) fn write(
    system: &System,
    ino: InodeNo,
    offset: u64,
    data: &[u8],
) -> varve_fs::Result<usize> {
    system.write(&Caller::root(), ino, offset, data)
}

pub(crate) fn read(system: &System, ino: InodeNo, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let got = system.read(ino, offset, &mut bytes).unwrap();
    bytes.truncate(got);
    bytes
}

fn names(system: &System, directory: InodeNo) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let list = system.readdir(directory, 0, &mut |entry| {
        if !matches!(entry.name, b"." | b"..") {
            names.push(entry.name.to_vec());
        }
        true
    });
    list.unwrap();
    names
}

/// Unmounts file system and layout cleanly.
fn unmount(system: &System) {
    system.unmount().unwrap();
    system.layout().unmount().unwrap();
}

#[test]
fn what_is_synced_is_there_after_a_crash_and_after_an_unmount() {
    for unit in [512, 4096] {
        let device = memory(24 << 20, unit);
        let system = made(&device);
        let small = create(&system, "small");
        write(&system, small, 0, b"hello").unwrap();
        let large = create(&system, "large");
        let content: Vec<u8> = (0..5_000_000u32).map(|n| (n % 251) as u8).collect();
        write(&system, large, 0, &content).unwrap();
        let sparse = create(&system, "sparse");
        write(&system, sparse, 1 << 36, b"far out").unwrap();
        system.sync().unwrap();
        drop(system);
        sound(&device);
        let system = again(&device);
        assert!(system.layout().recovery_report().records > 0);
        assert_eq!(read(&system, small, 0, 100), b"hello");
        assert_eq!(read(&system, large, 0, 6_000_000), content);
        assert_eq!(read(&system, sparse, 1 << 36, 100), b"far out");
        write(&system, large, 1_000_000, &[7; 5000]).unwrap();
        unmount(&system);
        sound(&device);
        let system = again(&device);
        assert_eq!(system.layout().recovery_report().records, 0);
        assert_eq!(read(&system, large, 1_000_000, 5000), vec![7; 5000]);
        assert_eq!(read(&system, large, 0, 1_000_000), content[..1_000_000]);
    }
}

#[test]
fn a_full_volume_is_emptied_and_filled_again() {
    for unit in [512, 4096] {
        let device = memory(16 << 20, unit);
        let system = made(&device);
        let root = Caller::root();
        let empty = system.statfs().free;
        let mut filled = Vec::new();
        for round in 0..3u8 {
            let mut names = Vec::new();
            let mut bytes = 0;
            'full: for nth in 0.. {
                let name = format!("file{nth}");
                let found = system.mknod(&root, InodeNo::ROOT, name.as_bytes(), 0o100644, 0);
                let Ok(made) = found else {
                    break;
                };
                names.push(name);
                for block in 0..64 {
                    match write(&system, made.ino, block * 4096, &[round; 4096]) {
                        Ok(_) => bytes += 4096,
                        Err(varve_fs::Error::NoSpace) => break 'full,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            assert!(
                bytes > 12 << 20,
                "unit {unit}, round {round}: only {bytes} bytes fit"
            );
            filled.push(bytes);
            system.sync().unwrap();
            for name in names {
                system
                    .unlink(&root, InodeNo::ROOT, name.as_bytes())
                    .unwrap();
            }
            while system.write_back().unwrap() {}
            system.maintain().unwrap();
        }
        let most = filled.iter().max().unwrap();
        assert!(
            filled.iter().all(|bytes| bytes * 10 > most * 9),
            "{filled:?}"
        );
        assert!(system.statfs().free * 10 > empty * 9);
        unmount(&system);
        sound(&device);
    }
}

#[test]
fn directories_are_spread_and_files_near_theirs() {
    let options = FfsFormatOptions {
        group_blocks: 1024,
        ..FfsFormatOptions::default()
    };
    let device = memory(64 << 20, 512);
    let system = made_with(&device, &options);
    let root = Caller::root();
    let mut groups = Vec::new();
    for nth in 0..8 {
        let name = format!("d{nth}");
        let directory = system.mkdir(&root, InodeNo::ROOT, name.as_bytes(), 0o755);
        let directory = directory.unwrap().ino;
        let file = system.mknod(&root, directory, b"f", 0o100644, 0).unwrap();
        write(&system, file.ino, 0, &[1; 5000]).unwrap();
        system.sync().unwrap();
        let layout = system.layout();
        let geometry = &layout.store.geometry;
        let group = |ino: InodeNo| ino.0 / geometry.group_inodes;
        assert_eq!(group(file.ino), group(directory));
        let place = layout.map(varve_fs::View::Live, file.ino, 0, 1).unwrap()[0].pointer;
        let fragment = geometry.fragment_of(place.sector);
        assert_eq!(fragment / geometry.group_fragments(), group(directory));
        groups.push(group(directory));
    }
    groups.sort_unstable();
    groups.dedup();
    assert_eq!(groups.len(), 8);
}

#[test]
fn a_named_configuration_leaves_gaps_where_it_says() {
    let layout_of = |name: &str| {
        let device = memory(64 << 20, 4096);
        let system = made_with(&device, &FfsFormatOptions::named(name).unwrap());
        let file = create(&system, "file");
        write(&system, file, 0, &vec![1; 40 * 4096]).unwrap();
        system.sync().unwrap();
        let found = system.layout().map(varve_fs::View::Live, file, 0, 40);
        let sectors: Vec<u64> = found
            .unwrap()
            .iter()
            .map(|m| m.pointer.sector / 8)
            .collect();
        sectors
            .windows(2)
            .map(|two| two[1] - two[0])
            .collect::<Vec<_>>()
    };
    assert!(layout_of("FFS-m1r2")[..11].iter().all(|&step| step == 3));
    let m8r2 = layout_of("FFS-m8r2");
    assert_eq!(m8r2[..8], [1, 1, 1, 1, 1, 1, 1, 3]);
    // An indirect block is between them.
    let ones = |steps: &[u64]| steps.iter().filter(|&&step| step == 1).count();
    assert!(ones(&layout_of("FFS-m8r0")) >= 37 && ones(&layout_of("EFS")) >= 37);
    assert!(FfsFormatOptions::named("LFS").is_none());
}

#[test]
fn every_size_of_blocks_makes_a_volume() {
    for block_bytes in [4096, 8192, 16384, 32768, 65536] {
        for (logical_block, unit) in [(512, 512), (512, 4096), (4096, 4096), (4096, 16384)] {
            let options = FfsFormatOptions {
                block_bytes,
                ..FfsFormatOptions::default()
            };
            let device: Arc<dyn Device> =
                Arc::new(MemoryDevice::with_geometry(varve_device::Geometry {
                    size: 64 << 20,
                    logical_block,
                    physical_block: unit,
                }));
            if unit > block_bytes {
                assert!(plan(&*device, &options, 0).is_err());
                continue;
            }
            let system = made_with(&device, &options);
            let file = create(&system, "file");
            write(&system, file, 123_456, &[3; 300_000]).unwrap();
            system.sync().unwrap();
            drop(system);
            sound(&device);
            let system = again(&device);
            write(&system, file, 1, &[4; 1000]).unwrap();
            unmount(&system);
            let tuning = Tune {
                label: Some("large".into()),
                uuid: Some([8; 16]),
                ..Tune::default()
            };
            let superblock = tune(&*device, &tuning).unwrap();
            assert!(Ffs::read_owner(&*device, &superblock).unwrap().is_some());
            sound(&device);
        }
    }
}

/// Free space is discarded, and nothing else.
#[test]
fn trim_tells_what_is_free() {
    for name in ["ffs", "buddy", "extent"] {
        let inner = Arc::new(MemoryDevice::new(32 << 20));
        let device: Arc<dyn Device> = Arc::clone(&inner) as _;
        let system = made_with(&device, &FfsFormatOptions::named(name).unwrap());
        let kept = create(&system, "kept");
        write(&system, kept, 0, &[3; 500_000]).unwrap();
        let gone = create(&system, "gone");
        write(&system, gone, 0, &[4; 3_000_000]).unwrap();
        system.sync().unwrap();
        // The layout is asked, because the file system reports only the space for
        // users.
        let told = || system.layout().trim(0..u64::MAX, 0).unwrap();
        let before = told();
        let free = || system.layout().statistics().fragments_free * 4096;
        assert_eq!(before, free(), "{name}");
        system
            .unlink(&Caller::root(), InodeNo::ROOT, b"gone")
            .unwrap();
        // Space that a crash could bring back into use is not free yet.
        assert_eq!(told(), before);
        system.sync().unwrap();
        system.layout().checkpoint().unwrap();
        let after = told();
        assert!(after >= before + 2_900_000, "{name}: {before} {after}");
        // This trims a part, and then long runs only.
        let part = system.trim(0..16 << 20, 0).unwrap();
        assert!((1..after).contains(&part));
        assert_eq!(system.trim(0..u64::MAX, 1 << 30).unwrap(), 0);
        assert!(system.trim(1 << 40..u64::MAX, 0).is_err());
        system.drop_caches();
        assert_eq!(read(&system, kept, 0, 600_000), [3; 500_000]);
        drop(system);
        sound(&device);
    }
}

/// The reserve is counted in fragments, and tails use broken blocks, so that small
/// files fill a volume that whole blocks alone would not fill.
#[test]
fn small_files_fill_what_is_free_in_fragments() {
    let options = FfsFormatOptions {
        inode_ratio: 2048,
        ..FfsFormatOptions::default()
    };
    let device = memory(32 << 20, 512);
    let system = made_with(&device, &options);
    let mut count = 0;
    let mut one_more = |bytes: usize| {
        count += 1;
        let (root, name) = (Caller::root(), format!("file{count}"));
        let made = system.mknod(&root, InodeNo::ROOT, name.as_bytes(), 0o100644, 0);
        made.and_then(|made| write(&system, made.ino, 0, &vec![1; bytes]))
    };
    let layout = system.layout();
    let room = || layout.statistics();
    let reserve = layout.store.geometry.reserve_blocks;
    // Files of five fragments of eight leave three of each block, and the reserve is in
    // those.
    while room().blocks_free > reserve - 100 {
        one_more(2400).unwrap();
    }
    system.sync().unwrap();
    let before = room();
    assert!(before.fragments_free > 2 * 8 * reserve, "{before:?}");
    // Files of three fragments use them, in any group.
    for _ in 0..1000 {
        one_more(1400).unwrap();
    }
    system.sync().unwrap();
    let after = room();
    let broken = before.blocks_free - after.blocks_free;
    assert!(broken < 40, "{broken} blocks, some of them the directory's");
    // This ends when only the reserve is left, or no block is whole.
    let error = loop {
        if let Err(error) = one_more(1400) {
            break error;
        }
    };
    assert!(matches!(error, varve_fs::Error::NoSpace), "{error}");
    drop(system);
    sound(&device);
}
