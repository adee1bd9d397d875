//! Failures of the device in service: tried again, told, never hidden.

use std::sync::Arc;
use varve_device::{
    Fault, FaultDevice, FaultKind, MemoryDevice, MemoryImage, Repeat, VirtualClock,
};
use varve_fs::{Caller, FileSystem, InodeNo, Layout, Options};
use varve_lfs::{FailureKind, FailureOutcome, FormatOptions, Lfs, MountOptions};

type Device = FaultDevice<MemoryDevice>;

struct Volume {
    device: Arc<Device>,
    lfs: Arc<Lfs>,
    system: FileSystem<Lfs>,
}

fn volume() -> Volume {
    let device = Arc::new(FaultDevice::new(MemoryDevice::new(16 << 20), 7));
    let clock = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
    let format = FormatOptions {
        seed: Some(7),
        ..FormatOptions::default()
    };
    Lfs::format(&*device, &*clock, &format).unwrap();
    let options = MountOptions {
        seed: Some(1),
        ..MountOptions::default()
    };
    let lfs = Arc::new(Lfs::mount(device.clone(), clock.clone(), options).unwrap());
    FileSystem::format(&*lfs, &*clock, (0, 0)).unwrap();
    let system = FileSystem::mount(lfs.clone(), clock, Options::default()).unwrap();
    Volume {
        device,
        lfs,
        system,
    }
}

impl Volume {
    fn file(&self, name: &str, data: &[u8]) -> InodeNo {
        let (root, caller) = (InodeNo::ROOT, Caller::root());
        let made = self.system.mknod(&caller, root, name.as_bytes(), 0o644, 0);
        let ino = made.unwrap().ino;
        self.system.write(&caller, ino, 0, data).unwrap();
        ino
    }

    fn read(&self, ino: InodeNo, length: usize) -> varve_fs::Result<Vec<u8>> {
        let mut buffer = vec![0; length];
        let read = self.system.read(ino, 0, &mut buffer)?;
        buffer.truncate(read);
        Ok(buffer)
    }

    fn forget(&self) {
        self.system.drop_caches();
        self.lfs.drop_caches();
    }

    fn inject(&self, kind: FaultKind, repeat: Repeat) {
        self.device.inject(Fault::once(kind).repeat(repeat));
    }
}

#[test]
fn a_read_that_fails_once_is_cured_and_told() {
    let v = volume();
    let data = vec![7; 10_000];
    let ino = v.file("a", &data);
    v.system.sync().unwrap();
    v.forget();
    v.inject(FaultKind::ReadError, Repeat::Times(1));
    assert_eq!(v.read(ino, 20_000).unwrap(), data);
    let s = v.lfs.statistics();
    assert_eq!((s.read_retries, s.reads_cured, s.reads_failed), (1, 1, 0));
    let failure = &v.lfs.failures()[0];
    assert_eq!(failure.kind, FailureKind::Read);
    assert_eq!(failure.outcome, FailureOutcome::Cured);
    assert!(failure.segment.is_some() && failure.time_ns > 0);
    assert_eq!(v.lfs.stopped(), None);
}

#[test]
fn a_misread_is_read_again_before_it_is_believed() {
    let v = volume();
    let data = vec![9; 10_000];
    let ino = v.file("a", &data);
    v.system.sync().unwrap();
    v.forget();
    v.inject(FaultKind::BitFlipOnRead, Repeat::Times(1));
    assert_eq!(v.read(ino, 20_000).unwrap(), data);
    let s = v.lfs.statistics();
    assert_eq!(
        (s.checksum_retries, s.checksums_cured, s.checksum_failures),
        (1, 1, 0)
    );
}

#[test]
fn a_read_that_keeps_failing_names_its_file_and_leaves_the_volume_writable() {
    let v = volume();
    let ino = v.file("a", &[7; 10_000]);
    v.system.sync().unwrap();
    v.read(ino, 1).unwrap(); // the inode is in memory
    v.system.drop_caches();
    v.read(ino, 0).unwrap();
    v.inject(FaultKind::ReadError, Repeat::Sticky);
    let error = v.read(ino, 20_000).unwrap_err();
    assert_eq!(error.errno(), 5, "{error}");
    v.device.clear_faults();
    let s = v.lfs.statistics();
    assert!(s.reads_failed > 0);
    let failures = v.lfs.failures();
    let named = failures.iter().any(|f| f.inode == Some(ino.0));
    assert!(named, "{failures:?}");
    assert_eq!(v.read(ino, 20_000).unwrap().len(), 10_000);
    v.file("b", b"still writable");
    v.system.sync().unwrap();
}

#[test]
fn a_write_that_fails_once_is_cured_and_one_that_keeps_failing_goes_elsewhere() {
    let v = volume();
    let a = v.file("a", &[1; 5000]);
    v.inject(FaultKind::WriteError, Repeat::Times(1));
    v.system.fsync(a, false).unwrap();
    let s = v.lfs.statistics();
    assert_eq!(
        (s.write_retries, s.writes_cured, s.writes_failed),
        (1, 1, 0)
    );
    let b = v.file("b", &[2; 5000]);
    v.inject(FaultKind::WriteError, Repeat::Times(3));
    v.system.fsync(b, false).unwrap();
    let s = v.lfs.statistics();
    assert_eq!((s.writes_failed, s.relocated_partials), (1, 1));
    v.forget();
    assert_eq!(v.read(a, 5000).unwrap(), vec![1; 5000]);
    assert_eq!(v.read(b, 5000).unwrap(), vec![2; 5000]);
    let outcomes: Vec<_> = v.lfs.failures().iter().map(|f| f.outcome).collect();
    assert_eq!(
        outcomes,
        [FailureOutcome::Cured, FailureOutcome::Failed],
        "{:?}",
        v.lfs.failures()
    );
}

#[test]
fn a_checkpoint_record_is_written_again_before_the_volume_stops() {
    let v = volume();
    v.file("a", &[1; 5000]);
    v.system.sync().unwrap();
    for kind in [FaultKind::WriteError, FaultKind::TornWrite] {
        // Of a checkpoint's writes, each in turn.
        for nth in 0..6 {
            v.file(&format!("{kind:?}{nth}"), &[1; 100]);
            v.device.inject(Fault::once(kind).after(nth));
            v.system.checkpoint().unwrap();
            v.device.clear_faults();
        }
    }
    assert_eq!(v.lfs.stopped(), None);
    assert!(v.lfs.statistics().writes_cured >= 6);
}

#[test]
fn a_failed_flush_is_reported_and_stops_the_volume() {
    let v = volume();
    let a = v.file("a", &[1; 5000]);
    v.inject(FaultKind::FlushFails, Repeat::Times(1));
    assert!(v.system.fsync(a, false).is_err());
    assert_eq!(v.lfs.statistics().flushes_failed, 1);
    assert!(v.lfs.stopped().unwrap().contains("never retried"));
    let failure = v.lfs.failures().pop().unwrap();
    assert_eq!(failure.kind, FailureKind::Flush);
    assert_eq!(v.read(a, 5000).unwrap(), vec![1; 5000]);
}

#[test]
fn a_misread_at_the_logs_end_loses_nothing() {
    // Every read of a mount in turn has a bit wrong, once.
    let v = volume();
    let a = v.file("a", &[1; 5000]);
    v.system.fsync(a, false).unwrap();
    let image = v.device.inner().snapshot();
    for nth in 0..200 {
        let device = Arc::new(FaultDevice::new(MemoryDevice::from_image(&image), nth));
        device.inject(Fault::once(FaultKind::BitFlipOnRead).after(nth));
        let clock = Arc::new(VirtualClock::new(2_000_000_000_000, 1000));
        let lfs = Lfs::mount(device.clone(), clock.clone(), MountOptions::default()).unwrap();
        let struck = device.report().total() > 0;
        assert!(lfs.recovery_report().groups > 0, "read {nth}");
        assert_eq!(lfs.stopped(), None, "read {nth}");
        let system = FileSystem::mount(Arc::new(lfs), clock, Options::default()).unwrap();
        let mut buffer = vec![0; 5000];
        let read = system.read(a, 0, &mut buffer).unwrap();
        assert!(read == 5000 && buffer == vec![1; 5000], "read {nth}");
        if !struck {
            assert!(nth > 5, "only {nth} reads");
            return;
        }
    }
}

/// Files of which the cleaner has something to move, and what they hold.
fn worn() -> (MemoryImage, Vec<(String, Vec<u8>)>) {
    let v = volume();
    let mut files = Vec::new();
    for nth in 0..30u8 {
        let (name, data) = (format!("file {nth}"), vec![nth; 3000 * usize::from(nth)]);
        let ino = v.file(&name, &data);
        if nth % 3 == 0 {
            let value = vec![nth; 700];
            let set = v
                .system
                .setxattr(&Caller::root(), ino, b"user.x", &value, false, false);
            set.unwrap();
        }
        if nth % 6 == 5 {
            v.system.checkpoint().unwrap();
        }
        files.push((name, data));
    }
    files.retain(|(name, data)| {
        let keep = data[..].first().is_none_or(|&nth| nth % 5 != 2);
        if !keep {
            let gone = v
                .system
                .unlink(&Caller::root(), InodeNo::ROOT, name.as_bytes());
            gone.unwrap();
        }
        keep
    });
    v.system.unmount().unwrap();
    v.lfs.unmount().unwrap();
    (v.device.inner().snapshot(), files)
}

/// Cleans the emptiest segments and takes two checkpoints; stops at an error.
fn clean_and_checkpoint(lfs: &Lfs) -> varve_fs::Result<()> {
    let mut candidates = lfs.cleaner().candidates();
    candidates.sort_by_key(|candidate| candidate.live_bytes);
    for candidate in candidates.iter().take(4) {
        lfs.cleaner().clean_segment(candidate.segment)?;
    }
    lfs.cleaner().clean_batch()?;
    for _ in 0..2 {
        lfs.checkpoint()?;
    }
    Ok(())
}

/// Every request of cleaning and of the checkpoints behind it fails, once or
/// from then on: what had been committed is there for the next mount.
#[test]
fn a_device_that_fails_anywhere_in_cleaning_and_checkpoints() {
    let (image, files) = worn();
    let clock = || Arc::new(VirtualClock::new(2_000_000_000_000, 1000));
    let options = || MountOptions {
        seed: Some(1),
        ..MountOptions::default()
    };
    let (mut stopped, mut went_on) = (0, 0);
    for fault in [
        Fault::once(FaultKind::ReadError),
        Fault::sticky(FaultKind::ReadError),
        Fault::once(FaultKind::BitFlipOnRead),
        Fault::sticky(FaultKind::BitFlipOnRead),
        Fault::sticky(FaultKind::WriteError),
        Fault::sticky(FaultKind::TornWrite),
        Fault::once(FaultKind::FlushFails),
        Fault::sticky(FaultKind::DeadDevice),
    ] {
        for nth in 0.. {
            let device = Arc::new(FaultDevice::new(MemoryDevice::from_image(&image), nth));
            let lfs = Lfs::mount(device.clone(), clock(), options()).unwrap();
            device.inject(fault.clone().after(nth));
            let done = clean_and_checkpoint(&lfs);
            let struck = device.report().total() > 0;
            stopped += u64::from(lfs.stopped().is_some());
            went_on += u64::from(struck && lfs.stopped().is_none());
            if let Ok(()) = done {
                assert_eq!(lfs.stopped(), None, "{fault:?}, request {nth}");
            }
            drop(lfs);
            let left = Arc::new(MemoryDevice::from_image(&device.inner().snapshot()));
            let lfs = Lfs::mount(left, clock(), options()).unwrap();
            let damage = &lfs.recovery_report().damage;
            assert!(damage.is_empty(), "{fault:?}, request {nth}: {damage:?}");
            let system = FileSystem::mount(Arc::new(lfs), clock(), Options::default()).unwrap();
            for (name, data) in &files {
                let caller = Caller::root();
                let attr = system.lookup(&caller, InodeNo::ROOT, name.as_bytes());
                let mut found = vec![0; data.len() + 1];
                let read = system.read(attr.unwrap().ino, 0, &mut found).unwrap();
                assert!(
                    found[..read] == data[..],
                    "{fault:?}, request {nth}: {name}"
                );
            }
            if !struck {
                assert!(nth > 1, "{fault:?} met {nth} requests");
                break;
            }
        }
    }
    assert!(stopped > 0 && went_on > 0, "{stopped} and {went_on}");
}

/// With `discard`, segments that become clean are given back to the device
/// before anybody may write there; a device that refuses is no reason to stop.
#[test]
fn segments_that_become_clean_are_discarded_and_may_refuse() {
    let (image, files) = worn();
    for refuses in [false, true] {
        let inner = MemoryDevice::from_image(&image);
        let device = Arc::new(FaultDevice::new(inner, 1));
        let clock = Arc::new(VirtualClock::new(2_000_000_000_000, 1000));
        let options = MountOptions {
            seed: Some(1),
            discard: true,
            ..MountOptions::default()
        };
        let lfs = Arc::new(Lfs::mount(device.clone(), clock.clone(), options).unwrap());
        if refuses {
            device.inject(Fault::sticky(FaultKind::DiscardError));
        }
        for _ in 0..3 {
            clean_and_checkpoint(&lfs).unwrap();
        }
        let emptied = lfs.statistics().segments_emptied;
        let discards = device.inner().counters().snapshot().discards;
        assert!(emptied > 0);
        assert_eq!(discards, if refuses { 0 } else { emptied });
        assert_eq!(lfs.stopped(), None);
        let system = FileSystem::mount(lfs, clock, Options::default()).unwrap();
        for (name, data) in &files {
            let caller = Caller::root();
            let attr = system.lookup(&caller, InodeNo::ROOT, name.as_bytes());
            let mut found = vec![0; data.len() + 1];
            let read = system.read(attr.unwrap().ino, 0, &mut found).unwrap();
            assert!(found[..read] == data[..], "{name}");
        }
    }
}
