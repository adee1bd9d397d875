//! Removing files that are not in memory: no vnode is made for them, and the visible
//! effects are as if one had been made.

use super::harness::*;
use crate::layout::Item;
use crate::memory::queues::EPOCH_MEMBERS;
use crate::{Caller, Error, InodeNo, Layout, MemoryOptions, Options, SetAttr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

fn root() -> Caller {
    Caller::root()
}

/// Makes a file of two blocks that is logged and not in memory.
fn cold_file(fs: &Fs, name: &str) -> InodeNo {
    let ino = fs.t_file(name, &pattern(5000, 3));
    fs.sync().unwrap();
    fs.drop_caches();
    ino
}

fn is_stale<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Stale))
}

/// Numbers that the groups have freed so far, with the next versions.
fn ends(fs: &Fs) -> Vec<(InodeNo, u32)> {
    let groups = fs.layout().groups.lock();
    let items = groups.iter().flat_map(|group| &group.items);
    let end = |item: &Item| match item {
        Item::Freed { ino, next_version } => Some((*ino, *next_version)),
        _ => None,
    };
    items.filter_map(end).collect()
}

fn assert_accounted(fs: &Fs) {
    fs.sync().unwrap();
    assert_eq!(fs.layout().memory().usage(), fs.usage());
    assert_eq!(fs.statistics().dirty_bytes, 0);
}

#[test]
fn a_file_that_nobody_has_is_removed_without_a_vnode() {
    let fs = fresh();
    let a = cold_file(&fs, "a");
    let found = fs.lookup(&root(), ROOT, b"a").unwrap();
    fs.drop_caches();
    let vnodes = fs.statistics().vnodes;
    fs.t_unlink("a");
    assert!(fs.statistics().vnodes <= vnodes + 1, "the root's at most");
    assert_eq!(fs.usage().inodes, 1);
    assert!(matches!(fs.t_lookup("a"), Err(Error::NotFound)));
    let gone = |when: &str| {
        assert!(is_stale(fs.getattr(a)), "{when}");
        assert!(is_stale(fs.retain(a)), "{when}");
        assert!(is_stale(fs.hold(&found)), "{when}");
    };
    gone("in the epoch");
    fs.drop_caches();
    gone("with dropped caches");
    fs.sync().unwrap();
    gone("logged");
    assert_eq!(ends(&fs), [(a, found.version.wrapping_add(1))]);
    assert_accounted(&fs);
    // The number is reused, and is a file again.
    let again = (0..3).map(|n| fs.t_create(ROOT, &format!("n{n}")));
    let again = again.max_by_key(|attr| attr.ino == a).unwrap();
    assert_eq!((again.ino, again.version), (a, found.version + 1));
    fs.sync().unwrap();
    fs.drop_caches();
    assert_eq!(fs.getattr(a).unwrap().version, again.version);
    assert!(is_stale(fs.hold(&found)));
}

#[test]
fn one_of_several_names_leaves_the_file() {
    let fs = fresh();
    let a = cold_file(&fs, "a");
    fs.link(&root(), a, ROOT, b"b").unwrap();
    fs.sync().unwrap();
    fs.drop_caches();
    let before = fs.getattr(a).unwrap();
    fs.drop_caches();
    fs.t_unlink("a");
    let now = fs.getattr(a).unwrap();
    assert_eq!(now.nlink, 1);
    assert!(now.ctime > before.ctime);
    fs.sync().unwrap();
    let after = crash(&fs, None);
    assert_eq!(after.getattr(a).unwrap(), now);
    assert_eq!(after.t_content("b"), pattern(5000, 3));
    fs.drop_caches();
    fs.t_unlink("b");
    assert!(is_stale(fs.getattr(a)));
    assert_eq!(fs.usage().inodes, 1);
    assert_accounted(&fs);
}

#[test]
fn a_file_that_is_held_lives_on_without_its_vnode() {
    let fs = fresh();
    let a = cold_file(&fs, "a");
    let held = fs.lookup_held(&root(), ROOT, b"a").unwrap();
    fs.drop_caches();
    assert!(fs.table.get(a).is_none(), "only its count is in memory");
    fs.t_unlink("a");
    assert_eq!(fs.getattr(a).unwrap().nlink, 0);
    fs.sync().unwrap();
    fs.drop_caches();
    assert_eq!(fs.t_read(held.ino), pattern(5000, 3));
    fs.release(a, 1);
    assert!(is_stale(fs.getattr(a)));
    assert_accounted(&fs);
    assert_eq!(fs.usage().inodes, 1);
}

#[test]
fn a_crash_leaves_the_file_whole_or_nothing() {
    let fs = fresh();
    let a = cold_file(&fs, "a");
    let b = fs.t_file("b", b"of the same epoch");
    fs.t_unlink("a");
    let before = crash(&fs, None);
    assert_eq!(before.t_content("a"), pattern(5000, 3));
    assert_eq!(before.t_names(ROOT), ["a"]);
    // The first fsync of any file makes the removal of the name and the file durable.
    fs.t_fsync(b);
    let after = crash(&fs, None);
    assert_eq!(after.t_names(ROOT), ["b"]);
    assert!(is_stale(after.getattr(a)));
    assert_eq!(after.usage(), fs.usage());
}

#[test]
fn an_fsync_of_the_directory_logs_the_end() {
    let fs = fresh();
    let a = cold_file(&fs, "a");
    let other = fs.t_mkdir(ROOT, "other");
    fs.sync().unwrap();
    fs.drop_caches();
    fs.t_unlink("a");
    fs.t_fsync(other);
    assert!(is_stale(crash(&fs, None).getattr(a)));
    assert_eq!(ends(&fs).len(), 1);
}

#[test]
fn between_its_end_and_the_group_nobody_gets_the_file_or_its_number() {
    let fs = Arc::new(fresh());
    let a = cold_file(&fs, "a");
    fs.t_unlink("a");
    let weak = Arc::downgrade(&fs);
    *fs.layout().during_append.lock() = Some(Box::new(move || {
        let fs = weak.upgrade().unwrap();
        let meddle = move || {
            fs.drop_caches();
            assert!(is_stale(fs.getattr(a)));
            let made = fs.t_create(ROOT, "meanwhile").ino;
            assert_ne!(made, a);
        };
        std::thread::spawn(meddle).join().unwrap();
    }));
    fs.sync().unwrap();
    assert!(is_stale(fs.getattr(a)));
    assert_accounted(&fs);
}

#[test]
fn after_a_failed_append_the_file_stays_gone() {
    for applied in [false, true] {
        let fs = fresh();
        let a = cold_file(&fs, "a");
        fs.layout().apply_failed.store(applied, Relaxed);
        fs.layout().fail_append.store(true, Relaxed);
        fs.t_unlink("a");
        assert!(fs.sync().is_err());
        fs.drop_caches();
        assert!(is_stale(fs.getattr(a)));
        assert!(matches!(fs.t_lookup("a"), Err(Error::NotFound)));
    }
}

#[test]
fn a_refused_or_failed_removal_changes_nothing() {
    let fs = fresh();
    let mode = SetAttr {
        mode: Some(0o1777),
        ..Default::default()
    };
    fs.setattr(&root(), ROOT, &mode).unwrap();
    let a = cold_file(&fs, "a");
    let usage = fs.usage();
    let sticky = fs.unlink(&user(7), ROOT, b"a");
    assert!(matches!(sticky, Err(Error::NotPermitted)));
    fs.drop_caches();
    for after in 0..3u64 {
        fs.drop_caches();
        let left = AtomicU64::new(after);
        let fails = move || left.fetch_sub(1, Relaxed) == 0;
        *fs.layout().fail_read.lock() = Some(Box::new(fails));
        let removed = fs.unlink(&root(), ROOT, b"a");
        *fs.layout().fail_read.lock() = None;
        assert!(removed.is_err(), "read {after}");
        assert_eq!(fs.usage(), usage);
        assert_eq!(fs.t_content("a"), pattern(5000, 3));
    }
    fs.drop_caches();
    fs.t_unlink("a");
    assert!(is_stale(fs.getattr(a)));
    assert_accounted(&fs);
}

#[test]
fn links_special_files_and_attributes_go_with_their_inodes() {
    let fs = fresh();
    let empty = fs.usage();
    let long = "x".repeat(2000);
    fs.symlink(&root(), ROOT, b"short", b"target").unwrap();
    fs.symlink(&root(), ROOT, b"long", long.as_bytes()).unwrap();
    fs.mknod(&root(), ROOT, b"fifo", 0o010_644, 0).unwrap();
    let file = fs.t_file("file", b"inline");
    let value = pattern(3000, 1);
    fs.setxattr(&root(), file, b"user.a", &value, false, false)
        .unwrap();
    fs.sync().unwrap();
    fs.drop_caches();
    for name in ["short", "long", "fifo", "file"] {
        fs.t_unlink(name);
    }
    fs.rmdir(&root(), ROOT, b"file").unwrap_err();
    assert_accounted(&fs);
    assert_eq!(fs.usage(), empty);
    assert_eq!(ends(&fs).len(), 4);
}

#[test]
fn a_large_file_is_freed_in_steps_all_the_same() {
    let mut fs = fresh();
    fs.settings.step_blocks = 4;
    let a = fs.t_file("a", &pattern(20 * 4096, 1));
    fs.sync().unwrap();
    fs.drop_caches();
    fs.t_unlink("a");
    assert!(is_stale(fs.getattr(a)));
    fs.unmount().unwrap();
    assert_eq!(fs.usage().inodes, 1);
    assert_eq!(fs.usage().blocks, 0);
    assert_accounted(&fs);
}

#[test]
fn an_epoch_of_ends_is_sealed_early() {
    let fs = fresh_with(MemoryOptions::default(), Options::default());
    let woken = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&woken);
    for n in 0..EPOCH_MEMBERS {
        fs.t_create(ROOT, &format!("f{n}"));
        if n % 1000 == 0 {
            fs.sync().unwrap();
        }
    }
    fs.sync().unwrap();
    fs.drop_caches();
    fs.set_waker(Box::new(move || {
        count.fetch_add(1, Relaxed);
    }));
    // One member is the directory.
    for n in 1..EPOCH_MEMBERS - 1 {
        fs.t_unlink(&format!("f{n}"));
    }
    assert!(!fs.write_back().unwrap());
    assert_eq!(woken.load(Relaxed), 0);
    fs.t_unlink("f0");
    assert_eq!(woken.load(Relaxed), 1);
    assert!(fs.write_back().unwrap());
    assert_accounted(&fs);
    let left = format!("f{}", EPOCH_MEMBERS - 1);
    assert_eq!(fs.t_names(ROOT), [left]);
}

/// One thread removes cold files, one references and releases their numbers and drops the
/// caches, one syncs.
#[test]
fn others_may_ask_for_the_numbers_meanwhile() {
    const FILES: usize = 600;
    let fs = Arc::new(fresh());
    let numbers: Vec<InodeNo> = (0..FILES)
        .map(|n| fs.t_file(&format!("f{n}"), b"something"))
        .collect();
    fs.sync().unwrap();
    fs.drop_caches();
    let done = Arc::new(AtomicBool::new(false));
    let meddle = {
        let (fs, done, numbers) = (Arc::clone(&fs), Arc::clone(&done), numbers.clone());
        move || {
            let mut last = false;
            while !last {
                last = done.load(Relaxed);
                for &ino in &numbers {
                    match fs.retain(ino) {
                        Ok(()) => {
                            assert_eq!(fs.t_read(ino), b"something");
                            fs.release(ino, 1);
                        }
                        Err(error) => assert!(matches!(error, Error::Stale), "{error}"),
                    }
                }
                fs.drop_caches();
            }
        }
    };
    let sync = {
        let (fs, done) = (Arc::clone(&fs), Arc::clone(&done));
        move || {
            while !done.load(Relaxed) {
                fs.sync().unwrap();
                std::thread::yield_now();
            }
        }
    };
    let threads = [std::thread::spawn(meddle), std::thread::spawn(sync)];
    for n in 0..FILES {
        fs.t_unlink(&format!("f{n}"));
    }
    done.store(true, Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
    assert_accounted(&fs);
    assert_eq!(fs.usage().inodes, 1);
    assert!(numbers.iter().all(|&ino| is_stale(fs.getattr(ino))));
    let mut ended: Vec<InodeNo> = ends(&fs).into_iter().map(|(ino, _)| ino).collect();
    ended.sort();
    ended.dedup();
    assert_eq!(ended.len(), FILES, "each ended once");
    assert_eq!(ends(&fs).len(), FILES);
}
