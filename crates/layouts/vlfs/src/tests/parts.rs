//! Short blocks: in as many units as they need, packed, overwritten, and on volumes of
//! earlier programs without them.

use super::super::format::{CHANGES, LONG_XATTRS, MAGIC, Measures, PARTS, Place, Superblock};
use super::*;
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use zerocopy::IntoBytes;

/// Makes a volume one of an earlier program, without the bit.
pub(super) fn age(medium: &Arc<dyn Medium>) {
    without(medium, PARTS);
}

/// Clears these feature bits of the superblock.
pub(super) fn without(medium: &Arc<dyn Medium>, bits: u64) {
    let mut bytes = [0; 512];
    medium.read(0, &mut bytes).unwrap();
    let mut superblock = Superblock::parse(&bytes).unwrap();
    assert_eq!(superblock.magic, MAGIC);
    superblock.incompat = (superblock.incompat.get() & !bits).into();
    let superblock = superblock.sealed();
    let measures = Measures::of(&superblock);
    for block in [0, measures.last_block()] {
        let at = measures.block_byte(block);
        let bytes = IoSlice::new(superblock.as_bytes());
        medium.write(at, &[bytes]).unwrap();
    }
}

fn of_sectors() -> [Arc<dyn Medium>; 2] {
    [memory(16 << 20, 512), drive()]
}

fn place(system: &System, file: InodeNo, block: u64) -> Place {
    let found = system.layout().map(View::Live, file, block, 1).unwrap();
    found[0].pointer
}

/// Returns the tail of file `nth`, whose last sector is not full.
fn tail(nth: u8) -> Vec<u8> {
    vec![nth + 1; 512 * (1 + usize::from(nth) % 8) - usize::from(nth)]
}

const FILES: u8 = 24;

/// Creates files of every length; each third one has a block before the tail.
fn write_tails(system: &System, each: bool) -> Vec<InodeNo> {
    let files = (0..FILES).map(|nth| {
        let file = create(system, &format!("tail{nth}"));
        let at = u64::from(nth % 3 / 2) * 4096;
        if at > 0 {
            write(system, file, 0, &[nth; 4096]).unwrap();
        }
        write(system, file, at, &tail(nth)).unwrap();
        if each {
            system.fsync(file, false).unwrap();
        }
        file
    });
    let files = files.collect();
    system.sync().unwrap();
    files
}

fn verify_tails(system: &System, files: &[InodeNo]) {
    system.drop_caches();
    system.layout().drop_caches();
    for (nth, &file) in (0u8..).zip(files) {
        let at = u64::from(nth % 3 / 2) * 4096;
        assert!(read(system, file, at, 5000) == tail(nth), "file {nth}");
        assert!(at == 0 || read(system, file, 0, 4096) == [nth; 4096]);
    }
}

#[test]
fn tails_of_every_length_take_the_units_that_they_need() {
    for each in [false, true] {
        for medium in of_sectors() {
            let system = made(&medium, 512);
            let files = write_tails(&system, each);
            let layout = system.layout();
            for (nth, &file) in (0u8..).zip(&files) {
                let found = place(&system, file, u64::from(nth % 3 / 2));
                let extent = layout.measures().extent_of(&found);
                assert_eq!(extent.units, 1 + u32::from(nth) % 8);
                assert!(layout.writer.lock().space.tree.any(extent));
            }
            drop(system);
            sound(&medium);
            let system = again(&medium);
            assert!(!system.layout().recovery_report().walked);
            verify_tails(&system, &files);
            system.unmount().unwrap();
            system.layout().unmount().unwrap();
            sound(&medium);
            verify_tails(&again(&medium), &files);
        }
    }
}

#[test]
fn volumes_from_before_take_a_unit_or_a_block() {
    for medium in of_sectors() {
        made(&medium, 512).layout().unmount().unwrap();
        age(&medium);
        for each in [false, true] {
            let system = again(&medium);
            assert_eq!(
                system.layout().superblock().incompat.get(),
                CHANGES | LONG_XATTRS
            );
            let files = write_tails(&system, each);
            for (nth, &file) in (0u8..).zip(&files) {
                let found = place(&system, file, u64::from(nth % 3 / 2));
                let extent = system.layout().measures().extent_of(&found);
                let whole = found.sectors > 1;
                assert_eq!(extent.units, if whole { 8 } else { 1 });
                assert!(!whole || found.sector.is_multiple_of(8));
            }
            verify_tails(&system, &files);
            drop(system);
            sound(&medium);
            let system = again(&medium);
            verify_tails(&system, &files);
            for nth in 0..FILES {
                let root = Caller::root();
                let name = format!("tail{nth}");
                let gone = system.unlink(&root, InodeNo::ROOT, name.as_bytes());
                gone.unwrap();
            }
            system.unmount().unwrap();
            system.layout().unmount().unwrap();
            sound(&medium);
        }
    }
}

#[test]
fn places_of_several_units_are_refused_on_volumes_from_before() {
    let medium = memory(16 << 20, 512);
    let system = made(&medium, 512);
    let files = write_tails(&system, false);
    let old = Measures {
        parts: false,
        ..*system.layout().measures()
    };
    let sound = |file: &InodeNo| {
        let found = system.layout().map(View::Live, *file, 0, 2).unwrap();
        found.iter().all(|found| found.pointer.check(&old).is_ok())
    };
    let readable: Vec<bool> = files.iter().map(sound).collect();
    assert!(readable.contains(&true) && readable.contains(&false));
    system.unmount().unwrap();
    system.layout().unmount().unwrap();
    drop(system);
    age(&medium);
    let found = check(Arc::clone(&medium), clock(), true).unwrap();
    assert!(!found.problems.is_empty());
    let layout = mounted(&medium);
    let read = |file: &InodeNo| layout.map(View::Live, *file, 0, 2).is_ok();
    let read: Vec<bool> = files.iter().map(read).collect();
    assert_eq!(read, readable);
}

/// Files of 1 KB, as in the measurements, are packed as closely as possible, and
/// written by few requests.
#[test]
fn many_small_files_are_packed_into_few_requests() {
    const FILES: u64 = 700;
    let disk = disk_of(11);
    let medium: Arc<dyn Medium> = Arc::new(InDrive(Arc::clone(&disk)));
    let options = VlfsFormatOptions {
        inodes: 4096,
        seed: Some(1),
        ..VlfsFormatOptions::default()
    };
    format(&*medium, &*clock(), &options).unwrap();
    FileSystem::format(&*mounted(&medium), &*clock(), (0, 0)).unwrap();
    let system = again(&medium);
    for nth in 0..FILES {
        let file = create(&system, &format!("file{nth}"));
        write(&system, file, 0, &[nth as u8; 1024]).unwrap();
    }
    let before = disk.statistics();
    let live = system.layout().statistics().blocks_live;
    system.sync().unwrap();
    let after = disk.statistics();
    let writes = after.requests.writes - before.requests.writes;
    assert!(writes < FILES / 5, "{writes} requests");
    let live = system.layout().statistics().blocks_live - live;
    // Two units of data and one of an inode for each file, and directories.
    assert!(live <= FILES * 3 / 8 + 40, "{live} blocks");
    drop(system);
    sound(&medium);
}

/// A device with a sector that cannot be written.
#[derive(Debug)]
struct Bad {
    memory: MemoryDevice,
    /// Byte address of the sector.
    at: AtomicU64,
    /// Number of attempts to write it.
    failed: AtomicU64,
}

impl Device for Bad {
    fn geometry(&self) -> varve_device::Geometry {
        self.memory.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> varve_device::Result<()> {
        self.memory.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> varve_device::Result<()> {
        let length = varve_device::total_length(buffers);
        if !(offset..offset + length).contains(&self.at.load(Relaxed)) {
            return self.memory.write(offset, buffers);
        }
        self.failed.fetch_add(1, Relaxed);
        Err(varve_device::DeviceError {
            device: "bad".into(),
            operation: varve_device::Operation::Write,
            offset,
            length,
            source: std::io::Error::other("a bad sector"),
        })
    }

    fn flush(&self) -> varve_device::Result<()> {
        self.memory.flush()
    }

    fn name(&self) -> String {
        "bad".into()
    }
}

/// The sector may be anywhere in the written range, in a unit or in a gap between them.
#[test]
fn a_sector_that_cannot_be_written_is_gone_round() {
    let mut hit = 0;
    for ahead in 0..24 {
        let memory = MemoryDevice::with_geometry(varve_device::Geometry {
            size: 16 << 20,
            logical_block: 512,
            physical_block: 512,
        });
        let bad = Arc::new(Bad {
            memory,
            at: u64::MAX.into(),
            failed: 0.into(),
        });
        let medium: Arc<dyn Medium> = Arc::new(InOrder(Arc::clone(&bad)));
        let system = made(&medium, 512);
        let first = create(&system, "first");
        write(&system, first, 0, &[1; 4096]).unwrap();
        system.sync().unwrap();
        let sector = place(&system, first, 0).sector + 8 + ahead;
        bad.at.store(sector * 512, Relaxed);
        let files = write_tails(&system, ahead % 2 == 0);
        let failed = bad.failed.load(Relaxed);
        assert!(failed <= 1, "{ahead}: tried {failed} times");
        hit += failed;
        assert_eq!(system.layout().stopped(), None);
        verify_tails(&system, &files);
        drop(system);
        sound(&medium);
    }
    assert!(hit >= 12, "{hit} of 24 sectors were written to");
}

/// The short blocks may outnumber the blocks of the volume. Recovery took that for
/// damage, and the blocks that it had not counted for reserved space.
#[test]
fn a_mount_counts_more_short_blocks_than_the_volume_has_blocks() {
    let medium = memory(6 << 20, 512);
    let options = VlfsFormatOptions {
        unit_bytes: 512,
        inodes: 4096,
        seed: Some(1),
        ..VlfsFormatOptions::default()
    };
    let made = format(&*medium, &*clock(), &options).unwrap();
    FileSystem::format(&*mounted(&medium), &*clock(), (0, 0)).unwrap();
    let system = again(&medium);
    for nth in 0..made.blocks.get() + 200 {
        let file = create(&system, &format!("file{nth}"));
        write(&system, file, 0, &[1; 400]).unwrap();
        if nth % 100 == 0 {
            system.sync().unwrap();
        }
    }
    system.sync().unwrap();
    assert!(system.layout().writer.lock().stored > made.blocks.get());
    let told = system.statfs().free;
    drop(system);
    let found = again(&medium).statfs().free;
    assert!(found.abs_diff(told) < 8, "{told} blocks free, now {found}");
}
