//! Appends whose offset is decided at the commit.

use super::harness::*;
use crate::{
    Appended, Caller, Error, InodeNo, Isolation, MemoryOptions, Options, SetAttr, SetTime,
    Timestamp, TransactionOptions,
};
use std::sync::Arc;
use std::time::Duration;

fn volume() -> Arc<Fs> {
    let layout = Recorder::new(crate::MemoryLayout::new(MemoryOptions::default()));
    Fs::format(&layout, &*clock(), (0, 0)).unwrap();
    let clock = Arc::new(varve_device::HostClock::default());
    Arc::new(Fs::mount(layout, clock, Options::default()).unwrap())
}

fn begin_with(fs: &Arc<Fs>, subpage: bool) -> Txn {
    let options = TransactionOptions {
        isolation: Isolation::Locking,
        // Every wait in these tests ends by its timeout.
        timeout: Some(Duration::from_millis(20)),
        subpage,
    };
    fs.begin_transaction(&options).unwrap()
}

fn locking(fs: &Arc<Fs>) -> Txn {
    begin_with(fs, false)
}

fn append(txn: &Txn, file: InodeNo, data: &[u8]) -> Appended {
    txn.append_in_turn(&Caller::root(), file, data).unwrap()
}

/// Initial sizes, for both kinds of files, inline and in blocks.
const SIZES: [usize; 4] = [0, 20, 4096, 10_000];

#[test]
fn transactions_append_side_by_side_and_the_first_to_commit_is_first() {
    for (size, subpage) in SIZES.into_iter().flat_map(|n| [(n, false), (n, true)]) {
        let fs = volume();
        let file = fs.t_file("file", &pattern(size, 1));
        let (one, two) = (begin_with(&fs, subpage), begin_with(&fs, subpage));
        assert_eq!(append(&one, file, b"one"), Appended::AtCommit(3));
        assert_eq!(append(&two, file, b"two"), Appended::AtCommit(3));
        assert_eq!(append(&one, file, b"more"), Appended::AtCommit(7));
        assert_eq!(
            fs.getattr(file).unwrap().size,
            size as u64,
            "nobody sees it"
        );
        two.commit().unwrap();
        one.commit().unwrap();
        let want = [&pattern(size, 1)[..], b"two", b"onemore"].concat();
        assert_eq!(fs.t_read(file), want);
        fs.sync().unwrap();
        assert_eq!(crash(&fs, None).t_read(file), want);
    }
}

#[test]
fn what_looks_at_the_end_sees_what_was_appended_and_keeps_others_off() {
    let root = Caller::root();
    type Look = fn(&Txn, InodeNo) -> u64;
    let looks: [Look; 5] = [
        |txn, file| txn.getattr(file).unwrap().size,
        |txn, file| txn.t_read(file).len() as u64,
        |txn, file| txn.end_of_appended(file, 3).unwrap(),
        |txn, file| {
            txn.t_write(file, 0, b"x");
            txn.getattr(file).unwrap().size
        },
        |txn, file| {
            let set = SetAttr {
                size: Some(10_003),
                ..SetAttr::default()
            };
            txn.setattr(&Caller::root(), file, &set).unwrap().size
        },
    ];
    for (nth, look) in looks.into_iter().enumerate() {
        let fs = volume();
        let file = fs.t_file("file", &pattern(10_000, 1));
        let (one, two) = (locking(&fs), locking(&fs));
        append(&one, file, b"one");
        assert_eq!(look(&one, file), 10_003, "look {nth}");
        // From here on one transaction has the end locked.
        let refused = two.append_in_turn(&root, file, b"two");
        assert!(matches!(refused, Err(Error::TimedOut)), "look {nth}");
        assert!(!matches!(append(&one, file, b"!"), Appended::AtCommit(_)));
        one.commit().unwrap();
        assert_eq!(fs.getattr(file).unwrap().size, 10_004);
        assert_eq!(fs.t_read(file)[10_000..], *b"one!");
    }
}

#[test]
fn one_that_is_aborted_leaves_nothing_of_what_waited() {
    let fs = volume();
    let before = fs.statfs();
    let file = fs.t_file("file", &pattern(6000, 1));
    let (one, two) = (locking(&fs), locking(&fs));
    append(&one, file, &pattern(3000, 2));
    append(&two, file, &pattern(2000, 3));
    drop(one);
    two.commit().unwrap();
    let want = [pattern(6000, 1), pattern(2000, 3)].concat();
    assert_eq!(fs.t_read(file), want);
    fs.unlink(&Caller::root(), ROOT, b"file").unwrap();
    fs.sync().unwrap();
    assert_eq!(fs.statfs().free, before.free);
}

/// The block in which a file ends is written as a whole: an appender waits for its
/// writer, and its writer for appenders.
#[test]
fn the_last_block_is_not_written_over_what_others_append() {
    for size in [20, 10_000] {
        let fs = volume();
        let file = fs.t_file("file", &pattern(size, 1));
        let (one, two) = (locking(&fs), locking(&fs));
        one.t_write(file, size as u64 - 5, b"1");
        let refused = two.append_in_turn(&Caller::root(), file, b"two");
        assert!(matches!(refused, Err(Error::TimedOut)));
        one.commit().unwrap();
        let (one, two) = (locking(&fs), locking(&fs));
        append(&two, file, b"two");
        let refused = one.write(&Caller::root(), file, size as u64 - 5, b"2");
        assert!(matches!(refused, Err(Error::TimedOut)));
        two.commit().unwrap();
        let end = fs.t_read(file).split_off(size - 5);
        assert_eq!(end[..1], *b"1");
        assert_eq!(end[5..], *b"two");
    }
}

/// Where pages are locked by spans, both proceed.
#[test]
fn a_span_of_the_last_block_is_written_beside_an_append() {
    let fs = volume();
    let file = fs.t_file("file", &pattern(10_000, 1));
    let (one, two) = (begin_with(&fs, true), begin_with(&fs, true));
    one.t_write(file, 9_990, b"1");
    append(&two, file, b"two");
    two.commit().unwrap();
    one.commit().unwrap();
    let mut want = [&pattern(10_000, 1)[..], b"two"].concat();
    want[9_990] = b'1';
    assert_eq!(fs.t_read(file), want);
}

#[test]
fn one_within_finds_a_place_for_all_that_waits() {
    let fs = volume();
    let file = fs.t_file("file", &pattern(5000, 1));
    let outer = locking(&fs);
    append(&outer, file, b"outer");
    let inner = nested(&outer);
    assert_eq!(inner.getattr(file).unwrap().size, 5005);
    assert_eq!(append(&inner, file, b"inner"), Appended::At(5005));
    inner.commit().unwrap();
    outer.commit().unwrap();
    assert_eq!(fs.t_read(file)[5000..], *b"outerinner");
}

#[test]
fn more_than_a_block_and_many_files_are_placed_at_once() {
    let fs = volume();
    let file = fs.t_file("file", b"begin");
    let txn = locking(&fs);
    assert!(matches!(
        append(&txn, file, &pattern(4000, 1)),
        Appended::AtCommit(4000)
    ));
    assert!(matches!(
        append(&txn, file, &pattern(200, 2)),
        Appended::At(4005)
    ));
    let files: Vec<_> = (0..40).map(|n| fs.t_file(&format!("f{n}"), b"")).collect();
    let waiting = files.iter().map(|file| append(&txn, *file, b"x"));
    let waiting = waiting.filter(|at| matches!(at, Appended::AtCommit(_)));
    assert_eq!(waiting.count(), 15);
    txn.commit().unwrap();
    assert!(files.iter().all(|file| fs.t_read(*file) == b"x"));
    let want = [&b"begin"[..], &pattern(4000, 1), &pattern(200, 2)].concat();
    assert_eq!(fs.t_read(file), want);
}

/// A time that was set remains, whether the bytes are placed before the commit or at it.
#[test]
fn a_time_that_is_set_behind_an_append_stays() {
    for looks in [false, true] {
        let fs = volume();
        let file = fs.t_file("file", &pattern(5000, 1));
        let txn = locking(&fs);
        append(&txn, file, b"x");
        let then = Timestamp {
            seconds: 7,
            nanos: 8,
        };
        let set = SetAttr {
            mtime: Some(SetTime::At(then)),
            ..SetAttr::default()
        };
        txn.setattr(&Caller::root(), file, &set).unwrap();
        if looks {
            assert_eq!(txn.t_read(file).len(), 5001);
        }
        txn.commit().unwrap();
        assert_eq!(fs.getattr(file).unwrap().mtime, then, "{looks}");
    }
}

/// Each thread finds the bytes it has appended, even if another thread of the transaction
/// reads at the same time.
#[test]
fn threads_that_share_one_find_what_they_have_appended() {
    for _ in 0..200 {
        let fs = volume();
        let file = fs.t_file("file", b"begin");
        let txn = begin_with(&fs, true);
        let work = || {
            append(&txn, file, b"12345");
            assert!(txn.getattr(file).unwrap().size >= 10);
        };
        std::thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(work))));
        txn.commit().unwrap();
        assert_eq!(
            fs.t_read(file),
            [&b"begin"[..], &b"12345".repeat(3)].concat()
        );
    }
}

/// The other transactions' append is committed first.
#[test]
fn who_asks_after_others_have_committed_stands_behind_them() {
    let fs = volume();
    let file = fs.t_file("file", &pattern(4090, 1));
    let (one, two) = (locking(&fs), locking(&fs));
    append(&one, file, b"one");
    append(&two, file, &pattern(3000, 2));
    two.commit().unwrap();
    assert_eq!(one.end_of_appended(file, 3).unwrap(), 4090 + 3000 + 3);
    let want = [&pattern(4090, 1)[..], &pattern(3000, 2), b"one"].concat();
    assert_eq!(one.t_read(file), want);
    one.commit().unwrap();
    assert_eq!(fs.t_read(file), want);
}

/// A caller without locks may have changed it all the same.
#[test]
fn an_outsider_cuts_the_file_and_the_append_comes_to_its_end() {
    let fs = volume();
    let file = fs.t_file("file", &pattern(10_000, 1));
    let txn = locking(&fs);
    append(&txn, file, b"end");
    let set = SetAttr {
        size: Some(7),
        ..SetAttr::default()
    };
    fs.setattr(&Caller::root(), file, &set).unwrap();
    txn.commit().unwrap();
    assert_eq!(fs.t_read(file), [&pattern(7, 1)[..], b"end"].concat());
}
