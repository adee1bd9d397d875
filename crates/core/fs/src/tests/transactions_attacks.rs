//! Corner cases of transactions, one each.

use super::harness::*;
use super::transactions_model::no_number_is_lost;
use crate::{
    Caller, Contended, Error, InodeNo, Isolation, Layout, MemoryOptions, Options, Rename, SetAttr,
    TransactionOptions,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const KEEP_SIZE: i32 = 1;

fn reserve(fs: &Fs, ino: InodeNo, offset: u64, length: u64) {
    fs.fallocate(&Caller::root(), ino, KEEP_SIZE, offset, length)
        .unwrap();
}

/// Asserts that all counts are right once no change waits, no number is lost, and
/// everything exists again after a mount.
fn settled(fs: &Fs) {
    fs.sync().unwrap();
    fs.unmount().unwrap();
    assert_eq!(fs.layout().usage(), fs.usage());
    assert_eq!(fs.statistics().dirty_bytes, 0);
    assert_eq!(fs.layout().memory().snapshots(), 0);
    let again = crash(fs, None);
    assert_eq!(again.usage(), fs.usage());
    let mut used = BTreeSet::new();
    numbers(&again, ROOT, &mut used);
    no_number_is_lost(&again, used.clone());
    no_number_is_lost(fs, used);
}

fn numbers(fs: &Fs, ino: InodeNo, used: &mut BTreeSet<u64>) {
    used.insert(ino.0);
    let mut below = Vec::new();
    fs.readdir(ino, 2, &mut |entry| {
        below.push((entry.ino, entry.kind));
        true
    })
    .unwrap();
    for (ino, kind) in below {
        match kind {
            crate::FileKind::Directory => numbers(fs, ino, used),
            _ => _ = used.insert(ino.0),
        }
    }
}

#[test]
fn a_nested_commit_does_not_wait_for_itself() {
    let fs = Arc::new(fresh());
    let file = fs.t_file("file", &pattern(9000, 1));
    let root = Caller::root();
    fs.setxattr(&root, file, b"user.a", b"outside", false, false)
        .unwrap();
    let txn = begin(&fs);
    let child = nested(&txn);
    child.t_write(file, 0, b"child");
    child
        .setxattr(&root, file, b"user.b", b"child", false, false)
        .unwrap();
    child.commit().unwrap();
    assert_eq!(txn.listxattr(&root, file).unwrap().len(), 2);
    txn.commit().unwrap();
    assert_eq!(fs.getxattr(&root, file, b"user.a").unwrap(), b"outside");
    assert_eq!(fs.getxattr(&root, file, b"user.b").unwrap(), b"child");
    settled(&fs);
}

#[test]
fn locking_ones_meet_outsiders_who_lock_nothing() {
    let fs = Arc::new(fresh());
    let root = Caller::root();
    let file = fs.t_file("file", &pattern(20_000, 1));
    let set = |fs: &Fs, value: &[u8]| {
        fs.setxattr(&root, file, b"user.a", value, false, false)
            .unwrap();
    };
    set(&fs, b"1");
    let begin = || {
        fs.begin_transaction(&TransactionOptions {
            isolation: Isolation::Locking,
            ..TransactionOptions::default()
        })
        .unwrap()
    };
    let txn = begin();
    txn.t_write(file, 0, b"mine");
    set(&txn, b"2");
    txn.commit().unwrap();
    assert_eq!(fs.getxattr(&root, file, b"user.a").unwrap(), b"2");
    // The offset of the write no longer exists.
    let txn = begin();
    txn.t_write(file, 15_000, b"mine");
    fs.t_truncate(file, 100);
    assert_eq!(conflict(txn.commit()).of, Contended::Size);
    let txn = begin();
    txn.t_write(file, 50, b"mine");
    fs.t_truncate(file, 0);
    fs.t_write(file, 0, &pattern(100, 2));
    assert_eq!(conflict(txn.commit()).of, Contended::Content(0));
    // A value as long as the one that it replaces.
    let txn = begin();
    set(&txn, b"3");
    set(&fs, b"4");
    assert_eq!(conflict(txn.commit()).of, Contended::Attributes);
    let txn = begin();
    let child = nested(&txn);
    set(&child, b"5");
    child.commit().unwrap();
    set(&fs, b"6");
    assert_eq!(conflict(txn.commit()).of, Contended::Attributes);
    settled(&fs);
}

#[test]
fn what_lay_behind_the_end_does_not_come_back() {
    let fs = Arc::new(fresh());
    let file = fs.t_file("file", &pattern(4000, 1));
    let want = |size| {
        let mut want = pattern(4000, 1)[..1000].to_vec();
        want.resize(size, 0);
        want
    };
    fs.t_truncate(file, 1000);
    fs.sync().unwrap();
    // Bytes left by another transaction, which returned to the original size.
    let txn = begin(&fs);
    txn.t_truncate(file, 2000);
    fs.t_write(file, 1000, &pattern(3000, 7));
    fs.sync().unwrap();
    fs.t_truncate(file, 1000);
    fs.sync().unwrap();
    txn.commit().unwrap();
    assert!(fs.t_read(file) == want(2000));
    // Bytes left by the parent.
    let txn = begin(&fs);
    txn.t_truncate(file, 1000);
    let child = nested(&txn);
    child.t_write(file, 10_000, b"far");
    child.commit().unwrap();
    let mut far = want(10_000);
    far.extend(b"far");
    assert!(txn.t_read(file) == far);
    txn.commit().unwrap();
    assert!(fs.t_read(file) == far);
    assert!(crash(&fs, None).t_read(file) == far);
    settled(&fs);
}

#[test]
fn a_cut_meets_what_is_dirty_behind_it() {
    let fs = Arc::new(fresh());
    let file = fs.t_file("file", &pattern(10_000, 1));
    let txn = begin(&fs);
    txn.t_write(file, 0, &pattern(10_000, 2));
    let child = nested(&txn);
    child.t_truncate(file, 5000);
    child.commit().unwrap();
    let child = nested(&txn);
    child.t_truncate(file, 9000);
    child.commit().unwrap();
    let mut want = pattern(10_000, 2)[..5000].to_vec();
    want.resize(9000, 0);
    assert!(txn.t_read(file) == want);
    txn.commit().unwrap();
    assert!(fs.t_read(file) == want);
    // Bytes that others wrote there cause a conflict, even in a hole.
    for (offset, sparse) in [(5500, false), (9500, false), (30_000, true)] {
        fs.t_truncate(file, 0);
        fs.t_write(file, 0, &pattern(10_000, 3));
        if sparse {
            fs.t_truncate(file, 40_000);
        }
        let txn = begin(&fs);
        txn.t_truncate(file, 5000);
        fs.t_write(file, offset, b"outside");
        assert_eq!(conflict(txn.commit()).ino, file);
    }
    settled(&fs);
}

#[test]
fn a_range_that_both_reserve_is_counted_once() {
    let fs = Arc::new(fresh());
    let file = fs.t_file("file", &pattern(300, 1));
    fs.t_truncate(file, 100_000);
    for outside in [
        &(|fs: &Fs, file| reserve(fs, file, 12_288, 20_000)) as &dyn Fn(&Fs, InodeNo),
        &|fs, file| fs.t_write(file, 41_000, &[0; 5000]),
        &|fs, file| reserve(fs, file, 200_000, 50_000),
    ] {
        for append in [false, true] {
            let txn = begin(&fs);
            reserve(&txn, file, 8192, 50_000);
            reserve(&txn, file, 190_000, 20_000);
            outside(&fs, file);
            if append {
                fs.sync().unwrap();
            }
            txn.commit().unwrap();
            assert_eq!(fs.layout().usage(), {
                fs.sync().unwrap();
                fs.usage()
            });
            assert!(fs.t_read(file)[300..].iter().all(|byte| *byte == 0));
            fs.t_truncate(file, 300);
            fs.t_truncate(file, 100_000);
        }
    }
    settled(&fs);
}

#[test]
fn inline_content_takes_the_place_of_a_reservation() {
    let fs = Arc::new(fresh());
    let file = fs.t_create(ROOT, "file").ino;
    fs.t_truncate(file, 100);
    let txn = begin(&fs);
    txn.t_write(file, 0, b"inline");
    reserve(&fs, file, 0, 9000);
    txn.commit().unwrap();
    assert_eq!(fs.t_read(file)[..6], *b"inline");
    let again = crash(&fs, None);
    assert_eq!(again.t_read(file)[..6], *b"inline");
    settled(&fs);
}

#[test]
fn inline_content_that_was_cut_does_not_shine_through() {
    let fs = Arc::new(fresh());
    let file = fs.t_file("file", b"inline");
    let txn = begin(&fs);
    let child = nested(&txn);
    child.t_truncate(file, 0);
    child.t_truncate(file, 5000);
    assert!(child.t_read(file) == vec![0; 5000]);
    child.commit().unwrap();
    let child = nested(&txn);
    assert!(child.t_read(file) == vec![0; 5000]);
    child.t_truncate(file, 0);
    child.t_write(file, 0, b"again");
    child.commit().unwrap();
    assert_eq!(txn.t_read(file), b"again");
    txn.commit().unwrap();
    assert_eq!(fs.t_read(file), b"again");
    settled(&fs);
}

#[test]
fn inline_files_that_grow_on_both_sides_conflict() {
    let fs = Arc::new(fresh());
    for (mine, theirs) in [(10, 20), (300, 20), (10, 300), (5000, 6000)] {
        let file = fs.t_file("file", b"start");
        let txn = begin(&fs);
        txn.append(&Caller::root(), file, &pattern(mine, 1))
            .unwrap();
        fs.append(&Caller::root(), file, &pattern(theirs, 2))
            .unwrap();
        assert_eq!(conflict(txn.commit()).ino, file);
        assert_eq!(fs.t_read(file)[5..], pattern(theirs, 2));
        fs.t_unlink("file");
    }
    settled(&fs);
}

#[test]
fn a_removed_directory_that_is_held_takes_no_names_with_it() {
    let fs = Arc::new(fresh());
    let home = fs.t_mkdir(ROOT, "home");
    let txn = begin(&fs);
    txn.retain(home).unwrap();
    txn.rmdir(&Caller::root(), ROOT, b"home").unwrap();
    fs.t_create(home, "late");
    assert_eq!(conflict(txn.commit()).of, Contended::Directory);
    assert_eq!(fs.t_names(home), ["late"]);
    settled(&fs);
}

#[test]
fn a_number_that_became_free_leads_to_one_file() {
    let fs = Arc::new(fresh());
    let old = fs.t_file("old", b"of the snapshot");
    let txn = begin(&fs);
    fs.t_unlink("old");
    fs.sync().unwrap();
    let child = nested(&txn);
    let new = child.t_file("new", b"new");
    assert_ne!(new, old);
    assert_eq!(child.t_content("old"), b"of the snapshot");
    child.commit().unwrap();
    assert_eq!(txn.t_content("old"), b"of the snapshot");
    assert_eq!(txn.t_content("new"), b"new");
    txn.commit().unwrap();
    assert_eq!(fs.t_names(ROOT), ["new"]);
    settled(&fs);
}

#[test]
fn a_transaction_begun_in_a_transaction_is_within_it() {
    let fs = Arc::new(fresh());
    let groups = fs.layout().memory().appended();
    let txn = begin(&fs);
    txn.t_file("outer", b"o");
    let inner = txn.tree().begin_transaction(&TransactionOptions::default());
    let inner = inner.unwrap();
    inner.t_file("inner", b"i");
    assert_eq!(inner.t_content("outer"), b"o");
    inner.commit().unwrap();
    assert_eq!(fs.layout().memory().appended(), groups);
    drop(txn);
    assert_eq!(fs.t_names(ROOT), Vec::<String>::new());
    settled(&fs);
}

#[test]
fn nothing_is_read_after_the_end() {
    let fs = Arc::new(fresh());
    let file = fs.t_file("file", b"x");
    let txn = begin(&fs);
    let tree = Arc::clone(txn.tree());
    assert_eq!(tree.t_read(file), b"x");
    txn.commit().unwrap();
    assert!(matches!(tree.getattr(file), Err(Error::Aborted)));
    assert!(matches!(tree.t_lookup("file"), Err(Error::Aborted)));
    drop(tree);
    settled(&fs);
}

#[test]
fn links_removed_on_both_sides() {
    let fs = Arc::new(fresh());
    let root = Caller::root();
    let file = fs.t_file("a", &pattern(9000, 1));
    fs.link(&root, file, ROOT, b"b").unwrap();
    let txn = begin(&fs);
    txn.t_unlink("a");
    fs.t_unlink("b");
    txn.commit().unwrap();
    assert_eq!(fs.t_names(ROOT), Vec::<String>::new());
    assert!(matches!(fs.getattr(file), Err(Error::Stale)));
    // Referenced by both: the write is visible through each reference.
    let file = fs.t_file("a", &pattern(9000, 1));
    fs.link(&root, file, ROOT, b"b").unwrap();
    fs.retain(file).unwrap();
    let txn = begin(&fs);
    txn.t_write(file, 0, b"mine");
    txn.t_unlink("a");
    fs.t_unlink("b");
    txn.commit().unwrap();
    assert_eq!(fs.getattr(file).unwrap().nlink, 0);
    assert_eq!(fs.t_read(file)[..4], *b"mine");
    fs.release(file, 1);
    assert!(matches!(fs.getattr(file), Err(Error::Stale)));
    settled(&fs);
}

#[test]
fn one_that_ended_here_and_got_another_name_there() {
    let fs = Arc::new(fresh());
    let file = fs.t_file("a", b"before");
    let txn = begin(&fs);
    txn.t_write(file, 0, b"mine");
    txn.t_unlink("a");
    fs.link(&Caller::root(), file, ROOT, b"b").unwrap();
    assert_eq!(conflict(txn.commit()).of, Contended::File);
    assert_eq!(fs.t_content("a"), b"before");
    // A reference keeps all of its content.
    let txn = begin(&fs);
    txn.retain(file).unwrap();
    txn.t_write(file, 0, b"mine");
    txn.t_unlink("a");
    txn.t_unlink("b");
    fs.link(&Caller::root(), file, ROOT, b"c").unwrap();
    txn.commit().unwrap();
    assert_eq!(fs.t_names(ROOT), ["c"]);
    assert_eq!(fs.t_content("c"), b"minere");
    settled(&fs);
}

#[test]
fn files_held_open_across_their_end() {
    let fs = Arc::new(fresh());
    let file = fs.t_file("file", &pattern(9000, 1));
    // Referenced by others, removed by the transaction.
    fs.retain(file).unwrap();
    let txn = begin(&fs);
    txn.t_unlink("file");
    txn.commit().unwrap();
    assert!(fs.t_read(file) == pattern(9000, 1));
    // It still exists without a name, in a transaction as well.
    let txn = begin(&fs);
    txn.retain(file).unwrap();
    txn.t_write(file, 0, b"mine");
    txn.commit().unwrap();
    assert_eq!(fs.t_read(file)[..4], *b"mine");
    // Released while a transaction has changed it.
    let txn = begin(&fs);
    txn.retain(file).unwrap();
    txn.t_write(file, 0, b"late");
    fs.release(file, 1);
    fs.sync().unwrap();
    assert_eq!(conflict(txn.commit()).of, Contended::File);
    // Referenced by the transaction, removed by others.
    let file = fs.t_file("file", &pattern(9000, 1));
    let txn = begin(&fs);
    txn.retain(file).unwrap();
    fs.t_unlink("file");
    fs.sync().unwrap();
    assert!(txn.t_read(file) == pattern(9000, 1));
    txn.release(file, 1);
    txn.commit().unwrap();
    settled(&fs);
}

#[test]
fn files_without_names_stay_or_go() {
    let fs = Arc::new(fresh());
    let root = Caller::root();
    let txn = begin(&fs);
    let lost = txn.tmpfile(&root, ROOT, 0o600).unwrap().ino;
    txn.t_write(lost, 0, &pattern(9000, 1));
    let kept = txn.tmpfile(&root, ROOT, 0o600).unwrap().ino;
    txn.t_write(kept, 0, &pattern(9000, 2));
    txn.link(&root, kept, ROOT, b"kept").unwrap();
    let child = nested(&txn);
    let inner = child.tmpfile(&root, ROOT, 0o600).unwrap().ino;
    child.link(&root, inner, ROOT, b"inner").unwrap();
    child.t_unlink("inner");
    child.t_unlink("kept");
    child.commit().unwrap();
    txn.link(&root, kept, ROOT, b"again").unwrap_err();
    txn.t_file("kept", b"other");
    txn.commit().unwrap();
    assert_eq!(fs.t_names(ROOT), ["kept"]);
    assert_eq!(fs.t_content("kept"), b"other");
    settled(&fs);
}

#[test]
fn a_file_that_ends_during_a_truncate_is_a_conflict() {
    let mut fs = fresh();
    fs.settings.step_blocks = 2;
    let fs = Arc::new(fs);
    let file = fs.t_file("file", &pattern(60_000, 1));
    fs.sync().unwrap();
    // A running truncate is finished first.
    fs.t_truncate(file, 100);
    let txn = begin(&fs);
    txn.t_write(file, 0, b"mine");
    txn.commit().unwrap();
    assert_eq!(fs.t_read(file)[..4], *b"mine");
    fs.t_truncate(file, 60_000);
    fs.t_write(file, 0, &pattern(60_000, 1));
    fs.sync().unwrap();
    let txn = begin(&fs);
    txn.t_write(file, 0, b"mine");
    fs.t_truncate(file, 100);
    fs.t_unlink("file");
    assert_eq!(conflict(txn.commit()).of, Contended::File);
    settled(&fs);
}

#[test]
fn a_directory_that_ended_is_a_conflict_even_when_forgotten() {
    let fs = Arc::new(fresh());
    let home = fs.t_mkdir(ROOT, "home");
    let txn = begin(&fs);
    txn.t_create(home, "in it");
    txn.t_create(ROOT, "beside");
    fs.rmdir(&Caller::root(), ROOT, b"home").unwrap();
    // The removal is logged, and its record dropped, while the commit asks for space.
    *fs.layout().during_admit.lock() = Some(Box::new({
        let fs = Arc::downgrade(&fs);
        move || fs.upgrade().unwrap().sync().unwrap()
    }));
    let found = conflict(txn.commit());
    assert_eq!((found.ino, found.of), (home, Contended::File));
    settled(&fs);
}

fn folding() -> Arc<Fs> {
    let memory = MemoryOptions {
        case_fold: true,
        ..MemoryOptions::default()
    };
    Arc::new(fresh_with(memory, Options::default()))
}

#[test]
fn names_that_are_led_elsewhere_keep_their_spelling() {
    let fs = folding();
    fs.t_file("Old", b"old");
    fs.t_file("x", b"x");
    let txn = begin(&fs);
    txn.t_rename("x", "OLD").unwrap();
    assert_eq!(txn.t_names(ROOT), ["Old"]);
    txn.commit().unwrap();
    assert_eq!(fs.t_names(ROOT), ["Old"]);
    assert_eq!(fs.t_content("oLd"), b"x");
    settled(&fs);
}

#[test]
fn names_are_spelled_anew() {
    let fs = folding();
    fs.t_file("Old", b"old");
    let txn = begin(&fs);
    txn.t_rename("old", "OLD").unwrap();
    let child = nested(&txn);
    assert_eq!(child.t_names(ROOT), ["OLD"]);
    child.t_unlink("old");
    child.t_file("oLD", b"new");
    child.commit().unwrap();
    assert_eq!(txn.t_names(ROOT), ["oLD"]);
    // Its spelling is changed outside meanwhile: it refers to the same file.
    fs.t_rename("old", "olD").unwrap();
    txn.commit().unwrap();
    assert_eq!(fs.t_names(ROOT), ["oLD"]);
    assert_eq!(fs.t_content("old"), b"new");
    // The same name, whatever its spelling.
    let txn = begin(&fs);
    txn.t_file("Twice", b"mine");
    fs.t_file("tWICE", b"theirs");
    assert!(matches!(conflict(txn.commit()).of, Contended::Name(_)));
    settled(&fs);
}

#[test]
fn two_links_of_one_file_are_no_spellings_of_one_name() {
    let fs = folding();
    let file = fs.t_file("one", b"content");
    let root = Caller::root();
    fs.link(&root, file, ROOT, b"two").unwrap();
    fs.rename(&root, ROOT, b"one", ROOT, b"two", Rename::default())
        .unwrap();
    assert_eq!(fs.t_names(ROOT), ["one", "two"], "as POSIX says");
    let keep = Rename {
        no_replace: true,
        ..Rename::default()
    };
    let refused = fs.rename(&root, ROOT, b"one", ROOT, b"two", keep);
    assert!(matches!(refused, Err(Error::Exists)));
    fs.rename(&root, ROOT, b"one", ROOT, b"ONE", keep).unwrap();
    assert_eq!(fs.t_names(ROOT), ["ONE", "two"]);
    settled(&fs);
}

/// Lists in pieces, and changes something after each.
fn listed(fs: &Fs, directory: InodeNo, mut between: impl FnMut(&[String])) -> Vec<String> {
    let mut all = Vec::new();
    let mut after = 2;
    loop {
        let before = all.len();
        fs.readdir(directory, after, &mut |entry| {
            all.push(String::from_utf8(entry.name.to_vec()).unwrap());
            after = entry.cookie;
            all.len() < before + 7
        })
        .unwrap();
        if all.len() == before {
            return all;
        }
        between(&all);
    }
}

#[test]
fn a_listing_goes_on_while_its_directory_changes() {
    let fs = Arc::new(fresh());
    let home = fs.t_mkdir(ROOT, "home");
    for i in 0..300 {
        fs.t_create(home, &format!("n{i}"));
    }
    let root = Caller::root();
    let txn = begin(&fs);
    let mut child = Some(nested(&txn));
    for depth in [1, 0] {
        if depth == 0 {
            child = None;
        }
        let fs = child.as_ref().unwrap_or(&txn).tree();
        let plain = Rename::default();
        let exchange = Rename {
            exchange: true,
            ..plain
        };
        let all = listed(fs, home, |all| {
            let (seen, last) = (all.len(), &all[all.len() - 1]);
            let over = format!("over{depth}-{seen}");
            fs.t_create(home, &over);
            // The very name at which the listing continues.
            fs.rename(&root, home, over.as_bytes(), home, last.as_bytes(), plain)
                .unwrap();
            let new = format!("new{depth}-{seen}");
            fs.t_create(home, &new);
            // Names n0 to n199 exist throughout, though they are made to refer to other
            // files.
            let to = format!("n{}", seen % 200);
            fs.rename(&root, home, new.as_bytes(), home, to.as_bytes(), plain)
                .unwrap();
            let (a, b) = (format!("n{}", seen % 100), format!("n{}", 199 - seen % 100));
            fs.rename(&root, home, a.as_bytes(), home, b.as_bytes(), exchange)
                .unwrap();
            let gone = format!("n{}", 299 - seen / 7 + (1 - depth) * 50 - 50);
            _ = fs.unlink(&root, home, gone.as_bytes());
            fs.t_create(home, &format!("late{depth}-{seen}"));
        });
        for i in 0..200 {
            let name = format!("n{i}");
            let seen = all.iter().filter(|listed| **listed == name).count();
            assert_eq!(seen, 1, "{name} was seen {seen} times");
        }
        let all: BTreeSet<_> = all.iter().collect();
        assert!(all.len() >= 200);
    }
    txn.commit().unwrap();
    settled(&fs);
}

#[test]
fn large_directories_changed_by_both() {
    let fs = Arc::new(fresh());
    let home = fs.t_mkdir(ROOT, "home");
    let root = Caller::root();
    let names = |who: &str, i: usize| format!("{who}-{i}-with-a-name-that-takes-room");
    for i in 0..5000 {
        fs.t_create(home, &names("old", i));
    }
    let txn = begin(&fs);
    for i in 0..5000 {
        let old = names("old", i);
        match i % 3 {
            0 => {
                txn.t_create(home, &names("mine", i));
            }
            1 if i % 2 == 0 => txn.unlink(&root, home, old.as_bytes()).unwrap(),
            2 if i % 2 == 0 => fs.unlink(&root, home, old.as_bytes()).unwrap(),
            _ => {
                fs.t_create(home, &names("theirs", i));
            }
        }
    }
    assert_eq!(txn.t_names(home).len(), 5000 + 1667 - 833);
    let mut want: BTreeSet<_> = fs.t_names(home).into_iter().collect();
    for i in 0..5000 {
        match i % 3 {
            0 => _ = want.insert(names("mine", i)),
            1 if i % 2 == 0 => assert!(want.remove(&names("old", i))),
            _ => {}
        }
    }
    txn.commit().unwrap();
    let found: BTreeSet<_> = fs.t_names(home).into_iter().collect();
    assert!(found == want);
    let again: BTreeSet<_> = crash(&fs, None).t_names(home).into_iter().collect();
    assert!(again == want);
    settled(&fs);
}

#[test]
fn a_whiteout_is_left_and_kept() {
    let fs = Arc::new(fresh());
    fs.t_file("a", b"a");
    let root = Caller::root();
    let whiteout = Rename {
        whiteout: true,
        ..Rename::default()
    };
    for commits in [false, true] {
        let txn = begin(&fs);
        txn.rename(&root, ROOT, b"a", ROOT, b"b", whiteout).unwrap();
        assert_eq!(txn.t_names(ROOT), ["a", "b"]);
        if commits {
            txn.commit().unwrap();
        }
    }
    let left = fs.lookup(&root, ROOT, b"a").unwrap();
    assert_eq!((left.kind, left.rdev), (crate::FileKind::CharDevice, 0));
    assert_eq!(fs.t_content("b"), b"a");
    settled(&fs);
}

#[test]
fn attributes_near_the_limit() {
    let fs = Arc::new(fresh());
    let root = Caller::root();
    let file = fs.t_file("file", b"x");
    let set = |fs: &Fs, ino, name: &[u8], value: &[u8]| {
        fs.setxattr(&root, ino, name, value, false, false)
    };
    set(&fs, file, b"user.a", &pattern(60_000, 1)).unwrap();
    let txn = begin(&fs);
    set(&txn, file, b"user.b", &pattern(60_000, 2)).unwrap();
    let full = set(&txn, file, b"user.c", &pattern(20_000, 3));
    assert!(matches!(full, Err(Error::NoSpace)));
    let new = txn.t_create(ROOT, "new").ino;
    set(&txn, new, b"user.a", &pattern(65_536, 4)).unwrap();
    let child = nested(&txn);
    set(&child, new, b"user.b", &pattern(60_000, 5)).unwrap();
    child.removexattr(&root, file, b"user.a").unwrap();
    child.commit().unwrap();
    txn.commit().unwrap();
    for fs in [&*fs, &crash(&fs, None)] {
        assert!(fs.getxattr(&root, file, b"user.b").unwrap() == pattern(60_000, 2));
        assert_eq!(fs.listxattr(&root, file).unwrap().len(), 1);
        assert!(fs.getxattr(&root, new, b"user.b").unwrap() == pattern(60_000, 5));
    }
    settled(&fs);
}

#[test]
fn set_id_rights_end_with_a_write() {
    let fs = Arc::new(fresh());
    let file = fs.t_file("file", &pattern(9000, 1));
    let mode = |mode| SetAttr {
        mode: Some(mode),
        ..SetAttr::default()
    };
    fs.setattr(&Caller::root(), file, &mode(0o6777)).unwrap();
    let txn = begin(&fs);
    txn.write(&user(7), file, 0, b"mine").unwrap();
    fs.t_write(file, 5000, b"outside");
    txn.commit().unwrap();
    assert_eq!(fs.getattr(file).unwrap().mode & 0o7777, 0o777);
    // Set meanwhile by others: the write was earlier, and must clear them.
    let txn = begin(&fs);
    txn.write(&user(7), file, 0, b"more").unwrap();
    fs.setattr(&Caller::root(), file, &mode(0o4777)).unwrap();
    assert_eq!(conflict(txn.commit()).of, Contended::Attributes);
    settled(&fs);
}

/// A transaction that changes much of the tree made by [`ground`].
fn changes(fs: &Arc<Fs>) -> Txn {
    let root = Caller::root();
    let txn = begin(fs);
    let lookup = |name: &str| txn.t_lookup(name).unwrap();
    let (home, other) = (lookup("home"), lookup("other"));
    let large = lookup("large");
    txn.t_write(large, 10, b"part of a block");
    txn.fallocate(&root, large, 3, 20_000, 9000).unwrap();
    reserve(&txn, large, 60_000, 10_000);
    txn.t_truncate(large, 50_001);
    txn.t_write(lookup("small"), 3, b"and more");
    txn.setxattr(&root, large, b"user.b", b"2", false, false)
        .unwrap();
    txn.rename(&root, home, b"n1", other, b"moved", Rename::default())
        .unwrap();
    txn.rename(&root, home, b"sub", other, b"sub", Rename::default())
        .unwrap();
    for i in 2..100 {
        txn.t_create(home, &format!("new{i}"));
        let name = format!("n{i}");
        txn.unlink(&root, home, name.as_bytes()).unwrap();
    }
    let below = txn.t_mkdir(other, "below");
    let file = txn.t_create(below, "file").ino;
    txn.t_write(file, 0, &pattern(9000, 6));
    txn
}

fn ground() -> Arc<Fs> {
    let fs = Arc::new(fresh());
    let home = fs.t_mkdir(ROOT, "home");
    fs.t_mkdir(ROOT, "other");
    fs.t_mkdir(home, "sub");
    for i in 0..300 {
        fs.t_create(home, &format!("n{i}"));
    }
    let large = fs.t_file("large", &pattern(100_000, 1));
    fs.setxattr(&Caller::root(), large, b"user.a", b"1", false, false)
        .unwrap();
    fs.t_file("small", b"abc");
    fs.sync().unwrap();
    fs
}

fn shown(fs: &Fs) -> (Vec<Vec<String>>, Vec<u8>, Vec<u8>) {
    let directories = ["home", "other"].map(|name| fs.t_lookup(name).unwrap());
    let names = directories.into_iter().chain([ROOT]);
    (
        names.map(|ino| fs.t_names(ino)).collect(),
        fs.t_content("large"),
        fs.t_content("small"),
    )
}

#[test]
fn a_read_that_fails_at_any_step_of_a_commit_changes_nothing() {
    let mut failed = 0;
    for nth in 0.. {
        let fs = ground();
        let before = (shown(&fs), fs.usage());
        let txn = changes(&fs);
        // A change outside forces a comparison of values.
        let large = fs.t_lookup("large").unwrap();
        fs.t_write(large, 0, &pattern(100_000, 1)[..10]);
        fs.drop_caches();
        let mut left = nth;
        *fs.layout().fail_read.lock() = Some(Box::new(move || {
            left -= 1;
            left == -1
        }));
        let outcome = txn.commit_async();
        let fell = fs.layout().fail_read.lock().take();
        drop(fell);
        match outcome {
            Ok(ticket) => {
                ticket.wait().unwrap();
                assert!(shown(&fs) != before.0);
                settled(&fs);
                break;
            }
            Err(Error::Damaged { .. }) => failed += 1,
            Err(error) => panic!("{error:?}"),
        }
        assert!(shown(&fs) == before.0, "after the failure of read {nth}");
        assert_eq!(fs.usage(), before.1);
        // And again, without failures.
        changes(&fs).commit().unwrap();
        settled(&fs);
    }
    assert!(failed > 10, "only {failed} reads");
}

#[test]
fn a_merge_whose_group_fails_is_not_durable() {
    for at_commit in [false, true] {
        let fs = ground();
        let before = shown(&fs);
        let txn = changes(&fs);
        let layout = fs.layout();
        let fails = match at_commit {
            false => &layout.fail_append,
            true => &layout.fail_commit,
        };
        fails.store(true, Relaxed);
        let ticket = txn.commit_async().unwrap();
        assert!(ticket.wait().is_err());
        fails.store(false, Relaxed);
        let refused = fs.begin_transaction(&TransactionOptions::default());
        assert!(matches!(refused, Err(Error::ReadOnly(_))));
        assert_eq!(layout.memory().snapshots(), 0);
        assert!(shown(&crash(&fs, None)) == before);
    }
}

#[test]
fn no_room_in_the_middle() {
    let memory = MemoryOptions {
        capacity_bytes: 2 << 20,
        ..MemoryOptions::default()
    };
    let fs = Arc::new(fresh_with(memory, Options::default()));
    fs.t_file("kept", &pattern(1 << 20, 1));
    fs.sync().unwrap();
    let usage = fs.usage();
    let txn = begin(&fs);
    let file = txn.t_create(ROOT, "file").ino;
    let mut written = 0;
    let full = loop {
        let at = written as u64;
        match txn.write(&Caller::root(), file, at, &pattern(65_536, 2)) {
            Ok(done) => written += done,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::NoSpace));
    assert!(written > 800_000);
    // The others use the space first.
    let outside = fs.t_file("outside", &pattern(500_000, 3));
    assert!(matches!(txn.commit(), Err(Error::NoSpace)));
    assert_eq!(fs.t_names(ROOT), ["kept", "outside"]);
    fs.t_truncate(outside, 0);
    fs.t_unlink("outside");
    fs.sync().unwrap();
    assert_eq!(fs.usage().blocks, usage.blocks);
    // Removing works on a full volume.
    let full = fs.t_create(ROOT, "full").ino;
    while let Ok(done) = fs.append(&Caller::root(), full, &pattern(4096, 4)) {
        assert!(done < 4 << 20);
    }
    let txn = begin(&fs);
    txn.t_unlink("kept");
    txn.commit().unwrap();
    assert_eq!(fs.t_names(ROOT), ["full"]);
    settled(&fs);
}
