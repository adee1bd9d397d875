//! Possible sizes, and the result of failing devices. Power cuts at every point, and
//! sizes in any order against a model, are in `varve-prove`.

use super::*;
use crate::mkfs::{FormatOptions, default_segment_bytes, plan as plan_volume};
use varve_device::{Fault, FaultDevice, FaultKind, MemoryDevice, VirtualClock};
use varve_fs::{Caller, FileSystem, InodeNo, Options};
use varve_fsck::check::{CheckOptions, check};

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(1_000_000_000_000, 1000))
}

/// The superblock that mkfs makes for so many bytes, which need not exist.
fn made(bytes: u64, segment_bytes: u32) -> Superblock {
    let options = FormatOptions {
        segment_bytes,
        seed: Some(1),
        ..FormatOptions::default()
    };
    plan_volume(&MemoryDevice::new(bytes), &options, 0).unwrap()
}

#[test]
fn a_volume_that_grew_is_one_that_mkfs_would_have_made() {
    for (small, large) in [
        (16 << 20, 64 << 20),
        (60 << 20, 100 << 20),
        (1 << 30, 9 << 30),
    ] {
        let segment_bytes = default_segment_bytes(small);
        let grown = plan_resize(&made(small, 0), large + 511).unwrap();
        let new = made(large, segment_bytes);
        assert_eq!(grown.segment_count, new.segment_count);
        assert_eq!(grown.reserve_segments, new.reserve_segments);
        assert_eq!(grown.device_bytes, new.device_bytes);
        // All but the places of the copies.
        assert_eq!(grown.copy_stride, made(small, 0).copy_stride);
        let back = plan_resize(&grown, small).unwrap();
        assert_eq!(back.segment_count, made(small, 0).segment_count);
        assert_ne!(back.incompat.get() & incompat_flags::SHRUNK, 0);
    }
}

#[test]
fn sizes_that_cannot_be_are_refused_and_say_what_would_do() {
    let present = made(16 << 20, 0);
    let refused = |bytes: u64, why: &str| {
        let error = plan_resize(&present, bytes).unwrap_err().to_string();
        assert!(error.contains(why), "{bytes}: {error}");
    };
    for small in [0, 1, 4096, 65536, 1 << 20, 2 << 20] {
        refused(small, "are needed");
    }
    refused(28 << 30, "make a new volume with larger ones");
    for large in [1 << 50, u64::MAX / 2, u64::MAX] {
        refused(large, "use larger segments");
    }
    plan_resize(&present, 27 << 30).unwrap();
    // No step of the reserve takes more than is gained.
    let (mut last, mut kept) = (present, 0);
    for bytes in (16 << 20..80 << 20).step_by(64 << 10) {
        match plan_resize(&last, bytes) {
            Ok(planned) => {
                let gained = |sb: &Superblock| sb.segment_count.get() - sb.reserve_segments.get();
                assert!(gained(&planned) >= gained(&last), "{bytes}");
                last = planned;
            }
            Err(error) => {
                assert!(error.to_string().contains("more than is gained"), "{error}");
                kept += 1;
            }
        }
    }
    assert!(kept < 100, "{kept}");
}

/// A volume of 8 MiB with a file, on a device of 24 MiB that can fail.
fn volume() -> Arc<FaultDevice<MemoryDevice>> {
    let small = MemoryDevice::new(8 << 20);
    let options = FormatOptions {
        segment_bytes: 128 << 10,
        seed: Some(1),
        ..FormatOptions::default()
    };
    Lfs::format(&small, &*clock(), &options).unwrap();
    let device = MemoryDevice::new(24 << 20);
    let mut bytes = vec![0; 8 << 20];
    small.read(0, &mut bytes).unwrap();
    device.write(0, &[std::io::IoSlice::new(&bytes)]).unwrap();
    let device = Arc::new(FaultDevice::new(device, 1));
    let lfs = Lfs::mount(device.clone(), clock(), MountOptions::default()).unwrap();
    FileSystem::format(&lfs, &*clock(), (0, 0)).unwrap();
    lfs.unmount().unwrap();
    device
}

fn mounted(device: &Arc<FaultDevice<MemoryDevice>>) -> FileSystem<Lfs> {
    let lfs = Lfs::mount(device.clone(), clock(), MountOptions::default()).unwrap();
    FileSystem::mount(Arc::new(lfs), clock(), Options::default()).unwrap()
}

fn fill(system: &FileSystem<Lfs>, name: &[u8], bytes: usize) -> varve_fs::Result<()> {
    let caller = Caller::root();
    let made = system.mknod(&caller, InodeNo::ROOT, name, 0o100_644, 0)?;
    for at in (0..bytes).step_by(64 << 10) {
        system.write(&caller, made.ino, at as u64, &[7; 64 << 10])?;
    }
    system.sync()
}

fn sound(device: &Arc<FaultDevice<MemoryDevice>>) {
    let options = CheckOptions {
        data: true,
        ..CheckOptions::default()
    };
    let report = check(device.clone(), clock(), &options).unwrap();
    assert!(report.errors.is_empty(), "{report}");
}

#[test]
fn a_mount_whose_device_refuses_a_copy_goes_on_as_it_was() {
    let device = volume();
    let system = mounted(&device);
    let lfs = system.layout();
    fill(&system, b"before", 1 << 20).unwrap();
    let planned = plan_resize(lfs.superblock(), 24 << 20).unwrap();
    for copy in superblock_offsets(&planned) {
        device.inject(Fault::sticky(FaultKind::WriteError).within(copy..copy + 4096));
        let error = lfs.grow(None).unwrap_err();
        assert!(matches!(error, Error::Device(_)), "{error}");
        assert_eq!(lfs.stopped(), None);
        assert_eq!(lfs.superblock().device_bytes.get(), 8 << 20);
        device.clear_faults();
    }
    fill(&system, b"after", 1 << 20).unwrap();
    assert_eq!(lfs.grow(None).unwrap().bytes, 24 << 20);
    fill(&system, b"more", 10 << 20).unwrap();
    system.layout().unmount().unwrap();
    sound(&device);
}

#[test]
fn a_flush_that_fails_while_it_grows_stops_the_volume() {
    for nth in 0..2 {
        let device = volume();
        let system = mounted(&device);
        let lfs = system.layout();
        fill(&system, b"before", 1 << 20).unwrap();
        let flushes = lfs.statistics().flushes;
        lfs.checkpoints.take_checkpoint(false).unwrap();
        let taken = lfs.statistics().flushes - flushes;
        device.inject(Fault::once(FaultKind::FlushFails).after(taken + nth));
        assert!(lfs.grow(None).is_err());
        assert!(lfs.stopped().is_some(), "flush {nth}");
        assert!(fill(&system, b"after", 1 << 20).is_err());
        drop(system);
        sound(&device);
        let again = mounted(&device);
        assert_eq!(again.layout().stopped(), None);
        fill(&again, b"after", 1 << 20).unwrap();
    }
}

#[test]
fn what_a_device_refuses_offline_is_done_by_the_next_call() {
    let resized = |device: &Arc<FaultDevice<MemoryDevice>>, bytes| {
        let shared: Arc<dyn Device> = device.clone();
        let options = ResizeOptions {
            seed: Some(3),
            ..ResizeOptions::default()
        };
        resize(&shared, clock(), bytes, &options)
    };
    let mut refused = 0;
    for (kind, step) in [(FaultKind::WriteError, 3), (FaultKind::FlushFails, 1)] {
        for nth in (0..60).step_by(step) {
            let device = volume();
            let system = mounted(&device);
            fill(&system, b"file", 4 << 20).unwrap();
            system.layout().unmount().unwrap();
            resized(&device, 24 << 20).unwrap();
            device.inject(Fault::sticky(kind).after(nth));
            let outcome = resized(&device, 7 << 20);
            device.clear_faults();
            refused += u32::from(outcome.is_err());
            sound(&device);
            let after = resized(&device, 7 << 20).unwrap();
            assert_eq!(after.device_bytes.get(), 7 << 20);
            sound(&device);
        }
    }
    assert!(refused > 10, "{refused}");
}
