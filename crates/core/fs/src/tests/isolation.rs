//! Serializable and locking transactions.

use super::harness::*;
use crate::{
    Caller, Contended, Error, InodeNo, Isolation, Layout, MemoryOptions, Options, Rename, Result,
    SetAttr, TransactionOptions,
};
use std::sync::Arc;
use std::time::Duration;

fn begin(fs: &Arc<Fs>, isolation: Isolation) -> Txn {
    let options = TransactionOptions {
        isolation,
        // Every wait in these tests ends by its timeout.
        timeout: Some(Duration::from_millis(20)),
        ..TransactionOptions::default()
    };
    fs.begin_transaction(&options).unwrap()
}

fn real_clock() -> Arc<Fs> {
    let layout = Recorder::new(crate::MemoryLayout::new(MemoryOptions::default()));
    Fs::format(&layout, &*clock(), (0, 0)).unwrap();
    let clock = Arc::new(varve_device::HostClock::default());
    Arc::new(Fs::mount(layout, clock, Options::default()).unwrap())
}

fn locking(fs: &Arc<Fs>) -> Txn {
    begin(fs, Isolation::Locking)
}

fn of(outcome: Result<()>) -> Contended {
    conflict(outcome).of
}

#[test]
fn write_skew_is_seen_only_by_serializable_ones() {
    for (isolation, both) in [
        (Isolation::Snapshot, true),
        (Isolation::Serializable, false),
    ] {
        let fs = shared();
        let (x, y) = (fs.t_file("x", b"1"), fs.t_file("y", b"1"));
        let (one, two) = (begin(&fs, isolation), begin(&fs, isolation));
        assert_eq!(
            (one.t_read(x), one.t_read(y)),
            (b"1".to_vec(), b"1".to_vec())
        );
        assert_eq!(
            (two.t_read(x), two.t_read(y)),
            (b"1".to_vec(), b"1".to_vec())
        );
        one.t_write(x, 0, b"0");
        two.t_write(y, 0, b"0");
        one.commit().unwrap();
        assert_eq!(two.commit().is_ok(), both, "{isolation:?}");
    }
}

#[test]
fn what_was_not_found_and_what_was_listed_was_read() {
    let fs = shared();
    let home = fs.t_mkdir(ROOT, "home");
    let [by_name, by_list, neither] = [(); 3].map(|()| begin(&fs, Isolation::Serializable));
    assert!(by_name.lookup(&Caller::root(), home, b"late").is_err());
    by_name.t_file("a", b"x");
    assert_eq!(by_list.t_names(home), Vec::<String>::new());
    by_list.t_file("b", b"x");
    assert!(neither.lookup(&Caller::root(), home, b"other").is_err());
    neither.t_file("c", b"x");
    fs.t_create(home, "late");
    assert_eq!(of(by_name.commit()), Contended::Name(b"late".to_vec()));
    assert_eq!(of(by_list.commit()), Contended::Directory);
    neither.commit().unwrap();
    // A read-only transaction is ordered at its snapshot.
    let reader = begin(&fs, Isolation::Serializable);
    assert_eq!(reader.t_names(home), ["late"]);
    fs.t_create(home, "later");
    reader.commit().unwrap();
}

#[test]
fn sizes_and_attributes_that_were_read_count() {
    let fs = shared();
    let file = fs.t_file("file", &pattern(9000, 1));
    for (change, read_at) in [(0, 5000), (1, 0), (2, 0)] {
        let txn = begin(&fs, Isolation::Serializable);
        match change {
            0 => {
                let mut byte = [0];
                txn.read(file, read_at, &mut byte).unwrap();
            }
            _ => drop(txn.getattr(file).unwrap()),
        }
        txn.t_file(&format!("out{change}"), b"x");
        match change {
            0 => fs.t_write(file, 4096, b"changed"),
            1 => fs.t_write(file, 9000, b"longer"),
            _ => {
                let set = SetAttr {
                    mode: Some(0o600),
                    ..SetAttr::default()
                };
                fs.setattr(&Caller::root(), file, &set).unwrap();
            }
        }
        let found = of(txn.commit());
        let want = [
            Contended::Content(4096),
            Contended::Size,
            Contended::Attributes,
        ];
        assert_eq!(found, want[change]);
    }
}

#[test]
fn a_nested_ones_reads_are_its_parents() {
    let fs = shared();
    let (x, y) = (fs.t_file("x", b"1"), fs.t_file("y", b"1"));
    let txn = begin(&fs, Isolation::Serializable);
    let child = nested(&txn);
    child.t_read(x);
    child.t_write(y, 0, b"2");
    child.commit().unwrap();
    fs.t_write(x, 0, b"9");
    assert_eq!(of(txn.commit()), Contended::Content(0));
    assert_eq!(fs.t_read(y), b"1");
}

#[test]
fn locks_keep_others_out_until_the_end() {
    let fs = real_clock();
    let file = fs.t_file("file", &pattern(20_000, 1));
    let (one, two) = (locking(&fs), locking(&fs));
    one.t_write(file, 5000, b"one");
    two.t_write(file, 12_000, b"two");
    let mut byte = [0; 1];
    assert!(matches!(
        two.read(file, 5000, &mut byte),
        Err(Error::TimedOut)
    ));
    // It is over, and has released its locks.
    assert!(matches!(two.read(file, 0, &mut byte), Err(Error::Aborted)));
    one.t_write(file, 12_000, b"one");
    assert!(matches!(two.commit(), Err(Error::Aborted)));
    one.commit().unwrap();
    let mut want = pattern(20_000, 1);
    want[5000..5003].copy_from_slice(b"one");
    want[12_000..12_003].copy_from_slice(b"one");
    assert_eq!(fs.t_read(file), want);
}

#[test]
fn what_others_commit_is_seen_once_it_is_locked() {
    let fs = real_clock();
    let file = fs.t_file("file", b"0123456789");
    let (one, two) = (locking(&fs), locking(&fs));
    one.t_lookup("file").unwrap();
    drop(one);
    let one = locking(&fs);
    two.append(&Caller::root(), file, b"two").unwrap();
    two.commit().unwrap();
    one.append(&Caller::root(), file, b"one").unwrap();
    one.commit().unwrap();
    assert_eq!(fs.t_read(file), b"0123456789twoone");
}

/// Thesis 5.2.5, the first anomaly: a reader sees a size that is undone.
#[test]
fn a_size_of_an_append_that_is_aborted_is_not_seen() {
    let fs = real_clock();
    let file = fs.t_file("file", &pattern(6000, 1));
    let (one, two) = (locking(&fs), locking(&fs));
    one.append(&Caller::root(), file, b"more").unwrap();
    assert!(matches!(two.getattr(file), Err(Error::TimedOut)));
    drop(one);
    let two = locking(&fs);
    assert_eq!(two.getattr(file).unwrap().size, 6000);
}

/// Thesis 5.2.5, the second anomaly: A from before, the size from after, or the reverse.
#[test]
fn a_size_and_another_value_are_of_one_moment() {
    let fs = real_clock();
    let (file, a) = (fs.t_file("file", &pattern(6000, 1)), fs.t_file("a", b"0"));
    let (one, two) = (locking(&fs), locking(&fs));
    one.t_write(a, 0, b"1");
    one.append(&Caller::root(), file, b"more").unwrap();
    assert!(matches!(two.getattr(file), Err(Error::TimedOut)));
    one.commit().unwrap();
    let two = locking(&fs);
    assert_eq!(
        (two.getattr(file).unwrap().size, two.t_read(a)),
        (6004, b"1".to_vec())
    );
}

/// Thesis 5.2.5, where an aborted append leaves a hole.
#[test]
fn an_append_that_is_aborted_leaves_no_hole() {
    let fs = real_clock();
    let file = fs.t_file("file", &pattern(4096, 1));
    let one = locking(&fs);
    one.append(&Caller::root(), file, &pattern(9000, 2))
        .unwrap();
    drop(one);
    let two = locking(&fs);
    two.append(&Caller::root(), file, &pattern(5000, 3))
        .unwrap();
    two.commit().unwrap();
    let want = [pattern(4096, 1), pattern(5000, 3)].concat();
    assert_eq!(fs.t_read(file), want);
    assert_eq!(fs.getattr(file).unwrap().size, want.len() as u64);
}

#[test]
fn names_of_one_directory_are_locked_one_by_one() {
    let fs = real_clock();
    let home = fs.t_mkdir(ROOT, "home");
    fs.t_create(home, "old");
    let root = Caller::root();
    let (one, two, three) = (locking(&fs), locking(&fs), locking(&fs));
    one.t_create(home, "a");
    two.t_create(home, "b");
    three.unlink(&root, home, b"old").unwrap();
    let late = locking(&fs);
    let refused = late.mknod(&root, home, b"a", 0o644, 0);
    assert!(matches!(refused, Err(Error::TimedOut)));
    let listing = locking(&fs);
    let listed = listing.readdir(home, 2, &mut |_| true);
    assert!(matches!(listed, Err(Error::TimedOut)));
    for txn in [one, two, three] {
        txn.commit().unwrap();
    }
    assert_eq!(fs.t_names(home), ["a", "b"]);
    // Moves of directories are serialized.
    let (a, b) = (fs.t_mkdir(ROOT, "A"), fs.t_mkdir(ROOT, "B"));
    let (one, two) = (locking(&fs), locking(&fs));
    one.rename(&root, ROOT, b"A", b, b"A", Rename::default())
        .unwrap();
    let refused = two.rename(&root, ROOT, b"B", a, b"B", Rename::default());
    assert!(matches!(refused, Err(Error::TimedOut)));
    one.commit().unwrap();
}

#[test]
fn halves_of_a_page_are_reconciled() {
    let fs = real_clock();
    let file = fs.t_file("file", &pattern(4096, 1));
    let options = TransactionOptions {
        isolation: Isolation::Locking,
        timeout: Some(Duration::from_millis(20)),
        subpage: true,
    };
    let begin = || fs.begin_transaction(&options).unwrap();
    let (one, two, three) = (begin(), begin(), begin());
    one.t_write(file, 0, b"one");
    two.t_write(file, 2000, b"two");
    let refused = three.write(&Caller::root(), file, 2001, b"!");
    assert!(matches!(refused, Err(Error::TimedOut)));
    two.commit().unwrap();
    // The other transaction's bytes in the page are visible, together with its own.
    let mut seen = [0; 3];
    one.read(file, 2000, &mut seen).unwrap();
    assert_eq!(&seen, b"two");
    one.commit().unwrap();
    let mut want = pattern(4096, 1);
    want[..3].copy_from_slice(b"one");
    want[2000..2003].copy_from_slice(b"two");
    assert_eq!(fs.t_read(file), want);
    // At the end of a file, too.
    let (one, two) = (begin(), begin());
    one.t_write(file, 10, b"ONE");
    two.append(&Caller::root(), file, b"end").unwrap();
    two.commit().unwrap();
    one.commit().unwrap();
    want[10..13].copy_from_slice(b"ONE");
    want.extend(b"end");
    assert_eq!(fs.t_read(file), want);
}

#[test]
fn a_deadlock_ends_with_the_cheapest() {
    let fs = real_clock();
    let (a, b) = (fs.t_file("a", &pattern(20_000, 1)), fs.t_file("b", b"b"));
    let options = TransactionOptions {
        isolation: Isolation::Locking,
        ..TransactionOptions::default()
    };
    let (dear, cheap) = (
        fs.begin_transaction(&options).unwrap(),
        fs.begin_transaction(&options).unwrap(),
    );
    dear.t_write(a, 0, &pattern(20_000, 2));
    cheap.t_write(b, 0, b"c");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| dear.write(&Caller::root(), b, 0, b"d"));
        let refused = cheap.write(&Caller::root(), a, 0, b"x");
        assert!(matches!(refused, Err(Error::Deadlock)), "{refused:?}");
        waits.join().unwrap().unwrap();
    });
    dear.commit().unwrap();
    assert_eq!(fs.t_read(b), b"d");
}

#[test]
fn who_reads_for_update_keeps_off_those_who_do_and_no_reader() {
    let fs = real_clock();
    // Inline; in a page; in so many pages that the whole file is locked.
    for (name, bytes) in [("a", 10), ("b", 5000), ("c", 300_000)] {
        let file = fs.t_file(name, &pattern(bytes, 1));
        let mut all = vec![0; bytes];
        let (one, reader, other) = (locking(&fs), locking(&fs), locking(&fs));
        assert_eq!(one.read_for_update(file, 0, &mut all).unwrap(), bytes);
        assert_eq!(reader.t_read(file), pattern(bytes, 1));
        let refused = other.read_for_update(file, 0, &mut all);
        assert!(
            matches!(refused, Err(Error::TimedOut)),
            "{name}: {refused:?}"
        );
        // A write waits for the reader, and for no other transaction.
        reader.commit().unwrap();
        one.t_write(file, 0, b"new");
        one.commit().unwrap();
        assert_eq!(fs.t_read(file)[..3], *b"new");
    }
}

#[test]
fn an_end_that_was_read_for_update_is_the_readers_alone() {
    let fs = real_clock();
    let file = fs.t_file("file", &pattern(5000, 1));
    let (one, other) = (locking(&fs), locking(&fs));
    assert_eq!(
        one.read_for_update(file, 4500, &mut [0; 4000]).unwrap(),
        500
    );
    let refused = other.append(&Caller::root(), file, b"x");
    assert!(matches!(refused, Err(Error::TimedOut)), "{refused:?}");
    one.append(&Caller::root(), file, b"y").unwrap();
    one.commit().unwrap();
    assert_eq!(fs.t_read(file).len(), 5001);
}

#[test]
fn who_reads_for_update_meets_no_deadlock_with_his_like() {
    let fs = real_clock();
    let (small, large) = (fs.t_file("small", &[0; 8]), fs.t_file("large", &[0; 9000]));
    let options = TransactionOptions {
        isolation: Isolation::Locking,
        subpage: true,
        ..TransactionOptions::default()
    };
    let add = || -> Result<()> {
        let txn = fs.begin_transaction(&options)?;
        for (file, at) in [(large, 4092), (small, 0)] {
            let mut count = [0; 8];
            txn.read_for_update(file, at, &mut count)?;
            std::thread::yield_now();
            let next = u64::from_le_bytes(count) + 1;
            txn.write(&Caller::root(), file, at, &next.to_le_bytes())?;
        }
        txn.commit()
    };
    std::thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(|| (0..100).for_each(|_| add().unwrap()))));
    });
    assert_eq!(fs.t_read(small), 400u64.to_le_bytes());
    assert_eq!(fs.t_read(large)[4092..4100], 400u64.to_le_bytes());
}

#[test]
fn a_nested_one_has_its_parents_locks_and_leaves_it_its_own() {
    let fs = real_clock();
    let (a, b) = (fs.t_file("a", b"a"), fs.t_file("b", b"b"));
    let txn = locking(&fs);
    txn.t_write(a, 0, b"1");
    let child = nested(&txn);
    child.t_write(a, 0, b"2");
    child.t_write(b, 0, b"2");
    child.commit().unwrap();
    let other = locking(&fs);
    assert!(matches!(
        other.write(&Caller::root(), b, 0, b"x"),
        Err(Error::TimedOut)
    ));
    let child = nested(&txn);
    child.t_write(a, 0, b"3");
    drop(child);
    assert_eq!(txn.t_read(a), b"2");
    txn.commit().unwrap();
    assert_eq!((fs.t_read(a), fs.t_read(b)), (b"2".to_vec(), b"2".to_vec()));
}

#[test]
fn threads_that_lock_lose_nothing() {
    for bytes in [8, 4096, 9000] {
        transfers(bytes);
    }
}

/// Moves units between files of `bytes`, of which eight are counters.
fn transfers(bytes: usize) {
    let fs = real_clock();
    let content = vec![100; bytes];
    let files: Vec<InodeNo> = (0..4)
        .map(|i| fs.t_file(&format!("f{i}"), &content))
        .collect();
    let log = fs.t_file("log", b"");
    let options = TransactionOptions {
        isolation: Isolation::Locking,
        subpage: true,
        ..TransactionOptions::default()
    };
    let transfer = |n: u64| {
        let txn = fs.begin_transaction(&options)?;
        let root = Caller::root();
        let (from, to) = (files[n as usize % 4], files[(n as usize / 4 + 1) % 4]);
        let mut amount = [0; 1];
        let at = bytes as u64 - 8 + n % 8;
        txn.read(from, at, &mut amount)?;
        txn.write(&root, from, at, &[amount[0].wrapping_sub(1)])?;
        txn.read(to, at, &mut amount)?;
        txn.write(&root, to, at, &[amount[0].wrapping_add(1)])?;
        txn.append(&root, log, b"x")?;
        txn.commit()
    };
    let (threads, each) = (4, 100);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for n in 0..each {
                    let n = n * 7 + thread * 13;
                    loop {
                        match transfer(n) {
                            Ok(()) => break,
                            Err(Error::Deadlock | Error::Aborted) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(fs.t_read(log).len() as u64, threads * each);
    for at in 0..8 {
        let sum = files
            .iter()
            .map(|file| u64::from(fs.t_read(*file)[bytes - 8 + at]));
        assert_eq!(sum.sum::<u64>() % 256, 400 % 256);
    }
}

#[test]
fn whoever_uses_a_protected_file_waits_for_its_transactions() {
    let fs = real_clock();
    let root = Caller::root();
    let home = fs.t_mkdir(ROOT, "home");
    let protected = crate::FileFlags {
        protected: true,
        ..crate::FileFlags::default()
    };
    fs.set_file_flags(&root, home, protected, None).unwrap();
    let file = fs.t_create(home, "file").ino;
    assert!(fs.file_flags(file).unwrap().protected, "inherited");
    fs.t_write(file, 0, &pattern(9000, 1));
    let plain = fs.t_file("plain", &pattern(9000, 1));
    let options = TransactionOptions {
        isolation: Isolation::Locking,
        ..TransactionOptions::default()
    };
    let txn = fs.begin_transaction(&options).unwrap();
    for ino in [file, plain] {
        txn.t_write(ino, 0, &pattern(9000, 2));
    }
    txn.t_create(home, "new");
    // A call on an unprotected file does not wait.
    fs.t_write(plain, 5000, b"outside");
    let pause = Duration::from_millis(20);
    std::thread::scope(|scope| {
        let reads = scope.spawn(|| fs.t_read(file));
        let writes = scope.spawn(|| fs.write(&root, file, 8000, b"late"));
        let lists = scope.spawn(|| fs.t_names(home));
        let makes = scope.spawn(|| fs.mknod(&root, home, b"new", 0o644, 0));
        let removes = scope.spawn(|| fs.unlink(&root, home, b"file"));
        std::thread::sleep(pause);
        let waiting = [
            reads.is_finished(),
            writes.is_finished(),
            lists.is_finished(),
            makes.is_finished(),
            removes.is_finished(),
        ];
        assert_eq!(waiting, [false; 5]);
        txn.commit().unwrap();
        drop(writes.join().unwrap());
        drop(reads.join());
        assert!(matches!(makes.join().unwrap(), Err(Error::Exists)));
        removes.join().unwrap().unwrap();
        assert!(lists.join().unwrap().contains(&"new".to_owned()));
    });
    fs.sync().unwrap();
    assert_eq!(fs.layout().usage(), fs.usage());
}

/// A listing releases its locks before it passes names on.
#[test]
fn a_protected_directory_is_emptied_while_it_is_listed() {
    let fs = real_clock();
    let root = Caller::root();
    let home = fs.t_mkdir(ROOT, "home");
    let protected = crate::FileFlags {
        protected: true,
        ..crate::FileFlags::default()
    };
    fs.set_file_flags(&root, home, protected, None).unwrap();
    for i in 0..300 {
        fs.t_create(home, &format!("n{i}"));
    }
    drop(locking(&fs)); // from now on there are locks
    fs.readdir(home, 2, &mut |entry| {
        fs.unlink(&root, home, entry.name).unwrap();
        true
    })
    .unwrap();
    assert_eq!(fs.t_names(home), Vec::<String>::new());
}

#[test]
fn a_nested_one_hands_on_which_bytes_of_a_page_are_its_own() {
    let fs = real_clock();
    let file = fs.t_file("file", &pattern(9000, 1));
    let options = TransactionOptions {
        isolation: Isolation::Locking,
        timeout: Some(Duration::from_millis(20)),
        subpage: true,
    };
    let begin = || fs.begin_transaction(&options).unwrap();
    let (parent, other) = (begin(), begin());
    let child = nested(&parent);
    child.t_write(file, 0, b"child");
    child.commit().unwrap();
    // Another part of the same page.
    other.t_write(file, 1000, b"other");
    other.commit().unwrap();
    // The parent sees that when it reads.
    let mut seen = [0; 5];
    parent.read(file, 1000, &mut seen).unwrap();
    assert_eq!(&seen, b"other");
    parent.commit().unwrap();
    let content = fs.t_read(file);
    assert_eq!(
        (&content[..5], &content[1000..1005]),
        (&b"child"[..], &b"other"[..])
    );
    // A whole page of a nested transaction is whole in its parent, too.
    let parent = begin();
    let child = nested(&parent);
    child.t_write(file, 0, &[7; 4096]);
    child.commit().unwrap();
    parent.t_write(file, 8, b"p");
    parent.commit().unwrap();
    let content = fs.t_read(file);
    assert_eq!((content[7], content[8], content[4095]), (7, b'p', 7));
}

#[test]
fn a_nested_one_reads_nothing_that_its_parent_knew_before_the_lock() {
    let fs = real_clock();
    let root = Caller::root();
    let file = fs.t_file("file", b"old");
    let patient = TransactionOptions {
        isolation: Isolation::Locking,
        timeout: Some(Duration::from_secs(20)),
        ..TransactionOptions::default()
    };
    let begin = || fs.begin_transaction(&patient).unwrap();
    let (parent, other) = (begin(), begin());
    other.t_write(file, 0, b"longer");
    let set = other.setxattr(&root, file, b"user.a", b"1", false, false);
    set.unwrap();
    let child = nested(&parent);
    std::thread::scope(|scope| {
        // It and its parent copy the file's state, and wait for the lock.
        let attribute = scope.spawn(|| child.getxattr(&root, file, b"user.a"));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!attribute.is_finished());
        other.commit().unwrap();
        assert_eq!(attribute.join().unwrap().unwrap(), b"1");
    });
    assert_eq!(child.t_read(file), b"longer");
    child.commit().unwrap();
    assert_eq!(parent.t_read(file), b"longer");
    parent.commit().unwrap();
}

#[test]
fn a_nested_one_that_makes_a_name_has_read_no_other() {
    for isolation in [Isolation::Serializable, Isolation::Locking] {
        let fs = real_clock();
        let home = fs.t_mkdir(ROOT, "home");
        let parent = begin(&fs, isolation);
        let child = nested(&parent);
        child.t_create(home, "mine");
        child.commit().unwrap();
        let other = begin(&fs, isolation);
        other.t_create(home, "theirs");
        other.commit().unwrap();
        parent.commit().unwrap();
        let mut names = fs.t_names(home);
        names.sort();
        assert_eq!(names, ["mine", "theirs"], "{isolation:?}");
    }
}

#[test]
fn what_a_cut_took_stays_away_when_a_write_by_spans_makes_the_file_longer() {
    let fs = real_clock();
    let file = fs.t_file("file", &pattern(15_000, 1));
    let options = TransactionOptions {
        isolation: Isolation::Locking,
        timeout: Some(Duration::from_millis(20)),
        subpage: true,
    };
    let txn = fs.begin_transaction(&options).unwrap();
    txn.t_truncate(file, 16);
    txn.t_write(file, 11_974, b"behind");
    let mut expected = pattern(15_000, 1)[..16].to_vec();
    expected.resize(11_974, 0);
    expected.extend(b"behind");
    assert_eq!(txn.t_read(file), expected);
    txn.commit().unwrap();
    assert_eq!(fs.t_read(file), expected);
}
