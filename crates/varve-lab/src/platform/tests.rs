//! The platforms: what they do, and the same to the nanosecond.

use super::*;

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
    assert!(spent.host_ns > 0 && spent.drive.locate_ns() > 0);
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
