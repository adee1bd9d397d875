//! A volume filled to the last byte: deletes work, space comes back at once,
//! and nothing that was accepted is lost.

use std::sync::Arc;
use varve_device::{Clock, MemoryDevice, VirtualClock};
use varve_fs::{Caller, Error, FileSystem, InodeNo, Options};
use varve_lfs::{FormatOptions, Lfs, MountOptions};

type Fs = FileSystem<Lfs>;

struct Volume {
    device: Arc<MemoryDevice>,
    clock: Arc<dyn Clock>,
}

impl Volume {
    fn new(bytes: u64) -> Self {
        let device = Arc::new(MemoryDevice::new(bytes));
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
        let format = FormatOptions {
            seed: Some(7),
            ..FormatOptions::default()
        };
        Lfs::format(&*device, &*clock, &format).unwrap();
        let volume = Volume { device, clock };
        let lfs = volume.layout();
        FileSystem::format(&lfs, &*volume.clock, (0, 0)).unwrap();
        lfs.unmount().unwrap();
        volume
    }

    fn layout(&self) -> Lfs {
        let options = MountOptions {
            seed: Some(3),
            ..MountOptions::default()
        };
        Lfs::mount(self.device.clone(), self.clock.clone(), options).unwrap()
    }

    fn mount(&self) -> Fs {
        let options = Options {
            cache_bytes: 4 << 20,
            read_ahead_threads: 0,
            ..Options::default()
        };
        FileSystem::mount(Arc::new(self.layout()), self.clock.clone(), options).unwrap()
    }
}

fn name(i: u64) -> Vec<u8> {
    format!("f{i:05}").into_bytes()
}

fn content(i: u64, round: u64, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at as u64 * 7 + i * 13 + round * 31) as u8)
        .collect()
}

/// Writes files until the volume is full; returns how many are whole.
fn fill(fs: &Fs, round: u64, bytes: usize) -> u64 {
    let caller = Caller::root();
    for i in 0.. {
        let attr = match fs.mknod(&caller, InodeNo::ROOT, &name(i), 0o100_644, 0) {
            Ok(attr) => attr,
            Err(Error::NoSpace | Error::Exists) => return i,
            Err(error) => panic!("create {i}: {error}"),
        };
        match fs.write(&caller, attr.ino, 0, &content(i, round, bytes)) {
            Ok(written) if written == bytes => {}
            Ok(_) | Err(Error::NoSpace) => {
                fs.unlink(&caller, InodeNo::ROOT, &name(i)).unwrap();
                return i;
            }
            Err(error) => panic!("write {i}: {error}"),
        }
        fs.write_back().unwrap();
    }
    unreachable!("volumes are finite")
}

fn verify(fs: &Fs, from: u64, to: u64, round: u64, bytes: usize) {
    let caller = Caller::root();
    let mut buffer = vec![0; bytes + 1];
    for i in from..to {
        let attr = fs.lookup(&caller, InodeNo::ROOT, &name(i)).unwrap();
        assert_eq!(fs.read(attr.ino, 0, &mut buffer).unwrap(), bytes);
        assert!(
            buffer[..bytes] == content(i, round, bytes),
            "file {i} of round {round}"
        );
    }
}

fn cycle(volume_bytes: u64, file_bytes: usize) {
    let volume = Volume::new(volume_bytes);
    let caller = Caller::root();
    let mut first_fill = 0;
    for round in 0..3 {
        let fs = volume.mount();
        let free = fs.statfs().free * 4096;
        let count = fill(&fs, round, file_bytes);
        fs.sync().unwrap();
        assert!(count as usize * file_bytes <= volume_bytes as usize);
        // What a file of this size costs: sectors, entries, its inode.
        let price = (file_bytes as u64).div_ceil(512) * 512 + 48 + 340;
        assert!(
            count * price >= free / 100 * 90,
            "round {round}: {count} files of {file_bytes} in {free} free bytes"
        );
        if round == 0 {
            first_fill = count;
        }
        assert!(
            count * 100 >= first_fill * 95,
            "round {round}: {count} files fit, {first_fill} at first"
        );
        verify(&fs, 0, count, round, file_bytes);
        fs.unmount().unwrap();
        fs.layout().unmount().unwrap();
        drop(fs);
        let fs = volume.mount();
        verify(&fs, 0, count, round, file_bytes);
        // Half goes; what it held can be written again at once.
        for i in 0..count / 2 {
            fs.unlink(&caller, InodeNo::ROOT, &name(i)).unwrap();
        }
        let again = fill(&fs, round + 100, file_bytes);
        assert!(
            again * 100 >= count / 2 * 95,
            "{again} of {} came back",
            count / 2
        );
        fs.sync().unwrap();
        verify(&fs, 0, again, round + 100, file_bytes);
        verify(&fs, count / 2, count, round, file_bytes);
        for i in (0..again).chain(count / 2..count) {
            match fs.unlink(&caller, InodeNo::ROOT, &name(i)) {
                Ok(()) | Err(Error::NotFound) => {}
                Err(error) => panic!("unlink {i}: {error}"),
            }
        }
        fs.unmount().unwrap();
        fs.layout().unmount().unwrap();
    }
}

#[test]
fn small_files_fill_and_come_back() {
    cycle(8 << 20, 1000);
}

#[test]
fn block_files_fill_and_come_back() {
    cycle(8 << 20, 4096);
}

#[test]
fn large_files_fill_and_come_back() {
    cycle(24 << 20, 300_000);
}

#[test]
fn a_full_volume_takes_overwrites_renames_and_deletes() {
    let volume = Volume::new(8 << 20);
    let caller = Caller::root();
    let fs = volume.mount();
    let count = fill(&fs, 0, 20_000);
    fs.sync().unwrap();
    for round in 1..6 {
        for i in 0..count {
            let attr = fs.lookup(&caller, InodeNo::ROOT, &name(i)).unwrap();
            let data = content(i, round, 20_000);
            match fs.write(&caller, attr.ino, 0, &data) {
                Ok(20_000) => {}
                other => panic!("round {round}, file {i}: {other:?}"),
            }
        }
        fs.sync().unwrap();
    }
    verify(&fs, 0, count, 5, 20_000);
    let flags = varve_fs::Rename::default();
    for i in 0..count {
        let target = name(i + 50_000);
        fs.rename(
            &caller,
            InodeNo::ROOT,
            &name(i),
            InodeNo::ROOT,
            &target,
            flags,
        )
        .unwrap();
        fs.sync().unwrap();
    }
    for i in 0..count {
        fs.unlink(&caller, InodeNo::ROOT, &name(i + 50_000))
            .unwrap();
        fs.sync().unwrap();
    }
    assert!(fill(&fs, 0, 20_000) >= count - 1);
}

/// Writes of any size to a file of its own, until a full volume refuses; then
/// something that must not be refused. Returns how often growth was refused.
fn write_and_shrink(fs: &Fs, thread: u64, rounds: u64) -> u64 {
    let caller = Caller::root();
    let data = vec![b'z'; 1 << 20];
    let mut random = Random(thread * 7919 + 1);
    let mut refused = 0;
    let file = name(thread);
    for _ in 0..rounds {
        let made = fs.mknod(&caller, InodeNo::ROOT, &file, 0o100_644, 0);
        let attr = match made {
            Ok(attr) => attr,
            Err(Error::Exists) => fs.lookup(&caller, InodeNo::ROOT, &file).unwrap(),
            Err(Error::NoSpace) => {
                refused += 1;
                continue;
            }
            Err(error) => panic!("create: {error}"),
        };
        let mut size = attr.size;
        for _ in 0..random.below(40) {
            let bytes = [100, 5000, 1 << 20][random.below(3) as usize];
            match fs.write(&caller, attr.ino, size, &data[..bytes]) {
                Ok(written) => size += written as u64,
                Err(Error::NoSpace) => {
                    refused += 1;
                    break;
                }
                Err(error) => panic!("write: {error}"),
            }
        }
        let shrunk = match random.below(5) {
            0 => {
                let cut = varve_fs::SetAttr {
                    size: Some(random.below(1 << 20).min(size)),
                    ..varve_fs::SetAttr::default()
                };
                fs.setattr(&caller, attr.ino, &cut).map(|_| ())
            }
            1 => fs.fsync(attr.ino, false),
            2 => {
                let root = InodeNo::ROOT;
                let how = varve_fs::Rename::default();
                fs.rename(&caller, root, &file, root, &file, how)
            }
            _ => fs.unlink(&caller, InodeNo::ROOT, &file),
        };
        shrunk.unwrap_or_else(|error| panic!("thread {thread}, shrinking: {error}"));
    }
    refused
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Twelve threads keep a volume full: what shrinks is never refused, and once
/// everything is deleted, all room is back and nothing looks damaged.
#[test]
fn twelve_writers_on_a_full_volume_are_refused_nothing_that_shrinks() {
    let volume = Volume::new(48 << 20);
    let caller = Caller::root();
    let mut empty = None;
    for cycle in 0..4 {
        let fs = volume.mount();
        let empty = *empty.get_or_insert(fs.statfs().free);
        let stop = std::sync::atomic::AtomicBool::new(false);
        let refused: u64 = std::thread::scope(|scope| {
            let background = scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    fs.maintain().unwrap();
                    std::thread::yield_now();
                }
            });
            let fs = &fs;
            let writers: Vec<_> = (0..12)
                .map(|i| scope.spawn(move || write_and_shrink(fs, cycle * 12 + i + 1, 40)))
                .collect();
            let refused = writers.into_iter().map(|w| w.join()).collect::<Vec<_>>();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            background.join().unwrap();
            refused.into_iter().map(|r| r.unwrap()).sum()
        });
        assert!(refused > 0, "the volume was never full");
        for i in 0..12 {
            let gone = fs.unlink(&caller, InodeNo::ROOT, &name(cycle * 12 + i + 1));
            assert!(matches!(gone, Ok(()) | Err(Error::NotFound)), "{gone:?}");
        }
        fs.sync().unwrap();
        let free = fs.statfs().free;
        assert!(
            free * 100 >= empty * 95,
            "{free} of {empty} blocks are back"
        );
        fs.unmount().unwrap();
        fs.layout().unmount().unwrap();
        drop(fs);
        let options = varve_fsck::check::CheckOptions {
            data: true,
            ..varve_fsck::check::CheckOptions::default()
        };
        let report =
            varve_fsck::check::check(volume.device.clone(), volume.clock.clone(), &options)
                .unwrap();
        assert!(report.is_spotless(), "cycle {cycle}: {report:?}");
    }
}

/// All but a hundredth of what statfs calls available, by one reservation and, on
/// volumes that are written in little time, by writes, of blocks and of a mebibyte.
#[test]
fn what_statfs_offers_can_be_had() {
    let caller = Caller::root();
    for mebibytes in [16, 64, 200, 1024] {
        let volume = Volume::new(mebibytes << 20);
        let fs = volume.mount();
        let file = |name: &[u8]| {
            let made = fs.mknod(&caller, InodeNo::ROOT, name, 0o100_644, 0);
            made.unwrap().ino
        };
        let remove = |name: &[u8]| {
            fs.unlink(&caller, InodeNo::ROOT, name).unwrap();
            fs.checkpoint().unwrap();
        };
        let offered = || fs.available() * 4096 / 100 * 99;
        let reserved = file(b"reserved");
        let bytes = offered();
        fs.fallocate(&caller, reserved, 0, 0, bytes)
            .unwrap_or_else(|error| panic!("{mebibytes} MiB: {bytes} reserved: {error}"));
        remove(b"reserved");
        let chunks: &[usize] = if mebibytes > 200 {
            &[]
        } else {
            &[4096, 1 << 20]
        };
        for &chunk in chunks {
            let written = file(b"written");
            let (bytes, data) = (offered(), vec![7; chunk]);
            for offset in (0..bytes - chunk as u64).step_by(chunk) {
                let done = fs.write(&caller, written, offset, &data);
                let done = done.unwrap_or_else(|error| {
                    panic!("{mebibytes} MiB: {offset} of {bytes} by {chunk}: {error}")
                });
                assert_eq!(done, chunk);
            }
            fs.sync().unwrap();
            remove(b"written");
        }
    }
}
