//! Writing into holes (`docs/design/holes.md`): which segments, what a mount makes of
//! it, and what happens when something is wrong.

mod unread;

use super::*;
use crate::chain::ChainItem;
use crate::control::plugging::Plugging;
use crate::log::LogItem;
use crate::segments::Edition;
use varve_device::{Fault, FaultDevice, FaultKind};
use varve_fs::Timestamp;
use varve_fsck::check::{CheckOptions, check};

/// Blocks of one group that are overwritten.
const GROUP: u64 = 64;

impl Volume {
    /// Full, of one file whose blocks have died here and there, and two
    /// checkpoints since.
    fn crowded() -> (Self, InodeNo, u64) {
        Volume::crowded_on(&FormatOptions::default())
    }

    fn crowded_on(format: &FormatOptions) -> (Self, InodeNo, u64) {
        let v = Volume::made(24 << 20, format, MountOptions::default());
        let file = v.create("file");
        let free = v.fs.statfs().free;
        let blocks = free * 95 / 100;
        (0..blocks).step_by(256).for_each(|block| {
            v.write(file, block, 256.min(blocks - block));
        });
        v.fs.sync().unwrap();
        for block in (0..blocks).step_by(5) {
            v.write(file, block, 1);
        }
        v.checkpoint();
        v.checkpoint();
        (v, file, blocks)
    }

    /// Overwrites blocks at every `step` until some have gone into holes.
    fn plug(&self, file: InodeNo, blocks: u64, step: u64) {
        let before = self.lfs.statistics().segments_plugged;
        for round in 0..64 {
            for nth in 0..GROUP {
                let block = (round * GROUP + nth) * step % blocks;
                self.write(file, block, 1);
            }
            self.fs.sync().unwrap();
            if self.lfs.statistics().segments_plugged > before {
                return;
            }
        }
        panic!("no holes were written into: {:?}", self.lfs.statistics());
    }

    /// Segments that have been plugged, the latest first.
    fn plugged(&self) -> Vec<(u32, Edition)> {
        let segments = self.lfs.segments.lock();
        let plugged = segments.iter().filter(|(_, segment)| segment.plugged);
        let mut plugged: Vec<_> = plugged.map(|(n, segment)| (n, segment.edition())).collect();
        plugged.sort_by_key(|(_, edition)| std::cmp::Reverse(edition.last_serial));
        plugged
    }

    fn again(&self) -> Lfs {
        let clock: Arc<dyn Clock> = self.clock.clone();
        Lfs::mount(self.device.clone(), clock, MountOptions::default()).unwrap()
    }
}

fn read_whole(lfs: &Lfs, file: InodeNo, blocks: u64) {
    for from in (0..blocks).step_by(128) {
        let run = lfs
            .map(View::Live, file, from, 128.min(blocks - from))
            .unwrap();
        for (mapped, bytes) in run.iter().zip(lfs.read(file, &run).unwrap()) {
            let right = (mapped.block + file.0) as u8;
            assert!(bytes.iter().all(|byte| *byte == right), "{mapped:?}");
        }
    }
}

/// Blocks of a file as a group that goes into holes.
fn group_of(file: InodeNo) -> Vec<LogItem> {
    let item = |block| LogItem::Block {
        ino: file,
        version: 1,
        block,
        data: vec![0; BLOCK as usize].into(),
        written: Timestamp::default(),
        source: None,
    };
    (0..GROUP).map(item).collect()
}

#[test]
fn a_full_volume_writes_into_holes_and_is_whole() {
    let (v, file, blocks) = Volume::crowded();
    v.plug(file, blocks, 7);
    let s = v.lfs.statistics();
    assert!(s.plugged_bytes > 0 && s.map_bytes > 0);
    v.is_whole(file, 0, blocks);
    // The log behind the checkpoint leads to what stands in holes.
    let again = v.again();
    assert_eq!(again.recovery_report().damage, Vec::<String>::new());
    read_whole(&again, file, blocks);
    let plugged = v.plugged();
    let known = again.segments.lock();
    assert!(
        plugged
            .iter()
            .all(|(segment, _)| known.get(*segment).plugged)
    );
    let (latest, edition) = plugged[0];
    assert_eq!(known.get(latest).edition(), edition);
}

/// Copies of the first 256 blocks of a file in the segment that has its first block, of
/// which something logged since the checkpoint leaves none alive.
fn dead_copies(v: &Volume, file: InodeNo, first: Pointer) -> usize {
    let segment = v.lfs.geometry.segment_of(first.sector()).unwrap();
    let contents = v.lfs.mechanism.read_segment(segment).unwrap();
    let of_file = contents.blocks.iter().filter(|info| {
        matches!(info.item, ChainItem::Block { ino, pointer, .. }
            if ino == file && pointer.birth() == first.birth())
    });
    let of_file: Vec<_> = of_file.collect();
    assert!(!of_file.is_empty(), "the segment has blocks of the file");
    of_file
        .iter()
        .filter(|info| !v.lfs.cleaner.still_lives(info))
        .count()
}

/// Until a checkpoint lists them, blocks that users displaced are known by their births.
#[test]
fn blocks_that_a_snapshot_has_are_no_holes() {
    let v = Volume::made(24 << 20, &FormatOptions::default(), MountOptions::default());
    let file = v.create("file");
    let overwritten = || {
        v.checkpoint();
        let first = v.lfs.layers.lookup().blocks(file, 0, 1).unwrap().0[0].1;
        v.write(file, 0, 256);
        v.fs.sync().unwrap();
        dead_copies(&v, file, first)
    };
    v.write(file, 0, 256);
    v.fs.sync().unwrap();
    assert!(overwritten() > 0, "without a snapshot they are dead");
    let snapshot = v.lfs.create_volume_snapshot("monday").unwrap();
    assert_eq!(overwritten(), 0);
    assert!(overwritten() > 0, "younger than the snapshot");
    v.lfs.delete_volume_snapshots(&[snapshot.number]).unwrap();
    assert!(overwritten() > 0);
}

#[test]
fn a_segment_is_plugged_again_behind_two_checkpoints() {
    let (v, file, blocks) = Volume::crowded();
    v.plug(file, blocks, 7);
    let (segment, _) = v.plugged()[0];
    let may = |lfs: &Lfs| {
        let segments = lfs.segments.lock();
        segments.may_plug(segment, segments.get(segment).edition())
    };
    assert!(!may(&v.lfs));
    v.checkpoint();
    assert!(!may(&v.lfs), "replay from the older record verifies it");
    // A mount does not see that part of the log.
    assert!(!may(&v.again()));
    v.write(file, 0, 1);
    v.checkpoint();
    assert!(may(&v.lfs) && may(&v.again()));
}

#[test]
fn a_map_that_does_not_tell_of_all_is_not_believed() {
    let (v, file, blocks) = Volume::crowded();
    v.plug(file, blocks, 7);
    v.checkpoint();
    v.write(file, 0, 1);
    v.checkpoint();
    let (segment, _) = v.plugged()[0];
    let mapped = v.lfs.segments.lock().get(segment).mapped.clone().unwrap();
    for page in &mapped.pages {
        let byte = v.lfs.geometry.byte(segment, *page);
        v.device.write(byte, &[IoSlice::new(&[0xff; 512])]).unwrap();
    }
    let again = v.again();
    // The cleaner would leave what it does not know of behind.
    assert!(!again.cleaner.clean_segment(segment).unwrap());
    assert!(again.segments.lock().get(segment).suspect);
    let edition = again.segments.lock().get(segment).edition();
    assert!(!again.segments.lock().may_plug(segment, edition));
    read_whole(&again, file, blocks);
}

#[test]
fn the_cleaner_moves_what_stands_in_holes() {
    let (v, file, blocks) = Volume::crowded();
    v.plug(file, blocks, 7);
    v.checkpoint();
    let (segment, _) = v.plugged()[0];
    // Whether this mount wrote the map or finds it.
    for lfs in [&*v.lfs, &v.again()] {
        let edition = lfs.segments.lock().get(segment).edition();
        let (_, found) = lfs.mechanism.judge(segment, &|| true).unwrap().unwrap();
        let live = u64::from(lfs.segments.lock().get(segment).live_bytes);
        assert_eq!(found.live_bytes, live);
        assert_eq!(lfs.segments.lock().get(segment).edition(), edition);
    }
    assert!(v.lfs.cleaner.clean_segment(segment).unwrap());
    v.checkpoint();
    v.checkpoint();
    assert!(v.is_clean(segment));
    v.is_whole(file, 0, blocks);
}

#[test]
fn who_judged_a_segment_before_it_was_plugged_does_not_declare_it_empty() {
    let (v, file, blocks) = Volume::crowded();
    let judged: Vec<(u32, Edition)> = {
        let segments = v.lfs.segments.lock();
        segments
            .iter()
            .map(|(n, segment)| (n, segment.edition()))
            .collect()
    };
    v.plug(file, blocks, 7);
    let (segment, _) = v.plugged()[0];
    v.lfs
        .mechanism
        .segclean(segment, judged[segment as usize].1, 9, true);
    let found = v.lfs.segments.lock().get(segment).clone();
    assert!(found.cleaned.is_none() && found.vacated.is_none());
}

#[test]
fn whoever_looked_up_what_was_written_over_finds_no_damage() {
    let (v, file, blocks) = Volume::crowded();
    let before = v.lfs.map(View::Live, file, 0, blocks).unwrap();
    v.plug(file, blocks, 7);
    let after = v.lfs.map(View::Live, file, 0, blocks).unwrap();
    let taken = |p: Pointer| after.iter().any(|m| m.pointer.sector() == p.sector());
    let (mut moved, mut gone) = (0, 0);
    for (then, now) in before.iter().zip(&after) {
        if then.pointer != now.pointer && taken(then.pointer) {
            moved += 1;
            gone += u32::from(v.lfs.reader.block(&then.pointer, file, then.block).is_err());
        }
    }
    assert_eq!(moved, gone);
    assert_eq!(v.lfs.statistics().checksum_failures, 0);
}

#[test]
fn small_groups_and_volumes_that_do_not_want_it_leave_holes_alone() {
    let (v, file, blocks) = Volume::crowded();
    let before = v.lfs.statistics().segments_plugged;
    for block in (0..blocks).step_by(31) {
        v.write(file, block, 1);
        v.fs.fsync(file, true).unwrap();
    }
    assert_eq!(v.lfs.statistics().segments_plugged, before);
    let options = MountOptions {
        holes: false,
        ..MountOptions::default()
    };
    let clock: Arc<dyn Clock> = v.clock.clone();
    let lfs = Arc::new(Lfs::mount(v.device.clone(), clock.clone(), options).unwrap());
    let fs = FileSystem::mount(Arc::clone(&lfs), clock, Options::default()).unwrap();
    let caller = Caller::root();
    for nth in 0..2000 {
        let at = nth * 7 % blocks * BLOCK;
        fs.write(&caller, file, at, &[1; BLOCK as usize]).unwrap();
    }
    fs.sync().unwrap();
    assert_eq!(lfs.statistics().segments_plugged, 0);
}

/// What a partial has put into holes is stored elsewhere when the device refuses
/// one of them for good; what lived beside it stays, and so does the map before.
#[test]
fn plugs_that_the_device_refuses_are_stored_elsewhere() {
    let (v, file, blocks) = Volume::crowded();
    let left = MemoryDevice::from_image(&v.device.snapshot());
    let device = Arc::new(FaultDevice::new(left, 1));
    let clock: Arc<dyn Clock> = v.clock.clone();
    let lfs = Lfs::mount(device.clone(), clock.clone(), MountOptions::default()).unwrap();
    let lfs = Arc::new(lfs);
    let fs = FileSystem::mount(Arc::clone(&lfs), clock.clone(), Options::default()).unwrap();
    let caller = Caller::root();
    let mut written = 0;
    let mut group = || {
        for _ in 0..GROUP {
            let block = written * 11 % blocks;
            let data = [(block + file.0) as u8; BLOCK as usize];
            let at = block * BLOCK;
            fs.write(&caller, file, at, &data).unwrap();
            written += 1;
        }
        fs.sync().unwrap();
    };
    while lfs.statistics().segments_plugged == 0 {
        group();
    }
    // What the next group will write into.
    let items = group_of(file);
    let stocked = || {
        lfs.cleaner.stock_holes(&items).unwrap();
        let log = lfs.log.lock();
        log.holes.iter().map(|holes| holes.segment).max()
    };
    let next = loop {
        match stocked() {
            Some(segment) => break segment,
            None => group(),
        }
    };
    let first = lfs.geometry.byte(next, 0);
    let bytes = first..first + u64::from(lfs.geometry.segment_bytes);
    device.inject(Fault::sticky(FaultKind::WriteError).within(bytes));
    let (before, mut groups) = (lfs.statistics(), 0);
    while lfs.statistics().relocated_partials == 0 {
        assert!(groups < 32, "nothing was refused: {:?}", lfs.statistics());
        group();
        groups += 1;
    }
    assert!(lfs.statistics().segments_plugged > before.segments_plugged);
    // It was a hole of that segment, not its head.
    let refused = lfs.segments.lock().get(next).clone();
    assert!(refused.plugged && refused.mapped.is_none());
    assert_eq!(lfs.stopped(), None);
    fs.drop_caches();
    read_whole(&lfs, file, blocks);
    let left = Arc::new(MemoryDevice::from_image(&device.inner().snapshot()));
    let options = CheckOptions {
        data: true,
        ..CheckOptions::default()
    };
    let report = check(left.clone(), clock.clone(), &options).unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    let again = Lfs::mount(left, clock, MountOptions::default()).unwrap();
    read_whole(&again, file, blocks);
}

#[test]
fn holes_are_expected_until_small_groups_have_taken_a_segment() {
    let plugs = Plugging::default();
    assert!(!plugs.is_expected());
    plugs.looked(true);
    for (bytes, expected) in [(60, true), (40, true), (1, false)] {
        plugs.passed(bytes, 100);
        assert_eq!(plugs.is_expected(), expected, "{bytes} more");
    }
    // A large group that finds some counts anew.
    plugs.looked(true);
    plugs.passed(100, 100);
    assert!(plugs.is_expected());
    plugs.looked(false);
    assert!(!plugs.is_expected());
}

/// As long as clean segments are short: then they must have what small groups
/// need.
#[test]
fn small_groups_end_what_a_large_one_expects() {
    let (v, file, blocks) = Volume::crowded();
    v.plug(file, blocks, 7);
    let plugs = &v.lfs.control.plugs;
    let small_groups = |bytes: u64| {
        for nth in 0..bytes / BLOCK {
            v.write(file, nth * 31 % blocks, 1);
            v.fs.fsync(file, true).unwrap();
        }
    };
    let segment = u64::from(v.lfs.geometry.segment_bytes);
    plugs.looked(true);
    v.leave_clean(v.lfs.space.cleaning_gauge().high);
    assert!(v.lfs.cleaner.is_short());
    small_groups(segment / 4);
    assert!(plugs.is_expected());
    small_groups(segment);
    assert!(!plugs.is_expected());
}

/// A quarter of what has died in segments that are not clean, but no less than a
/// 64th of the volume, and no more than an eighth.
#[test]
fn what_has_died_decides_how_soon_segments_are_plugged_again() {
    let v = Volume::new();
    let volume = v.lfs.geometry.volume_bytes();
    assert_eq!(v.lfs.cleaner.plugging_interval(), volume / 64);
    let count = v.lfs.geometry.segment_count;
    let (segment, live) = (v.lfs.geometry.segment_bytes, 1000);
    let dead = || {
        let segments = v.lfs.segments.lock();
        let used = segments
            .iter()
            .filter(|(_, s)| s.state != SegmentState::Clean);
        used.map(|(_, s)| u64::from(segment - s.live_bytes))
            .sum::<u64>()
    };
    let mut between = 0;
    for number in (0..count).filter(|number| v.is_clean(*number)) {
        v.lfs.segments.lock().recount(number, live, true, None);
        let quarter = dead() / 4;
        let bounds = volume / 64..volume / 8;
        between += u32::from(bounds.contains(&quarter));
        let interval = quarter.clamp(bounds.start, bounds.end);
        assert_eq!(v.lfs.cleaner.plugging_interval(), interval);
    }
    assert!(between > 10 && dead() > volume / 2 + volume / 8);
    assert_eq!(v.lfs.cleaner.plugging_interval(), volume / 8);
}

#[test]
fn as_many_segments_are_looked_into_as_are_likely_to_have_room() {
    let v = Volume::new();
    let full = v.lfs.geometry.usable_bytes();
    let block = v.lfs.geometry.block_bytes;
    // Room for four blocks each, and a bit.
    let segments: Vec<(u32, u32)> = (0..100).map(|n| (n, full - 5 * block + 1)).collect();
    for (blocks, likely) in [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3), (1000, 64)] {
        assert_eq!(v.lfs.cleaner.likely(&segments, blocks), likely, "{blocks}");
    }
    assert_eq!(v.lfs.cleaner.likely(&segments[..2], 1000), 2);
}

/// More than half full, emptiest first, and none that is known already.
#[test]
fn what_is_half_empty_is_left_to_the_cleaner() {
    let (v, _, _) = Volume::crowded();
    let half = v.lfs.geometry.usable_bytes() / 2;
    let worth: Vec<(u32, u32)> = v.lfs.cleaner.worth_plugging(&[]);
    assert!(worth.len() > 10 && worth.is_sorted_by_key(|(_, live)| *live));
    let (first, last) = (worth[0].0, worth[worth.len() - 1].0);
    let lives = |segment: u32, live_bytes| {
        v.lfs.segments.lock().get_mut(segment).live_bytes = live_bytes;
        let worth = v.lfs.cleaner.worth_plugging(&[]);
        worth.iter().position(|(number, _)| *number == segment)
    };
    assert_eq!(lives(last, half), None);
    assert_eq!(lives(last, half + 1), Some(0));
    assert!(lives(first, half + 2).is_some_and(|at| at > 0));
}

/// Holes are looked for once clean segments are so few that the cleaner would
/// soon begin.
#[test]
fn holes_are_wanted_before_the_cleaner_begins() {
    let v = Volume::new();
    let gauge = v.lfs.space.cleaning_gauge();
    let mark = gauge.high + v.lfs.space.batch_segments();
    assert!(u64::from(v.clean()) > mark && !v.lfs.cleaner.is_short());
    while u64::from(v.clean()) > mark {
        assert!(!v.lfs.cleaner.is_short());
        v.lfs.segments.lock().take(0).unwrap();
    }
    assert!(!v.lfs.cleaner.is_short());
    v.lfs.segments.lock().take(0).unwrap();
    assert!(v.lfs.cleaner.is_short());
}
