//! What the server answers strangers at its limits: room, pages, calls at work.

use super::remote::{call, join, living, markv};
use super::{Volume, settled_file};
use crate::cleaner::CallError;
use crate::cleaner::wire::{Answer, BLOCKS, Block, Request};
use crate::delta::Delta;
use crate::{FormatOptions, MountOptions};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use varve_fs::InodeNo;

/// Moves take the room that is there, and what asks for none needs none.
#[test]
fn a_stranger_moves_nothing_where_there_is_no_room() {
    let v = Volume::new();
    let (file, segments) = settled_file(&v, 20);
    let id = join(&v);
    let blocks = living(&v, id, segments[0]);
    let (before, place) = (v.lfs.statistics().groups, v.place(file, 0));
    v.lfs.segments.lock().waiting.bytes = v.lfs.geometry.volume_bytes();
    let moves = |blocks: &[Block]| Request::Markv {
        sorted: false,
        blocks: blocks.to_vec(),
    };
    let refused = call(&v, id, moves(&blocks));
    assert!(matches!(refused, Err(CallError::Again)), "{refused:?}");
    assert_eq!(
        (v.lfs.statistics().groups, v.place(file, 0)),
        (before, place)
    );
    let unknown = Block {
        ino: 12345.into(),
        ..blocks[0]
    };
    let marked = markv(&v, id, &[unknown]);
    assert_eq!((marked.unknown.get(), marked.moved.get()), (1, 0));
    v.lfs.segments.lock().waiting = Default::default();
    assert!(markv(&v, id, &blocks).moved.get() > 0);
}

#[test]
fn a_segment_is_not_done_before_each_block_has_moved_or_is_put_down() {
    let v = Volume::new();
    settled_file(&v, 20);
    // The log leaves what the last checkpoint wrote behind.
    let more = v.create("more");
    v.write(more, 0, 100);
    v.fs.sync().unwrap();
    let id = join(&v);
    let declared = |segment| call(&v, id, Request::Segclean { segment });
    let (mut ifile, mut last) = (0, 0);
    for segment in v.lfs.cleaner.candidates().iter().map(|c| c.segment) {
        let blocks = living(&v, id, segment);
        let of_ifile = |block: &&Block| block.ino.get() == InodeNo::IFILE.0;
        ifile += blocks.iter().filter(of_ifile).count();
        for dealt in 0..blocks.len() {
            let left = (blocks.len() - dealt) as u32;
            let lives = declared(segment);
            assert!(
                matches!(lives, Err(CallError::StillLives(n)) if n == left),
                "{lives:?} and not {left}"
            );
            markv(&v, id, &blocks[dealt..=dealt]);
        }
        call(&v, id, Request::Release { segment }).unwrap();
        last = segment;
    }
    assert!(ifile > 0);
    let segment = last;
    living(&v, id, segment);
    // A checkpoint that runs already folds none of it.
    let serial = v.lfs.layers.read().base.serial;
    let mut frozen = Delta::default();
    frozen.boundary = u64::MAX;
    v.lfs.layers.change().frozen = Some(Arc::new(frozen));
    declared(segment).unwrap();
    let cleaned = v.lfs.segments.lock().get(segment).cleaned;
    assert_eq!(cleaned, Some(serial + 2));
}

#[test]
fn only_so_many_calls_are_at_work() {
    let v = Volume::new();
    let id = join(&v);
    let at_work = || v.lfs.control.remote_calls.load(Relaxed);
    let usage = || call(&v, id, Request::Usage { from: 0 });
    v.lfs.control.remote_calls.store(2, Relaxed);
    assert!(matches!(usage(), Err(CallError::Again)));
    assert_eq!(at_work(), 2);
    v.lfs.control.remote_calls.store(1, Relaxed);
    usage().unwrap();
    assert_eq!(at_work(), 1);
}

#[test]
fn lists_of_segments_go_on_where_they_are_asked_to() {
    let v = Volume::new();
    settled_file(&v, 400);
    let id = join(&v);
    let all: Vec<u32> = v
        .lfs
        .cleaner
        .candidates()
        .iter()
        .map(|c| c.segment)
        .collect();
    let count = v.lfs.geometry.segment_count;
    for from in [0, all[3], all[3] + 1, count - 1, count, u32::MAX] {
        let (_, answer) = call(&v, id, Request::Usage { from }).unwrap();
        let Answer::Usage { segments, next } = answer else {
            panic!("{answer:?}");
        };
        let listed: Vec<u32> = segments.iter().map(|usage| usage.segment.get()).collect();
        let rest: Vec<u32> = all.iter().copied().filter(|s| *s >= from).collect();
        assert_eq!((listed, next), (rest, None), "from {from}");
    }
}

/// A segment with more blocks than a message holds is told of in pages, each of
/// them once.
#[test]
fn large_segments_are_told_of_in_pages() {
    let format = FormatOptions {
        segment_bytes: 2 << 20,
        ..FormatOptions::default()
    };
    let v = Volume::made(512 << 20, &format, MountOptions::default());
    let (_, segments) = settled_file(&v, 1000);
    let id = join(&v);
    let segment = segments[0];
    let told = living(&v, id, segment);
    let contents = v.lfs.mechanism.read_segment(segment).unwrap();
    let found = v.lfs.mechanism.bmapv(&contents).unwrap();
    assert!(told.len() > BLOCKS, "{}", told.len());
    assert_eq!(told.len(), found.len());
    let mut bytes: Vec<u64> = told.iter().map(|block| block.byte.get()).collect();
    bytes.sort_unstable();
    bytes.dedup();
    assert_eq!(bytes.len(), told.len());
    // A mebibyte is moved at a time.
    let marked = markv(&v, id, &told[..BLOCKS]);
    assert_eq!((marked.done.get(), marked.moved.get()), (256, 256));
}

#[test]
fn there_is_no_rest_for_strangers_either_while_somebody_waits() {
    let v = Volume::new();
    let id = join(&v);
    let standing = || {
        let policy = "greedy".to_owned();
        match call(&v, id, Request::Wait { policy }).unwrap().1 {
            Answer::Standing(standing) => standing,
            other => panic!("{other:?}"),
        }
    };
    let gauge = v.lfs.space.cleaning_gauge();
    let now = standing();
    assert_eq!(
        (now.clean.get(), now.floor.get()),
        (gauge.clean, gauge.floor)
    );
    assert_eq!((now.low.get(), now.high.get()), (gauge.low, gauge.high));
    assert_eq!(now.segments.get(), u64::from(v.lfs.geometry.segment_count));
    assert_eq!(now.waiting.get(), 0);
    let _needy = v.lfs.control.in_need();
    assert_eq!(standing().waiting.get(), 1);
    v.clock.advance(Duration::from_secs(3));
    let idle_ns = standing().idle_ns.get();
    assert!(
        (3_000_000_000..3_001_000_000).contains(&idle_ns),
        "{idle_ns}"
    );
    v.lfs.control.asked();
    assert_eq!(standing().idle_ns.get(), 0);
}
