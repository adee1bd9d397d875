//! Tests of the distribution among heads.

use super::*;
use varve_fs::{Timestamp, Version};

fn geometry() -> Geometry {
    Geometry {
        block_bytes: 4096,
        write_unit: 4096,
        segment_bytes: 1 << 17,
        inode_bytes: 256,
        segment_count: 31,
        first_segment: 1 << 16,
        copy_stride: 4,
        reserve_segments: 12,
        aligned: true,
        packed: true,
        long_xattrs: true,
        spills: true,
        snapshots: true,
        shrunk: false,
    }
}

const VERSION: Version = 1;

fn block(ino: u64, block: u64) -> LogItem {
    LogItem::Block {
        ino: InodeNo(ino),
        version: VERSION,
        block,
        data: vec![1; 4096].into(),
        written: Timestamp::from_ns(0),
        source: None,
    }
}

fn record(ino: u64) -> LogItem {
    LogItem::Record {
        ino: InodeNo(ino),
        version: VERSION,
        record: crate::apply::Record::Truncated(9),
    }
}

fn placement(heads: usize) -> Placement {
    // Spare space of a hundred blocks.
    let measures = Measures {
        spare_segments: 1,
        segment_blocks: 100,
    };
    let lives = Lives::new(1000, 1 << 20);
    Placement::between(heads, 64 << 10, PolicyKind::LIFE_CLASSES, &measures, lives)
}

/// Spare space of a thousand blocks, and the least bytes of a partial in a mount.
fn mounted(heads: usize) -> Placement {
    let measures = Measures {
        spare_segments: 10,
        segment_blocks: 100,
    };
    let lives = Lives::new(10_000, 1 << 20);
    let head_bytes = crate::MountOptions::default().head_bytes;
    Placement::between(
        heads,
        head_bytes,
        PolicyKind::LIFE_CLASSES,
        &measures,
        lives,
    )
}

fn blocks_of(items: &[LogItem]) -> Vec<u64> {
    let number = |item: &LogItem| match item {
        LogItem::Block { block, .. } => *block,
        _ => u64::MAX,
    };
    items.iter().map(number).collect()
}

fn arrange(placement: &mut Placement, items: Vec<LogItem>) -> (Vec<u64>, Vec<(usize, usize)>) {
    let (items, runs) = placement.arrange(&geometry(), items, GroupKind::User, false);
    assert_eq!(runs.first().map(|run| run.items.start), Some(0));
    assert_eq!(runs.last().map(|run| run.items.end), Some(items.len()));
    assert!(runs.is_sorted_by_key(|run| run.items.start));
    let runs = runs.iter().map(|run| (run.head, run.items.len()));
    (blocks_of(&items), runs.collect())
}

#[test]
fn blocks_that_come_back_soon_part_from_the_others() {
    let mut placement = placement(5);
    let new: Vec<LogItem> = (0..40).map(|b| block(5, b)).collect();
    // The users' second class is the third.
    assert_eq!(arrange(&mut placement, new).1, [(3, 40)]);
    // Twenty that are rewritten within the spare space, twenty new ones, alternating.
    let mut both = vec![record(5)];
    for b in 0..20 {
        both.push(block(5, 100 + b));
        both.push(block(5, 20 + b));
    }
    both.push(record(6));
    let (blocks, runs) = arrange(&mut placement, both);
    assert_eq!(blocks[..2], [u64::MAX; 2], "records come first");
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert_eq!(runs[0].0, 3, "the coldest first: {runs:?}");
    assert_eq!(runs[1].0, 1, "then the hottest: {runs:?}");
    let cold = &blocks[2..runs[0].1];
    assert!(cold.iter().filter(|b| **b >= 100).is_sorted(), "{cold:?}");
}

/// On a full volume half a mebibyte waits before it is written. Of skewed writes a tenth
/// is cold; in the hot head each such block was moved once more.
#[test]
fn the_cold_tenth_of_what_waits_has_a_head_of_its_own() {
    for (heads, cold) in [(3, 2), (4, 2), (5, 3)] {
        let mut placement = mounted(heads);
        let hot = || (0..115).map(|b| block(5, b));
        arrange(&mut placement, hot().collect());
        let group = hot().chain((0..13).map(|b| block(5, 1000 + b)));
        let (blocks, runs) = arrange(&mut placement, group.collect());
        assert_eq!(runs, [(cold, 13), (1, 115)], "of {heads} heads");
        assert!(blocks[..13].iter().all(|b| *b >= 1000), "{blocks:?}");
    }
}

#[test]
fn what_is_too_little_joins_the_nearest() {
    let kb = 1024;
    let meant = vec![0, 64 * kb, 0, 80 * kb];
    assert_eq!(merged(meant, 64 * kb), [None, Some(1), None, Some(3)]);
    let meant = vec![0, 64 * kb, 4 * kb, 80 * kb];
    assert_eq!(merged(meant, 64 * kb), [None, Some(1), Some(3), Some(3)]);
    assert_eq!(
        merged(vec![0, 4 * kb, 0, 8 * kb], 64 * kb),
        [None, Some(3), None, Some(3)]
    );
    assert_eq!(merged(vec![0, 4 * kb], 64 * kb), [None, Some(1)]);
    assert_eq!(merged(vec![0, 0], 64 * kb), [None, None]);
}

#[test]
fn small_groups_and_crowded_volumes_are_not_split() {
    let mut placement = placement(5);
    let few = || vec![record(5), block(5, 1), block(6, 2)];
    let (blocks, runs) = arrange(&mut placement, few());
    assert_eq!((blocks, runs), (vec![u64::MAX, 1, 2], vec![(3, 3)]));
    let (blocks, runs) = arrange(&mut placement, vec![record(5)]);
    assert_eq!((blocks, runs), (vec![u64::MAX], vec![(0, 1)]));
    let items: Vec<LogItem> = (0..40).map(|b| block(5, b)).collect();
    let (_, runs) = placement.arrange(&geometry(), items, GroupKind::User, true);
    assert_eq!((runs.len(), runs[0].head), (1, 0));
}

#[test]
fn neighbouring_classes_share_when_heads_are_few() {
    for (heads, want) in [
        (5, [1, 2, 3, 4]),
        (4, [1, 1, 2, 3]),
        (3, [1, 1, 2, 2]),
        (2, [1; 4]),
    ] {
        let places = placement(heads).places.expect("several heads");
        let found: Vec<usize> = (0..4).map(|class| places.head_of_class(class)).collect();
        assert_eq!(found, want, "{heads}");
    }
    assert!(placement(1).places.is_none());
}
