//! What becomes of a judgement when the image changes before the move; and what
//! the tests of the cleaner share.

mod client;
mod client_ends;
mod coalescing;
mod costs;
mod due;
mod early;
mod errands;
mod gain;
mod holes;
mod liveness;
mod marks;
mod meanwhile;
mod pass;
mod promised;
mod reading;
mod remote;
mod server;
#[cfg(not(feature = "shuttle"))]
mod waits;
#[cfg(not(feature = "shuttle"))]
mod way;

use super::pass::Batch;
use super::plan::{Among, Urgency};
use crate::format::{Pointer, SECTOR};
use crate::policy::PolicyKind;
use crate::segments::{Edition, SegmentState};
use crate::{FormatOptions, Lfs, MountOptions};
use errands::Errands;
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use varve_device::{Clock, Device, MemoryDevice, Operation, VirtualClock};
use varve_fs::{Caller, FileSystem, InodeNo, Layout, Options, View};

const BLOCK: u64 = 4096;
/// fallocate(2): punch a hole, keep the size.
const PUNCH: i32 = 3;

struct Volume {
    device: Arc<MemoryDevice>,
    /// The same, as the layout has it.
    errands: Arc<Errands>,
    lfs: Arc<Lfs>,
    fs: FileSystem<Lfs>,
    clock: Arc<VirtualClock>,
}

impl Volume {
    fn new() -> Self {
        Self::cleaned_by(PolicyKind::GREEDY)
    }

    fn cleaned_by(policy: PolicyKind) -> Self {
        Self::mounted(MountOptions {
            policy,
            ..MountOptions::default()
        })
    }

    fn mounted(options: MountOptions) -> Self {
        Self::made(24 << 20, &FormatOptions::default(), options)
    }

    fn made(bytes: u64, format: &FormatOptions, options: MountOptions) -> Self {
        let device = Arc::new(MemoryDevice::new(bytes));
        let ticking = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
        let clock: Arc<dyn Clock> = ticking.clone();
        Lfs::format(&*device, &*clock, format).unwrap();
        let errands = Arc::new(Errands::on(device.clone()));
        let lfs = Lfs::mount(errands.clone(), Arc::clone(&clock), options).unwrap();
        let lfs = Arc::new(lfs);
        FileSystem::format(&*lfs, &*clock, (0, 0)).unwrap();
        let fs = FileSystem::mount(Arc::clone(&lfs), clock, Options::default()).unwrap();
        Volume {
            device,
            errands,
            lfs,
            fs,
            clock: ticking,
        }
    }

    fn create(&self, name: &str) -> InodeNo {
        let (root, caller) = (InodeNo::ROOT, Caller::root());
        let made = self.fs.mknod(&caller, root, name.as_bytes(), 0o100_644, 0);
        made.unwrap().ino
    }

    fn write(&self, file: InodeNo, block: u64, blocks: u64) {
        let data: Vec<u8> = (0..blocks * BLOCK)
            .map(|i| (i / BLOCK + block + file.0) as u8)
            .collect();
        let (caller, at) = (Caller::root(), block * BLOCK);
        self.fs.write(&caller, file, at, &data).unwrap();
    }

    fn is_whole(&self, file: InodeNo, block: u64, blocks: u64) {
        self.fs.drop_caches();
        let mut data = vec![0; (blocks * BLOCK) as usize];
        self.fs.read(file, block * BLOCK, &mut data).unwrap();
        let right = |(i, byte): (usize, &u8)| *byte == (i as u64 / BLOCK + block + file.0) as u8;
        assert!(data.iter().enumerate().all(right), "{file}");
    }

    fn checkpoint(&self) {
        self.fs.sync().unwrap();
        self.lfs.checkpoint().unwrap();
    }

    fn segment(&self, pointer: Pointer) -> u32 {
        self.lfs.geometry.segment_of(pointer.sector()).unwrap()
    }

    fn place(&self, file: InodeNo, block: u64) -> Pointer {
        self.lfs.map(View::Live, file, block, 1).unwrap()[0].pointer
    }

    /// The bytes of the device where a block stands.
    fn bytes(pointer: Pointer) -> Range<u64> {
        let first = pointer.sector() * SECTOR;
        first..first + pointer.stored_bytes()
    }

    /// The node of height 1 that finds block 0.
    fn node(&self, file: InodeNo) -> Pointer {
        self.nodes(file)[0]
    }

    /// The nodes of height 1, below the inode.
    fn nodes(&self, file: InodeNo) -> Vec<Pointer> {
        let base = Arc::clone(&self.lfs.layers.read().base);
        let image = base
            .inode(&self.lfs.reader, &self.lfs.geometry, file)
            .unwrap();
        let root = image.unwrap().root.clone().unwrap();
        assert_eq!(root.height, 1);
        root.slots.clone()
    }

    fn live(&self, segment: u32) -> u64 {
        self.lfs.segments.lock().get(segment).live_bytes.into()
    }

    fn clean(&self) -> u32 {
        self.lfs.segments.lock().clean_count()
    }

    fn is_clean(&self, segment: u32) -> bool {
        self.lfs.segments.lock().get(segment).state == SegmentState::Clean
    }

    fn bytes_of(&self, segment: u32) -> Range<u64> {
        let first = self.lfs.geometry.byte(segment, 0);
        first..first + u64::from(self.lfs.geometry.segment_bytes)
    }

    /// A checkpoint is taken before any of these bytes are read.
    fn checkpoint_before_reading(&self, bytes: Range<u64>) {
        let lfs = Arc::clone(&self.lfs);
        self.errands.before(Operation::Read, bytes, move || {
            lfs.checkpoint().unwrap();
            false
        });
    }

    /// The device seems to take a second for 128 KiB: portions are the least.
    fn appears_slow(&self) {
        let slow = || -> Result<(), ()> {
            self.clock.advance(Duration::from_secs(1));
            Ok(())
        };
        for _ in 0..200 {
            self.lfs.counters.speed.timed(128 << 10, slow).unwrap();
        }
        assert_eq!(self.lfs.counters.speed.portion_bytes(), 32 << 10);
    }

    fn written(&self) -> u64 {
        let s = self.lfs.statistics();
        s.cleaner_bytes + s.node_bytes + s.inode_bytes + s.summary_bytes
    }
}

#[test]
fn age_sort_writes_the_oldest_survivors_first() {
    let v = Volume::cleaned_by(PolicyKind::COST_BENEFIT);
    let (old, young) = (v.create("old"), v.create("young"));
    for file in [old, young] {
        v.write(file, 0, 200);
        v.checkpoint();
    }
    // The young file's segments are emptier, so they are taken first.
    let caller = Caller::root();
    for (file, left) in [(old, 15), (young, 8)] {
        let (from, length) = (left * BLOCK, (200 - left) * BLOCK);
        v.fs.fallocate(&caller, file, PUNCH, from, length).unwrap();
    }
    v.checkpoint();
    let other = v.create("other"); // the log goes on elsewhere
    v.write(other, 0, 100);
    v.checkpoint();
    let before = (v.place(old, 0), v.place(young, 0));
    assert!(v.lfs.cleaner.clean_batch().unwrap() >= 2);
    let after = (v.place(old, 0), v.place(young, 0));
    assert!(
        after.0 != before.0 && after.1 != before.1,
        "both were moved"
    );
    let ends = (v.place(old, 14).sector(), after.1.sector());
    assert!(ends.0 < ends.1, "{ends:?}");
    v.checkpoint();
    v.is_whole(old, 0, 15);
    v.is_whole(young, 0, 8);
}

#[test]
fn the_four_calls_clean_a_segment_that_was_misread_once() {
    let v = Volume::new();
    let files: Vec<InodeNo> = (0..8).map(|n| v.create(&format!("file {n}"))).collect();
    files.iter().for_each(|&file| v.write(file, 0, 5));
    v.checkpoint();
    let other = v.create("other"); // the log goes on elsewhere
    v.write(other, 0, 100);
    v.checkpoint();

    // Inodes share sectors: the second of two is to be found again as well.
    let place = |file| {
        v.lfs
            .layers
            .lookup()
            .inode_place(file)
            .unwrap()
            .0
            .unwrap()
            .1
    };
    let second = files.iter().map(|&file| place(file)).find(|p| p.slot > 0);
    let segment = v.lfs.geometry.segment_of(second.unwrap().sector).unwrap();
    let mut contents = v.lfs.mechanism.read_segment(segment).unwrap();
    contents.spoil(v.lfs.geometry.byte(segment, 0));
    let found = v.lfs.mechanism.bmapv(&contents).unwrap();
    assert_eq!(found.damaged, 0);
    let checkpoint = v.lfs.mechanism.markv(found).unwrap().unwrap();
    v.lfs
        .mechanism
        .segclean(segment, contents.edition, checkpoint, true);
    let cleaned = v.lfs.segments.lock().get(segment).cleaned;
    assert_eq!(cleaned, Some(checkpoint));
    v.lfs.checkpoint().unwrap();
    v.lfs.checkpoint().unwrap();
    assert!(v.is_clean(segment));
    files.iter().for_each(|&file| v.is_whole(file, 0, 5));
}

/// A file of `blocks`, the segments it lies in, and the log elsewhere.
fn settled_file(v: &Volume, blocks: u64) -> (InodeNo, Vec<u32>) {
    let file = v.create("file");
    v.write(file, 0, blocks);
    v.checkpoint();
    let other = v.create("other");
    v.write(other, 0, 100);
    v.checkpoint();
    let mut segments: Vec<u32> = (0..blocks)
        .map(|block| v.segment(v.place(file, block)))
        .collect();
    segments.dedup();
    (file, segments)
}

/// What lives in all of these segments.
fn found_in(v: &Volume, segments: &[u32]) -> super::Found {
    let mut found = super::Found::default();
    for &segment in segments {
        let contents = v.lfs.mechanism.read_segment(segment).unwrap();
        found.append(v.lfs.mechanism.bmapv(&contents).unwrap());
    }
    found
}

#[test]
fn more_than_a_group_holds_is_moved_in_several() {
    let v = Volume::new();
    let blocks = 800; // 3 MiB
    let (file, segments) = settled_file(&v, blocks);
    let (groups, place) = (v.lfs.statistics().groups, v.place(file, 0));
    let found = found_in(&v, &segments);
    assert!(v.lfs.mechanism.markv(found).unwrap().is_some());
    let made = v.lfs.statistics().groups - groups;
    assert_ne!(v.place(file, 0), place);
    // Whoever appends behind a group waits for one segment.
    let ends: BTreeSet<u32> = (0..blocks)
        .map(|block| v.segment(v.place(file, block)))
        .collect();
    assert!(ends.len() > 20);
    assert_eq!(made, ends.len() as u64);
    v.checkpoint();
    v.is_whole(file, 0, blocks);
}

/// What a running checkpoint has frozen, it folds: moves come after that.
#[test]
fn moves_beside_a_running_checkpoint_are_folded_by_the_next() {
    let v = Volume::new();
    let (_, segments) = settled_file(&v, 100);
    let serial = v.lfs.layers.read().base.serial;
    let found = found_in(&v, &segments[..1]);
    assert_eq!(v.lfs.mechanism.markv(found).unwrap(), Some(serial + 1));
    let found = found_in(&v, &segments[1..]);
    v.lfs.layers.change().frozen = Some(Arc::default());
    assert_eq!(v.lfs.mechanism.markv(found).unwrap(), Some(serial + 2));
}

/// Protocol rule 18: what was judged against an image that a checkpoint has
/// replaced is judged again, whatever was found.
#[test]
fn a_judgement_does_not_outlive_its_image() {
    let v = Volume::new();
    let blocks = 600;
    let (file, segments) = settled_file(&v, blocks);
    let judged = |segments: &[u32]| {
        let found = found_in(&v, segments);
        v.create("a change");
        v.checkpoint();
        v.fs.unlink(&Caller::root(), InodeNo::ROOT, b"a change")
            .unwrap();
        found
    };
    // Several groups of moves, and one.
    for segments in [&segments[..], &segments[..1]] {
        let places: Vec<Pointer> = (0..blocks).map(|block| v.place(file, block)).collect();
        let found = judged(segments);
        assert_eq!(v.lfs.mechanism.markv(found).unwrap(), None);
        let now: Vec<Pointer> = (0..blocks).map(|block| v.place(file, block)).collect();
        assert_eq!(now, places, "nothing was moved");
    }
    // Half of it before a checkpoint, half behind.
    let mut found = judged(&segments[..1]);
    found.append(found_in(&v, &segments[1..2]));
    assert_eq!(v.lfs.mechanism.markv(found).unwrap(), None);

    // A batch is then taken segment by segment.
    let mut batch = Batch::default();
    for &segment in &segments[..2] {
        let (edition, found) = v.lfs.mechanism.judge(segment, &|| true).unwrap().unwrap();
        batch.add((segment, edition), found, Default::default());
    }
    v.create("another change");
    v.checkpoint();
    assert_eq!(v.lfs.cleaner.move_out(batch).unwrap(), 2);
    v.checkpoint();
    v.lfs.checkpoint().unwrap();
    assert!(v.is_clean(segments[0]) && v.is_clean(segments[1]));
    v.is_whole(file, 0, blocks);
}

/// Only what was read is declared done: not what the log has come back to.
#[test]
fn a_segment_that_changed_meanwhile_is_not_declared_clean() {
    let v = Volume::new();
    let (_, segments) = settled_file(&v, 100);
    let edition = v.lfs.segments.lock().get(segments[0]).edition();
    let cleaned = |segment| v.lfs.segments.lock().get(segment).cleaned;
    let opened = Edition {
        incarnation: edition.incarnation + 1,
        ..edition
    };
    let plugged = Edition {
        last_serial: edition.last_serial + 1,
        ..edition
    };
    for other in [opened, plugged] {
        v.lfs.mechanism.segclean(segments[0], other, 9, true);
        assert_eq!(cleaned(segments[0]), None);
        v.lfs.mechanism.distrust(segments[0], other);
        assert!(!v.lfs.segments.lock().get(segments[0]).suspect);
    }
    // The log's head is neither judged nor declared.
    let head = v.lfs.log.lock().end.at(0).segment.get();
    let edition = v.lfs.segments.lock().get(head).edition();
    v.lfs.mechanism.segclean(head, edition, 9, true);
    v.lfs.mechanism.distrust(head, edition);
    assert_eq!(cleaned(head), None);
    assert!(!v.lfs.segments.lock().get(head).suspect);
    assert!(!v.lfs.cleaner.clean_segment(head).unwrap());
    // Nor is a clean one.
    let clean = v.lfs.segments.lock().iter().find_map(|(n, s)| {
        let clean = s.state == SegmentState::Clean;
        clean.then_some(n)
    });
    assert!(!v.lfs.cleaner.clean_segment(clean.unwrap()).unwrap());
}

/// What is damaged where it lives keeps its segment, of whatever kind it is.
#[test]
fn damage_keeps_its_segment() {
    let v = Volume::new();
    let file = v.create("file");
    let caller = Caller::root();
    v.write(file, 0, 20);
    v.fs.setxattr(&caller, file, b"user.x", &[7; 900], false, false)
        .unwrap();
    v.checkpoint();
    let other = v.create("other"); // the log goes on elsewhere
    v.write(other, 0, 100);
    v.checkpoint();
    let lookup = v.lfs.layers.lookup();
    let xattrs = lookup.xattrs(file).unwrap();
    let inode = lookup.inode_place(file).unwrap().0.unwrap().1;
    let sectors = [
        v.place(file, 3).sector(),
        xattrs.sector(),
        inode.sector,
        v.node(file).sector(),
    ];
    let whose = |at: u64| {
        let told = v.lfs.counters.failures.recent();
        let told = told.iter().rfind(|failure| failure.offset == at).unwrap();
        (told.inode, told.block)
    };
    for sector in sectors {
        let at = sector * SECTOR;
        let mut whole = [0; 512];
        v.device.read(at, &mut whole).unwrap();
        v.device.write(at, &[IoSlice::new(&[0xa5; 512])]).unwrap();
        v.lfs.drop_caches();
        let segment = v.lfs.geometry.segment_of(sector).unwrap();
        assert!(
            !v.lfs.cleaner.clean_segment(segment).unwrap(),
            "sector {sector}"
        );
        let mut segments = v.lfs.segments.lock();
        let entry = segments.get_mut(segment);
        assert!(std::mem::take(&mut entry.suspect), "sector {sector}");
        drop(segments);
        if sector == sectors[0] {
            assert_eq!(whose(at), (Some(file.0), Some(3)));
        }
        v.device.write(at, &[IoSlice::new(&whole)]).unwrap();
        v.lfs.drop_caches();
    }
    v.is_whole(file, 0, 20);
}
