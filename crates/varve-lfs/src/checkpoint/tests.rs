//! When a checkpoint is due, when it is refused, and what does not fit its
//! record.

use super::MAX_ENTRIES;
use crate::check::{CheckOptions, check};
use crate::delta::Delta;
use crate::error::Error;
use crate::format::checkpoint::CheckpointRecord;
use crate::{FormatOptions, Lfs, MountOptions};
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::sync::Arc;
use varve_device::{Clock, Device, MemoryDevice, VirtualClock};
use varve_fs::{Caller, FileSystem, InodeNo, Layout, Options, SetAttr, View};

fn formatted(bytes: u64, segment_bytes: u32) -> (Arc<MemoryDevice>, Arc<dyn Clock>) {
    let device = Arc::new(MemoryDevice::new(bytes));
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
    let options = FormatOptions {
        segment_bytes,
        seed: Some(7),
        ..FormatOptions::default()
    };
    Lfs::format(&*device, &*clock, &options).unwrap();
    let lfs = Lfs::mount(device.clone(), Arc::clone(&clock), MountOptions::default()).unwrap();
    FileSystem::format(&lfs, &*clock, (0, 0)).unwrap();
    lfs.unmount().unwrap();
    (device, clock)
}

fn mounted(device: &Arc<MemoryDevice>, clock: &Arc<dyn Clock>) -> Lfs {
    let options = MountOptions {
        seed: Some(1),
        ..MountOptions::default()
    };
    Lfs::mount(device.clone(), Arc::clone(clock), options).unwrap()
}

#[test]
fn each_reason_alone_makes_a_checkpoint_due() {
    let (device, clock) = formatted(64 << 20, 0);
    let lfs = mounted(&device, &clock);
    let imap = lfs.imap_limit();
    let memory = lfs.options.delta_bytes();
    let log_bytes = lfs.checkpoint_bytes();
    assert!(!lfs.checkpoint_due(0, 0) && !lfs.delta_overdue());
    // How much of each is due, and how much more is overdue.
    type Grow = Box<dyn Fn(&mut Delta, u64)>;
    let grown: [(&str, Grow, u64, u64); 4] = [
        (
            "log",
            Box::new(|live, bytes| live.log_bytes = bytes),
            log_bytes,
            2 * log_bytes,
        ),
        (
            "entries",
            Box::new(|live, entries| live.entries = entries),
            MAX_ENTRIES,
            2 * MAX_ENTRIES,
        ),
        (
            "memory",
            Box::new(|live, bytes| live.held_blocks = bytes),
            memory,
            2 * memory,
        ),
        (
            "inode map",
            Box::new(|live, blocks| live.imap_blocks = (0..blocks).collect()),
            imap / 2,
            imap * 3 / 4,
        ),
    ];
    let fresh = || std::mem::take(&mut lfs.committed.write().live);
    for (name, grow, due, overdue) in &grown {
        let set = |size| grow(&mut lfs.committed.write().live, size);
        set(due / 1000);
        assert!(!lfs.checkpoint_due(0, 0), "{name}");
        set(*due);
        assert!(lfs.checkpoint_due(0, 0), "{name}");
        set(*overdue);
        assert!(lfs.delta_overdue(), "{name}");
        fresh();
    }
    // What it would write presses on the segments that are left.
    lfs.committed.write().live.file_fold_bytes = 48 << 20;
    assert!(lfs.checkpoint_presses() && lfs.checkpoint_due(0, 0));
    fresh();
    // Age counts only if there is something to fold.
    let old = (lfs.options.checkpoint_seconds + 1) * 1_000_000_000;
    assert!(!lfs.checkpoint_due(old, 0));
    let (ino, _) = lfs.allocate_inode().unwrap();
    lfs.committed
        .write()
        .live
        .inodes
        .insert(ino.0, Box::default());
    assert!(lfs.checkpoint_due(old, 0) && !lfs.checkpoint_due(old, old));
    fresh();
}

/// A checkpoint that might not find room is not begun: the volume goes on, and
/// has it once there is room.
#[test]
fn without_room_a_checkpoint_is_refused_and_nothing_stops() {
    let (device, clock) = formatted(16 << 20, 0);
    let lfs = mounted(&device, &clock);
    let mut taken = Vec::new();
    while let Ok(segment) = lfs.segments.lock().take(0) {
        taken.push(segment);
    }
    assert!(!lfs.checkpoint_fits());
    let refused = lfs.take_checkpoint(false);
    assert!(matches!(refused, Err(Error::OutOfSegments)), "{refused:?}");
    lfs.committed.write().live.log_bytes = u64::MAX;
    assert!(lfs.checkpoint_if_due().unwrap(), "due, and left for later");
    lfs.committed.write().live.log_bytes = 0;
    assert_eq!(lfs.statistics().checkpoints, 0);
    assert_eq!(lfs.stopped(), None);
    for segment in taken {
        lfs.segments.lock().put_back(segment);
    }
    lfs.take_checkpoint(false).unwrap();
    assert_eq!(lfs.statistics().checkpoints, 1);
}

/// In how many segments the usage table's blocks lie.
fn table_segments(lfs: &Lfs) -> usize {
    let base = Arc::clone(&lfs.committed.read().base);
    let mut segments = BTreeSet::new();
    let blocks = u64::from(lfs.geometry.segment_count) / lfs.geometry.entries_per_block() + 1;
    base.ifile_tree(&lfs.reader)
        .blocks(0, blocks, &mut |_, pointer| {
            segments.insert(lfs.geometry.segment_of(pointer.sector()));
            true
        })
        .unwrap();
    segments.len()
}

/// The blocks of the usage table lie in more segments than the record has
/// corrections: the table is written once more, with them inside.
#[test]
fn corrections_that_do_not_fit_go_into_the_table() {
    let (device, clock) = formatted(400 << 20, 64 << 10);
    let mut lfs = mounted(&device, &clock);
    let slot_bytes = u64::from(lfs.superblock.record_bytes.get());
    // Room for 31 corrections, as far as this mount knows.
    lfs.superblock.record_bytes = 1024.into();
    let lfs = Arc::new(lfs);
    let system =
        FileSystem::mount(Arc::clone(&lfs), Arc::clone(&clock), Options::default()).unwrap();
    let caller = Caller::root();
    let made = system.mknod(View::Live, &caller, InodeNo::ROOT, b"file", 0o644, 0);
    let file = made.unwrap().ino;
    let data = vec![7; 6 << 20];
    for nth in 0..46 {
        let at = nth * data.len() as u64;
        system.write(View::Live, &caller, file, at, &data).unwrap();
        // Part of the table changes, and is written where the log is now.
        system.checkpoint().unwrap();
    }
    let nothing = SetAttr {
        size: Some(0),
        ..SetAttr::default()
    };
    system.setattr(View::Live, &caller, file, &nothing).unwrap();
    while system.usage().blocks > 100 {
        system.maintain().unwrap();
    }
    let lies_in = table_segments(&lfs);
    assert!(lies_in > 31, "the table lies in {lies_in} segments");
    system.checkpoint().unwrap();

    // The record, moved to where a reader looks for it.
    let ring = lfs.superblock.ring_offset.get();
    let serial = lfs.checkpointing.lock().next_serial - 1;
    let mut bytes = vec![0; 1024];
    device.read(ring + serial % 2 * 1024, &mut bytes).unwrap();
    let record = CheckpointRecord::decode(&bytes, lfs.volume_tag).unwrap();
    assert_eq!(record.header.serial.get(), serial);
    assert!(record.deltas.len() <= 31, "{}", record.deltas.len());
    let sound = Arc::new(MemoryDevice::from_image(&device.snapshot()));
    sound
        .write(ring, &[IoSlice::new(&vec![0; 2 * slot_bytes as usize])])
        .unwrap();
    let moved = record.encode(slot_bytes as usize);
    let at = ring + serial % 2 * slot_bytes;
    sound.write(at, &[IoSlice::new(&moved)]).unwrap();
    let report = check(sound, clock, &CheckOptions::default()).unwrap();
    let wrong: Vec<String> = report
        .errors
        .iter()
        .filter(|found| found.kind != crate::check::FindingKind::CheckpointSlot)
        .map(ToString::to_string)
        .collect();
    assert_eq!(wrong, [""; 0]);
}
