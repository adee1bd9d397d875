//! A volume filled to the last byte: deletes work, space comes back at once,
//! and nothing that was accepted is lost.

use std::sync::Arc;
use varve_device::{Clock, MemoryDevice, VirtualClock};
use varve_fs::{Caller, Error, FileSystem, InodeNo, Options, View};
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
        FileSystem::mount(self.layout(), self.clock.clone(), options).unwrap()
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
        let attr = match fs.mknod(View::Live, &caller, InodeNo::ROOT, &name(i), 0o100_644, 0) {
            Ok(attr) => attr,
            Err(Error::NoSpace | Error::Exists) => return i,
            Err(error) => panic!("create {i}: {error}"),
        };
        match fs.write(View::Live, &caller, attr.ino, 0, &content(i, round, bytes)) {
            Ok(written) if written == bytes => {}
            Ok(_) | Err(Error::NoSpace) => {
                fs.unlink(View::Live, &caller, InodeNo::ROOT, &name(i))
                    .unwrap();
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
        let attr = fs
            .lookup(View::Live, &caller, InodeNo::ROOT, &name(i))
            .unwrap();
        assert_eq!(
            fs.read(View::Live, attr.ino, 0, &mut buffer).unwrap(),
            bytes
        );
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
            fs.unlink(View::Live, &caller, InodeNo::ROOT, &name(i))
                .unwrap();
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
            match fs.unlink(View::Live, &caller, InodeNo::ROOT, &name(i)) {
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
            let attr = fs
                .lookup(View::Live, &caller, InodeNo::ROOT, &name(i))
                .unwrap();
            let data = content(i, round, 20_000);
            match fs.write(View::Live, &caller, attr.ino, 0, &data) {
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
            View::Live,
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
        fs.unlink(View::Live, &caller, InodeNo::ROOT, &name(i + 50_000))
            .unwrap();
        fs.sync().unwrap();
    }
    assert!(fill(&fs, 0, 20_000) >= count - 1);
}
