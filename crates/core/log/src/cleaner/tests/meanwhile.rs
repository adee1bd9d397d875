//! What comes between two steps of a cleaner's work, its own or a stranger's: a
//! request of a user, a checkpoint, another cleaner, damage.

use super::remote::{call, join, living, markv};
use super::{Among, Urgency, Volume, settled_file};
use crate::cleaner::CallError;
use crate::cleaner::wire::{Answer, Block, Request};
use crate::control::claims::CleanerId;
use crate::format::index::Index;
use crate::segments::SegmentState;
use crate::{Error, MountOptions};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::sync::Arc;
use varve_device::{Device, Operation};
use varve_fs::{InodeNo, Layout};

impl Volume {
    /// Every reading from now on finds other bytes there.
    fn spoil(&self, byte: u64) {
        self.device
            .write(byte, &[IoSlice::new(&[0xa5; 512])])
            .unwrap();
        self.lfs.drop_caches();
    }

    fn is_suspect(&self, segment: u32) -> bool {
        self.lfs.segments.lock().get(segment).suspect
    }

    fn passes(&self, urgency: Urgency) -> BTreeSet<u32> {
        let cleaning = self.lfs.cleaner.lock_cleaning();
        self.lfs
            .cleaner
            .clean_segments(&cleaning, urgency, Among::All, u64::MAX)
            .unwrap();
        self.which(|segment| self.lfs.segments.lock().get(segment).cleaned.is_some())
    }
}

/// Idle work is asked before each block whether it is to go on, when blocks are
/// judged and when they are taken.
#[test]
fn a_judgement_ends_before_any_block_at_which_somebody_comes() {
    let v = Volume::new();
    let (_, segments) = settled_file(&v, 100);
    let segment = segments[0];
    let blocks = v.lfs.mechanism.read_segment(segment).unwrap().blocks.len();
    let (_, all) = v.lfs.mechanism.judge(segment, &|| true).unwrap().unwrap();
    assert!(!all.interrupted && all.len() > 1);
    let asked = blocks + all.len();
    for answers in [0, 1, blocks - 1, blocks, blocks + 1, asked - 1, asked] {
        let left = Cell::new(answers);
        let go_on = || {
            let goes = left.get() > 0;
            left.set(left.get().saturating_sub(1));
            goes
        };
        let (_, found) = v.lfs.mechanism.judge(segment, &go_on).unwrap().unwrap();
        assert_eq!(found.interrupted, answers < asked, "{answers} of {asked}");
        assert_eq!(found.len(), answers.saturating_sub(blocks), "{answers}");
    }
}

#[test]
fn idle_work_moves_nothing_of_what_was_being_judged_when_somebody_came() {
    for (urgency, moves) in [(Urgency::Idle, false), (Urgency::Background, true)] {
        let (v, file) = Volume::half_dead(600);
        let lfs = Arc::clone(&v.lfs);
        v.errands.before(Operation::Read, 0..u64::MAX, move || {
            lfs.control.asked();
            false
        });
        v.lfs.drop_caches();
        let cleaned = v.passes(urgency);
        assert!(v.errands.is_done());
        assert_eq!(!cleaned.is_empty(), moves, "{urgency:?}: {cleaned:?}");
        assert_eq!(v.lfs.statistics().cleaner_bytes > 0, moves, "{urgency:?}");
        v.is_whole(file, 0, 600);
    }
}

#[test]
fn idle_work_ends_behind_the_segment_that_was_being_moved_when_somebody_came() {
    let cleaned = [Urgency::Idle, Urgency::Background].map(|urgency| {
        let (v, file) = Volume::half_dead(600);
        v.appears_slow(); // a step is a segment or two then
        let lfs = Arc::clone(&v.lfs);
        v.errands.before(Operation::Write, 0..u64::MAX, move || {
            lfs.control.asked();
            false
        });
        let cleaned = v.passes(urgency);
        assert!(v.errands.is_done());
        v.is_whole(file, 0, 600);
        cleaned.len()
    });
    assert!(cleaned[0] <= 2 && cleaned[1] > 4, "{cleaned:?}");
}

#[test]
fn a_segment_that_another_claims_during_a_pass_is_passed_over() {
    let (v, _) = Volume::half_dead(600);
    let all = v.passes(Urgency::Background);
    assert!(all.len() > 2);
    for (urgency, heeds) in [(Urgency::Background, true), (Urgency::Waiting, false)] {
        let (v, file) = Volume::half_dead(600);
        let stranger = CleanerId(join(&v));
        let first = v.lfs.cleaner.candidates();
        let first = first.iter().min_by_key(|c| c.live_bytes);
        let (first, lfs) = (first.unwrap().segment, Arc::clone(&v.lfs));
        let claimed = *all.iter().find(|segment| **segment != first).unwrap();
        v.errands.before(Operation::Read, 0..u64::MAX, move || {
            let claims = &mut lfs.control.shared().claims;
            claims.claim(stranger, claimed, Arc::default()).unwrap();
            false
        });
        v.lfs.drop_caches();
        let cleaned = v.passes(urgency);
        assert!(v.errands.is_done());
        assert_eq!(cleaned.contains(&claimed), !heeds, "{urgency:?}");
        if heeds {
            assert!(cleaned.len() + 1 >= all.len(), "{cleaned:?} of {all:?}");
        }
        v.is_whole(file, 0, 600);
    }
}

/// A stranger who has been told of all that lives in a segment.
fn told(v: &Volume, file: InodeNo) -> (u64, u32, Vec<Block>) {
    let (id, segment) = (join(v), v.segment(v.place(file, 0)));
    let blocks = living(v, id, segment);
    assert!(blocks.iter().any(|block| block.ino.get() == file.0));
    v.lfs.drop_caches();
    (id, segment, blocks)
}

fn to_move(blocks: &[Block]) -> Request {
    Request::Markv {
        sorted: false,
        blocks: blocks.to_vec(),
    }
}

#[test]
fn a_volume_that_has_stopped_answers_no_stranger() {
    let v = Volume::new();
    let (file, _) = settled_file(&v, 20);
    let (id, segment, blocks) = told(&v, file);
    let groups = v.lfs.statistics().groups;
    v.lfs.durability.stop("for the test".into());
    for request in [
        Request::Usage { from: 0 },
        to_move(&blocks),
        Request::Segclean { segment },
    ] {
        let refused = call(&v, id, request);
        let stopped = matches!(refused, Err(CallError::Failed(Error::Stopped(_))));
        assert!(stopped, "{refused:?}");
    }
    assert_eq!(v.lfs.statistics().groups, groups);
}

#[test]
fn a_segment_that_cannot_be_read_is_kept_and_the_stranger_goes_on() {
    let v = Volume::new();
    let (_, segments) = settled_file(&v, 100);
    let id = join(&v);
    v.errands.refuse(v.bytes_of(segments[0]));
    let bmapv = |segment| call(&v, id, Request::Bmapv { segment, from: 0 });
    let refused = bmapv(segments[0]);
    assert!(matches!(refused, Err(CallError::NotThis)), "{refused:?}");
    assert!(v.is_suspect(segments[0]) && !v.is_suspect(segments[1]));
    let shared = v.lfs.control.shared();
    assert!(shared.claims.is_free_for(CleanerId::OWN, segments[0]));
    drop(shared);
    assert!(matches!(bmapv(segments[1]), Ok((_, Answer::Blocks { .. }))));
}

#[test]
fn a_stranger_learns_of_damage_and_the_segment_is_kept() {
    let v = Volume::new();
    let (file, _) = settled_file(&v, 20);
    let (id, segment, blocks) = told(&v, file);
    let place = v.place(file, 0);
    v.spoil(Volume::bytes(place).start);
    let marked = markv(&v, id, &blocks);
    assert_eq!((marked.damaged.get(), marked.moved.get()), (1, 0));
    assert!(v.is_suspect(segment));
    assert_eq!(v.place(file, 0), place);
    let gone = call(&v, id, Request::Segclean { segment });
    assert!(matches!(gone, Err(CallError::NotThis)), "{gone:?}");
}

/// It was found to live, is moved, and its segment given back and discarded,
/// before it is read: that is no damage, to whoever looks.
#[test]
fn what_another_moves_before_it_is_read_is_no_damage() {
    for own in [false, true] {
        let options = MountOptions {
            discard: true,
            ..MountOptions::default()
        };
        let v = Volume::mounted(options);
        let (file, other) = (v.create("file"), v.create("other"));
        v.write(file, 0, 600);
        for _ in 0..3 {
            v.checkpoint();
            v.write(other, 0, 1);
        }
        v.checkpoint();
        let (place, lfs) = (v.place(file, 300), Arc::clone(&v.lfs));
        let segment = v.segment(place);
        assert!(lfs.segments.lock().may_vacate(segment));
        let id = join(&v);
        let blocks = living(&v, id, segment);
        let contents = lfs.mechanism.read_segment(segment).unwrap().without_bytes();
        v.lfs.drop_caches();
        v.errands
            .before(Operation::Read, Volume::bytes(place), move || {
                assert!(lfs.cleaner.clean_segment(segment).unwrap());
                lfs.checkpoints.settle_vacated().unwrap();
                false
            });
        if own {
            let found = v.lfs.mechanism.bmapv(&contents).unwrap();
            assert_eq!(found.damaged, 0);
            assert_eq!(
                v.lfs.mechanism.markv(found).unwrap(),
                None,
                "to be judged again"
            );
        } else {
            let marked = markv(&v, id, &blocks);
            assert_eq!((marked.damaged.get(), marked.moved.get()), (0, 0));
            assert_eq!(marked.unknown, marked.done);
        }
        assert!(v.errands.is_done() && v.is_clean(segment));
        assert_eq!(v.lfs.statistics().checksum_failures, 0);
        v.is_whole(file, 0, 600);
    }
}

/// The image by which a node or a block of the ifile was to be judged is not the
/// newest any more, and what led to it has been written over: others are asked,
/// and nothing is damaged.
#[test]
fn an_image_that_is_replaced_while_it_is_asked_is_no_damage() {
    for of_ifile in [false, true] {
        let v = Volume::new();
        let (file, _) = settled_file(&v, 20);
        let base = Arc::clone(&v.lfs.layers.read().base);
        let map = v.lfs.geometry.imap_block(file.0);
        let map = base.ifile_tree(&v.lfs.reader).get(map).unwrap().unwrap();
        let (judged, leading) = match of_ifile {
            false => (v.node(file), map),
            true => (map, base.ifile_root().slots[0]),
        };
        let segment = v.segment(judged);
        let lfs = Arc::clone(&v.lfs);
        let device = Arc::clone(&v.device);
        let more = v.create("more");
        v.write(more, 0, 100); // the log leaves the image behind
        v.fs.sync().unwrap();
        v.lfs.drop_caches();
        let place = Volume::bytes(leading);
        v.errands.before(Operation::Read, place.clone(), move || {
            lfs.checkpoint().unwrap();
            device
                .write(place.start, &[IoSlice::new(&[0xa5; 512])])
                .unwrap();
            false
        });
        let judged = v.lfs.mechanism.judge(segment, &|| true).unwrap();
        assert!(v.errands.is_done());
        assert!(
            judged.is_some() && !v.is_suspect(segment),
            "ifile: {of_ifile}"
        );
    }
}

#[test]
fn damage_in_the_inode_map_keeps_its_segment() {
    let v = Volume::new();
    settled_file(&v, 20);
    // The log leaves what the last checkpoint wrote behind.
    let more = v.create("more");
    v.write(more, 0, 100);
    v.fs.sync().unwrap();
    let base = Arc::clone(&v.lfs.layers.read().base);
    let mut block = None;
    let mut take = |at, pointer| {
        block = block.or(Some((at, pointer)));
        true
    };
    let tree = base.ifile_tree(&v.lfs.reader);
    tree.blocks(0, u64::MAX, &mut take).unwrap();
    let (_, pointer) = block.expect("a block of the table or the map");
    let segment = v.segment(pointer);
    v.spoil(Volume::bytes(pointer).start);
    assert!(!v.lfs.cleaner.clean_segment(segment).unwrap());
    assert!(v.is_suspect(segment));
    assert_eq!(v.lfs.segments.lock().get(segment).cleaned, None);
}

#[test]
fn a_stranger_does_not_wait_for_another_move() {
    let v = Volume::new();
    let (file, _) = settled_file(&v, 20);
    let (id, _, blocks) = told(&v, file);
    let place = v.place(file, 0);
    std::thread::scope(|scope| {
        let (begun, begins) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let lfs = &v.lfs;
        scope.spawn(move || {
            let _moving = lfs.cleaner.moving();
            begun.send(()).unwrap();
            let _ = ends.recv();
        });
        begins.recv().unwrap();
        let refused = call(&v, id, to_move(&blocks));
        drop(end);
        assert!(matches!(refused, Err(CallError::Again)), "{refused:?}");
    });
    assert_eq!(v.place(file, 0), place);
    let marked = markv(&v, id, &blocks);
    assert_eq!(marked.moved.get() as usize, blocks.len());
    assert_ne!(v.place(file, 0), place);
}

/// What was judged against an image that a checkpoint has replaced is judged
/// again, three times.
#[test]
fn a_strangers_move_outlives_checkpoints_unless_they_follow_too_closely() {
    for always in [false, true] {
        let v = Volume::new();
        let (file, _) = settled_file(&v, 20);
        let (id, segment, blocks) = told(&v, file);
        let (place, lfs) = (v.place(file, 0), Arc::clone(&v.lfs));
        let bytes = v.bytes_of(segment);
        v.errands.before(Operation::Read, bytes, move || {
            lfs.checkpoint().unwrap();
            always
        });
        let moved = call(&v, id, to_move(&blocks));
        v.errands.forget();
        match always {
            false => assert!(matches!(moved, Ok((_, Answer::Marked(_)))), "{moved:?}"),
            true => assert!(matches!(moved, Err(CallError::Again)), "{moved:?}"),
        }
        assert_eq!(v.place(file, 0) == place, always);
        v.is_whole(file, 0, 20);
    }
}

#[test]
fn a_segment_is_not_declared_across_a_checkpoint() {
    let v = Volume::new();
    let (file, _) = settled_file(&v, 20);
    let (id, segment, blocks) = told(&v, file);
    markv(&v, id, &blocks);
    v.lfs.drop_caches();
    v.checkpoint_before_reading(0..u64::MAX);
    let declared = || call(&v, id, Request::Segclean { segment });
    let cleaned = || v.lfs.segments.lock().get(segment).cleaned;
    let early = declared();
    assert!(v.errands.is_done());
    assert!(matches!(early, Err(CallError::Again)), "{early:?}");
    assert_eq!(cleaned(), None);
    let serial = v.lfs.layers.read().base.serial;
    declared().unwrap();
    assert_eq!(cleaned(), Some(serial + 1));
    v.is_whole(file, 0, 20);
}

/// It was legible when the stranger claimed the segment.
#[test]
fn what_cannot_be_looked_up_when_a_segment_is_declared_keeps_it() {
    let v = Volume::new();
    let (file, _) = settled_file(&v, 20);
    let (id, segment, blocks) = told(&v, file);
    markv(&v, id, &blocks);
    v.lfs.drop_caches();
    v.errands.refuse(0..u64::MAX);
    let refused = call(&v, id, Request::Segclean { segment });
    v.errands.refuse(0..0);
    assert!(matches!(refused, Err(CallError::NotThis)), "{refused:?}");
    assert!(v.is_suspect(segment));
    assert_eq!(v.lfs.segments.lock().get(segment).cleaned, None);
    v.is_whole(file, 0, 20);
}

/// What a segment holds is not all known if one of its summaries is illegible:
/// it is not given back ahead of checkpoints, whoever has declared it.
#[test]
fn what_a_stranger_declares_waits_for_checkpoints_if_a_summary_is_illegible() {
    for legible in [true, false] {
        let v = Volume::new();
        let (file, other) = (v.create("file"), v.create("other"));
        v.write(file, 0, 600);
        for _ in 0..3 {
            v.checkpoint();
            v.write(other, 0, 1);
        }
        v.checkpoint();
        let old = v.which(|segment| v.lfs.segments.lock().may_vacate(segment));
        let segment = v.segment(v.place(file, 300));
        assert!(old.contains(&segment));
        if !legible {
            let geometry = **v.lfs.geometry;
            v.spoil(geometry.byte(segment, geometry.payload_start(segment)));
        }
        let id = join(&v);
        let blocks = living(&v, id, segment);
        assert_eq!(blocks.is_empty(), !legible);
        let mut rest = &blocks[..];
        while !rest.is_empty() {
            rest = &rest[markv(&v, id, rest).done.get() as usize..];
        }
        call(&v, id, Request::Segclean { segment }).unwrap();
        v.lfs.checkpoints.settle_vacated().unwrap();
        let state = v.lfs.segments.lock().get(segment).state;
        assert_eq!(state == SegmentState::Clean, legible);
        v.is_whole(file, 0, 600);
    }
}

/// Whoever waits for nothing is not kept: a rest ends at once when somebody is
/// in need, or when the volume closes.
#[test]
fn nobody_rests_while_somebody_waits_or_the_volume_closes() {
    let v = Volume::new();
    let forever = u64::MAX / 2;
    let needy = v.lfs.control.in_need();
    v.lfs.control.wait(forever);
    drop(needy);
    v.lfs.cleaner.hurry();
    v.lfs.control.wait(forever);
    assert!(v.lfs.control.is_closing());
}

#[test]
fn a_cleaners_thread_that_is_not_to_run_or_gains_nothing_is_not_waited_for() {
    let v = Volume::new();
    let gains = |running, threaded, fruitless| {
        let mut settings = v.lfs.cleaner.cleaner_settings();
        (settings.pace.running, settings.pace.threaded) = (running, threaded);
        v.lfs.cleaner.set_cleaner(settings).unwrap();
        let mut shared = v.lfs.control.shared();
        shared.fruitless = fruitless;
        shared.own_thread_gains()
    };
    assert!(gains(true, true, false));
    assert!(!gains(false, true, false));
    assert!(!gains(true, false, false));
    assert!(!gains(true, true, true));
}
