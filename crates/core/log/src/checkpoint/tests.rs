//! When a checkpoint is due, when it is refused, and what does not fit its
//! record.

use super::MAX_ENTRIES;
use crate::counts::Counts;
use crate::delta::Delta;
use crate::error::Error;
use crate::format::SECTOR;
use crate::format::checkpoint::CheckpointRecord;
use crate::format::index::Index;
use crate::format::inode::InodeImage;
use crate::format::node::{FANOUT, NodeId};
use crate::format::superblock::incompat_flags;
use crate::{FormatOptions, Lfs, MountOptions};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;
use varve_device::{Clock, Device, MemoryDevice, VirtualClock};
use varve_fs::{Caller, FileKind, FileSystem, InodeNo, Layout, Options, SetAttr};
use varve_fsck::check::{CheckOptions, check};
use zerocopy::IntoBytes;

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
    let imap = lfs.checkpoints.imap_limit();
    let memory = lfs.options.delta_bytes();
    let log_bytes = lfs.checkpoints.checkpoint_bytes();
    assert!(!lfs.checkpoints.checkpoint_due(0, 0) && !lfs.checkpoints.delta_overdue());
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
            Box::new(|live, blocks| {
                live.imap_blocks = (0..blocks).collect();
                live.next_ino = 1 << 20;
            }),
            imap / 2,
            imap * 3 / 4,
        ),
    ];
    let fresh = || std::mem::take(&mut lfs.layers.change().live);
    for (name, grow, due, overdue) in &grown {
        let set = |size| grow(&mut lfs.layers.change().live, size);
        set(due / 1000);
        assert!(!lfs.checkpoints.checkpoint_due(0, 0), "{name}");
        set(*due);
        assert!(lfs.checkpoints.checkpoint_due(0, 0), "{name}");
        set(*overdue);
        assert!(lfs.checkpoints.delta_overdue(), "{name}");
        fresh();
    }
    // What it would write presses on the segments that are left.
    lfs.layers.change().live.counts.bytes = 48 << 20;
    assert!(lfs.space.checkpoint_presses() && lfs.checkpoints.checkpoint_due(0, 0));
    fresh();
    // Age counts only if there is something to fold.
    let old = (lfs.options.checkpoint_seconds + 1) * 1_000_000_000;
    assert!(!lfs.checkpoints.checkpoint_due(old, 0));
    let (ino, _) = lfs
        .allocate_inode(InodeNo::ROOT, FileKind::Regular)
        .unwrap();
    lfs.layers
        .change()
        .live
        .inodes
        .insert(ino.0, Arc::default());
    assert!(lfs.checkpoints.checkpoint_due(old, 0) && !lfs.checkpoints.checkpoint_due(old, old));
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
    assert!(
        lfs.checkpoints.checkpoint_fits(),
        "in what is left of the open segment"
    );
    // More than that has.
    let more = u64::from(lfs.geometry.segment_bytes);
    lfs.layers.change().live.counts.bytes = more;
    assert!(!lfs.checkpoints.checkpoint_fits());
    let refused = lfs.checkpoints.take_checkpoint(false);
    assert!(matches!(refused, Err(Error::OutOfSegments)), "{refused:?}");
    lfs.checkpoints.take_checkpoint_if(|| true).unwrap();
    lfs.layers.change().live.log_bytes = u64::MAX;
    assert!(
        lfs.checkpoints.checkpoint_if_due().unwrap(),
        "due, and left for later"
    );
    lfs.layers.change().live.log_bytes = 0;
    assert_eq!(lfs.statistics().checkpoints, 0);
    assert_eq!(lfs.stopped(), None);
    for segment in taken {
        lfs.segments.lock().put_back(segment);
    }
    lfs.layers.change().live.counts.bytes = 0;
    lfs.checkpoints.take_checkpoint(false).unwrap();
    assert_eq!(lfs.statistics().checkpoints, 1);
    // Nor is one that another, which was under way, has left no reason for.
    let looks = Cell::new(0);
    let once = || looks.replace(looks.get() + 1) == 0;
    lfs.checkpoints.take_checkpoint_if(once).unwrap();
    assert_eq!((looks.get(), lfs.statistics().checkpoints), (2, 1));
}

/// A file system on a volume of its own, and a file on it.
struct Mounted {
    device: Arc<MemoryDevice>,
    clock: Arc<VirtualClock>,
    lfs: Arc<Lfs>,
    fs: FileSystem<Lfs>,
    file: InodeNo,
}

impl Mounted {
    /// With `leaves` of the file's index full of blocks.
    fn new(leaves: u64) -> Self {
        Self::made(leaves, |_| {})
    }

    /// The same, each of whose leaves takes eight sectors.
    fn unpacked(leaves: u64) -> Self {
        Self::made(leaves, |device| {
            let mut superblock = Lfs::find_superblock(device).unwrap();
            let packed = incompat_flags::PACKED;
            superblock.incompat = (superblock.incompat.get() & !packed).into();
            let copy = superblock.sealed_for(0);
            device.apply_write(0, copy.as_bytes()).unwrap();
        })
    }

    fn made(leaves: u64, prepare: impl FnOnce(&MemoryDevice)) -> Self {
        let device = Arc::new(MemoryDevice::new(64 << 20));
        let ticking = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
        let clock: Arc<dyn Clock> = ticking.clone();
        let options = FormatOptions {
            seed: Some(7),
            ..FormatOptions::default()
        };
        Lfs::format(&*device, &*clock, &options).unwrap();
        prepare(&device);
        let lfs = Arc::new(mounted(&device, &clock));
        FileSystem::format(&*lfs, &*clock, (0, 0)).unwrap();
        let fs = FileSystem::mount(Arc::clone(&lfs), clock, Options::default()).unwrap();
        let made = fs.mknod(&Caller::root(), InodeNo::ROOT, b"file", 0o644, 0);
        let mounted = Mounted {
            device,
            clock: ticking,
            lfs,
            fs,
            file: made.unwrap().ino,
        };
        mounted.write(leaves);
        mounted
    }

    fn write(&self, leaves: u64) {
        let data = vec![7; (FANOUT << 12) as usize];
        for leaf in 0..leaves {
            let at = leaf * data.len() as u64;
            self.fs
                .write(&Caller::root(), self.file, at, &data)
                .unwrap();
        }
        self.fs.sync().unwrap();
    }

    fn image(&self) -> Arc<InodeImage> {
        let base = Arc::clone(&self.lfs.layers.read().base);
        let image = base.inode(&self.lfs.reader, &self.lfs.geometry, self.file);
        image.unwrap().unwrap()
    }

    /// What is wrong with the volume as it would be found after a crash.
    fn errors(&self) -> Vec<String> {
        let found = Arc::new(MemoryDevice::from_image(&self.device.snapshot()));
        let clock: Arc<dyn Clock> = self.clock.clone();
        let report = check(found, clock, &CheckOptions::default()).unwrap();
        report.errors.iter().map(ToString::to_string).collect()
    }
}

/// The file goes all the same; what could not be read stays counted, and costs
/// nothing but its room.
#[test]
fn a_file_whose_index_is_damaged_can_be_removed() {
    let m = Mounted::new(12);
    m.lfs.checkpoint().unwrap();
    let root = m.image().root.clone().unwrap();
    let node = root.slots[0];
    let live = || m.lfs.segments.lock().live_bytes();
    let (sector, whole) = (node.sector() * SECTOR, live());
    m.device
        .write(sector, &[IoSlice::new(&[0xa5; 512])])
        .unwrap();
    m.lfs.drop_caches();
    m.fs.unlink(&Caller::root(), InodeNo::ROOT, b"file")
        .unwrap();
    for _ in 0..4 {
        m.fs.sync().unwrap();
        m.fs.maintain().unwrap();
    }
    m.lfs.checkpoint().unwrap();
    assert_eq!(m.lfs.stopped(), None);
    assert!(live() > whole / 2, "{} of {whole}", live());
    let again: Arc<dyn Clock> = m.clock.clone();
    let again = mounted(
        &Arc::new(MemoryDevice::from_image(&m.device.snapshot())),
        &again,
    );
    let gone = again.layers.lookup().inode(m.file);
    assert!(matches!(gone, Err(Error::NoInode(_))), "{gone:?}");
}

/// A node that was put down to be written anew is gone with the file, or the part
/// of it that it finds: a checkpoint of the time between has cut it off.
#[test]
fn a_node_that_is_gone_before_it_is_written_anew_costs_nothing() {
    let m = Mounted::new(2);
    m.lfs.checkpoint().unwrap();
    let place = || m.lfs.layers.lookup().inode_place(m.file).unwrap().0;
    let (before, root) = (place(), m.image().root.clone());
    let written = || m.lfs.statistics().node_bytes;
    let touch = |ino, index| {
        let node = NodeId {
            ino,
            height: 1,
            index,
        };
        let mut committed = m.lfs.layers.change();
        committed.live.touch(&m.lfs.geometry, node, 2);
    };
    touch(m.file, 500);
    touch(InodeNo(m.file.0 + 1), 0);
    m.lfs.checkpoint().unwrap();
    assert_eq!((place(), m.image().root.clone()), (before, root.clone()));
    // One that is there moves, and the inode with it.
    let nodes = written();
    touch(m.file, 1);
    m.lfs.checkpoint().unwrap();
    assert!(place() != before && m.image().root != root);
    assert!(written() > nodes);
    assert_eq!(m.errors(), [""; 0]);
}

/// Behind a recovery the heights of indexes are guessed, and too little may be counted:
/// then the first attempt has no record, and the second keeps room for what that wrote.
#[test]
fn a_checkpoint_that_wrote_more_than_was_counted_is_taken_again() {
    let m = Mounted::new(1);
    m.lfs.checkpoint().unwrap();
    let caller = Caller::root();
    for leaf in 1..400 {
        let at = leaf * (FANOUT << 12);
        m.fs.write(&caller, m.file, at, &[7; 4096]).unwrap();
    }
    m.fs.sync().unwrap();
    {
        let mut committed = m.lfs.layers.change();
        committed.live.counts = Counts::default();
        committed.live.guessed = true;
    }
    let before = m.lfs.statistics();
    m.lfs.checkpoint().unwrap();
    let after = m.lfs.statistics();
    assert_eq!(after.checkpoints - before.checkpoints, 1);
    let record = u64::from(m.lfs.superblock.record_bytes.get());
    assert_eq!(after.record_bytes - before.record_bytes, record);
    let nodes = after.node_bytes - before.node_bytes;
    assert!(
        nodes > 2 * 400 * 512,
        "{nodes} bytes of nodes, written twice"
    );
    // The space kept for that is given back with it.
    assert_eq!(m.lfs.layers.read().live.counts, Counts::default());
    assert_eq!(m.errors(), [""; 0]);
}

/// No fsync waits for more nodes than a portion, on a device on which that is
/// little.
#[test]
fn on_a_slow_device_fewer_nodes_go_into_a_group() {
    let groups = [false, true].map(|slow| {
        let m = Mounted::unpacked(40);
        let read = || -> Result<(), ()> {
            m.clock.advance(Duration::from_secs(1));
            Ok(())
        };
        for _ in 0..if slow { 200 } else { 0 } {
            m.lfs.counters.speed.timed(128 << 10, read).unwrap();
        }
        let before = m.lfs.statistics();
        m.lfs.checkpoint().unwrap();
        let after = m.lfs.statistics();
        assert!(after.node_bytes - before.node_bytes > 40 << 12);
        assert_eq!(m.errors(), [""; 0]);
        after.groups - before.groups
    });
    // Sixteen blocks or so at a time, instead of forty at once.
    assert_eq!(groups[1] - groups[0], 2, "{groups:?}");
}

/// In how many segments the usage table's blocks lie.
fn table_segments(lfs: &Lfs) -> usize {
    let base = Arc::clone(&lfs.layers.read().base);
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
    let lfs = mounted(&device, &clock);
    let slot_bytes = u64::from(lfs.superblock.record_bytes.get());
    // Room for 31 corrections, as far as this mount knows.
    let mut superblock = **lfs.superblock;
    superblock.record_bytes = 1024.into();
    lfs.superblock.put(superblock);
    let lfs = Arc::new(lfs);
    let system =
        FileSystem::mount(Arc::clone(&lfs), Arc::clone(&clock), Options::default()).unwrap();
    let caller = Caller::root();
    let made = system.mknod(&caller, InodeNo::ROOT, b"file", 0o644, 0);
    let file = made.unwrap().ino;
    let data = vec![7; 6 << 20];
    for nth in 0..46 {
        let at = nth * data.len() as u64;
        system.write(&caller, file, at, &data).unwrap();
        // Part of the table changes, and is written where the log is now.
        system.checkpoint().unwrap();
    }
    let nothing = SetAttr {
        size: Some(0),
        ..SetAttr::default()
    };
    system.setattr(&caller, file, &nothing).unwrap();
    while system.usage().blocks > 100 {
        system.maintain().unwrap();
    }
    let lies_in = table_segments(&lfs);
    assert!(lies_in > 31, "the table lies in {lies_in} segments");
    system.checkpoint().unwrap();

    // The record, moved to where a reader looks for it.
    let ring = lfs.superblock.ring_offset.get();
    let serial = lfs.checkpoints.schedule().next_serial - 1;
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
        .filter(|found| found.kind != varve_fsck::check::FindingKind::CheckpointSlot)
        .map(ToString::to_string)
        .collect();
    assert_eq!(wrong, [""; 0]);
}
