//! Readers in parallel with writers that free space and take it again. Content has no
//! checksum here, so the blocks of another file must not be taken for those of this
//! one.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{OnceLock, Weak};
use std::thread;
use std::time::Duration;
use varve_device::Geometry;
use varve_fs::{Cause, Group, Item, SetAttr, View};

/// A device that calls a function before each read.
struct Watched<F>(MemoryDevice, F);

impl<F> std::fmt::Debug for Watched<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watched")
    }
}

impl<F: Fn() + Send + Sync> Device for Watched<F> {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> varve_device::Result<()> {
        (self.1)();
        self.0.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[std::io::IoSlice<'_>]) -> varve_device::Result<()> {
        self.0.write(offset, buffers)
    }

    fn flush(&self) -> varve_device::Result<()> {
        self.0.flush()
    }

    fn name(&self) -> String {
        "watched".into()
    }
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Files are truncated and written again, each with its own bytes; every block is
/// reused again and again.
#[test]
fn nobody_reads_what_another_file_holds() {
    let slowly = || thread::sleep(Duration::from_micros(200));
    let device: Arc<dyn Device> = Arc::new(Watched(MemoryDevice::new(8 << 20), slowly));
    let system = made(&device);
    drop(system);
    let few = Options {
        cache_bytes: 1 << 20,
        read_ahead_threads: 2,
        keep_written: false,
        ..Options::default()
    };
    let system = FileSystem::mount(mounted(&device), clock(), few).unwrap();
    let files: Vec<InodeNo> = (0..6)
        .map(|nth| create(&system, &format!("{nth}")))
        .collect();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for (nth, &file) in files.iter().enumerate() {
            let (system, over) = (&system, &over);
            scope.spawn(move || {
                let mut buffer = vec![0; 100_000];
                let mut at = 0;
                while !over.load(Ordering::Relaxed) {
                    let got = system.read(file, at, &mut buffer).unwrap();
                    let strange = buffer[..got]
                        .iter()
                        .find(|byte| **byte != 0 && **byte != nth as u8 + 1);
                    assert_eq!(strange, None, "in file {nth}, at {at}");
                    at = if got == 0 { 0 } else { at + got as u64 };
                    let names = system.listxattr(&Caller::root(), file);
                    drop(names);
                }
            });
        }
        let _over = Over(&over);
        for round in 0..60usize {
            let nth = round % files.len();
            let file = files[nth];
            let cut = SetAttr {
                size: Some((round as u64 * 7919) % 9000),
                ..SetAttr::default()
            };
            system.setattr(&Caller::root(), file, &cut).unwrap();
            system.sync().unwrap();
            let bytes = vec![nth as u8 + 1; 200_000 + 5000 * (round % 7)];
            write(&system, file, 0, &bytes).unwrap();
            system.sync().unwrap();
        }
    });
    for &file in &files {
        assert!(
            !system
                .layout()
                .map(View::Live, file, 0, 9)
                .unwrap()
                .is_empty()
        );
    }
    unmount(&system);
    sound(&device);
}

/// Readers and the creation of files need the lock on numbers, so it must not be held
/// while a group is planned, which reads the device.
#[test]
fn a_group_is_planned_without_the_lock_on_numbers() {
    let volume: Arc<OnceLock<Weak<Ffs>>> = Arc::default();
    let planned: Arc<AtomicU64> = Arc::default();
    let look = {
        let (volume, planned) = (Arc::clone(&volume), Arc::clone(&planned));
        move || {
            let Some(volume) = volume.get().and_then(Weak::upgrade) else {
                return;
            };
            if volume.writer.try_lock().is_none() {
                planned.fetch_add(1, Ordering::Relaxed);
                assert!(volume.numbers.try_lock().is_some(), "the numbers are kept");
            }
        }
    };
    let device: Arc<dyn Device> = Arc::new(Watched(MemoryDevice::new(16 << 20), look));
    let system = made(&device);
    let file = create(&system, "file");
    write(&system, file, 0, &[1; 200_000]).unwrap();
    system.sync().unwrap();
    let layout = system.layout();
    layout.checkpoint().unwrap();
    layout.drop_caches();
    volume.set(Arc::downgrade(layout)).unwrap();
    let cut = Item::Truncated {
        ino: file,
        version: 1,
        from_block: 1,
    };
    let group = Group {
        items: vec![cut],
        usage: layout.usage_now(),
        cause: Cause::WriteBack,
    };
    layout.append_group(group).unwrap();
    assert!(planned.load(Ordering::Relaxed) > 0, "nothing was read");
}
