//! Special cases of the journal.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use varve_fs::{Cause, Group, Item, View};

/// J3: committed sectors are written in place, newer ones are not.
#[test]
fn a_checkpoint_leaves_what_is_newer_in_memory() {
    let device = memory(24 << 20, 512);
    let system = made(&device);
    let file = create(&system, "file");
    write(&system, file, 0, &[1; 100_000]).unwrap();
    system.sync().unwrap();
    let layout = system.layout();
    // Behind the record, a group changes the inode again.
    let mut inode = layout.read_inode(View::Live, file).unwrap();
    inode.mode ^= 0o111;
    let group = Group {
        items: vec![Item::Inode(Box::new(inode))],
        usage: layout.usage(),
        cause: Cause::WriteBack,
    };
    layout.append(group).unwrap();
    let sector = layout.store.geometry.inode_sector(file.0);
    let newest = {
        let writer = layout.writer.lock();
        assert!(writer.committed.contains_key(&sector));
        Arc::clone(&writer.running[&sector])
    };
    {
        let _one = layout.committing.lock();
        layout.settle(None).unwrap();
    }
    let on_device = layout.store.read(sector, 1).unwrap();
    assert_ne!(on_device, newest[..]);
    assert!(Arc::ptr_eq(&layout.tables.read().newer[&sector], &newest));
    drop(system);
    sound(&device);
    let system = again(&device);
    assert_eq!(read(&system, file, 0, 200_000), [1; 100_000]);
}

#[test]
fn the_journal_goes_round_many_times() {
    let device = memory(24 << 20, 4096);
    let system = made(&device);
    let file = create(&system, "file");
    for round in 0..1000u32 {
        let at = u64::from(round % 7) * 4096;
        write(&system, file, at, &round.to_le_bytes()).unwrap();
        system.fsync(file, false).unwrap();
        if round % 300 == 299 {
            sound(&device);
        }
    }
    let told = system.layout().statistics();
    assert!(told.checkpoints > 2, "{told:?}");
    assert!(told.record_bytes > 2 * told.journal_bytes, "{told:?}");
    drop(system);
    let system = again(&device);
    let last = read(&system, file, (999 % 7) * 4096, 4);
    assert_eq!(last, 999u32.to_le_bytes());
}

/// J1: an overwrite in place needs one flush, a new block two.
#[test]
fn an_overwrite_costs_one_flush() {
    let device = memory(24 << 20, 4096);
    let system = made(&device);
    let file = create(&system, "file");
    write(&system, file, 0, &[1; 40_960]).unwrap();
    system.fsync(file, false).unwrap();
    let flushes = || system.layout().statistics().flushes;
    let before = flushes();
    write(&system, file, 8192, &[2; 4096]).unwrap();
    system.fsync(file, true).unwrap();
    assert_eq!(flushes(), before + 1);
    write(&system, file, 40_960, &[3; 4096]).unwrap();
    system.fsync(file, true).unwrap();
    assert_eq!(flushes(), before + 3);
}

/// J1: a reader that sees the new name sees the overwritten data of its file.
#[test]
fn a_name_waits_for_what_was_overwritten_in_its_file() {
    let device = memory(24 << 20, 4096);
    let system = made(&device);
    create(&system, "name");
    let file = create(&system, "temporary");
    write(&system, file, 0, &[1; 40_960]).unwrap();
    system.sync().unwrap();
    let flushes = || system.layout().statistics().flushes;
    let before = flushes();
    write(&system, file, 0, &[2; 4096]).unwrap();
    let (root, flags) = (InodeNo::ROOT, varve_fs::Rename::default());
    let renamed = system.rename(&Caller::root(), root, b"temporary", root, b"name", flags);
    renamed.unwrap();
    system.sync().unwrap();
    assert_eq!(flushes(), before + 2);
    // Nothing is overwritten in place here.
    system.mkdir(&Caller::root(), root, b"new", 0o755).unwrap();
    system.sync().unwrap();
    assert_eq!(flushes(), before + 3);
}

/// J4 and J5.
#[test]
fn room_waits_for_its_record_and_that_of_indirect_blocks_for_a_checkpoint() {
    let device = memory(24 << 20, 512);
    let system = made(&device);
    let root = Caller::root();
    let file = create(&system, "file");
    write(&system, file, 0, &vec![1; 400 << 10]).unwrap();
    system.checkpoint().unwrap();
    let free = || system.layout().statistics().fragments_free;
    let before = free();
    system.unlink(&root, InodeNo::ROOT, b"file").unwrap();
    system.write_back().unwrap();
    assert_eq!(free(), before);
    system.sync().unwrap();
    // The blocks are free, but not the indirect one.
    assert_eq!(free(), before + 800);
    system.checkpoint().unwrap();
    // That one, and the blocks that the directory had before it was empty.
    assert_eq!(free(), before + 809);
}

#[derive(Debug)]
struct Failing(MemoryDevice, AtomicBool);

impl Device for Failing {
    fn geometry(&self) -> varve_device::Geometry {
        self.0.geometry()
    }
    fn read(&self, offset: u64, buffer: &mut [u8]) -> varve_device::Result<()> {
        self.0.read(offset, buffer)
    }
    fn write(&self, offset: u64, buffers: &[std::io::IoSlice<'_>]) -> varve_device::Result<()> {
        self.0.write(offset, buffers)
    }
    fn flush(&self) -> varve_device::Result<()> {
        match self.1.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(varve_device::DeviceError {
                device: "failing".into(),
                operation: varve_device::Operation::Flush,
                offset: 0,
                length: 0,
                source: std::io::Error::other("no more"),
            }),
        }
    }
    fn name(&self) -> String {
        "failing".into()
    }
}

#[test]
fn writing_stops_after_a_failed_flush_and_reads_go_on() {
    let failing = Arc::new(Failing(MemoryDevice::new(24 << 20), AtomicBool::new(false)));
    let device: Arc<dyn Device> = failing.clone();
    let system = made(&device);
    let file = create(&system, "file");
    write(&system, file, 0, b"kept").unwrap();
    system.sync().unwrap();
    failing.1.store(true, Ordering::Relaxed);
    write(&system, file, 0, b"lost").unwrap();
    assert!(system.fsync(file, false).is_err());
    failing.1.store(false, Ordering::Relaxed);
    assert!(system.fsync(file, false).is_err());
    assert!(system.layout().stopped().is_some());
    assert_eq!(read(&system, file, 0, 4).len(), 4);
}

#[test]
fn a_damaged_superblock_costs_nothing_and_two_heads_the_volume() {
    let device = memory(24 << 20, 512);
    let system = made(&device);
    let file = create(&system, "file");
    for round in 0..30u8 {
        write(&system, file, 0, &[round; 4096]).unwrap();
        system.fsync(file, false).unwrap();
        if round == 20 {
            system.checkpoint().unwrap();
        }
    }
    drop(system);
    let zeros = [0; 512];
    let wipe = |block: u64| device.write(block * 4096, &[std::io::IoSlice::new(&zeros)]);
    wipe(0).unwrap();
    let system = again(&device);
    assert_eq!(read(&system, file, 0, 4096), [29; 4096]);
    drop(system);
    wipe(2).unwrap();
    wipe(3).unwrap();
    assert!(Ffs::mount(device, clock(), FfsMountOptions::default()).is_err());
}
