//! Volumes that refused every removal, for good, and others filled the same way:
//! everything in them can be removed, and their room comes back (`docs/design/space.md`).

use std::collections::HashMap;
use std::io::{IoSlice, Read};
use std::ops::ControlFlow;
use std::sync::Arc;
use varve_device::{
    Clock, CrashExplorer, Device, Limits, MemoryDevice, RecordingDevice, VirtualClock,
};
use varve_fs::{Caller, Error, FileKind, FileSystem, InodeNo, Options};
use varve_fsck::check::{CheckOptions, check};
use varve_lfs::{FormatOptions, Lfs, MountOptions};

type Fs = FileSystem<Lfs>;

const MIB: u64 = 1 << 20;

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(1_000_000_000_000, 1000))
}

fn layout(device: &Arc<impl Device + 'static>) -> Lfs {
    let options = MountOptions {
        seed: Some(3),
        ..MountOptions::default()
    };
    Lfs::mount(device.clone(), clock(), options).unwrap()
}

fn mount(device: &Arc<impl Device + 'static>) -> Fs {
    FileSystem::mount(Arc::new(layout(device)), clock(), Options::default()).unwrap()
}

fn unmount(fs: Fs) {
    fs.unmount().unwrap();
    fs.layout().unmount().unwrap();
}

fn fresh(bytes: u64) -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(bytes));
    let format = FormatOptions {
        seed: Some(7),
        ..FormatOptions::default()
    };
    Lfs::format(&*device, &*clock(), &format).unwrap();
    let lfs = layout(&device);
    FileSystem::format(&lfs, &*clock(), (0, 0)).unwrap();
    lfs.unmount().unwrap();
    device
}

/// Names, kinds and numbers in a directory, in the order of its listing.
fn list(fs: &Fs, directory: InodeNo) -> Vec<(Vec<u8>, FileKind, InodeNo)> {
    let mut all = Vec::new();
    let mut take = |entry: varve_fs::Entry<'_>| {
        if entry.name != b"." && entry.name != b".." {
            all.push((entry.name.to_vec(), entry.kind, entry.ino));
        }
        true
    };
    fs.readdir(directory, 0, &mut take).unwrap();
    all
}

/// Removes everything below a directory, as `rm -r` does; returns how much that
/// was.
fn remove_all(fs: &Fs, directory: InodeNo) -> u64 {
    let (caller, mut removed) = (Caller::root(), 0);
    for (name, kind, ino) in list(fs, directory) {
        let gone = match kind {
            FileKind::Directory => {
                removed += remove_all(fs, ino);
                fs.rmdir(&caller, directory, &name)
            }
            _ => fs.unlink(&caller, directory, &name),
        };
        gone.unwrap_or_else(|error| panic!("after {removed} removals: {error}"));
        removed += 1;
    }
    removed
}

/// Nothing is there, the room is back, and the volume is sound.
fn is_as_good_as_new(fs: Fs, device: &Arc<MemoryDevice>) {
    fs.checkpoint().unwrap();
    let room = fs.statfs();
    assert_eq!(fs.usage().inodes, 1, "only the root");
    assert!(room.free * 100 >= room.blocks * 99, "{room:?}");
    unmount(fs);
    let report = check(device.clone(), clock(), &CheckOptions::default()).unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
}

/// A volume of an earlier version, as it was left.
fn case(image: &[u8]) -> Arc<MemoryDevice> {
    let mut bytes = Vec::new();
    let mut stream = ruzstd::decoding::StreamingDecoder::new(image).unwrap();
    stream.read_to_end(&mut bytes).unwrap();
    let device = Arc::new(MemoryDevice::new(bytes.len() as u64));
    device.write(0, &[IoSlice::new(&bytes)]).unwrap();
    device
}

fn is_emptied(name: &str, checkpoints: u32, removed: u64) {
    let path = format!("{}/tests/cases/{name}", env!("CARGO_MANIFEST_DIR"));
    let device = case(&std::fs::read(path).unwrap());
    let fs = mount(&device);
    for _ in 0..checkpoints {
        fs.checkpoint().unwrap();
    }
    assert_eq!(remove_all(&fs, InodeNo::ROOT), removed);
    is_as_good_as_new(fs, &device);
}

#[test]
fn a_volume_that_refused_every_unlink_is_emptied() {
    is_emptied("full-16m-no-unlink.img.zst", 0, 5357);
}

/// When removals begin to need room here, what is to be folded has that of all clean
/// segments: nothing can be moved before it is.
#[test]
fn a_volume_that_refused_every_rmdir_is_emptied() {
    is_emptied("full-64m-no-rmdir.img.zst", 0, 140_493);
}

/// A verification takes a checkpoint when it begins, which costs half of the segments
/// that are clean. What removals need is made when nothing is to be folded, or it is
/// gone again before.
#[test]
fn a_volume_that_refused_every_rmdir_is_emptied_behind_a_checkpoint() {
    is_emptied("full-64m-no-rmdir.img.zst", 1, 140_493);
}

/// More such cases may lie in a folder that `VARVE_CASES` names.
#[test]
fn volumes_that_are_kept_elsewhere_are_emptied() {
    let Ok(folder) = std::env::var("VARVE_CASES") else {
        eprintln!("SKIPPED: VARVE_CASES names no folder of volumes");
        return;
    };
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        eprintln!("{}", path.display());
        let device = case(&std::fs::read(&path).unwrap());
        let fs = mount(&device);
        assert!(remove_all(&fs, InodeNo::ROOT) > 0);
        is_as_good_as_new(fs, &device);
    }
}

/// Makes directories until nothing fits, dies, and removes them in the order of the
/// listing, which is by hashes: each removal changes another block of the inode map.
fn directories_come_and_go(device: &Arc<MemoryDevice>, upkeep: bool) {
    let bytes = device.geometry().size;
    let fs = mount(device);
    let caller = Caller::root();
    let mut made = 0;
    loop {
        let name = format!("d{made}");
        match fs.mkdir(&caller, InodeNo::ROOT, name.as_bytes(), 0o755) {
            Ok(_) => made += 1,
            Err(Error::NoSpace) => break,
            Err(error) => panic!("directory {made}: {error}"),
        }
        if upkeep {
            fs.maintain().unwrap();
        }
    }
    assert!(made > bytes / 700, "{made}");
    // Dead, and mounted again: the log is replayed on a full volume.
    fs.sync().unwrap();
    drop(fs);
    let fs = mount(device);
    eprintln!("{made} directories");
    assert_eq!(remove_all(&fs, InodeNo::ROOT), made);
    is_as_good_as_new(fs, device);
}

#[test]
fn directories_until_nothing_fits_are_removed_in_the_order_of_the_listing() {
    directories_come_and_go(&fresh(32 * MIB), true);
}

#[test]
fn the_same_of_a_volume_twice_as_large_without_upkeep() {
    directories_come_and_go(&fresh(64 * MIB), false);
}

/// Numbers that an emptied volume has forgotten get versions that none of their
/// files had: who still has a handle to one of those must not meet another file.
#[test]
fn an_emptied_volume_begins_its_inode_map_anew_and_versions_go_on() {
    let device = fresh(16 * MIB);
    let fs = mount(&device);
    let caller = Caller::root();
    let make = |fs: &Fs, name: &[u8]| {
        let made = fs.mknod(&caller, InodeNo::ROOT, name, 0o100_644, 0);
        made.unwrap()
    };
    let mut newest = HashMap::new();
    for round in 0..3 {
        for i in 0..1000 {
            let made = make(&fs, format!("{i}").as_bytes());
            let before = newest.insert(made.ino, made.version);
            assert!(before < Some(made.version), "round {round}, {i}");
        }
        fs.sync().unwrap();
        let with_map = fs.statfs().free;
        remove_all(&fs, InodeNo::ROOT);
        fs.checkpoint().unwrap();
        fs.checkpoint().unwrap();
        assert!(fs.statfs().free > with_map);
    }
    // The numbers begin anew, and a mount knows of their versions, too.
    unmount(fs);
    let fs = mount(&device);
    let made = make(&fs, b"first");
    assert_eq!(made.ino, InodeNo::FIRST);
    assert!(Some(&made.version) > newest.get(&made.ino));
    remove_all(&fs, InodeNo::ROOT);
    is_as_good_as_new(fs, &device);
}

/// A power cut at any write while the map begins anew: the volume is sound, and no
/// number comes back with a version that a file of before had.
#[test]
fn a_power_cut_while_the_map_begins_anew_leaves_the_one_or_the_other() {
    let device = fresh(8 * MIB);
    let fs = mount(&device);
    let caller = Caller::root();
    let mut versions = HashMap::new();
    for i in 0..300 {
        let name = format!("{i}");
        let made = fs.mknod(&caller, InodeNo::ROOT, name.as_bytes(), 0o100_644, 0);
        let made = made.unwrap();
        versions.insert(made.ino, made.version);
    }
    fs.checkpoint().unwrap();
    unmount(fs);
    let base = device.snapshot();
    let recorder = Arc::new(RecordingDevice::new(MemoryDevice::from_image(&base)));
    let fs = mount(&recorder);
    remove_all(&fs, InodeNo::ROOT);
    let with_map = fs.statfs().free;
    for i in 0..3 {
        fs.checkpoint().unwrap();
        let name = format!("new {i}");
        let made = fs.mknod(&caller, InodeNo::ROOT, name.as_bytes(), 0o100_644, 0);
        assert!(made.unwrap().ino.0 < 10, "the map begins anew");
        fs.sync().unwrap();
    }
    assert!(fs.statfs().free > with_map);
    unmount(fs);
    let trace = recorder.take_trace();
    let limits = Limits {
        exhaustive_writes: 4,
        random_subsets: 8,
        each_shape: 4,
        torn_writes: 2,
        torn_variants: 3,
        scattered: 1,
    };
    let mut explorer = CrashExplorer::new(&base, &trace, 4096, limits);
    let stops: Vec<usize> = explorer.stops().collect();
    let mut states = 0;
    for stop in stops {
        let outcome = explorer.for_each(stop, 1, |image, description| {
            states += 1;
            let device = Arc::new(MemoryDevice::from_image(&image));
            let report = check(device.clone(), clock(), &CheckOptions::default()).unwrap();
            let fs = mount(&device);
            let known: Vec<_> = list(&fs, InodeNo::ROOT).iter().map(|e| e.2).collect();
            let mut wrong = report
                .errors
                .iter()
                .map(|e| e.to_string())
                .collect::<Vec<_>>();
            for i in 0..5 {
                let name = format!("later {i}");
                let mode = 0o100_644;
                let made = fs.mknod(&caller, InodeNo::ROOT, name.as_bytes(), mode, 0);
                let made = made.unwrap();
                let before = versions.get(&made.ino);
                if known.contains(&made.ino) || before >= Some(&made.version) {
                    wrong.push(format!("{made:?}, version {before:?} before"));
                }
            }
            unmount(fs);
            match wrong.is_empty() {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(format!("{description}: {wrong:?}")),
            }
        });
        if let ControlFlow::Break(problem) = outcome {
            panic!("{problem}");
        }
    }
    eprintln!("{states} states");
    assert!(states > 100);
}
