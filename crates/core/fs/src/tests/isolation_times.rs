//! Times of files in transactions: which changes conflict.

use super::harness::*;
use crate::{
    Attr, Caller, Contended, InodeNo, Isolation, SetAttr, SetTime, Timestamp, TransactionOptions,
};
use std::sync::Arc;

const KINDS: [Isolation; 2] = [Isolation::Snapshot, Isolation::Serializable];

fn begin(fs: &Arc<Fs>, isolation: Isolation) -> Txn {
    let options = TransactionOptions {
        isolation,
        ..TransactionOptions::default()
    };
    fs.begin_transaction(&options).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanos: 7 }
}

/// Sets atime and mtime, each if it is given.
fn set(fs: &Fs, ino: InodeNo, times: [Option<i64>; 2]) {
    let [atime, mtime] = times.map(|time| time.map(|seconds| SetTime::At(at(seconds))));
    let set = SetAttr {
        atime,
        mtime,
        ..SetAttr::default()
    };
    fs.setattr(&Caller::root(), ino, &set).unwrap();
}

/// An atime, or an mtime.
fn one(of: usize, seconds: i64) -> [Option<i64>; 2] {
    std::array::from_fn(|at| (at == of).then_some(seconds))
}

fn time(attr: &Attr, of: usize) -> Timestamp {
    [attr.atime, attr.mtime][of]
}

#[test]
fn times_that_two_set_crosswise_are_those_of_one() {
    for isolation in KINDS {
        for of in [0, 1] {
            let fs = shared();
            let (file, home) = (fs.t_file("file", b"1"), fs.t_mkdir(ROOT, "home"));
            let (first, second) = (begin(&fs, isolation), begin(&fs, isolation));
            for (txn, times) in [(&first, [1, 2]), (&second, [2, 1])] {
                set(txn, file, one(of, times[0]));
                set(txn, home, one(of, times[1]));
            }
            first.commit().unwrap();
            let found = conflict(second.commit());
            assert_eq!(found.of, Contended::Times, "{isolation:?}, {of}");
            let now = [file, home].map(|ino| time(&fs.getattr(ino).unwrap(), of));
            assert_eq!(now, [at(1), at(2)], "{isolation:?}, {of}");
        }
    }
}

/// Each transaction reads the time of one file and gives the other a later one.
#[test]
fn a_time_that_was_read_is_compared_by_serializable_ones() {
    for (isolation, both) in [
        (Isolation::Snapshot, true),
        (Isolation::Serializable, false),
    ] {
        for of in [0, 1] {
            let makes: [fn(&Fs, &str) -> InodeNo; 2] = [
                |fs, name| fs.t_file(name, b"1"),
                |fs, name| fs.t_mkdir(ROOT, name),
            ];
            for makes in makes {
                let fs = shared();
                let files = ["x", "y"].map(|name| makes(&fs, name));
                for ino in files {
                    set(&fs, ino, one(of, 10));
                }
                let txns = [begin(&fs, isolation), begin(&fs, isolation)];
                for (own, txn) in txns.iter().enumerate() {
                    let seen = time(&txn.getattr(files[1 - own]).unwrap(), of);
                    set(txn, files[own], one(of, seen.seconds + 1));
                }
                let [first, second] = txns;
                first.commit().unwrap();
                assert_eq!(second.commit().is_ok(), both, "{isolation:?}, {of}");
            }
        }
    }
}

/// A look-up by a kernel shows it the times, and no later call follows.
#[test]
fn a_time_that_a_look_up_showed_was_read() {
    let fs = shared();
    let file = fs.t_file("file", b"1");
    let change: [fn(&Fs, InodeNo); 2] = [
        |fs, file| set(fs, file, [None, Some(5)]),
        |fs, file| fs.t_write(file, 0, b"2"),
    ];
    for (at, change) in change.into_iter().enumerate() {
        let txn = begin(&fs, Isolation::Serializable);
        txn.lookup(&Caller::root(), ROOT, b"file").unwrap();
        txn.t_file(&format!("new{at}"), b"x");
        change(&fs, file);
        assert_eq!(conflict(txn.commit()).of, Contended::Times);
    }
}

/// A path walk of the library does not read the file's times.
#[test]
fn what_a_held_look_up_found_may_be_written_elsewhere() {
    let fs = shared();
    let file = fs.t_file("file", &pattern(9000, 1));
    let txn = begin(&fs, Isolation::Serializable);
    txn.lookup_held(&Caller::root(), ROOT, b"file").unwrap();
    txn.t_write(file, 0, b"mine");
    fs.t_write(file, 8192, b"theirs");
    txn.release(file, 1);
    txn.commit().unwrap();
}

#[test]
fn times_that_follow_from_changes_are_merged() {
    for isolation in KINDS {
        let fs = shared();
        let (file, home) = (
            fs.t_file("file", &pattern(9000, 1)),
            fs.t_mkdir(ROOT, "home"),
        );
        let txn = begin(&fs, isolation);
        // The changes are to another block of the file and another name of the directory.
        txn.t_write(file, 0, b"mine");
        txn.t_create(home, "mine");
        fs.t_write(file, 8192, b"theirs");
        fs.t_create(home, "theirs");
        let later = [file, home].map(|ino| fs.getattr(ino).unwrap().mtime);
        txn.commit().unwrap();
        let now = [file, home].map(|ino| fs.getattr(ino).unwrap().mtime);
        assert_eq!(now[0], later[0]);
        // The merge makes the name.
        assert!(now[1] > later[1]);
    }
}

/// A path contains directories in which other transactions make names, and a listing
/// outside changes their access times.
#[test]
fn a_directory_that_a_path_went_through_is_no_conflict() {
    let fs = shared();
    let home = fs.t_mkdir(ROOT, "home");
    let txn = begin(&fs, Isolation::Serializable);
    txn.lookup(&Caller::root(), ROOT, b"home").unwrap();
    txn.t_create(home, "mine");
    fs.t_create(home, "theirs");
    assert_eq!(fs.t_names(home), ["theirs"]);
    txn.commit().unwrap();
    assert_eq!(fs.t_names(home), ["mine", "theirs"]);
}

#[test]
fn a_time_that_was_set_stays_beside_changes_of_others() {
    let fs = shared();
    let file = fs.t_file("file", &pattern(9000, 1));
    let txn = begin(&fs, Isolation::Snapshot);
    set(&txn, file, [Some(3), Some(4)]);
    fs.t_write(file, 0, b"theirs");
    txn.commit().unwrap();
    let attr = fs.getattr(file).unwrap();
    assert_eq!((attr.atime, attr.mtime), (at(3), at(4)));
    // The transaction's write is after the time set outside, even one in the future.
    let future = 1 << 40;
    let txn = begin(&fs, Isolation::Snapshot);
    txn.t_write(file, 8192, b"mine");
    let written = txn.getattr(file).unwrap().mtime;
    set(&fs, file, [None, Some(future)]);
    txn.commit().unwrap();
    assert_eq!(fs.getattr(file).unwrap().mtime, written);
}
