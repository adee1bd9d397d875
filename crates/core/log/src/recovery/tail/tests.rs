//! Reports of a mount about a damaged tail, and reading of a segment with a torn unit.

use super::read_what_is_readable;
use crate::format::SECTOR;
use crate::reader::Reader;
use crate::{FormatOptions, Lfs, MountOptions};
use std::io::IoSlice;
use std::sync::Arc;
use varve_device::{Clock, Device, Fault, FaultDevice, FaultKind, MemoryDevice, VirtualClock};
use varve_fs::{Caller, FileSystem, InodeNo, Layout, Options};

struct Volume {
    device: Arc<MemoryDevice>,
    clock: Arc<dyn Clock>,
    lfs: Arc<Lfs>,
    fs: FileSystem<Lfs>,
}

impl Volume {
    fn new() -> Self {
        let device = Arc::new(MemoryDevice::new(24 << 20));
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
        Lfs::format(&*device, &*clock, &FormatOptions::default()).unwrap();
        let lfs = Lfs::mount(device.clone(), clock.clone(), MountOptions::default()).unwrap();
        let lfs = Arc::new(lfs);
        FileSystem::format(&*lfs, &*clock, (0, 0)).unwrap();
        let fs = FileSystem::mount(lfs.clone(), clock.clone(), Options::default()).unwrap();
        Volume {
            device,
            clock,
            lfs,
            fs,
        }
    }

    fn create(&self, name: &str) -> InodeNo {
        let (root, caller) = (InodeNo::ROOT, Caller::root());
        let made = self.fs.mknod(&caller, root, name.as_bytes(), 0o644, 0);
        made.unwrap().ino
    }

    /// Byte address of the log's next partial segment.
    fn next_byte(&self) -> u64 {
        let end = self.lfs.log.lock().end.at(0);
        let (segment, offset, _) = self.lfs.geometry.successor(&end);
        self.lfs.geometry.byte(segment, offset)
    }

    fn again(&self) -> Lfs {
        let image = Arc::new(MemoryDevice::from_image(&self.device.snapshot()));
        Lfs::mount(image, self.clock.clone(), MountOptions::default()).unwrap()
    }
}

/// The files whose changes are known to have been durable, and cannot be applied any
/// more, are named; not the last one, for which there is no evidence that it was durable.
#[test]
fn files_whose_acknowledged_changes_are_lost_are_named() {
    let v = Volume::new();
    let files: Vec<InodeNo> = (0..4).map(|n| v.create(&format!("file {n}"))).collect();
    v.fs.sync().unwrap();
    v.lfs.checkpoint().unwrap();
    let torn = v.next_byte();
    for file in &files {
        v.fs.write(&Caller::root(), *file, 0, &[7; 4096]).unwrap();
        v.fs.fsync(*file, false).unwrap();
    }
    assert!(v.again().recovery_report().damage.is_empty());
    v.device.write(torn, &[IoSlice::new(&[0xff; 512])]).unwrap();
    let again = v.again();
    let damage = &again.recovery_report().damage;
    assert!(damage[0].contains("acknowledged data is lost"));
    let named = |file: &InodeNo| {
        let text = format!("changes of inode {file} are lost");
        damage[1..].iter().any(|line| line.ends_with(&text))
    };
    let named: Vec<bool> = files.iter().map(named).collect();
    assert_eq!(named, [false, true, true, false], "{damage:?}");
    assert!(again.stopped().is_some(), "read-only");
}

/// A unit torn by a power cut is unreadable: the other units are read all the same, and
/// of that one the first sector, if it is readable by itself.
#[test]
fn a_torn_unit_hides_no_other() {
    let v = Volume::new();
    let (geometry, segment) = (**v.lfs.geometry, 9);
    let unit = u64::from(geometry.write_unit);
    let first = geometry.byte(segment, 0);
    let whole: Vec<u8> = (0..geometry.segment_bytes / SECTOR as u32)
        .flat_map(|sector| [(sector % 251) as u8 + 1; SECTOR as usize])
        .collect();
    v.device.write(first, &[IoSlice::new(&whole)]).unwrap();
    let left = MemoryDevice::from_image(&v.device.snapshot());
    let device = Arc::new(FaultDevice::new(left, 1));
    let (gone, torn) = (first + 2 * unit, first + 5 * unit);
    let fails = |bytes| device.inject(Fault::sticky(FaultKind::ReadError).within(bytes));
    fails(gone..gone + unit);
    fails(torn + SECTOR..torn + unit);
    let reader = Reader::offline(device.clone(), geometry, 0);
    let mut image = vec![0xee; whole.len()];
    read_what_is_readable(&geometry, &reader, segment, &mut image).unwrap();
    let mut expected = whole;
    let at = |byte: u64| (byte - first) as usize;
    expected[at(gone)..at(gone + unit)].fill(0);
    expected[at(torn + SECTOR)..at(torn + unit)].fill(0);
    let wrong = (0..image.len()).find(|at| image[*at] != expected[*at]);
    assert_eq!(wrong, None);
}

/// A device whose service does not answer reads of a range.
#[derive(Debug)]
struct Unanswered(Arc<MemoryDevice>, std::ops::Range<u64>);

impl Device for Unanswered {
    fn geometry(&self) -> varve_device::Geometry {
        self.0.geometry()
    }
    fn read(&self, offset: u64, buffer: &mut [u8]) -> varve_device::Result<()> {
        let length = buffer.len() as u64;
        if offset >= self.1.end || offset + length <= self.1.start {
            return self.0.read(offset, buffer);
        }
        Err(varve_device::DeviceError {
            device: self.name(),
            operation: varve_device::Operation::Read,
            offset,
            length,
            source: std::io::Error::other(varve_device::Service("503".into())),
        })
    }
    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> varve_device::Result<()> {
        self.0.write(offset, buffers)
    }
    fn flush(&self) -> varve_device::Result<()> {
        self.0.flush()
    }
    fn name(&self) -> String {
        "bucket".into()
    }
}

#[test]
fn a_service_that_does_not_answer_is_neither_zeros_nor_the_end() {
    let v = Volume::new();
    let (geometry, segment) = (**v.lfs.geometry, 9);
    let first = geometry.byte(segment, 0);
    let device = Arc::new(Unanswered(v.device.clone(), first + 4096..first + 8192));
    let reader = Reader::offline(device, geometry, 0);
    let mut image = vec![0; geometry.segment_bytes as usize];
    let read = read_what_is_readable(&geometry, &reader, segment, &mut image);
    assert!(read.is_err_and(|error| error.is_of_service()));
}
