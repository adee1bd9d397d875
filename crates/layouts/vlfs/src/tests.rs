//! Tests of whole volumes: created, used, crashed and mounted again.

mod attributes;
mod brief;
mod compaction;
mod counted;
mod crowd;
mod drive;
mod everything;
mod full;
mod held;
mod lengthened;
mod newest;
mod offered;
mod overtaking;
mod overwritten;
mod parts;
mod threads;
mod waiting;

use crate::format::Extent;
use crate::*;
use std::sync::Arc;
use varve_device::{Clock, Device, MemoryDevice, VirtualClock};
use varve_disk::{SimulatedDisk, drives};
use varve_fs::{Caller, FileSystem, InodeNo, Layout, Options, Usage, View};
use varve_vlog::{InDrive, InOrder, Medium};

type System = FileSystem<Vlfs>;

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(1_600_000_000_000_000_000, 0))
}

fn options() -> Options {
    Options {
        read_ahead_threads: 0,
        ..Options::default()
    }
}

fn memory(size: u64, unit: u32) -> Arc<dyn Medium> {
    Arc::new(InOrder(MemoryDevice::with_geometry(
        varve_device::Geometry {
            size,
            logical_block: 512,
            physical_block: unit,
        },
    )))
}

fn drive() -> Arc<dyn Medium> {
    drive_of(11)
}

fn drive_of(cylinders: u32) -> Arc<dyn Medium> {
    Arc::new(InDrive(disk_of(cylinders)))
}

fn disk_of(cylinders: u32) -> Arc<SimulatedDisk> {
    let clock = Arc::new(VirtualClock::new(0, 0));
    let drive = drives::st19101().with_cylinders(cylinders);
    Arc::new(SimulatedDisk::new(drive, clock, 1))
}

fn made(medium: &Arc<dyn Medium>, unit_bytes: u32) -> System {
    let options = VlfsFormatOptions {
        unit_bytes,
        seed: Some(1),
        ..VlfsFormatOptions::default()
    };
    format(&**medium, &*clock(), &options).unwrap();
    let layout = mounted(medium);
    FileSystem::format(&*layout, &*clock(), (0, 0)).unwrap();
    FileSystem::mount(layout, clock(), self::options()).unwrap()
}

fn mounted(medium: &Arc<dyn Medium>) -> Arc<Vlfs> {
    let options = VlfsMountOptions {
        seed: Some(2),
        ..VlfsMountOptions::default()
    };
    Arc::new(Vlfs::mount(Arc::clone(medium), clock(), options).unwrap())
}

fn again(medium: &Arc<dyn Medium>) -> System {
    FileSystem::mount(mounted(medium), clock(), options()).unwrap()
}

fn sound(medium: &Arc<dyn Medium>) {
    let found = check(Arc::clone(medium), clock(), true).unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
}

fn create(system: &System, name: &str) -> InodeNo {
    let root = Caller::root();
    let made = system.mknod(&root, InodeNo::ROOT, name.as_bytes(), 0o100644, 0);
    made.unwrap().ino
}

fn write(system: &System, ino: InodeNo, offset: u64, data: &[u8]) -> varve_fs::Result<usize> {
    system.write(&Caller::root(), ino, offset, data)
}

fn read(system: &System, ino: InodeNo, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let got = system.read(ino, offset, &mut bytes).unwrap();
    bytes.truncate(got);
    bytes
}

#[test]
fn what_is_synced_is_there_after_a_crash_and_after_an_unmount() {
    for (medium, unit) in [
        (memory(16 << 20, 4096), 0),
        (memory(16 << 20, 512), 512),
        (drive(), 0),
    ] {
        let system = made(&medium, unit);
        let small = create(&system, "small");
        write(&system, small, 0, b"hello").unwrap();
        let large = create(&system, "large");
        let content: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        write(&system, large, 0, &content).unwrap();
        let sparse = create(&system, "sparse");
        write(&system, sparse, 1 << 50, b"far out").unwrap();
        system.sync().unwrap();
        drop(system);
        sound(&medium);
        let system = again(&medium);
        assert!(!system.layout().recovery_report().walked);
        assert_eq!(read(&system, small, 0, 100), b"hello");
        assert_eq!(read(&system, large, 0, 4_000_000), content);
        assert_eq!(read(&system, sparse, 1 << 50, 100), b"far out");
        write(&system, large, 1_000_000, &[7; 5000]).unwrap();
        system.unmount().unwrap();
        system.layout().unmount().unwrap();
        sound(&medium);
        let system = again(&medium);
        assert!(system.layout().recovery_report().tail_record);
        assert_eq!(read(&system, large, 1_000_000, 5000), vec![7; 5000]);
        assert_eq!(read(&system, large, 0, 1_000_000), content[..1_000_000]);
    }
}

#[test]
fn a_full_volume_is_emptied_and_filled_again() {
    for unit in [4096, 512] {
        let medium = memory(12 << 20, unit);
        let system = made(&medium, unit);
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
                bytes > 7 << 20,
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
        system.unmount().unwrap();
        system.layout().unmount().unwrap();
        sound(&medium);
    }
}

#[test]
fn a_damaged_checkpoint_costs_a_walk_at_most() {
    let medium = memory(16 << 20, 4096);
    let system = made(&medium, 0);
    let file = create(&system, "file");
    for round in 0..40u8 {
        write(&system, file, u64::from(round) * 4096, &[round; 4096]).unwrap();
        system.fsync(file, false).unwrap();
        if round % 10 == 9 {
            system.checkpoint().unwrap();
        }
    }
    write(&system, file, 0, &[99; 4096]).unwrap();
    system.fsync(file, false).unwrap();
    let layout = system.layout();
    let newest = layout.writer.lock().checkpoints;
    let region = usize::from(newest[1] > newest[0]);
    let at = layout
        .measures()
        .block_byte(layout.measures().checkpoint_block(region));
    medium
        .write(at, &[std::io::IoSlice::new(&[0; 4096])])
        .unwrap();
    drop(system);
    sound(&medium);
    let system = again(&medium);
    assert_eq!(system.layout().recovery_report().checkpoints_damaged, 1);
    assert_eq!(read(&system, file, 0, 4096), vec![99; 4096]);
    for round in 1..40u8 {
        assert_eq!(
            read(&system, file, u64::from(round) * 4096, 4096),
            vec![round; 4096]
        );
    }
}

#[test]
fn recovery_reads_what_has_changed_and_nothing_else() {
    let medium = memory(64 << 20, 4096);
    let system = made(&medium, 0);
    for nth in 0..2000 {
        let file = create(&system, &format!("f{nth}"));
        write(&system, file, 0, &[1; 100]).unwrap();
    }
    system.checkpoint().unwrap();
    let file = create(&system, "one more");
    system.fsync(file, false).unwrap();
    drop(system);
    let layout = mounted(&medium);
    let report = layout.recovery_report();
    assert!(!report.walked);
    assert!(report.inodes_changed < 10, "{report:?}");
}

#[test]
fn room_waits_for_flush_and_checkpoint() {
    let medium = memory(16 << 20, 4096);
    let system = made(&medium, 0);
    let file = create(&system, "file");
    write(&system, file, 0, &[1; 4096]).unwrap();
    system.checkpoint().unwrap();
    let layout = system.layout();
    let place = |layout: &Vlfs| layout.map(View::Live, file, 0, 1).unwrap()[0].pointer;
    let first = place(layout);
    write(&system, file, 0, &[2; 4096]).unwrap();
    system.fsync(file, false).unwrap();
    assert_ne!(place(layout), first);
    let extent: Extent = layout.measures().extent_of(&first);
    assert!(!layout.writer.lock().space.tree.any(extent));
    assert!(layout.statistics().units_pinned >= 1);
    system.checkpoint().unwrap();
    assert_eq!(layout.statistics().units_pinned, 0);
}

#[test]
fn writing_stops_after_a_failed_flush_and_reads_go_on() {
    #[derive(Debug)]
    struct Failing(MemoryDevice, std::sync::atomic::AtomicBool);
    impl Device for Failing {
        fn geometry(&self) -> varve_device::Geometry {
            self.0.geometry()
        }
        fn read(&self, offset: u64, buffer: &mut [u8]) -> varve_device::Result<()> {
            self.0.read(offset, buffer)
        }
        fn write(&self, offset: u64, buffers: &[std::io::IoSlice<'_>]) -> varve_device::Result<()> {
            self.0.write(offset, buffers)
        }
        fn flush(&self) -> varve_device::Result<()> {
            match self.1.load(std::sync::atomic::Ordering::Relaxed) {
                false => Ok(()),
                true => Err(varve_device::DeviceError {
                    device: "failing".into(),
                    operation: varve_device::Operation::Flush,
                    offset: 0,
                    length: 0,
                    source: std::io::Error::other("no more"),
                }),
            }
        }
        fn name(&self) -> String {
            "failing".into()
        }
    }
    let failing = Arc::new(Failing(MemoryDevice::new(16 << 20), false.into()));
    let medium: Arc<dyn Medium> = Arc::new(InOrder(Arc::clone(&failing)));
    let system = made(&medium, 0);
    let file = create(&system, "file");
    write(&system, file, 0, b"kept").unwrap();
    system.sync().unwrap();
    failing.1.store(true, std::sync::atomic::Ordering::Relaxed);
    write(&system, file, 0, b"lost").unwrap();
    assert!(system.fsync(file, false).is_err());
    failing.1.store(false, std::sync::atomic::Ordering::Relaxed);
    assert!(system.fsync(file, false).is_err());
    assert!(system.layout().stopped().is_some());
    assert_eq!(read(&system, file, 0, 4).len(), 4);
    let usage: Usage = system.usage();
    assert!(usage.inodes >= 2);
}

#[test]
fn every_size_of_blocks_makes_a_volume() {
    for block_bytes in [4096, 8192, 16384, 32768, 65536] {
        let options = VlfsFormatOptions {
            block_bytes,
            seed: Some(1),
            ..VlfsFormatOptions::default()
        };
        let drive = drive_of(44);
        for medium in [memory(64 << 20, 4096), memory(64 << 20, 512), drive] {
            let made = format(&*medium, &*clock(), &options).unwrap();
            assert!(made.block_bytes.get() / made.unit_bytes.get() <= 8);
            mounted(&medium);
        }
    }
}
