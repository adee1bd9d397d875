//! Corner cases of spilled data, one each.

use super::harness::*;
use crate::{
    Caller, Error, InodeNo, Isolation, MemoryOptions, Options, SetAttr, TransactionOptions,
};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const BLOCK: usize = 4096;
const KEEP_SIZE: i32 = 1;
const PUNCH: i32 = 2;

/// A file system whose private trees spill all data at every change.
fn spilling() -> Arc<Fs> {
    let mut fs = fresh();
    Arc::get_mut(&mut fs.budget).unwrap().spills_at = 0;
    Arc::new(fs)
}

fn spilled(fs: &Fs) -> usize {
    fs.layout().memory().spilled_blocks()
}

/// Spills everything that the transaction has written.
fn spill(txn: &Txn) {
    txn.t_create(ROOT, "another");
    txn.t_unlink("another");
}

fn resize(fs: &Fs, ino: InodeNo, size: u64) {
    let set = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    fs.setattr(&Caller::root(), ino, &set).unwrap();
}

#[test]
fn what_is_spilled_is_read_changed_cut_and_committed() {
    let fs = spilling();
    let old = fs.t_file("old", &pattern(10 * BLOCK, 1));
    let txn = begin(&fs);
    let new = txn.t_file("new", &pattern(10 * BLOCK, 2));
    txn.t_write(old, 0, &pattern(10 * BLOCK, 3));
    spill(&txn);
    assert_eq!(spilled(&fs), 20);
    let mut wanted = pattern(10 * BLOCK, 3);
    for ino in [old, new] {
        if ino == new {
            wanted = pattern(10 * BLOCK, 2);
        }
        assert_eq!(txn.t_read(ino), wanted);
        let mut part = vec![0; 5000];
        txn.read(ino, 6000, &mut part).unwrap();
        assert_eq!(part, wanted[6000..11_000]);
        // A part of one, all of one, the ends of a hole, and a cut within one.
        txn.t_write(ino, 100, b"part");
        wanted[100..104].copy_from_slice(b"part");
        txn.t_write(ino, 2 * BLOCK as u64, &[7; BLOCK]);
        wanted[2 * BLOCK..3 * BLOCK].fill(7);
        txn.fallocate(&Caller::root(), ino, PUNCH | KEEP_SIZE, 14_000, 8_000)
            .unwrap();
        wanted[14_000..22_000].fill(0);
        resize(&txn, ino, 30_000);
        resize(&txn, ino, 50_000);
        wanted.truncate(30_000);
        wanted.resize(50_000, 0);
        assert_eq!(txn.t_read(ino), wanted);
        spill(&txn);
        assert_eq!(txn.t_read(ino), wanted);
    }
    let (old_data, new_data) = (txn.t_read(old), wanted);
    txn.commit().unwrap();
    assert_eq!(spilled(&fs), 0);
    for fs in [&*fs, &crash(&fs, None)] {
        assert!(fs.t_content("old") == old_data && fs.t_content("new") == new_data);
    }
}

#[test]
fn nothing_is_left_of_what_was_spilled_and_dropped() {
    let fs = spilling();
    let old = fs.t_file("old", &pattern(5 * BLOCK, 1));
    let before = fs.usage();
    let txn = begin(&fs);
    txn.t_write(old, 0, &pattern(5 * BLOCK, 2));
    spill(&txn);
    assert_eq!(spilled(&fs), 5);
    // Overwritten: the first copy is dead.
    txn.t_write(old, 0, &pattern(5 * BLOCK, 3));
    spill(&txn);
    assert_eq!(spilled(&fs), 5);
    let child = nested(&txn);
    child.t_write(old, 0, &pattern(5 * BLOCK, 4));
    spill(&child);
    assert_eq!(
        (spilled(&fs), child.t_read(old)),
        (10, pattern(5 * BLOCK, 4))
    );
    child.abort();
    assert_eq!((spilled(&fs), txn.t_read(old)), (5, pattern(5 * BLOCK, 3)));
    let child = nested(&txn);
    child.t_write(old, 0, &pattern(BLOCK, 5));
    spill(&child);
    child.commit().unwrap();
    assert_eq!(txn.t_read(old)[..BLOCK], pattern(BLOCK, 5));
    txn.abort();
    assert_eq!((spilled(&fs), fs.usage()), (0, before));
    assert_eq!(fs.t_read(old), pattern(5 * BLOCK, 1));
}

#[test]
fn what_was_given_up_for_others_aborts() {
    let fs = spilling();
    let old = fs.t_file("old", &pattern(5 * BLOCK, 1));
    let txn = begin(&fs);
    txn.t_write(old, 0, &pattern(3 * BLOCK, 2));
    spill(&txn);
    fs.layout().memory().break_spills();
    let mut byte = [0];
    assert!(matches!(txn.read(old, 0, &mut byte), Err(Error::Aborted)));
    txn.read(old, 4 * BLOCK as u64, &mut byte).unwrap();
    assert!(matches!(txn.commit(), Err(Error::Aborted)));
    assert_eq!(fs.t_read(old), pattern(5 * BLOCK, 1));
    // Merged data is not given up.
    let txn = begin(&fs);
    txn.t_write(old, 0, &pattern(3 * BLOCK, 2));
    spill(&txn);
    let ticket = txn.commit_async().unwrap();
    fs.layout().memory().break_spills();
    assert_eq!(fs.t_read(old)[..3 * BLOCK], pattern(3 * BLOCK, 2));
    fs.t_write(old, 10, b"at once");
    ticket.wait().unwrap();
    let mut wanted = pattern(5 * BLOCK, 1);
    wanted[..3 * BLOCK].copy_from_slice(&pattern(3 * BLOCK, 2));
    wanted[10..17].copy_from_slice(b"at once");
    assert_eq!(fs.t_read(old), wanted);
}

#[test]
fn a_block_that_changes_while_it_is_spilled_stays_in_memory() {
    let fs = spilling();
    let old = fs.t_file("old", &pattern(5 * BLOCK, 1));
    let txn = Arc::new(begin(&fs));
    txn.t_write(old, 0, &pattern(3 * BLOCK, 2));
    let tree = Arc::clone(txn.tree());
    let hook = move || {
        let vnode = tree.vnode(old).unwrap();
        let mut state = vnode.write();
        let now = tree.now();
        tree.put(&vnode, &mut state, BLOCK as u64, b"meanwhile", now)
            .unwrap();
    };
    *fs.layout().during_spill.lock() = Some(Box::new(hook));
    spill(&txn);
    let mut wanted = pattern(5 * BLOCK, 1);
    wanted[..3 * BLOCK].copy_from_slice(&pattern(3 * BLOCK, 2));
    wanted[BLOCK..BLOCK + 9].copy_from_slice(b"meanwhile");
    assert_eq!(txn.t_read(old), wanted);
    Arc::into_inner(txn).unwrap().commit().unwrap();
    assert_eq!(fs.t_read(old), wanted);
}

#[test]
fn pages_of_which_spans_were_written_stay_and_whole_ones_spill() {
    let fs = spilling();
    let file = fs.t_file("file", &vec![b'.'; 3 * BLOCK]);
    fs.sync().unwrap();
    let options = TransactionOptions {
        isolation: Isolation::Locking,
        subpage: true,
        ..TransactionOptions::default()
    };
    let one = fs.begin_transaction(&options).unwrap();
    let other = fs.begin_transaction(&options).unwrap();
    one.t_write(file, 0, &[b'1'; 100]);
    one.t_write(file, BLOCK as u64, &[b'1'; BLOCK]);
    spill(&one);
    assert_eq!(spilled(&fs), 1);
    other.t_write(file, 200, &[b'2'; 100]);
    // Bytes written by a nested transaction become its parent's, span by span.
    let child = nested(&one);
    child.t_write(file, 400, &[b'3'; 100]);
    child.t_write(file, BLOCK as u64, &[b'3'; 10]);
    spill(&child);
    child.commit().unwrap();
    other.commit().unwrap();
    one.commit().unwrap();
    let mut wanted = vec![b'.'; 3 * BLOCK];
    wanted[..100].fill(b'1');
    wanted[BLOCK..2 * BLOCK].fill(b'1');
    wanted[BLOCK..BLOCK + 10].fill(b'3');
    wanted[200..300].fill(b'2');
    wanted[400..500].fill(b'3');
    assert!(fs.t_read(file) == wanted);
}

#[test]
fn data_spills_where_names_are_too_many() {
    let options = Options {
        cache_bytes: 1 << 20,
        ..Options::default()
    };
    let fs = Arc::new(fresh_with(MemoryOptions::default(), options));
    let (one, other) = (begin(&fs), begin(&fs));
    // Eight times the whole cache, in two transactions.
    for txn in [&one, &other] {
        let file = txn.t_create(ROOT, "large").ino;
        for step in 0..64 {
            txn.t_write(file, step << 14, &pattern(1 << 14, step as u8));
        }
    }
    let made = (0..10_000).find_map(|number| {
        let name = format!("file{number}");
        let made = one.mknod(&Caller::root(), ROOT, name.as_bytes(), 0o644, 0);
        made.err()
    });
    assert!(matches!(made, Some(Error::TransactionTooLarge)), "{made:?}");
    drop(other);
    one.commit().unwrap();
    let large = fs.t_lookup("large").unwrap();
    let mut data = vec![0; 1 << 14];
    for step in 0..64 {
        fs.read(large, step << 14, &mut data).unwrap();
        assert_eq!(data, pattern(1 << 14, step as u8));
    }
}

#[test]
fn a_spill_that_fails_changes_nothing() {
    let fs = spilling();
    let txn = begin(&fs);
    let file = txn.t_file("file", &pattern(3 * BLOCK, 1));
    fs.layout().fail_append.store(true, Relaxed);
    let made = txn.mknod(&Caller::root(), ROOT, b"another", 0o644, 0);
    assert!(matches!(made, Err(Error::ReadOnly(_))), "{made:?}");
    assert_eq!(txn.t_read(file), pattern(3 * BLOCK, 1));
    fs.layout().fail_append.store(false, Relaxed);
    spill(&txn);
    txn.commit().unwrap();
    assert_eq!(fs.t_content("file"), pattern(3 * BLOCK, 1));
    assert_eq!(spilled(&fs), 0);
}

#[test]
fn what_is_overwritten_or_removed_during_the_append_is_there_for_it() {
    for removed in [true, false] {
        let fs = spilling();
        let txn = begin(&fs);
        let file = txn.t_file("new", &pattern(10 * BLOCK, 2));
        spill(&txn);
        let ticket = txn.commit_async().unwrap();
        assert_eq!(spilled(&fs), 10);
        let other = Arc::clone(&fs);
        let change = move || match removed {
            true => other.t_unlink("new"),
            false => other.t_write(file, 0, &pattern(10 * BLOCK, 3)),
        };
        // By another thread, as the append has locks.
        let during = move || std::thread::spawn(change).join().unwrap();
        *fs.layout().during_append.lock() = Some(Box::new(during));
        ticket.wait().unwrap();
        let before = crash(&fs, None);
        assert_eq!(before.t_content("new"), pattern(10 * BLOCK, 2));
        fs.sync().unwrap();
        let after = crash(&fs, None);
        match removed {
            true => assert!(after.t_lookup("new").is_err()),
            false => assert_eq!(after.t_content("new"), pattern(10 * BLOCK, 3)),
        }
        assert_eq!(spilled(&fs), 0);
    }
}
