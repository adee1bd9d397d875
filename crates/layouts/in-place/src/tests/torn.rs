//! Mounts of volumes with unreadable blocks, and of journals with gaps.

use super::*;
use crate::format::{GroupMap, SECTOR_BYTES};
use std::io::IoSlice;
use std::ops::Range;
use varve_device::sync::Mutex;
use varve_device::{DeviceError, Geometry, Operation};

const OWNER_BLOCK: u64 = crate::format::Geometry::OWNER_BLOCK;

/// A device with bytes that cannot be read until they are written.
#[derive(Debug)]
struct Torn {
    inner: Arc<dyn Device>,
    bad: Mutex<Vec<Range<u64>>>,
}

impl Device for Torn {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> varve_device::Result<()> {
        let end = offset + buffer.len() as u64;
        let bad = self.bad.lock();
        if bad
            .iter()
            .any(|range| range.start < end && offset < range.end)
        {
            return Err(DeviceError {
                device: self.name(),
                operation: Operation::Read,
                offset,
                length: buffer.len() as u64,
                source: std::io::Error::other("torn"),
            });
        }
        self.inner.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> varve_device::Result<()> {
        let end = offset + buffers.iter().map(|b| b.len() as u64).sum::<u64>();
        let mut bad = self.bad.lock();
        bad.retain(|range| range.start < offset || end < range.end);
        self.inner.write(offset, buffers)
    }

    fn flush(&self) -> varve_device::Result<()> {
        self.inner.flush()
    }

    fn name(&self) -> String {
        "torn".into()
    }
}

/// The power fails while a checkpoint writes a map, or a mount the owner record.
#[test]
fn a_block_that_was_torn_in_its_place_is_replayed() {
    for unit in [512, 4096] {
        let inner = memory(24 << 20, unit);
        let system = made(&inner);
        let file = create(&system, "file");
        write(&system, file, 0, &[7; 9000]).unwrap();
        system.sync().unwrap();
        let geometry = system.layout().store.geometry;
        drop(system);
        let sectors = [
            geometry.map_sector(0, GroupMap::Fragments, 0),
            geometry.map_sector(0, GroupMap::Used, 0),
            geometry.inode_sector(file.0),
            geometry.block_byte(OWNER_BLOCK) / SECTOR_BYTES as u64,
        ];
        let torn = sectors.map(|sector| {
            let at = sector * SECTOR_BYTES as u64 / u64::from(unit) * u64::from(unit);
            at..at + u64::from(unit)
        });
        let device: Arc<dyn Device> = Arc::new(Torn {
            inner: Arc::clone(&inner),
            bad: Mutex::new(torn.to_vec()),
        });
        sound(&device);
        let superblock = Ffs::find_superblock(&*device).unwrap();
        assert!(Ffs::read_owner(&*device, &superblock).unwrap().is_none());
        let system = again(&device);
        assert_eq!(read(&system, file, 0, 9000), [7; 9000]);
        drop(system);
        sound(&device);
    }
}

/// J2: the first missing record ends the journal, also where the next one begins at the
/// journal's beginning.
#[test]
fn no_record_counts_behind_one_that_is_missing() {
    let device = memory(24 << 20, 4096);
    let system = made(&device);
    let layout = Arc::clone(system.layout());
    let all = layout.store.geometry.journal_bytes();
    let head = || layout.writer.lock().head;
    let mut nth = 0;
    let mut one_more = |system: &System| {
        nth += 1;
        let file = create(system, &format!("file {nth}"));
        system.fsync(file, false).unwrap();
    };
    while head() % all < all - (96 << 10) {
        one_more(&system);
    }
    system.checkpoint().unwrap();
    let mut records = 0;
    let (last, wrapped) = loop {
        let before = head();
        one_more(&system);
        if head() / all > before / all {
            break (before, head());
        }
        records += 1;
    };
    assert!(records > 2 && wrapped > last);
    let before = layout.writer.lock().tail;
    assert!(before < last, "no checkpoint between");
    drop(system);
    // The last record before the end of the journal.
    let at = layout
        .store
        .geometry
        .block_byte(crate::format::Geometry::JOURNAL_BLOCK)
        + last % all
        - 4096;
    device.write(at, &[IoSlice::new(&[0x55; 512])]).unwrap();
    drop(layout);
    let system = again(&device);
    assert_eq!(system.layout().recovery_report().records, records - 1);
    drop(system);
    sound(&device);
}

/// Repairs and uses a volume of which units of every kind cannot be read.
#[test]
fn what_cannot_be_read_is_repaired() {
    use crate::format::Metadata;
    for (unit, metadata) in [512, 4096].into_iter().flat_map(|unit| {
        let kinds = Metadata::ALL.into_iter();
        kinds.map(move |metadata| (unit, metadata))
    }) {
        let inner = memory(24 << 20, unit);
        let options = FfsFormatOptions {
            metadata,
            ..FfsFormatOptions::default()
        };
        let system = made_with(&inner, &options);
        let root = Caller::root();
        let directory = system.mkdir(&root, InodeNo::ROOT, b"d", 0o755).unwrap().ino;
        let mut files = Vec::new();
        for nth in 0..40 {
            let name = format!("{nth}");
            let made = system.mknod(&root, directory, name.as_bytes(), 0o100_644, 0);
            files.push(made.unwrap().ino);
            write(&system, files[nth], 0, &[nth as u8; 90_000]).unwrap();
        }
        unmount(&system);
        let layout = system.layout();
        let geometry = layout.store.geometry;
        let crate::format::Slot::Used(large) = slot(layout, files[39]) else {
            panic!("it is in use");
        };
        let place = layout.map(varve_fs::View::Live, directory, 0, 1).unwrap()[0].pointer;
        let unused = files[39].0 + 40;
        let sectors = [
            geometry.map_sector(0, GroupMap::Fragments, 0),
            geometry.map_sector(0, GroupMap::Used, 0),
            geometry.map_sector(0, GroupMap::Touched, 0),
            geometry.inode_sector(files[20].0),
            geometry.inode_sector(unused),
            large.indirect[0].sector,
            place.sector,
        ];
        drop(system);
        let unreadable = |sectors: &[u64]| -> Arc<dyn Device> {
            let torn = sectors.iter().map(|sector| {
                let at = sector * SECTOR_BYTES as u64 / u64::from(unit) * u64::from(unit);
                at..at + u64::from(unit)
            });
            Arc::new(Torn {
                inner: Arc::clone(&inner),
                bad: Mutex::new(torn.collect()),
            })
        };
        // Sectors of numbers that never had a file do not matter.
        let device = unreadable(&[geometry.inode_sector(unused)]);
        let system = again(&device);
        for nth in 0..60 {
            create(&system, &format!("more {nth}"));
        }
        system.sync().unwrap();
        assert_eq!(system.layout().stopped(), None);
        unmount(&system);
        drop(system);
        let device = unreadable(&sectors);
        let done = repair(Arc::clone(&device), clock(), FfsMountOptions::default());
        let recovery = done.unwrap_or_else(|error| panic!("{unit}, {metadata:?}: {error}"));
        assert!(recovery.recovery.losses.len() >= 3, "{recovery:?}");
        sound(&device);
        let system = again(&device);
        for nth in 0..60 {
            create(&system, &format!("another {nth}"));
        }
        unmount(&system);
        sound(&device);
    }
}
