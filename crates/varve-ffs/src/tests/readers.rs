//! Readers beside writers who give room up and take it again. Content has no
//! checksum here: what was given to another file must not be taken for one's own.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use varve_device::Geometry;
use varve_fs::{SetAttr, View};

/// A device on which reads take their time.
#[derive(Debug)]
struct Slow(MemoryDevice);

impl Device for Slow {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> varve_device::Result<()> {
        thread::sleep(Duration::from_micros(200));
        self.0.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[std::io::IoSlice<'_>]) -> varve_device::Result<()> {
        self.0.write(offset, buffers)
    }

    fn flush(&self) -> varve_device::Result<()> {
        self.0.flush()
    }

    fn name(&self) -> String {
        "slow".into()
    }
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Files are cut and written again, each with bytes of its own; every block is given
/// out again and again.
#[test]
fn nobody_reads_what_another_file_holds() {
    let device: Arc<dyn Device> = Arc::new(Slow(MemoryDevice::new(8 << 20)));
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
