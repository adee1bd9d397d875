//! Windows of the log fetched by threads: what is read in the order it was
//! written comes from them, and is what was written.

use std::sync::Arc;
use varve_device::{Clock, Fault, FaultDevice, FaultKind, MemoryDevice, VirtualClock};
use varve_fs::{Caller, FileSystem, InodeNo, Options};
use varve_lfs::{FormatOptions, Lfs, MountOptions};

const FILES: u64 = 3000;

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(1_000_000_000_000, 1000))
}

/// Between 1 and 3000 bytes.
fn content(number: u64) -> Vec<u8> {
    let length = number * 37 % 3000 + 1;
    (0..length).map(|i| (i * 7 + number) as u8).collect()
}

/// A volume with so many files that were written one after the other, so many at a
/// time, its caches dropped.
fn volume(
    count: u64,
    together: u64,
) -> (
    Arc<FaultDevice<MemoryDevice>>,
    FileSystem<Lfs>,
    Vec<InodeNo>,
) {
    let device = Arc::new(FaultDevice::new(MemoryDevice::new(64 << 20), 1));
    Lfs::format(&*device, &*clock(), &FormatOptions::default()).unwrap();
    let lfs = Lfs::mount(device.clone(), clock(), MountOptions::default()).unwrap();
    FileSystem::format(&lfs, &*clock(), (0, 0)).unwrap();
    lfs.unmount().unwrap();
    let options = MountOptions {
        read_threads: 2,
        ..MountOptions::default()
    };
    let lfs = Lfs::mount(device.clone(), clock(), options).unwrap();
    let fs = FileSystem::mount(Arc::new(lfs), clock(), Options::default()).unwrap();
    let (root, caller) = (InodeNo::ROOT, Caller::root());
    let make = |number: u64| {
        let name = format!("f{number}");
        let made = fs.mknod(&caller, root, name.as_bytes(), 0o100_644, 0);
        let file = made.unwrap().ino;
        let data = content(number);
        fs.write(&caller, file, 0, &data).unwrap();
        if number % together == together - 1 {
            fs.sync().unwrap();
        }
        file
    };
    let files = (0..count).map(make).collect();
    fs.sync().unwrap();
    fs.drop_caches();
    fs.layout().drop_caches();
    (device, fs, files)
}

/// Reads everything, and counts the files that cannot be read.
fn lost(fs: &FileSystem<Lfs>, files: &[InodeNo]) -> usize {
    let mut read = vec![0; 4096];
    let mut lost = 0;
    for (number, file) in (0..).zip(files) {
        match fs.read(*file, 0, &mut read) {
            Ok(n) => assert!(read[..n] == content(number), "file {number}"),
            Err(error) => {
                assert_eq!(error.errno(), 5, "file {number}: {error}");
                lost += 1;
            }
        }
    }
    lost
}

#[test]
fn what_threads_fetch_ahead_is_what_was_written() {
    let (_, fs, files) = volume(FILES, FILES);
    assert_eq!(lost(&fs, &files), 0);
    let statistics = fs.layout().statistics();
    assert!(statistics.windows_ahead > 0, "{statistics:?}");
    assert!(statistics.windows_ahead < statistics.windows_read);
    assert_eq!(statistics.checksum_retries, 0);
}

#[test]
fn a_bad_place_costs_the_files_on_it_and_not_their_neighbours() {
    let (device, fs, files) = volume(FILES, FILES);
    let bad = 3 << 20..(3 << 20) + 4096;
    device.inject(Fault::sticky(FaultKind::ReadError).within(bad));
    let lost = lost(&fs, &files);
    assert!((1..=16).contains(&lost), "{lost} files");
    assert!(fs.layout().statistics().windows_ahead > 0);
}

/// Lists the root as `ls -l` on a mount does, with so many names in a request; answers
/// how often the device was asked.
fn list(device: &FaultDevice<MemoryDevice>, fs: &FileSystem<Lfs>, is_told: bool) -> u64 {
    fs.drop_caches();
    fs.layout().drop_caches();
    let before = device.operations();
    let (mut after, mut seen) = (2, 0);
    loop {
        let (start, mut listed) = (after, Vec::new());
        fs.readdir(InodeNo::ROOT, start, &mut |entry| {
            after = entry.cookie;
            listed.push(entry.ino);
            listed.len() < 25
        })
        .unwrap();
        if is_told && start > 2 {
            fs.read_inodes_ahead(InodeNo::ROOT, start, listed.iter().copied());
        }
        for ino in &listed {
            assert_eq!(fs.getattr(*ino).unwrap().ino, *ino);
        }
        seen += listed.len() as u64;
        if listed.len() < 25 {
            assert_eq!(seen, 4 * FILES);
            return device.operations() - before;
        }
    }
}

#[test]
fn inodes_of_a_listing_are_read_in_their_order() {
    // More than the windows of the log hold at once.
    let (device, fs, _) = volume(4 * FILES, 40);
    let (alone, ahead) = (list(&device, &fs, false), list(&device, &fs, true));
    assert!(ahead * 4 < alone, "{ahead} requests, {alone} without");
}
