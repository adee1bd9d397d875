//! Segments given back ahead of checkpoints (`docs/design/reuse.md`): which, when, and
//! what a mount makes of it.

use super::*;
use crate::counts::Counts;
use varve_device::Operation;

impl Volume {
    /// A file of many segments, and two checkpoints since.
    fn aged() -> (Self, InodeNo) {
        Self::aged_with(MountOptions::default())
    }

    fn aged_with(options: MountOptions) -> (Self, InodeNo) {
        let v = Volume::mounted(options);
        let (file, other) = (v.create("file"), v.create("other"));
        v.write(file, 0, BLOCKS);
        v.checkpoint();
        for _ in 0..2 {
            v.write(other, 0, 1);
            v.checkpoint();
        }
        (v, file)
    }

    /// A segment of the file that may be vacated.
    fn early(&self, file: InodeNo) -> Option<u32> {
        let blocks = self.lfs.map(View::Live, file, 0, BLOCKS).unwrap();
        let segments = self.lfs.segments.lock();
        let mut of = blocks
            .iter()
            .map(|m| self.lfs.geometry.segment_of(m.pointer.sector()).unwrap());
        of.find(|&segment| segments.may_vacate(segment))
    }

    fn mounted_again(&self) -> Lfs {
        let clock: Arc<dyn Clock> = self.clock.clone();
        Lfs::mount(self.device.clone(), clock, MountOptions::default()).unwrap()
    }
}

const BLOCKS: u64 = 600;

fn state(lfs: &Lfs, segment: u32) -> SegmentState {
    lfs.segments.lock().get(segment).state
}

#[test]
fn data_behind_both_records_is_clean_once_its_moves_are_durable() {
    let (v, file) = Volume::aged();
    let segment = v.early(file).expect("data alone, and old");
    let before = v.lfs.statistics();
    assert!(v.lfs.cleaner.clean_segment(segment).unwrap());
    assert!(!v.is_clean(segment), "before its moves are durable");
    assert!(v.lfs.durability.durable() < v.lfs.log.lock().end.serial());
    v.lfs.checkpoints.settle_vacated().unwrap();
    assert!(v.is_clean(segment));
    assert_eq!(v.lfs.durability.durable(), v.lfs.log.lock().end.serial());
    let after = v.lfs.statistics();
    assert_eq!(after.segments_vacated, before.segments_vacated + 1);
    assert_eq!(after.checkpoints, before.checkpoints);
    v.is_whole(file, 0, BLOCKS);
}

#[test]
fn what_a_record_still_needs_waits_for_checkpoints() {
    let v = Volume::new();
    let (file, small) = (v.create("file"), v.create("small"));
    v.write(file, 0, BLOCKS);
    v.write(small, 0, 100);
    v.checkpoint();
    assert_eq!(v.early(file), None, "replay from the older record needs it");
    v.write(file, BLOCKS, 1);
    v.checkpoint();
    assert!(v.early(file).is_some());
    let node = v.segment(v.node(small));
    assert!(!v.lfs.segments.lock().may_vacate(node), "metadata");
    assert!(v.lfs.cleaner.clean_segment(node).unwrap());
    v.lfs.checkpoints.settle_vacated().unwrap();
    assert!(!v.is_clean(node));
}

#[test]
fn a_segment_with_an_illegible_summary_waits_for_checkpoints() {
    let (v, file) = Volume::aged();
    let segment = v.early(file).unwrap();
    let geometry = **v.lfs.geometry;
    let summary = geometry.byte(segment, geometry.payload_start(segment));
    v.device
        .write(summary, &[IoSlice::new(&[0xff; 512])])
        .unwrap();
    // Nothing is found, which is not to say that nothing lives.
    v.lfs.cleaner.clean_segment(segment).unwrap();
    v.lfs.checkpoints.settle_vacated().unwrap();
    assert!(!v.is_clean(segment));
    v.is_whole(file, 0, BLOCKS);
}

#[test]
fn what_was_given_back_is_clean_after_a_checkpoint_and_a_mount() {
    let (v, file) = Volume::aged();
    let segment = v.early(file).unwrap();
    v.lfs.cleaner.clean_segment(segment).unwrap();
    v.lfs.checkpoints.settle_vacated().unwrap();
    v.checkpoint();
    assert_eq!(state(&v.mounted_again(), segment), SegmentState::Clean);
}

#[test]
fn a_mount_after_a_crash_finds_the_room_again() {
    let (v, file) = Volume::aged();
    let segment = v.early(file).unwrap();
    v.lfs.cleaner.clean_segment(segment).unwrap();
    v.lfs.checkpoints.settle_vacated().unwrap();
    let again = v.mounted_again();
    assert_eq!(
        state(&again, segment),
        SegmentState::Used,
        "as the table has it"
    );
    again.checkpoints.look_for_room();
    assert_eq!(state(&again, segment), SegmentState::Clean);
    // The same if nothing was moved out of it.
    let (v, file) = Volume::aged();
    let segment = v.early(file).unwrap();
    let blocks = v.lfs.map(View::Live, file, 0, BLOCKS).unwrap();
    let there = blocks.iter().filter(|m| v.segment(m.pointer) == segment);
    there.for_each(|m| v.write(file, m.block, 1));
    v.fs.sync().unwrap();
    let again = v.mounted_again();
    let folds = u64::from(again.geometry.segment_bytes);
    again.layers.change().live.counts.bytes += folds;
    while again.space.checkpoints_fit_now(1) && again.segments.lock().take(0).is_ok() {}
    again.checkpoints.look_for_room();
    assert_eq!(state(&again, segment), SegmentState::Clean);
}

#[test]
fn an_image_that_may_have_been_written_over_is_not_held() {
    let (v, file) = Volume::aged();
    let hold = || {
        let serial = v.lfs.layers.read().base.serial;
        v.lfs.segments.lock().hold(serial);
        v.lfs.segments.lock().holds(serial)
    };
    assert!(hold());
    let segment = v.early(file).unwrap();
    v.lfs.cleaner.clean_segment(segment).unwrap();
    v.lfs.checkpoints.settle_vacated().unwrap();
    assert!(!v.is_clean(segment), "the image is held");
    v.lfs.segments.lock().let_go_of_withheld();
    v.lfs.checkpoints.settle_vacated().unwrap();
    assert!(v.is_clean(segment));
    assert!(!hold(), "the segment may be opened at any time");
    v.checkpoint();
    assert!(hold());
}

#[test]
fn what_was_opened_since_the_table_is_judged_by_what_is_in_it() {
    let v = Volume::new();
    let file = v.create("file");
    v.write(file, 0, BLOCKS);
    v.fs.sync().unwrap();
    // The table knows nothing of it.
    let fresh =
        |segment: &u32| state(&v.lfs, *segment) == SegmentState::Used && v.live(*segment) == 0;
    let blocks = v.lfs.map(View::Live, file, 0, BLOCKS).unwrap();
    let segments: Vec<u32> = blocks.iter().map(|m| v.segment(m.pointer)).collect();
    let segment = segments.into_iter().find(fresh).unwrap();
    let (_, found) = v.lfs.mechanism.judge(segment, &|| true).unwrap().unwrap();
    assert!(found.live_bytes > 0);
}

#[test]
fn a_held_image_does_not_keep_from_the_cleaner_what_it_gains() {
    let (v, file) = Volume::aged();
    (0..BLOCKS)
        .step_by(2)
        .for_each(|block| v.write(file, block, 1));
    v.checkpoint();
    v.checkpoint();
    let serial = v.lfs.layers.read().base.serial;
    v.lfs.segments.lock().hold(serial);
    let (clean, moved) = (v.clean(), v.lfs.statistics().cleaner_bytes);
    let cleaning = v.lfs.cleaner.lock_cleaning();
    // Half of each lives.
    let goal = u64::from(clean) + 1;
    v.lfs
        .cleaner
        .gain_early(&cleaning, Urgency::Waiting, goal)
        .unwrap();
    assert!(!v.lfs.segments.lock().holds(serial));
    let moved = v.lfs.statistics().cleaner_bytes - moved;
    let segments = moved / u64::from(v.lfs.geometry.segment_bytes);
    assert!(segments <= 2, "{segments} segments were moved for nothing");
}

#[test]
fn whoever_reads_what_has_been_discarded_finds_no_damage() {
    let (v, file) = Volume::aged_with(MountOptions {
        discard: true,
        ..MountOptions::default()
    });
    let segment = v.early(file).unwrap();
    let blocks = v.lfs.map(View::Live, file, 0, BLOCKS).unwrap();
    let there = blocks.iter().find(|m| v.segment(m.pointer) == segment);
    let before = there.unwrap();
    v.lfs.cleaner.clean_segment(segment).unwrap();
    v.lfs.checkpoints.settle_vacated().unwrap();
    assert!(v.is_clean(segment));
    let read = v.lfs.reader.block(&before.pointer, file, before.block);
    assert!(read.is_err(), "it is gone");
    assert_eq!(v.lfs.statistics().checksum_failures, 0);
    v.is_whole(file, 0, BLOCKS);
}

/// What is held back for a fold must not grow by more than was asked for when
/// it was admitted: a full volume could neither fold nor clean.
#[test]
fn a_fold_costs_no_more_than_each_of_its_blocks_was_admitted_for() {
    let v = Volume::new();
    let sparse = v.create("a block of each leaf");
    let leaves = 40;
    let at = |leaf: u64| 1000 + leaf * 200;
    (0..leaves).for_each(|leaf| v.write(sparse, at(leaf), 1));
    v.checkpoint();
    let price = || {
        let committed = v.lfs.layers.read();
        v.lfs.space.fold_bytes(&committed.base, &committed.live)
    };
    // The inode and its place in the map are paid for once.
    v.write(sparse, at(0), 1);
    v.fs.sync().unwrap();
    // Leaves that exist, then leaves that do not.
    for leaf in 1..2 * leaves {
        let before = price();
        let nodes = u64::from(v.lfs.space.tallest());
        let admitted = v
            .lfs
            .space
            .further_bytes(&Counts::ways(&v.lfs.geometry, nodes, 1));
        v.write(sparse, at(leaf), 1);
        v.fs.sync().unwrap();
        let grown = price() - before;
        assert!(grown <= admitted, "{leaf}: {grown} of {admitted}");
    }
}

/// What the replayed log has left empty is given back if that is certain:
/// not if it cannot be read, nor if a summary is illegible, nor across a
/// checkpoint. None of these fails the mount.
#[test]
fn a_mount_gives_back_only_what_is_certain_to_be_empty() {
    for what in ["sound", "unreadable", "illegible", "a checkpoint"] {
        let (v, file) = Volume::aged();
        let segment = v.early(file).unwrap();
        v.lfs.cleaner.clean_segment(segment).unwrap();
        v.lfs.checkpoints.settle_vacated().unwrap();
        let clock: Arc<dyn Clock> = v.clock.clone();
        let again = Lfs::mount(v.errands.clone(), clock, MountOptions::default());
        let again = Arc::new(again.unwrap());
        let first = again.geometry.byte(segment, 0);
        let bytes = first..first + u64::from(again.geometry.segment_bytes);
        match what {
            "unreadable" => v.errands.refuse(bytes),
            "illegible" => {
                let summary = first + u64::from(again.geometry.payload_start(segment));
                v.device
                    .write(summary, &[IoSlice::new(&[0xff; 512])])
                    .unwrap();
            }
            "a checkpoint" => {
                let lfs = Arc::clone(&again);
                v.errands.before(Operation::Read, bytes, move || {
                    lfs.checkpoint().unwrap();
                    false
                });
            }
            _ => {}
        }
        again.checkpoints.look_for_room();
        assert!(v.errands.is_done(), "{what}");
        let clean = state(&again, segment) == SegmentState::Clean;
        // To the checkpoint's own table it is empty.
        let known = matches!(what, "sound" | "a checkpoint");
        assert_eq!(clean, known, "{what}");
        let vacated = again.statistics().segments_vacated;
        assert_eq!(vacated, u64::from(what == "sound"), "{what}");
        assert_eq!(again.stopped(), None);
        let suspect = again.segments.lock().get(segment).suspect;
        assert_eq!(suspect, what == "unreadable", "{what}");
    }
}

/// Where nothing is empty all are looked at, and once.
#[test]
fn what_was_looked_at_without_finding_room_is_not_looked_at_again() {
    let (v, file) = Volume::aged();
    v.write(file, BLOCKS, 1);
    v.fs.sync().unwrap();
    let again = v.mounted_again();
    while again.segments.lock().take(0).is_ok() {}
    let folds = u64::from(again.geometry.segment_bytes);
    again.layers.change().live.counts.bytes += folds;
    assert!(again.segments.lock().stale && !again.space.checkpoints_fit_now(1));
    assert!(again.segments.lock().to_look_at(true).len() > 16);
    let reads = || v.device.counters().snapshot().reads;
    let before = reads();
    again.checkpoints.look_for_room();
    assert!(reads() > before && !again.segments.lock().stale);
    assert_eq!(again.segments.lock().clean_count(), 0);
    let before = reads();
    again.checkpoints.look_for_room();
    assert_eq!(reads(), before);
}
