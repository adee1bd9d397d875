//! A fixed number of operations, each kind in a function of its own, for counting
//! instructions (`scripts/bench-instructions.sh`). One thread, a volume in memory.
//! Only what the library has had from its beginning is used, so that older versions
//! build it, too. A program of its own, so that nothing else is built.

use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use varve::{File, OpenOptions, Volume, VolumeOptions, admin};
use varve_device::MemoryDevice;

const FILES: usize = 2000;

fn name(n: usize) -> String {
    format!("/dir/file-{n:06}")
}

#[inline(never)]
fn measured_create(volume: &Volume, from: usize) -> Vec<File> {
    let create = |n| {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        options.open(volume, name(n)).expect("a new file")
    };
    (from..from + FILES).map(create).collect()
}

#[inline(never)]
fn measured_write(files: &[File], data: &[u8]) {
    for file in files {
        file.write_all_at(data, 0).expect("it is written");
    }
}

#[inline(never)]
fn measured_fsync(files: &[File]) {
    for file in files {
        file.sync_data().expect("it is synced");
    }
}

#[inline(never)]
fn measured_lookup(volume: &Volume) {
    for n in 0..FILES {
        black_box(volume.metadata(name(n)).expect("it is there"));
    }
}

#[inline(never)]
fn measured_list(volume: &Volume) {
    let entries = volume.read_dir("/dir").expect("a directory");
    assert_eq!(black_box(entries.count()), FILES);
}

#[inline(never)]
fn measured_remove(volume: &Volume) {
    for n in 0..FILES {
        volume.remove_file(name(n)).expect("it is removed");
    }
}

fn main() {
    let device = Arc::new(MemoryDevice::new(512 << 20));
    let mut options = VolumeOptions::new();
    options.background(false);
    admin::format_on(Arc::clone(&device) as _, &options).expect("a volume");
    let volume = admin::open_on(Arc::clone(&device) as _, &options).expect("it opens");
    volume.create_dir("/dir").expect("a directory");
    let data = vec![7; 4096];
    let files = measured_create(&volume, 0);
    measured_write(&files, &data);
    measured_fsync(&files);
    measured_lookup(&volume);
    measured_list(&volume);
    drop(files);
    volume.close().expect("it closes");
    // Nothing of them is in memory.
    let volume = admin::open_on(device, &options).expect("it opens");
    measured_remove(&volume);
    volume.close().expect("it closes");
}
