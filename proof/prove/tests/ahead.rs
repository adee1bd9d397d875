//! Tests that segments of an image file are written before the log reaches them.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use varve_device::{
    Clock, Device, Extent, Geometry, MemoryDevice, Operation, Result, VirtualClock,
};
use varve_device::{DeviceError, MemoryImage};
use varve_fs::{Caller, FileSystem, InodeNo, Options};
use varve_lfs::{FormatOptions, Lfs, MountOptions};
use varve_prove::slow_holes::SlowHoles;

const BYTES: u64 = 64 << 20;
const SEGMENT: u32 = 256 << 10;
/// Bytes that may be written ahead.
const AHEAD: u64 = 8 << 20;

struct Volume {
    fs: FileSystem<Lfs>,
    file: InodeNo,
    /// True if a small commit has requested the background thread.
    summoned: Arc<AtomicBool>,
}

fn volume(device: Arc<dyn Device>) -> Volume {
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
    let options = FormatOptions {
        segment_bytes: SEGMENT,
        seed: Some(1),
        ..FormatOptions::default()
    };
    Lfs::format(&*device, &*clock, &options).unwrap();
    let options = MountOptions {
        seed: Some(7),
        ..MountOptions::default()
    };
    let lfs = Arc::new(Lfs::mount(device, Arc::clone(&clock), options).unwrap());
    FileSystem::format(&*lfs, &*clock, (0, 0)).unwrap();
    let summoned = Arc::new(AtomicBool::new(false));
    let summons = Arc::clone(&summoned);
    lfs.on_small_commits(Box::new(move || summons.store(true, Relaxed)));
    let fs = FileSystem::mount(lfs, clock, Options::default()).unwrap();
    let caller = Caller::root();
    let made = fs.mknod(&caller, InodeNo::ROOT, b"file", 0o100_644, 0);
    let file = made.unwrap().ino;
    Volume { fs, file, summoned }
}

impl Volume {
    fn update(&self, blocks: usize, round: u64) {
        let data = vec![round as u8 | 1; blocks * 4096];
        let offset = round % 16 * data.len() as u64;
        let caller = Caller::root();
        self.fs.write(&caller, self.file, offset, &data).unwrap();
        self.fs.fsync(self.file, true).unwrap();
    }

    /// Writes ahead if it was requested, like the background thread.
    fn write_ahead(&self) -> u64 {
        match self.summoned.swap(false, Relaxed) {
            true => self.fs.layout().write_ahead().unwrap(),
            false => 0,
        }
    }
}

/// Nearly all updates overwrite space that was already written, and the image grows no
/// more than the bytes ahead of the log.
#[test]
fn small_updates_meet_no_holes_but_the_first() {
    let updates = 2000;
    let run = |ahead: bool| {
        let memory = Arc::new(MemoryDevice::new(BYTES));
        let device = Arc::new(SlowHoles::new(memory));
        let volume = volume(device.clone());
        let (mut met, mut bytes) = (0, 0);
        for round in 0..updates {
            let before = device.filling_writes();
            volume.update(1, round);
            met += device.filling_writes() - before;
            if ahead {
                bytes += volume.write_ahead();
            }
        }
        let statistics = volume.fs.layout().statistics();
        assert_eq!(statistics.ahead_bytes, bytes);
        let by_cause = statistics
            .written_by_cause()
            .iter()
            .map(|c| c.1)
            .sum::<u64>();
        assert_eq!(by_cause, statistics.bytes_written);
        (met, bytes, statistics.segments_opened)
    };
    let (met, bytes, _) = run(false);
    assert!(met > updates * 9 / 10 && bytes == 0, "{met}, {bytes}");
    let (met, bytes, opened) = run(true);
    // The rest of the first segment, the next segment, and the one after it.
    assert!(met < 3 * u64::from(SEGMENT) / 4096 + updates / 50, "{met}");
    assert!(
        bytes <= AHEAD + opened * u64::from(SEGMENT),
        "{bytes}, {opened}"
    );
}

/// Writing ahead writes the bytes that are already there, so a crash makes no difference.
#[test]
fn nothing_of_it_can_be_read() {
    let memory = Arc::new(MemoryDevice::new(BYTES));
    let volume = volume(Arc::new(SlowHoles::new(memory.clone())));
    (0..64).for_each(|round| volume.update(1, round));
    let content = |image: MemoryImage| {
        let mut bytes = vec![0; BYTES as usize];
        image.read(0, &mut bytes);
        bytes
    };
    let before = content(memory.snapshot());
    let written = volume.write_ahead();
    assert!((1..=AHEAD).contains(&written), "{written}");
    assert!(content(memory.snapshot()) == before);
    // The log is ahead as far as it may be.
    assert_eq!(volume.fs.layout().write_ahead().unwrap(), 0);
}

#[test]
fn large_updates_ask_for_nothing() {
    let volume = volume(Arc::new(SlowHoles::new(Arc::new(MemoryDevice::new(BYTES)))));
    (0..128).for_each(|round| volume.update(64, round));
    assert!(!volume.summoned.load(Relaxed));
}

#[test]
fn other_devices_are_left_alone() {
    let volume = volume(Arc::new(MemoryDevice::new(BYTES)));
    (0..128).for_each(|round| volume.update(1, round));
    assert!(!volume.summoned.load(Relaxed));
    assert_eq!(volume.fs.layout().write_ahead().unwrap(), 0);
}

/// A host device without space for large requests.
#[derive(Debug)]
struct Full {
    inner: SlowHoles,
    refused: AtomicU64,
}

impl Device for Full {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.inner.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        if buffers.iter().any(|buffer| buffer.len() > 128 << 10) {
            self.refused.fetch_add(1, Relaxed);
            return Err(DeviceError {
                device: self.name(),
                operation: Operation::Write,
                offset,
                length: 0,
                source: std::io::ErrorKind::StorageFull.into(),
            });
        }
        self.inner.write(offset, buffers)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn extent(&self, offset: u64, length: u64) -> Result<Extent> {
        self.inner.extent(offset, length)
    }

    fn fills_holes_slowly(&self) -> bool {
        true
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

/// After one refused write the log tries no other, and the volume works on.
#[test]
fn a_host_without_space_ends_it() {
    let device = Arc::new(Full {
        inner: SlowHoles::new(Arc::new(MemoryDevice::new(BYTES))),
        refused: AtomicU64::new(0),
    });
    let volume = volume(device.clone());
    for round in 0..640 {
        volume.update(1, round);
        assert_eq!(volume.write_ahead(), 0);
    }
    assert_eq!(device.refused.load(Relaxed), 1);
    assert_eq!(volume.fs.layout().statistics().writes_failed, 0);
}
