//! The platforms: what they do, and the same to the nanosecond.

use super::*;
use std::io::IoSlice;
use varve_device::Device;

fn platforms() -> [Platform; 6] {
    [
        Platform::new(Layout::UFS, Disk::Regular),
        Platform::new(
            Layout::Ffs(Ffs {
                maxcontig: 1,
                rotdelay: 2,
                ..Ffs::UFS
            }),
            Disk::Regular,
        ),
        Platform::new(Layout::UFS, Disk::VirtualLog),
        Platform::new(Layout::Lfs, Disk::Regular),
        Platform::new(Layout::Lfs, Disk::VirtualLog),
        Platform::new(Layout::Vlfs, Disk::Regular),
    ]
}

/// A little of everything; the time at the end.
fn story(platform: &Platform, seed: u64) -> u64 {
    let mut system = platform.build(seed).unwrap();
    for file in 0..40 {
        system.create(file).unwrap();
        system.write(file, 0, 1024, file % 2 == 0).unwrap();
    }
    for block in 0..200 {
        system.write(7, block * BLOCK, 4096, false).unwrap();
    }
    system.sync().unwrap();
    system.forget();
    for block in (0..200).rev() {
        system.read(7, block * BLOCK, 4096).unwrap();
        system.write(7, block * BLOCK, 4096, true).unwrap();
    }
    for file in 10..20 {
        system.read(file, 0, 1024).unwrap();
        system.delete(file).unwrap();
        system.sync_names().unwrap();
    }
    system.sync().unwrap();
    let until = system.now_ns() + 20_000_000;
    system.idle(until).unwrap();
    assert!(system.now_ns() >= until);
    let spent = system.store().spent();
    assert!(spent.host_ns > 0);
    let locates = spent.drive.locate_ns() > 0;
    assert_eq!(locates, platform.disk != Disk::Flash, "only an arm does");
    let idle = spent.total_ns - spent.host_ns - spent.drive.total_ns();
    assert!(
        idle <= 20_000_000,
        "time is the host's, the drive's, or idle"
    );
    assert!(system.read(10, 0, 1024).is_err(), "it was removed");
    system.now_ns()
}

#[test]
fn the_same_seed_gives_the_same_instants() {
    for platform in platforms() {
        let first = story(&platform, 3);
        assert_eq!(first, story(&platform, 3), "{platform:?}");
        assert_ne!(first, story(&platform, 4), "the platter stands elsewhere");
    }
}

#[test]
fn an_nvme_like_device_takes_the_place_of_the_drive() {
    for layout in [Layout::UFS, Layout::Lfs, Layout::Vlfs] {
        let on = |disk| story(&Platform::new(layout, disk), 3);
        let (flash, drive) = (on(Disk::Flash), on(Disk::Regular));
        assert_eq!(flash, on(Disk::Flash), "{layout:?}");
        assert!(flash < drive / 2, "{layout:?}: {flash} and {drive} ns");
    }
}

#[test]
fn a_host_s_cycles_take_its_time() {
    let spent = |host: Host| {
        let drive = seagate();
        let platform = Platform::new(Layout::UFS, Disk::Regular).on(drive, host);
        let mut system = platform.build(1).unwrap();
        system.create(0).unwrap();
        system.store().cpu().spent_ns()
    };
    let slow = spent(Host::SPARCSTATION_10);
    let fast = spent(Host::ULTRASPARC_170);
    assert!((slow as f64 / fast as f64 - 167.0 / 50.0).abs() < 0.01);
    let twice = spent(Host::SPARCSTATION_10.with_effort(2.0));
    assert_eq!(twice, 2 * slow);
}

/// Host and drive at work at the same time, and so many bytes of writes between them.
fn overlapping(layout: Layout, queue_bytes: u64) -> Platform {
    Platform {
        overlap: Some(Overlap {
            queue_bytes,
            command_bytes: 64 << 10,
            quantum_ns: 100_000_000,
            write_back_bytes: Some(64 << 10),
            read_ahead_threads: 1,
        }),
        ..Platform::new(layout, Disk::Regular)
    }
}

#[test]
fn writes_go_on_while_the_host_computes_and_a_flush_waits_for_them() {
    // What writing, computing and flushing take.
    let times = |queue_bytes: u64, compute_s: f64| {
        let platform = overlapping(Layout::Lfs, queue_bytes);
        let store = platform.store(1).unwrap();
        let now = || store.now_ns();
        store.write(0, &[IoSlice::new(&[1; 256 << 10])]).unwrap();
        let written = now();
        store.cpu().compute(compute_s);
        let computed = now();
        store.flush().unwrap();
        [written, computed - written, now() - computed]
    };
    let all = times(1 << 20, 0.0);
    let commands = 4 * store_command_ns();
    assert_eq!(all[0], commands, "it waits for its commands alone");
    assert!(all[2] > 10_000_000, "{all:?}");
    let beside = times(1 << 20, 0.005);
    assert_eq!(beside[2], all[2] - 5_000_000, "they went on meanwhile");
    assert_eq!(times(1 << 20, 1.0)[2], 0, "they were done");
    let narrow = times(64 << 10, 0.0);
    assert!(
        narrow[0] > all[0] + 10_000_000,
        "there was room for one: {narrow:?}"
    );
}

fn store_command_ns() -> u64 {
    host::COMMAND * 1_000_000_000 / Host::SPARCSTATION_10.hz
}

#[test]
fn overlapping_platforms_read_what_was_written_and_give_the_same_instants() {
    for layout in [Layout::UFS, Layout::Lfs] {
        let story = |seed| {
            let platform = overlapping(layout, 1 << 20);
            let store = platform.store(seed).unwrap();
            let (_threads, _part) = threads::Threads::new(Arc::clone(store.clock()));
            let mut system = platform.mount(Arc::clone(&store), seed).unwrap();
            for file in 0..4 {
                system.create(file).unwrap();
                system.write(file, 0, 1 << 20, false).unwrap();
            }
            system.sync().unwrap();
            system.forget();
            (0..4).for_each(|file| system.read(file, 0, 1 << 20).unwrap());
            system.now_ns()
        };
        let first = story(3);
        assert_eq!(first, story(3));
        assert_ne!(first, story(4), "the platter stands elsewhere");
    }
}
