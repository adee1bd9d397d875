//! What cleaning costs at worst (thesis §6.2.2, figures 6-6 and 6-7).

use crate::cleaner::policy::PolicyKind;
use crate::format::Pointer;
use crate::segments::SegmentState;
use crate::{FormatOptions, Lfs, MountOptions};
use std::sync::Arc;
use varve_device::{Clock, MemoryDevice, VirtualClock};
use varve_fs::{Caller, FileSystem, InodeNo, Layout, Options, View};

const BLOCK: u64 = 4096;
/// fallocate(2): punch a hole, keep the size.
const PUNCH: i32 = 3;

struct Volume {
    lfs: Arc<Lfs>,
    fs: FileSystem<Arc<Lfs>>,
}

impl Volume {
    fn new() -> Self {
        Self::cleaned_by(PolicyKind::Greedy)
    }

    fn cleaned_by(policy: PolicyKind) -> Self {
        let device = Arc::new(MemoryDevice::new(24 << 20));
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
        Lfs::format(&*device, &*clock, &FormatOptions::default()).unwrap();
        let options = MountOptions {
            policy,
            ..MountOptions::default()
        };
        let lfs = Lfs::mount(device, Arc::clone(&clock), options).unwrap();
        let lfs = Arc::new(lfs);
        FileSystem::format(&lfs, &*clock, (0, 0)).unwrap();
        let fs = FileSystem::mount(Arc::clone(&lfs), clock, Options::default()).unwrap();
        Volume { lfs, fs }
    }

    fn create(&self, name: &str) -> InodeNo {
        let (root, caller) = (InodeNo::ROOT, Caller::root());
        let made = self
            .fs
            .mknod(View::Live, &caller, root, name.as_bytes(), 0o100_644, 0);
        made.unwrap().ino
    }

    fn write(&self, file: InodeNo, block: u64, blocks: u64) {
        let data: Vec<u8> = (0..blocks * BLOCK)
            .map(|i| (i / BLOCK + block + file.0) as u8)
            .collect();
        let (caller, at) = (Caller::root(), block * BLOCK);
        self.fs.write(View::Live, &caller, file, at, &data).unwrap();
    }

    fn is_whole(&self, file: InodeNo, block: u64, blocks: u64) {
        self.fs.drop_caches();
        let mut data = vec![0; (blocks * BLOCK) as usize];
        self.fs
            .read(View::Live, file, block * BLOCK, &mut data)
            .unwrap();
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

    /// The node of height 1 that finds block 0.
    fn node(&self, file: InodeNo) -> Pointer {
        let base = Arc::clone(&self.lfs.committed.read().base);
        let image = base
            .inode(&self.lfs.reader, &self.lfs.geometry, file)
            .unwrap();
        let root = image.unwrap().root.clone().unwrap();
        assert_eq!(root.height, 1);
        root.slots[0]
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

    fn written(&self) -> u64 {
        let s = self.lfs.statistics();
        s.cleaner_bytes + s.node_bytes + s.inode_bytes + s.summary_bytes
    }
}

#[test]
fn figures_6_6_and_6_7_cleaning_gains_nothing_at_first() {
    let v = Volume::new();
    let file = v.create("file 1");
    v.write(file, 0, 100);
    v.checkpoint();
    // Figure 6-6: segment 1 holds one deleted block, segment 2 the node.
    let caller = Caller::root();
    v.fs.fallocate(View::Live, &caller, file, PUNCH, BLOCK, BLOCK)
        .unwrap();
    v.checkpoint();
    // The log goes on elsewhere.
    let other = v.create("other");
    v.write(other, 0, 100);
    v.checkpoint();
    let (one, node) = (v.segment(v.place(file, 0)), v.node(file));
    let two = v.segment(node);
    assert_ne!(one, two);
    let (in_two, written) = (v.live(two), v.written());

    assert!(v.lfs.clean_segment(one).unwrap());
    v.lfs.checkpoint().unwrap();

    // Figure 6-7: segment 1 is empty, and in segment 2 the node is dead.
    assert_eq!(v.live(one), 0);
    assert_ne!(v.node(file), node);
    let node_bytes = node.stored_bytes();
    assert!(
        v.live(two) <= in_two - node_bytes,
        "{} {in_two}",
        v.live(two)
    );
    // It took more than the one block that was free.
    assert!(v.written() - written > BLOCK);

    // The node's old place comes back by cleaning segment 2.
    assert!(v.lfs.clean_segment(two).unwrap());
    v.lfs.checkpoint().unwrap();
    v.lfs.checkpoint().unwrap();
    assert!(v.is_clean(one) && v.is_clean(two));
    v.is_whole(file, 0, 1);
    v.is_whole(file, 2, 98);
}

#[test]
fn a_block_of_each_of_many_files_costs_more_than_its_segment() {
    let v = Volume::new();
    let blocks = 150;
    let fit = u64::from(v.lfs.geometry.segment_bytes) / BLOCK - 2;
    let files: Vec<InodeNo> = (0..fit).map(|n| v.create(&format!("file {n}"))).collect();
    for &file in &files {
        v.write(file, 0, blocks);
        v.checkpoint();
    }
    // One block of each, together in one segment.
    files.iter().for_each(|&file| v.write(file, 0, 1));
    v.checkpoint();
    v.checkpoint();
    let mut segments: Vec<u32> = files.iter().map(|&f| v.segment(v.place(f, 0))).collect();
    segments.dedup();
    let clean = v.clean();
    assert!(v.lfs.may_move(fit * BLOCK));
    let written = v.written();

    for &segment in &segments {
        assert!(v.lfs.clean_segment(segment).unwrap());
    }
    let priced = v.lfs.committed.read().live.fold_bytes();
    v.lfs.checkpoint().unwrap();
    // Copies and nodes are more than the segments held, and they come first.
    let cost = v.written() - written;
    let gain = segments.len() as u64 * u64::from(v.lfs.geometry.segment_bytes);
    assert!(cost > gain, "cost {cost} for {gain}");
    assert!(v.clean() < clean, "{} after {clean}", v.clean());
    // But never more than had been set aside.
    assert!(cost - fit * BLOCK <= priced + 256 * 1024, "{cost} {priced}");

    // The long run: the dead nodes' segments come back.
    for _ in 0..20 {
        v.lfs.clean_batch().unwrap();
        v.lfs.checkpoint().unwrap();
        v.lfs.checkpoint().unwrap();
    }
    assert!(v.clean() >= clean, "{} after {clean}", v.clean());
    files.iter().for_each(|&file| v.is_whole(file, 0, blocks));
}

#[test]
fn age_sort_writes_the_oldest_survivors_first() {
    let v = Volume::cleaned_by(PolicyKind::CostBenefit);
    let (old, young) = (v.create("old"), v.create("young"));
    for file in [old, young] {
        v.write(file, 0, 200);
        v.checkpoint();
    }
    // The young file's segments are emptier, so they are taken first.
    let caller = Caller::root();
    for (file, left) in [(old, 15), (young, 8)] {
        let (from, length) = (left * BLOCK, (200 - left) * BLOCK);
        v.fs.fallocate(View::Live, &caller, file, PUNCH, from, length)
            .unwrap();
    }
    v.checkpoint();
    let other = v.create("other"); // the log goes on elsewhere
    v.write(other, 0, 100);
    v.checkpoint();
    let before = (v.place(old, 0), v.place(young, 0));
    assert!(v.lfs.clean_batch().unwrap() >= 2);
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
    let place = |file| v.lfs.lookup().inode_place(file).unwrap().0.unwrap().1;
    let second = files.iter().map(|&file| place(file)).find(|p| p.slot > 0);
    let segment = v.lfs.geometry.segment_of(second.unwrap().sector).unwrap();
    let mut contents = v.lfs.read_segment(segment).unwrap();
    for info in &mut contents.blocks {
        info.bytes[0] ^= 1;
    }
    let found = v.lfs.bmapv(&contents.blocks).unwrap();
    assert_eq!(found.damaged, 0);
    let checkpoint = v.lfs.markv(found).unwrap().unwrap();
    v.lfs.segclean(segment, contents.incarnation, checkpoint);
    let cleaned = v.lfs.segments.lock().get(segment).cleaned;
    assert_eq!(cleaned, Some(checkpoint));
    v.lfs.checkpoint().unwrap();
    v.lfs.checkpoint().unwrap();
    assert!(v.is_clean(segment));
    files.iter().for_each(|&file| v.is_whole(file, 0, 5));
}
