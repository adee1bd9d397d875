//! Transactions: visibility, commits, conflicts, and the state afterwards.

use super::harness::*;
use crate::{
    Caller, Contended, Error, InodeNo, Isolation, Layout, Position, Rename, Result, SetAttr,
    TransactionOptions,
};

/// Asserts that all counts are right once no change waits.
fn settled(fs: &Fs) {
    fs.sync().unwrap();
    assert_eq!(fs.layout().usage(), fs.usage());
    assert_eq!(fs.statistics().dirty_bytes, 0);
    assert_eq!(fs.layout().memory().snapshots(), 0, "one is held for ever");
}

#[test]
fn nothing_is_seen_before_the_commit_and_all_after() {
    let fs = shared();
    let old = fs.t_file("old", b"before");
    let large = fs.t_file("large", &pattern(50_000, 1));
    let txn = begin(&fs);
    txn.t_write(old, 2, b"tween");
    txn.t_write(large, 10_000, &pattern(20_000, 9));
    let new = txn.t_file("new", &pattern(9000, 3));
    let home = txn.t_mkdir(ROOT, "home");
    let inner = txn.t_create(home, "inner").ino;
    txn.t_write(inner, 0, b"deep");
    txn.t_unlink("old");
    assert!(matches!(txn.t_lookup("old"), Err(Error::NotFound)));
    assert_eq!(txn.t_names(ROOT), ["home", "large", "new"]);
    assert_eq!(fs.t_names(ROOT), ["large", "old"]);
    assert_eq!(fs.t_content("old"), b"before");
    assert_eq!(fs.t_content("large"), pattern(50_000, 1));
    let mut want = pattern(50_000, 1);
    want[10_000..30_000].copy_from_slice(&pattern(20_000, 9));
    assert_eq!(txn.t_read(large), want);
    txn.commit().unwrap();
    for fs in [&*fs, &crash(&fs, None)] {
        assert_eq!(fs.t_names(ROOT), ["home", "large", "new"]);
        assert_eq!(fs.t_content("large"), want);
        assert_eq!(fs.t_read(new), pattern(9000, 3));
        assert_eq!(fs.t_names(home), ["inner"]);
        assert_eq!(fs.t_read(inner), b"deep");
        settled(fs);
    }
}

#[test]
fn what_is_dropped_leaves_nothing() {
    let fs = shared();
    fs.t_file("kept", b"kept");
    fs.sync().unwrap();
    let usage = fs.usage();
    let txn = begin(&fs);
    txn.t_file("new", &pattern(9000, 3));
    txn.t_unlink("kept");
    txn.t_mkdir(ROOT, "home");
    drop(txn);
    assert_eq!(fs.t_names(ROOT), ["kept"]);
    assert_eq!(fs.usage(), usage);
    // The numbers were returned.
    let next = fs.t_create(ROOT, "next").ino;
    assert_eq!(next, InodeNo(InodeNo::FIRST.0 + 1));
    settled(&fs);
}

#[test]
fn the_first_to_commit_wins() {
    let fs = shared();
    let file = fs.t_file("file", &pattern(20_000, 1));
    let other = fs.t_file("other", &pattern(20_000, 2));
    let (one, two, three) = (begin(&fs), begin(&fs), begin(&fs));
    one.t_write(file, 5000, b"one");
    two.t_write(file, 6000, b"two");
    two.t_write(other, 0, b"two");
    three.t_write(file, 12_000, b"three");
    one.commit().unwrap();
    let found = conflict(two.commit());
    assert_eq!((found.ino, found.of), (file, Contended::Content(4096)));
    three.commit().unwrap();
    let mut want = pattern(20_000, 1);
    want[5000..5003].copy_from_slice(b"one");
    want[12_000..12_005].copy_from_slice(b"three");
    assert_eq!(fs.t_read(file), want);
    assert_eq!(fs.t_read(other), pattern(20_000, 2), "all or nothing");
    settled(&fs);
}

#[test]
fn an_outsider_wins_too_and_waits_for_nobody() {
    let fs = shared();
    let file = fs.t_file("file", &pattern(20_000, 1));
    for outside in [
        &(|fs: &Fs, file| fs.t_write(file, 4100, b"x")) as &dyn Fn(&Fs, InodeNo),
        &|fs, file| fs.t_truncate(file, 5000),
        &|fs, file| fs.t_truncate(file, 0),
    ] {
        let txn = begin(&fs);
        txn.t_write(file, 5000, b"mine");
        outside(&fs, file);
        let found = conflict(txn.commit());
        assert_eq!(found.ino, file);
        fs.t_truncate(file, 0);
        fs.t_write(file, 0, &pattern(20_000, 1));
    }
    // Writing the same bytes again is no change.
    let txn = begin(&fs);
    txn.t_write(file, 5000, b"mine");
    fs.t_write(file, 4096, &pattern(20_000, 1)[4096..8192]);
    txn.commit().unwrap();
    settled(&fs);
}

#[test]
fn different_names_in_one_directory_do_not_conflict() {
    let fs = shared();
    fs.t_file("shared", b"s");
    let (one, two, three) = (begin(&fs), begin(&fs), begin(&fs));
    one.t_file("a", b"1");
    two.t_file("b", b"2");
    three.t_file("a", b"3");
    one.commit().unwrap();
    two.commit().unwrap();
    let found = conflict(three.commit());
    assert_eq!(
        (found.ino, found.of),
        (ROOT, Contended::Name(b"a".to_vec()))
    );
    assert_eq!(fs.t_names(ROOT), ["a", "b", "shared"]);
    settled(&fs);
}

#[test]
fn a_snapshot_is_what_it_was_whatever_happens() {
    let fs = shared();
    let file = fs.t_file("file", &pattern(30_000, 1));
    let home = fs.t_mkdir(ROOT, "home");
    for i in 0..300 {
        fs.t_create(home, &format!("n{i}"));
    }
    let txn = begin(&fs);
    fs.t_write(file, 0, &pattern(30_000, 7));
    fs.t_truncate(file, 100);
    fs.t_unlink("file");
    fs.t_file("file", b"another");
    for i in 0..300 {
        let name = format!("n{i}");
        fs.unlink(&Caller::root(), home, name.as_bytes()).unwrap();
    }
    fs.rmdir(&Caller::root(), ROOT, b"home").unwrap();
    fs.sync().unwrap();
    fs.drop_caches();
    assert_eq!(txn.t_content("file"), pattern(30_000, 1));
    assert_eq!(txn.t_names(home).len(), 300);
    // It has only read, so it cannot conflict.
    txn.commit().unwrap();
    settled(&fs);
}

#[test]
fn names_and_files_move_and_end() {
    let fs = shared();
    let (a, b) = (fs.t_mkdir(ROOT, "a"), fs.t_mkdir(ROOT, "b"));
    let file = fs.t_create(a, "file").ino;
    fs.t_write(file, 0, &pattern(6000, 1));
    let over = fs.t_create(b, "over").ino;
    fs.t_write(over, 0, &pattern(6000, 2));
    let sub = fs.t_mkdir(a, "sub");
    let txn = begin(&fs);
    let root = Caller::root();
    let plain = Rename::default();
    txn.rename(&root, a, b"file", b, b"over", plain).unwrap();
    txn.rename(&root, a, b"sub", b, b"sub", plain).unwrap();
    txn.link(&root, file, ROOT, b"third").unwrap();
    txn.rmdir(&root, ROOT, b"a").unwrap();
    assert_eq!(fs.t_names(a), ["file", "sub"]);
    txn.commit().unwrap();
    for fs in [&*fs, &crash(&fs, None)] {
        assert_eq!(fs.t_names(ROOT), ["b", "third"]);
        assert_eq!(fs.t_names(b), ["over", "sub"]);
        assert_eq!(fs.t_content("third"), pattern(6000, 1));
        assert_eq!(fs.getattr(file).unwrap().nlink, 2);
        assert_eq!(fs.getattr(b).unwrap().nlink, 3);
        assert_eq!(fs.getattr(ROOT).unwrap().nlink, 3);
        assert_eq!(fs.parent(sub).unwrap(), b);
        assert!(matches!(fs.getattr(over), Err(Error::Stale)));
        assert!(matches!(fs.getattr(a), Err(Error::Stale)));
        settled(fs);
    }
}

#[test]
fn directories_never_come_to_lie_below_themselves() {
    let fs = shared();
    let root = Caller::root();
    let plain = Rename::default();
    let [a, b, e, f] = ["A", "B", "E", "F"].map(|name| fs.t_mkdir(ROOT, name));
    let txn = begin(&fs);
    txn.rename(&root, ROOT, b"A", f, b"A", plain).unwrap();
    txn.rename(&root, ROOT, b"E", b, b"E", plain).unwrap();
    fs.rename(&root, ROOT, b"F", e, b"F", plain).unwrap();
    fs.rename(&root, ROOT, b"B", a, b"B", plain).unwrap();
    assert_eq!(conflict(txn.commit()).of, Contended::Directory);
    // A directory that moves away early enough is no obstacle.
    let txn = begin(&fs);
    txn.rename(&root, a, b"B", ROOT, b"B", plain).unwrap();
    txn.rename(&root, ROOT, b"A", b, b"A", plain).unwrap();
    txn.commit().unwrap();
    assert_eq!(fs.parent(a).unwrap(), b);
    settled(&fs);
}

#[test]
fn a_directory_that_got_a_name_is_not_removed() {
    let fs = shared();
    let home = fs.t_mkdir(ROOT, "home");
    let txn = begin(&fs);
    txn.rmdir(&Caller::root(), ROOT, b"home").unwrap();
    fs.t_create(home, "late");
    assert_eq!(conflict(txn.commit()).of, Contended::Directory);
    assert_eq!(fs.t_names(home), ["late"]);
    // A name cannot be made in a removed directory either.
    let txn = begin(&fs);
    txn.t_create(home, "in it");
    fs.unlink(&Caller::root(), home, b"late").unwrap();
    fs.rmdir(&Caller::root(), ROOT, b"home").unwrap();
    assert_eq!(conflict(txn.commit()).of, Contended::File);
    settled(&fs);
}

#[test]
fn attributes_commit_and_conflict() {
    let fs = shared();
    let file = fs.t_file("file", b"x");
    let root = Caller::root();
    let mode = |mode| SetAttr {
        mode: Some(mode),
        ..SetAttr::default()
    };
    let txn = begin(&fs);
    txn.setattr(&root, file, &mode(0o600)).unwrap();
    txn.setxattr(&root, file, b"user.a", b"1", false, false)
        .unwrap();
    assert_eq!(fs.getattr(file).unwrap().mode & 0o777, 0o644);
    txn.commit().unwrap();
    assert_eq!(fs.getattr(file).unwrap().mode & 0o777, 0o600);
    assert_eq!(fs.getxattr(&root, file, b"user.a").unwrap(), b"1");
    // A write conflicts with a change of the rights.
    let txn = begin(&fs);
    txn.t_write(file, 0, b"mine");
    fs.setattr(&root, file, &mode(0o400)).unwrap();
    assert_eq!(conflict(txn.commit()).of, Contended::Attributes);
    let txn = begin(&fs);
    txn.setxattr(&root, file, b"user.b", b"2", false, false)
        .unwrap();
    fs.setxattr(&root, file, b"user.a", b"9", false, false)
        .unwrap();
    assert_eq!(conflict(txn.commit()).of, Contended::Attributes);
    settled(&fs);
}

#[test]
fn sizes_holes_and_reservations_commit() {
    let fs = shared();
    let root = Caller::root();
    let file = fs.t_file("file", &pattern(40_000, 1));
    let small = fs.t_file("small", b"inline");
    let txn = begin(&fs);
    let mut want = pattern(40_000, 1);
    txn.fallocate(&root, file, 3, 8192, 8192).unwrap();
    want[8192..16_384].fill(0);
    txn.t_truncate(file, 30_000);
    want.truncate(30_000);
    txn.t_write(file, 35_000, b"end");
    want.resize(35_000, 0);
    want.extend(b"end");
    txn.fallocate(&root, file, 0, 50_000, 10_000).unwrap();
    want.resize(60_000, 0);
    txn.t_write(small, 6, &pattern(9000, 2));
    assert!(txn.t_read(file) == want);
    txn.commit().unwrap();
    for fs in [&*fs, &crash(&fs, None)] {
        assert!(fs.t_read(file) == want);
        assert_eq!(fs.t_read(small)[..6], *b"inline");
        assert_eq!(fs.t_read(small)[6..], pattern(9000, 2));
        settled(fs);
    }
    // Back into the inode.
    let txn = begin(&fs);
    txn.t_truncate(small, 0);
    txn.t_write(small, 0, b"tiny");
    txn.commit().unwrap();
    assert_eq!(fs.t_read(small), b"tiny");
    assert_eq!(crash(&fs, None).t_read(small), b"tiny");
    settled(&fs);
}

#[test]
fn a_nested_one_ends_alone_and_commits_into_its_parent() {
    let fs = shared();
    let file = fs.t_file("file", &pattern(20_000, 1));
    let txn = begin(&fs);
    txn.t_write(file, 0, b"parent");
    let home = txn.t_mkdir(ROOT, "home");
    let child = nested(&txn);
    child.t_write(file, 2, b"CHILD");
    child.t_create(home, "lost");
    child.t_unlink("file");
    drop(child);
    let mut seen = pattern(20_000, 1);
    seen[..6].copy_from_slice(b"parent");
    assert!(txn.t_read(file) == seen);
    assert_eq!(txn.t_names(home), Vec::<String>::new());
    let child = nested(&txn);
    let inner = nested(&child);
    inner.t_write(file, 10_000, b"inner");
    let kept = inner.t_create(home, "kept").ino;
    inner.t_write(kept, 0, &pattern(5000, 4));
    inner.commit().unwrap();
    assert_eq!(child.t_names(home), ["kept"]);
    assert_eq!(txn.t_names(home), Vec::<String>::new());
    child.t_truncate(file, 15_000);
    child.commit().unwrap();
    assert_eq!(fs.t_names(ROOT), ["file"]);
    txn.commit().unwrap();
    let mut want = pattern(20_000, 1);
    want[..6].copy_from_slice(b"parent");
    want[10_000..10_005].copy_from_slice(b"inner");
    want.truncate(15_000);
    for fs in [&*fs, &crash(&fs, None)] {
        assert!(fs.t_read(file) == want);
        assert_eq!(fs.t_names(home), ["kept"]);
        assert_eq!(fs.t_read(kept), pattern(5000, 4));
        settled(fs);
    }
}

#[test]
fn a_crash_leaves_all_or_nothing() {
    let fs = shared();
    let file = fs.t_file("file", &pattern(20_000, 1));
    fs.sync().unwrap();
    let txn = begin(&fs);
    txn.t_write(file, 0, &pattern(20_000, 2));
    txn.t_file("new", &pattern(5000, 3));
    let ticket = txn.commit_async().unwrap();
    // Data of other files is appended first, and its group seals the commit.
    let noise = fs.t_file("noise", &pattern(5000, 5));
    fs.t_fsync(noise);
    let memory = fs.layout().memory();
    for position in memory.committed().0..=memory.appended().0 {
        let after = crash(&fs, Some(Position(position)));
        let (content, new) = (after.t_read(file), after.t_lookup("new").is_ok());
        assert!(content == pattern(20_000, if new { 2 } else { 1 }));
    }
    ticket.wait().unwrap();
    settled(&fs);
}

#[test]
fn what_does_not_fit_is_refused_as_a_whole() {
    let fs = shared();
    fs.t_file("file", b"x");
    fs.sync().unwrap();
    let usage = fs.usage();
    let txn = begin(&fs);
    for i in 0..20 {
        txn.t_file(&format!("f{i}"), &pattern(5000, i));
    }
    *fs.layout().limit.lock() = Some(crate::Usage {
        blocks: usage.blocks + 10,
        ..crate::Usage {
            inodes: 1 << 30,
            blocks: 0,
            sectors: 1 << 30,
        }
    });
    assert!(matches!(txn.commit(), Err(Error::NoSpace)));
    assert_eq!(fs.t_names(ROOT), ["file"]);
    assert_eq!(fs.usage(), usage);
    settled(&fs);
}

#[test]
fn an_unmount_ends_what_is_open() {
    let fs = shared();
    let txn = begin(&fs);
    txn.t_file("new", b"n");
    fs.unmount().unwrap();
    let refused = txn.mknod(&Caller::root(), ROOT, b"late", 0o644, 0);
    assert!(matches!(refused, Err(Error::Aborted)));
    assert!(matches!(txn.commit(), Err(Error::Aborted)));
    assert_eq!(fs.t_names(ROOT), Vec::<String>::new());
    let refused = fs.begin_transaction(&TransactionOptions::default());
    assert!(matches!(refused, Err(Error::Aborted)));
    settled(&fs);
}

#[test]
fn nothing_is_done_in_one_while_another_within_it_is_open() {
    for isolation in [
        Isolation::Snapshot,
        Isolation::Serializable,
        Isolation::Locking,
    ] {
        let fs = shared();
        let file = fs.t_file("file", b"before");
        let options = TransactionOptions {
            isolation,
            ..TransactionOptions::default()
        };
        let outer = fs.begin_transaction(&options).unwrap();
        outer.t_write(file, 0, b"outer");
        let inner = nested(&outer);
        inner.t_write(file, 0, b"inner");
        let root = Caller::root();
        let refused = |outcome: Result<()>| {
            assert!(matches!(outcome, Err(Error::Suspended)), "{outcome:?}");
        };
        // In a locking transaction, a read here would deadlock with its own nested
        // transaction.
        refused(outer.read(file, 0, &mut [0; 5]).map(drop));
        refused(outer.write(&root, file, 0, b"x").map(drop));
        refused(outer.append(&root, file, b"x").map(drop));
        refused(outer.getattr(file).map(drop));
        refused(outer.mknod(&root, ROOT, b"new", 0o644, 0).map(drop));
        refused(outer.unlink(&root, ROOT, b"file"));
        refused(outer.lookup(&root, ROOT, b"file").map(drop));
        refused(outer.tree().begin_transaction(&options).map(drop));
        let innermost = nested(&inner);
        refused(inner.write(&root, file, 0, b"x").map(drop));
        drop(innermost);
        inner.commit().unwrap();
        assert_eq!(outer.t_read(file), b"innere");
        // As after the abort of one.
        drop(nested(&outer));
        outer.t_write(file, 0, b"OUTER");
        outer.commit().unwrap();
        assert_eq!(fs.t_read(file), b"OUTERe");
    }
}

#[test]
fn the_end_of_one_is_the_end_of_the_one_within_it() {
    let fs = shared();
    let file = fs.t_file("file", b"before");
    let outer = begin(&fs);
    outer.t_write(file, 0, b"outer");
    let inner = nested(&outer);
    inner.t_write(file, 0, b"inner");
    outer.commit().unwrap();
    assert!(matches!(inner.commit(), Err(Error::Aborted)));
    assert_eq!(fs.t_read(file), b"outere");
}

/// A file that excludes other users while it exists, as in git.
#[test]
fn a_name_that_was_made_and_removed_again_conflicts_with_the_same_of_others() {
    for in_nested in [false, true] {
        for stays in [false, true] {
            let fs = shared();
            let txn = begin(&fs);
            let child = in_nested.then(|| nested(&txn));
            let inner = child.as_ref().unwrap_or(&txn);
            inner.t_create(ROOT, "lock");
            inner.t_file("mine", b"x");
            inner.t_unlink("lock");
            assert_eq!(inner.t_names(ROOT), ["mine"]);
            if let Some(child) = child {
                child.commit().unwrap();
            }
            fs.t_create(ROOT, "lock");
            if !stays {
                fs.t_unlink("lock");
            }
            let outcome = txn.commit();
            if stays {
                assert_eq!(conflict(outcome).of, Contended::Name(b"lock".to_vec()));
                assert_eq!(fs.t_names(ROOT), ["lock"]);
            } else {
                outcome.unwrap();
                assert_eq!(fs.t_names(ROOT), ["mine"]);
            }
            settled(&fs);
        }
    }
}

/// A removal is a change of all of a file: bytes that others wrote into it, and may have
/// synced, must not be removed with it.
#[test]
fn a_file_that_others_wrote_is_not_removed() {
    let write: [fn(&Fs, InodeNo); 3] = [
        |fs, file| fs.t_write(file, 5000, b"theirs"),
        |fs, file| fs.t_write(file, 9000, b"longer"),
        |fs, file| fs.t_truncate(file, 100),
    ];
    let remove: [fn(&Txn); 2] = [
        |txn| txn.t_unlink("file"),
        |txn| {
            txn.t_file("other", b"x");
            txn.t_rename("other", "file").unwrap();
        },
    ];
    for (write, want) in
        write
            .into_iter()
            .zip([Contended::Content(4096), Contended::Size, Contended::Size])
    {
        for remove in remove {
            let fs = shared();
            let file = fs.t_file("file", &pattern(9000, 1));
            let txn = begin(&fs);
            // The transaction wrote into it as well, as the last user of a log does
            // before removing it.
            txn.t_write(file, 0, b"mine");
            remove(&txn);
            write(&fs, file);
            assert_eq!(conflict(txn.commit()).of, want);
            assert_eq!(fs.t_names(ROOT), ["file"]);
            settled(&fs);
        }
    }
}

/// A file that no other transaction wrote is removed, however it is stored by now, and
/// however long it is.
#[test]
fn a_file_that_is_what_it_was_is_removed() {
    let fs = shared();
    let file = fs.t_file("file", &pattern(9000, 1));
    fs.t_truncate(file, 1 << 50);
    let txn = begin(&fs);
    txn.t_unlink("file");
    fs.t_write(file, 4096, &pattern(9000, 1)[4096..8192]);
    fs.drop_caches();
    fs.sync().unwrap();
    txn.commit().unwrap();
    assert_eq!(fs.t_names(ROOT), Vec::<String>::new());
    settled(&fs);
}
