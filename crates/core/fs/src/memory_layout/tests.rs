//! Tests of the layout in memory: groups are appended and blocks read, and every rule of
//! the interface that it asserts is broken once.

use super::state::root_inode;
use super::*;
use crate::layout::{Cause, Waiting};
use crate::types::FileKind;
use std::panic::{AssertUnwindSafe, catch_unwind};

const VIEW: View = View::Live;

fn layout() -> MemoryLayout {
    MemoryLayout::new(MemoryOptions::default())
}

fn group(items: Vec<Item>, usage: (u64, u64, u64)) -> Group {
    let (inodes, blocks, sectors) = usage;
    Group {
        items,
        usage: Usage {
            inodes,
            blocks,
            sectors,
        },
        cause: Cause::Sync,
    }
}

fn image(ino: InodeNo, version: Version, blocks: u64, sectors: u64) -> Item {
    Item::Inode(Box::new(Inode {
        ino,
        version,
        mode: FileKind::Regular.mode_bits() | 0o644,
        nlink: 1,
        blocks,
        sectors,
        ..root_inode(Timestamp::default())
    }))
}

fn block(ino: InodeNo, version: Version, block: u64, bytes: usize) -> Item {
    Item::Block {
        ino,
        version,
        block,
        data: Arc::new(vec![block as u8; bytes].into()),
        written: Timestamp::default(),
    }
}

/// A layout with one file of blocks 0 (512 bytes) and 1 (4096 bytes).
fn with_file() -> (MemoryLayout, InodeNo, Version) {
    let layout = layout();
    let (ino, version) = layout
        .allocate_inode(InodeNo::ROOT, FileKind::Regular)
        .unwrap();
    let items = vec![
        block(ino, version, 0, 100),
        block(ino, version, 1, 4096),
        image(ino, version, 2, 9),
    ];
    layout.append(group(items, (2, 2, 9))).unwrap();
    (layout, ino, version)
}

fn refuses(layout: &MemoryLayout, items: Vec<Item>, usage: (u64, u64, u64)) {
    let append = || layout.append(group(items, usage));
    assert!(catch_unwind(AssertUnwindSafe(append)).is_err());
}

#[test]
fn a_new_volume_has_an_empty_root() {
    let layout = layout();
    let root = layout.read_inode(VIEW, InodeNo::ROOT).unwrap();
    assert_eq!((root.nlink, root.kind()), (2, FileKind::Directory));
    assert_eq!(layout.next_mapped(VIEW, InodeNo::ROOT, 0).unwrap(), None);
    assert_eq!(layout.usage().inodes, 1);
}

#[test]
fn blocks_read_back_in_whole_sectors_and_follow_each_other() {
    let (layout, ino, _) = with_file();
    let found = layout.map(VIEW, ino, 0, u64::MAX).unwrap();
    assert!(found[1].pointer.follows(&found[0].pointer));
    assert!(!found[0].pointer.follows(&found[1].pointer));
    let read = layout.read(ino, &found).unwrap();
    assert_eq!((read[0].len(), read[1].len()), (512, 4096));
    assert_eq!(read[0][100..], [0; 412]);
}

#[test]
fn a_moved_block_is_not_read_through_its_old_pointer() {
    let (layout, ino, _) = with_file();
    let old = layout.map(VIEW, ino, 0, 2).unwrap();
    layout.move_blocks();
    assert!(matches!(layout.read(ino, &old), Err(Error::Damaged { .. })));
    let new = layout.map(VIEW, ino, 0, 2).unwrap();
    assert_eq!(layout.read(ino, &new).unwrap()[1].len(), 4096);
}

#[test]
fn a_crash_keeps_what_was_committed_and_any_prefix_may_survive() {
    let (layout, ino, version) = with_file();
    let first = layout.appended();
    let items = vec![
        Item::Truncated {
            ino,
            version,
            from_block: 1,
        },
        image(ino, version, 1, 1),
    ];
    layout.append(group(items, (2, 1, 1))).unwrap();
    assert!(matches!(
        layout.crash().read_inode(VIEW, ino),
        Err(Error::NotFound)
    ));
    layout.commit(first).unwrap();
    let crashed = layout.crash();
    assert_eq!(crashed.map(VIEW, ino, 0, 9).unwrap().len(), 2);
    assert_eq!(crashed.usage().sectors, 9);
    let crashed = layout.crash_after(layout.appended());
    assert_eq!(crashed.map(VIEW, ino, 0, 9).unwrap().len(), 1);
}

#[test]
fn a_number_lost_in_a_crash_is_given_again() {
    let layout = layout();
    let (ino, _) = layout
        .allocate_inode(InodeNo::ROOT, FileKind::Regular)
        .unwrap();
    assert_eq!(
        layout
            .crash()
            .allocate_inode(InodeNo::ROOT, FileKind::Regular)
            .unwrap()
            .0,
        ino
    );
}

#[test]
fn numbers_are_reused_with_the_next_version() {
    let (layout, ino, version) = with_file();
    let next_version = version + 1;
    let items = vec![Item::Freed { ino, next_version }];
    layout.append(group(items, (1, 0, 0))).unwrap();
    assert_eq!(
        layout
            .allocate_inode(InodeNo::ROOT, FileKind::Regular)
            .unwrap(),
        (ino, version + 1)
    );
    layout.forget_inode(ino);
    assert_eq!(
        layout
            .allocate_inode(InodeNo::ROOT, FileKind::Regular)
            .unwrap(),
        (ino, version + 2)
    );
}

#[test]
fn reserved_blocks_are_unwritten_until_written() {
    let (layout, ino, version) = with_file();
    let items = vec![
        Item::Reserved {
            ino,
            version,
            from_block: 5,
            to_block: 7,
        },
        block(ino, version, 6, 4096),
        image(ino, version, 4, 25),
    ];
    layout.append(group(items, (2, 4, 25))).unwrap();
    let found = layout.map(VIEW, ino, 2, 9).unwrap();
    assert!(found[0].pointer.unwritten() && !found[1].pointer.unwritten());
    assert_eq!(layout.next_mapped(VIEW, ino, 2).unwrap(), Some(5));
}

#[test]
fn punching_leaves_both_sides() {
    let (layout, ino, version) = with_file();
    let items = vec![
        Item::Punched {
            ino,
            version,
            from_block: 0,
            to_block: 1,
        },
        image(ino, version, 1, 8),
    ];
    layout.append(group(items, (2, 1, 8))).unwrap();
    assert_eq!(layout.next_mapped(VIEW, ino, 0).unwrap(), Some(1));
}

#[test]
fn unfinished_work_is_listed_after_a_crash_only() {
    let (layout, ino, version) = with_file();
    let Item::Inode(mut inode) = image(ino, version, 2, 9) else {
        unreachable!()
    };
    inode.nlink = 0;
    let items = vec![Item::Inode(inode)];
    layout.append(group(items, (2, 2, 9))).unwrap();
    layout.checkpoint().unwrap();
    assert!(layout.unfinished().unwrap().is_empty());
    assert_eq!(layout.crash().unfinished().unwrap(), [ino]);
}

#[test]
fn growth_is_refused_by_price_and_shrinking_never() {
    let layout = MemoryLayout::new(MemoryOptions {
        capacity_bytes: 4096,
        ..MemoryOptions::default()
    });
    let total = |inodes, sectors| Usage {
        inodes,
        blocks: 1,
        sectors,
    };
    let answer = |total, purpose| {
        let request = Request::new(total, Waiting::default(), purpose);
        layout.admit(&request).unwrap()
    };
    assert_eq!(answer(total(8, 4), Purpose::Grow), Answer::Granted);
    assert_eq!(answer(total(9, 4), Purpose::Grow), Answer::Refused);
    assert_eq!(answer(total(9, 4), Purpose::Shrink), Answer::Granted);
    assert_eq!(layout.statfs(total(8, 0)).files_free, 8);
}

#[test]
fn refused_writes_append_and_commit_nothing() {
    let (layout, ino, version) = with_file();
    layout.refuse_writes("test");
    let again = group(vec![image(ino, version, 2, 9)], (2, 2, 9));
    assert!(matches!(layout.append(again), Err(Error::ReadOnly(_))));
    let appended = layout.appended();
    assert!(matches!(layout.commit(appended), Err(Error::ReadOnly(_))));
    assert!(layout.geometry().read_only.is_some());
    assert_eq!(layout.map(VIEW, ino, 0, 9).unwrap().len(), 2);
}

#[test]
fn broken_rules_are_caught() {
    let setup = || {
        let (layout, ino, version) = with_file();
        let reserved = Item::Reserved {
            ino,
            version,
            from_block: 1,
            to_block: 3,
        };
        (layout, ino, version, reserved)
    };
    let (layout, ino, version, reserved) = setup();
    refuses(
        &layout,
        vec![reserved, image(ino, version, 3, 17)],
        (2, 3, 17),
    );
    let (layout, ino, version, _) = setup();
    refuses(&layout, vec![block(ino, version, 4, 512)], (2, 3, 10));
    let (layout, ino, version, _) = setup();
    refuses(&layout, vec![image(ino, version + 1, 2, 9)], (2, 2, 9));
    let (layout, ino, version, _) = setup();
    refuses(&layout, vec![image(ino, version, 3, 9)], (2, 2, 9));
    let (layout, ino, version, _) = setup();
    refuses(&layout, vec![image(ino, version, 2, 9)], (2, 2, 8));
    let (layout, ino, version, _) = setup();
    let late = block(ino, version, 1, 4096);
    refuses(&layout, vec![image(ino, version, 2, 9), late], (2, 2, 9));
    let (layout, ..) = setup();
    let stranger = InodeNo(77);
    refuses(&layout, vec![image(stranger, 1, 0, 0)], (3, 2, 9));
}
