//! Extended attributes as long as Linux allows them.

use std::io::IoSlice;
use std::ops::ControlFlow;
use std::sync::Arc;
use varve_device::{
    Clock, CrashExplorer, Device, Limits, MemoryDevice, RecordingDevice, VirtualClock,
};
use varve_fs::{Caller, Error, FileSystem, InodeNo, Layout, Options, Result};
use varve_fsck::check::{CheckOptions, check};
use varve_lfs::format::Superblock;
use varve_lfs::format::superblock::incompat_flags;
use varve_lfs::{FormatOptions, Lfs, MountOptions};

type Fs = FileSystem<Lfs>;

/// Bytes that an attribute named `user.N` takes beside its value.
const BESIDE: usize = 5 + 6;

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(1_000_000_000_000, 1000))
}

fn fresh(bytes: u64) -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(bytes));
    let options = FormatOptions {
        segment_bytes: 256 << 10,
        ..FormatOptions::default()
    };
    Lfs::format(&*device, &*clock(), &options).unwrap();
    let lfs = Lfs::mount(device.clone(), clock(), MountOptions::default()).unwrap();
    FileSystem::format(&lfs, &*clock(), (0, 0)).unwrap();
    lfs.unmount().unwrap();
    device
}

fn mount(device: &Arc<impl Device + 'static>) -> Fs {
    let lfs = Lfs::mount(device.clone(), clock(), MountOptions::default()).unwrap();
    FileSystem::mount(Arc::new(lfs), clock(), Options::default()).unwrap()
}

fn unmount(fs: Fs) {
    fs.unmount().unwrap();
    fs.layout().unmount().unwrap();
}

fn create(fs: &Fs, name: &str) -> Result<InodeNo> {
    let root = Caller::root();
    fs.mknod(&root, InodeNo::ROOT, name.as_bytes(), 0o100_644, 0)
        .map(|inode| inode.ino)
}

fn set(fs: &Fs, ino: InodeNo, name: &str, byte: u8, bytes: usize) -> Result<()> {
    let value = vec![byte; bytes];
    fs.setxattr(&Caller::root(), ino, name.as_bytes(), &value, false, false)
}

fn get(fs: &Fs, ino: InodeNo, name: &str) -> Result<Vec<u8>> {
    fs.getxattr(&Caller::root(), ino, name.as_bytes())
}

fn remove(fs: &Fs, ino: InodeNo, name: &str) -> Result<()> {
    fs.removexattr(&Caller::root(), ino, name.as_bytes())
}

fn is_sound(device: &Arc<MemoryDevice>) {
    let report = check(device.clone(), clock(), &CheckOptions::default()).unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
}

#[test]
fn values_of_65536_bytes_and_all_that_a_pointer_can_count() {
    let device = fresh(64 << 20);
    let fs = mount(&device);
    let most = fs.layout().geometry().xattr_bytes;
    assert_eq!(most, 130_560);
    let ino = create(&fs, "f").unwrap();
    set(&fs, ino, "user.1", 1, 65_536).unwrap();
    let rest = most - 65_536 - 2 * BESIDE;
    let refused = set(&fs, ino, "user.2", 2, rest + 1);
    assert!(matches!(refused, Err(Error::NoSpace)), "{refused:?}");
    set(&fs, ino, "user.2", 2, rest).unwrap();
    unmount(fs);
    is_sound(&device);
    let fs = mount(&device);
    assert_eq!(get(&fs, ino, "user.1").unwrap(), vec![1; 65_536]);
    assert_eq!(get(&fs, ino, "user.2").unwrap(), vec![2; rest]);
    remove(&fs, ino, "user.1").unwrap();
    unmount(fs);
    let fs = mount(&device);
    assert_eq!(get(&fs, ino, "user.2").unwrap(), vec![2; rest]);
}

#[test]
fn volumes_of_earlier_versions_keep_their_limit() {
    let device = fresh(64 << 20);
    let mut superblock = {
        let lfs = Lfs::mount(device.clone(), clock(), MountOptions::default()).unwrap();
        let superblock = *lfs.superblock();
        lfs.unmount().unwrap();
        superblock
    };
    superblock.incompat = (superblock.incompat.get() & !incompat_flags::LONG_XATTRS).into();
    let sealed: Superblock = superblock.sealed_for(0);
    let bytes = zerocopy::IntoBytes::as_bytes(&sealed);
    device.write(0, &[IoSlice::new(bytes)]).unwrap();
    let fs = mount(&device);
    let ino = create(&fs, "f").unwrap();
    let refused = set(&fs, ino, "user.1", 1, 65_536);
    assert!(matches!(refused, Err(Error::NoSpace)), "{refused:?}");
    set(&fs, ino, "user.1", 1, 65_536 - BESIDE).unwrap();
    unmount(fs);
}

/// Fills a volume with files of such attributes, and says which are whole.
fn fill(fs: &Fs, sizes: impl Fn(usize) -> (usize, usize)) -> Vec<InodeNo> {
    let mut whole = Vec::new();
    for i in 0.. {
        let made = create(fs, &i.to_string()).and_then(|ino| {
            let (first, second) = sizes(i);
            set(fs, ino, "user.1", 1, first)?;
            set(fs, ino, "user.2", 2, second)?;
            Ok(ino)
        });
        match made {
            Ok(ino) => {
                whole.push(ino);
                fs.maintain().unwrap();
            }
            Err(Error::NoSpace) => return whole,
            Err(error) => panic!("file {i}: {error}"),
        }
    }
    unreachable!("a volume that is never full")
}

fn files(fs: &Fs) -> Vec<(Vec<u8>, InodeNo)> {
    let mut all = Vec::new();
    let mut take = |entry: varve_fs::Entry<'_>| {
        if !entry.name.starts_with(b".") {
            all.push((entry.name.to_vec(), entry.ino));
        }
        true
    };
    fs.readdir(InodeNo::ROOT, 0, &mut take).unwrap();
    all
}

fn unlink_all(fs: &Fs) {
    for (name, _) in files(fs) {
        fs.unlink(&Caller::root(), InodeNo::ROOT, &name).unwrap();
    }
    fs.checkpoint().unwrap();
    let room = fs.statfs();
    assert!(room.free * 100 >= room.blocks * 99, "{room:?}");
}

/// The longest attributes until nothing fits: two hardly share a segment, and
/// cleaning gains little. They can be removed one by one, and leave nothing behind.
#[test]
fn a_volume_full_of_the_longest_attributes_is_emptied() {
    let device = fresh(32 << 20);
    let fs = mount(&device);
    let most = fs.layout().geometry().xattr_bytes;
    let rest = most - 65_536 - 2 * BESIDE;
    let whole = fill(&fs, |i| (65_536, [rest, 9_000, 300][i % 3]));
    assert!(whole.len() > 150, "{}", whole.len());
    unmount(fs);
    let fs = mount(&device);
    for ino in whole {
        remove(&fs, ino, "user.1").unwrap();
    }
    unlink_all(&fs);
    unmount(fs);
    is_sound(&device);
}

/// Attributes of a sixth of a segment and less are written over on a full volume.
#[test]
fn a_volume_full_of_attributes_is_written_over() {
    let device = fresh(32 << 20);
    let fs = mount(&device);
    let whole = fill(&fs, |i| (30_000, [10_000, 3_000, 300][i % 3]));
    for &ino in &whole {
        set(&fs, ino, "user.1", 3, 30_000).unwrap();
    }
    unmount(fs);
    let fs = mount(&device);
    for ino in whole {
        assert_eq!(get(&fs, ino, "user.1").unwrap(), vec![3; 30_000]);
    }
    unlink_all(&fs);
    unmount(fs);
    is_sound(&device);
}

/// A power cut at any write: the attributes are those of before or those of after.
#[test]
fn long_attributes_are_replaced_as_a_whole() {
    let device = fresh(16 << 20);
    let fs = mount(&device);
    let ino = create(&fs, "f").unwrap();
    set(&fs, ino, "user.1", 1, 65_536).unwrap();
    fs.sync().unwrap();
    unmount(fs);
    let base = device.snapshot();
    let recorder = Arc::new(RecordingDevice::new(MemoryDevice::from_image(&base)));
    let fs = mount(&recorder);
    for byte in 2..5 {
        set(&fs, ino, "user.1", byte, 60_000).unwrap();
        set(&fs, ino, "user.2", byte, 60_000).unwrap();
        fs.sync().unwrap();
        remove(&fs, ino, "user.2").unwrap();
        fs.checkpoint().unwrap();
    }
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
        let outcome: ControlFlow<String> = explorer.for_each(stop, 1, |image, description| {
            states += 1;
            let device = Arc::new(MemoryDevice::from_image(&image));
            is_sound(&device);
            let fs = mount(&device);
            let first = get(&fs, ino, "user.1").unwrap();
            let is_old = first == vec![1; 65_536];
            let is_new = (2..5).any(|byte| first == vec![byte; 60_000]);
            let second = get(&fs, ino, "user.2");
            let goes_along = match &second {
                Ok(value) => value.len() == 60_000 && value[0] == first[0],
                Err(error) => matches!(error, Error::NoAttribute),
            };
            unmount(fs);
            match (is_old || is_new) && goes_along {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(format!("{description}: {:?}", &first[..1])),
            }
        });
        assert_eq!(outcome, ControlFlow::Continue(()));
    }
    eprintln!("{states} states");
    assert!(states > 50, "{states}");
}
