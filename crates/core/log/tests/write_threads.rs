//! Large groups written by threads: readable while they are on their way,
//! durable after a commit; a device that fails stops the volume, and nobody
//! waits for ever.

use std::sync::Arc;
use varve_device::{Clock, Device, Fault, FaultDevice, FaultKind, MemoryDevice, VirtualClock};
use varve_fs::{Caller, FileSystem, InodeNo, Options};
use varve_lfs::{FormatOptions, Lfs, MountOptions};

const MEGABYTE: usize = 1 << 20;
const MEGABYTES: u64 = 40;

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(1_000_000_000_000, 1000))
}

fn formatted() -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(128 << 20));
    Lfs::format(&*device, &*clock(), &FormatOptions::default()).unwrap();
    let lfs = Lfs::mount(device.clone(), clock(), MountOptions::default()).unwrap();
    FileSystem::format(&lfs, &*clock(), (0, 0)).unwrap();
    lfs.unmount().unwrap();
    device
}

fn mount(device: Arc<dyn Device>) -> FileSystem<Lfs> {
    let options = MountOptions {
        write_threads: 2,
        ..MountOptions::default()
    };
    let lfs = Lfs::mount(device, clock(), options).unwrap();
    FileSystem::mount(Arc::new(lfs), clock(), Options::default()).unwrap()
}

fn content(megabyte: u64) -> Vec<u8> {
    let byte = |i: usize| (i as u64 * 31 + i as u64 / 4096 + megabyte) as u8;
    (0..MEGABYTE).map(byte).collect()
}

fn create(fs: &FileSystem<Lfs>) -> InodeNo {
    let (root, caller) = (InodeNo::ROOT, Caller::root());
    fs.mknod(&caller, root, b"f", 0o100_644, 0).unwrap().ino
}

#[test]
fn what_is_on_its_way_is_read_and_survives_a_commit() {
    let device = formatted();
    let fs = mount(device.clone());
    let file = create(&fs);
    let mut read = vec![0; MEGABYTE];
    for megabyte in 0..MEGABYTES {
        let at = megabyte << 20;
        let (data, caller) = (content(megabyte), Caller::root());
        fs.write(&caller, file, at, &data).unwrap();
        fs.write_back().unwrap();
        fs.drop_caches();
        let back = megabyte / 2;
        fs.read(file, back << 20, &mut read).unwrap();
        assert!(read == content(back), "megabyte {back} after {megabyte}");
    }
    fs.fsync(file, false).unwrap();
    // A crash: the next mount has the device alone.
    let fs = mount(Arc::new(MemoryDevice::from_image(&device.snapshot())));
    for megabyte in 0..MEGABYTES {
        fs.read(file, megabyte << 20, &mut read).unwrap();
        assert!(read == content(megabyte), "megabyte {megabyte}");
    }
}

#[test]
fn a_failing_device_is_reported_to_whoever_waits() {
    let device = Arc::new(FaultDevice::new(formatted(), 1));
    let fs = mount(device.clone());
    let file = create(&fs);
    fs.sync().unwrap();
    device.inject(Fault::sticky(FaultKind::WriteError));
    let outcome = (0..MEGABYTES).try_for_each(|megabyte| {
        let (at, caller) = (megabyte << 20, Caller::root());
        fs.write(&caller, file, at, &content(megabyte))?;
        fs.write_back().map(drop)
    });
    // Writers learn of it sooner or later; whoever wants durability does.
    drop(outcome);
    assert!(fs.fsync(file, false).is_err());
    assert!(fs.layout().stopped().is_some());
}
