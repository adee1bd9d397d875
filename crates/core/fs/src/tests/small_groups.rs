//! An fsync of little data waits for few bytes of other groups.

use super::harness::*;
use crate::epochs::small::SMALL_GROUP_BYTES;
use crate::memory::small_syncs::{OFTEN, WINDOW_BYTES};
use crate::{InodeNo, MemoryOptions, Options};
use std::sync::Arc;

const MIB: usize = 1 << 20;
/// Most bytes of a group while no file is made durable.
const GROUP_BYTES: u64 = 16 << 20;
/// A block beyond the bound, and images of the epoch.
const SLACK: u64 = 64 << 10;

fn fresh_with_large_groups() -> Arc<Fs> {
    let memory = MemoryOptions {
        group_bytes: GROUP_BYTES,
        ..MemoryOptions::default()
    };
    let options = Options {
        cache_bytes: 1 << 30,
        write_back_bytes: Some(0),
        ..Options::default()
    };
    Arc::new(fresh_with(memory, options))
}

fn dirty(fs: &Fs, name: &str, mebibytes: usize) -> InodeNo {
    let file = fs.t_file(name, b"");
    for at in 0..mebibytes {
        fs.t_write(file, (at * MIB) as u64, &pattern(MIB, at as u8));
    }
    file
}

/// Bytes of the groups appended by `what`.
fn appended(fs: &Fs, what: impl FnOnce()) -> u64 {
    let before = fs.statistics().group_bytes;
    what();
    fs.statistics().group_bytes - before
}

fn write_back(fs: &Fs) -> u64 {
    appended(fs, || assert!(fs.write_back().unwrap()))
}

/// Makes 4 KiB of a file durable so often that other groups become small.
fn make_durable_often(fs: &Fs, file: InodeNo) {
    for round in 0..2 * OFTEN {
        fs.t_write(file, 0, &pattern(4096, round as u8));
        fs.t_fsync(file);
    }
}

#[test]
fn groups_of_others_are_small_while_small_files_are_made_durable() {
    let fs = fresh_with_large_groups();
    dirty(&fs, "others", 80);
    assert!(write_back(&fs) >= GROUP_BYTES);
    let file = fs.t_file("small", b"");
    make_durable_often(&fs, file);
    for round in 100..108 {
        fs.t_write(file, 0, &pattern(4096, round));
        let own = appended(&fs, || fs.t_fsync(file));
        assert!(own <= 4096 + SLACK, "{own}");
        let others = write_back(&fs);
        assert!(others <= SMALL_GROUP_BYTES + SLACK, "{others}");
    }
    assert_eq!(fs.statistics().small_groups, 8);
    // No file is made durable any more.
    dirty(&fs, "more", 80);
    let mut small = 0;
    while write_back(&fs) <= SMALL_GROUP_BYTES + SLACK {
        small += 1;
    }
    assert!(small <= 2 * WINDOW_BYTES / SMALL_GROUP_BYTES, "{small}");
}

/// From its call, while another thread appends a group, until its return, no more is
/// appended than a small group and its own data.
#[test]
fn an_fsync_that_meets_a_group_waits_for_a_small_one() {
    let fs = fresh_with_large_groups();
    dirty(&fs, "others", 40);
    let file = fs.t_file("small", b"");
    make_durable_often(&fs, file);
    fs.t_write(file, 0, &pattern(4096, 200));
    let before = fs.statistics().group_bytes;
    let (syncing, write_back) = (Arc::clone(&fs), Arc::clone(&fs));
    let (called, calls) = std::sync::mpsc::channel();
    let hook = move || {
        let call = move || {
            called.send(()).unwrap();
            syncing.t_fsync(file);
            syncing.statistics().group_bytes
        };
        // Not awaited here, because the call waits for this group.
        std::thread::spawn(call);
    };
    *fs.layout().during_append.lock() = Some(Box::new(hook));
    assert!(write_back.write_back().unwrap());
    calls.recv().unwrap();
    while crash(&fs, None).t_read(file) != pattern(4096, 200) {
        std::thread::yield_now();
    }
    let during = fs.statistics().group_bytes - before;
    assert!(during <= SMALL_GROUP_BYTES + 4096 + SLACK, "{during}");
}

/// An fsync of a large file is done in parts, between which others proceed.
#[test]
fn a_large_fsync_is_taken_in_small_parts_while_small_files_are_made_durable() {
    let fs = fresh_with_large_groups();
    let (small, large) = (fs.t_file("small", b"1"), dirty(&fs, "large", 20));
    make_durable_often(&fs, small);
    let groups = fs.statistics().groups;
    fs.t_fsync(large);
    let parts = fs.statistics().groups - groups;
    assert!(
        parts >= 20 * MIB as u64 / (SMALL_GROUP_BYTES + SLACK),
        "{parts}"
    );
}

/// A few small fsyncs have no effect.
#[test]
fn few_fsyncs_keep_no_groups_small() {
    let fs = fresh_with_large_groups();
    dirty(&fs, "others", 40);
    let file = fs.t_file("small", b"1");
    fs.t_fsync(file);
    assert!(write_back(&fs) >= GROUP_BYTES);
}

/// A program that makes large files durable has large groups.
#[test]
fn large_fsyncs_keep_no_groups_small() {
    let fs = fresh_with_large_groups();
    for round in 0..4 {
        let file = dirty(&fs, &format!("large{round}"), 8);
        let groups = fs.statistics().groups;
        fs.t_fsync(file);
        assert_eq!(fs.statistics().groups, groups + 1);
    }
    assert_eq!(fs.statistics().small_groups, 0);
}
