//! Durability: the state after a crash, and the waits of syncs.

use super::harness::*;
use crate::layout::{Cause, Item};
use crate::memory::queues::EPOCH_MEMBERS;
use crate::{
    Atime, Caller, Error, FileKind, InodeNo, Layout, MemoryLayout, MemoryOptions, Options, Rename,
};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

fn blocks_of(fs: &Fs, group: usize) -> usize {
    let groups = fs.layout().groups.lock();
    groups[group]
        .items
        .iter()
        .filter(|item| matches!(item, Item::Block { .. }))
        .count()
}

fn group_count(fs: &Fs) -> usize {
    fs.layout().groups.lock().len()
}

#[test]
fn an_fsynced_file_survives_with_its_name_and_not_its_neighbour() {
    let fs = fresh();
    let d = fs.t_mkdir(ROOT, "d");
    fs.t_file("neighbour", &pattern(50_000, 1));
    let f = fs.t_create(d, "f").ino;
    fs.t_write(f, 0, &pattern(9_000, 2));
    let before = group_count(&fs);
    fs.t_fsync(f);
    assert_eq!(group_count(&fs), before + 1);
    assert_eq!(
        blocks_of(&fs, before),
        3 + 2,
        "three of data, two directories"
    );
    let after = crash(&fs, None);
    assert_eq!(after.t_read(f), pattern(9_000, 2));
    assert_eq!(after.t_names(ROOT), ["d", "neighbour"]);
    assert_eq!(
        after.t_content("neighbour"),
        b"",
        "its name came earlier, its data did not"
    );
}

#[test]
fn an_fsync_of_a_clean_file_appends_nothing() {
    let fs = fresh();
    let f = fs.t_file("f", &pattern(9_000, 2));
    fs.t_fsync(f);
    let (groups, commits) = (group_count(&fs), fs.layout().commits.load(Relaxed));
    fs.t_fsync(f);
    fs.fsync(f, true).unwrap();
    assert_eq!(
        (group_count(&fs), fs.layout().commits.load(Relaxed)),
        (groups, commits)
    );
    fs.t_create(ROOT, "other");
    fs.fsync(f, true).unwrap();
    assert_eq!(group_count(&fs), groups, "its data needs no other name");
    fs.t_fsync(f);
    assert_eq!(group_count(&fs), groups + 1);
}

#[test]
fn an_fsync_of_a_directory_carries_names_and_no_data() {
    let fs = fresh();
    let f = fs.t_file("f", &pattern(9_000, 2));
    fs.t_fsync(ROOT);
    let after = crash(&fs, None);
    assert_eq!(after.t_names(ROOT), ["f"]);
    assert_eq!(after.t_read(f), b"");
    assert_eq!(fs.t_read(f).len(), 9_000);
}

#[test]
fn a_rename_over_a_name_brings_its_data() {
    for length in [10, 9_000, 3 << 20] {
        let fs = fresh();
        fs.t_file("target", b"old");
        fs.sync().unwrap();
        fs.t_file("temp", &pattern(length, 2));
        fs.t_rename("temp", "target").unwrap();
        let other = fs.t_create(ROOT, "other").ino;
        fs.t_fsync(other);
        let after = crash(&fs, None);
        assert!(after.t_content("target") == pattern(length, 2), "{length}");
        let memory = fs.layout().memory();
        for position in memory.committed().0..=memory.appended().0 {
            let after = crash(&fs, Some(crate::Position(position)));
            let content = after.t_content("target");
            assert!(content == b"old" || content == pattern(length, 2));
        }
    }
}

#[test]
fn at_every_group_a_replaced_target_is_old_or_new() {
    let fs = fresh();
    fs.t_file("target", b"old");
    fs.sync().unwrap();
    fs.layout()
        .memory()
        .commit(fs.layout().memory().appended())
        .unwrap();
    let first = fs.layout().memory().committed();
    fs.t_file("temp", &pattern(5 << 20, 2));
    fs.t_rename("temp", "target").unwrap();
    while fs.write_back().unwrap() {}
    fs.t_file("x", &pattern(20 << 20, 9));
    let last = fs.layout().memory().appended();
    assert!(last > first);
    for position in first.0..=last.0 {
        let content = crash(&fs, Some(crate::Position(position))).t_content("target");
        assert!(
            content == b"old" || content == pattern(5 << 20, 2),
            "{}",
            content.len()
        );
    }
}

#[test]
fn data_written_and_cut_stays_cut() {
    // Protocol: "5 truncate record" and "3 one order".
    let fs = fresh();
    let f = fs.t_file("f", &pattern(16_384, 1));
    fs.t_fsync(f);
    fs.t_truncate(f, 0);
    fs.t_write(f, 8192, &[7; 10]);
    fs.t_fsync(f);
    let mut expected = vec![0; 8192];
    expected.extend([7; 10]);
    assert_eq!(crash(&fs, None).t_read(f), expected);
}

#[test]
fn an_image_alone_carries_the_logged_size() {
    // Protocol: "4 logged size".
    let fs = fresh();
    let f = fs.t_file("f", &pattern(5_000, 1));
    fs.t_fsync(f);
    fs.t_write(f, 5_000, &pattern(20_000, 3));
    fs.link(&Caller::root(), f, ROOT, b"g").unwrap();
    let other = fs.t_create(ROOT, "other").ino;
    fs.t_fsync(other);
    let after = crash(&fs, None);
    assert_eq!(after.t_read(f), pattern(5_000, 1));
    assert_eq!(after.getattr(f).unwrap().nlink, 2);
    fs.t_truncate(f, 4_000);
    fs.t_truncate(f, 6_000);
    fs.t_fsync(other);
    let mut expected = pattern(4_000, 1);
    let after = crash(&fs, None).t_read(f);
    assert!(after == expected || after.len() == 6_000);
    fs.t_fsync(f);
    expected.resize(6_000, 0);
    assert_eq!(crash(&fs, None).t_read(f), expected);
}

#[test]
fn inline_content_is_logged_with_its_data_only() {
    let fs = fresh();
    let f = fs.t_file("f", b"first");
    fs.t_fsync(f);
    fs.t_write(f, 0, b"second version");
    fs.link(&Caller::root(), f, ROOT, b"g").unwrap();
    fs.t_fsync(ROOT);
    assert_eq!(crash(&fs, None).t_read(f), b"first");
    fs.t_write(f, 0, &pattern(5_000, 4));
    fs.link(&Caller::root(), f, ROOT, b"h").unwrap();
    fs.t_fsync(ROOT);
    assert_eq!(crash(&fs, None).t_read(f), b"first");
    fs.t_fsync(f);
    assert_eq!(crash(&fs, None).t_read(f), pattern(5_000, 4));
}

#[test]
fn made_and_removed_between_two_groups_leaves_nothing() {
    let fs = fresh();
    let before = group_count(&fs);
    for _ in 0..10 {
        fs.t_file("f", &pattern(9_000, 2));
        fs.t_unlink("f");
    }
    fs.sync().unwrap();
    let groups = fs.layout().groups.lock();
    for group in &groups[before..] {
        for item in &group.items {
            assert!(
                matches!(item, Item::Inode(image) if image.ino == ROOT),
                "{item:?}"
            );
        }
    }
}

#[test]
fn strict_order_takes_all_data_along() {
    let options = Options {
        strict_order: true,
        ..Default::default()
    };
    let fs = fresh_with(MemoryOptions::default(), options);
    let a = fs.t_file("a", &pattern(3 << 20, 1));
    let b = fs.t_file("b", b"x");
    fs.t_fsync(b);
    assert!(crash(&fs, None).t_read(a) == pattern(3 << 20, 1));
}

#[test]
fn write_back_is_due_by_amount_and_by_age() {
    let clock = clock();
    let layout = Recorder::new(crate::MemoryLayout::new(MemoryOptions::default()));
    let options = Options {
        cache_bytes: 16 << 20,
        ..Default::default()
    };
    let fs = Fs::mount(layout, clock.clone(), options).unwrap();
    let f = fs.t_file("f", b"x");
    assert!(!fs.write_back().unwrap());
    clock.advance(Duration::from_secs(31));
    assert!(fs.write_back().unwrap());
    assert!(!fs.write_back().unwrap());
    let woken = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = Arc::clone(&woken);
    fs.set_waker(Box::new(move || {
        count.fetch_add(1, Relaxed);
    }));
    fs.t_write(f, 0, &pattern(3 << 20, 1));
    assert_eq!(woken.load(Relaxed), 1);
    while fs.write_back().unwrap() {}
    assert!(fs.statistics().dirty_bytes <= 1 << 20);
    let groups = fs.layout().groups.lock();
    for group in groups.iter() {
        let bytes: usize = group
            .items
            .iter()
            .map(|item| {
                if let Item::Block { data, .. } = item {
                    data.len()
                } else {
                    0
                }
            })
            .sum();
        assert!(bytes <= (1 << 20) + 4096, "{bytes}");
        assert_eq!(group.cause, Cause::WriteBack);
    }
}

/// Data written sequentially is written back early; data that is rewritten again and
/// again is not.
#[test]
fn streams_are_written_back_early() {
    let options = Options {
        cache_bytes: 64 << 20,
        ..Default::default()
    };
    let fs = fresh_with(MemoryOptions::default(), options);
    let woken = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = Arc::clone(&woken);
    fs.set_waker(Box::new(move || {
        count.fetch_add(1, Relaxed);
    }));
    // A quarter of the threshold of 8 MiB, and half of that.
    let f = fs.t_file("f", &pattern(2 << 20, 1));
    assert_eq!(woken.load(Relaxed), 0);
    fs.t_write(f, 2 << 20, &pattern(1 << 20, 1));
    assert_eq!(woken.load(Relaxed), 1);
    while fs.write_back().unwrap() {}
    assert!(fs.statistics().dirty_bytes <= 1 << 20);
    fs.sync().unwrap();
    for _ in 0..3 {
        fs.t_write(f, 0, &pattern(3 << 20, 2));
    }
    // Many small files do not start write-back early either.
    for n in 0..40 {
        fs.t_file(&format!("small {n}"), &pattern(100_000, 3));
    }
    assert_eq!(woken.load(Relaxed), 1);
    assert!(!fs.write_back().unwrap());
}

/// No operation proceeds while an epoch is captured, so none gets very large.
#[test]
fn large_epochs_are_sealed_early() {
    let fs = fresh_with(MemoryOptions::default(), Options::default());
    let woken = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = Arc::clone(&woken);
    fs.set_waker(Box::new(move || {
        count.fetch_add(1, Relaxed);
    }));
    // One member is the directory.
    for n in 1..EPOCH_MEMBERS - 1 {
        fs.t_file(&format!("f{n}"), b"");
    }
    assert!(!fs.write_back().unwrap());
    assert_eq!(woken.load(Relaxed), 0);
    fs.t_file("one more", b"");
    fs.t_file("and another", b"");
    assert_eq!(woken.load(Relaxed), 1);
    assert!(fs.write_back().unwrap());
    assert!(!fs.write_back().unwrap());
    assert_eq!(fs.statistics().dirty_bytes, 0);
}

/// Writes a mebibyte more before each of the next `left` groups is appended.
fn write_before_appends(fs: &Arc<Fs>, file: InodeNo, left: u64) {
    let Some(left) = left.checked_sub(1) else {
        return;
    };
    let again = Arc::clone(fs);
    let hook = move || {
        let write = || again.t_write(file, (16 + left) << 20, &pattern(1 << 20, 3));
        std::thread::scope(|scope| _ = scope.spawn(write));
        write_before_appends(&again, file, left);
    };
    *fs.layout().during_append.lock() = Some(Box::new(hook));
}

/// Maintenance does more than write-back: a thread that writes as fast as write-back
/// proceeds must not delay the rest of it.
#[test]
fn maintenance_ends_while_somebody_writes_on() {
    let options = Options {
        cache_bytes: 64 << 20,
        ..Default::default()
    };
    let fs = Arc::new(fresh_with(MemoryOptions::default(), options));
    let file = fs.t_file("f", &pattern(9 << 20, 1));
    write_before_appends(&fs, file, 60);
    fs.maintain().unwrap();
    assert!(group_count(&fs) <= 12, "{} groups", group_count(&fs));
    assert!(fs.statistics().dirty_bytes > 4 << 20);
    *fs.layout().during_append.lock() = None; // it references the file system
}

#[test]
fn writers_stop_when_too_much_is_dirty() {
    let options = Options {
        cache_bytes: 4 << 20,
        ..Default::default()
    };
    let fs = fresh_with(MemoryOptions::default(), options);
    let data = pattern(20 << 20, 1);
    let f = fs.t_file("f", &data);
    let statistics = fs.statistics();
    assert!(
        statistics.stalls > 0 && statistics.dirty_bytes < 5 << 20,
        "{statistics:?}"
    );
    assert!(fs.t_read(f) == data);
    assert!(fs.statistics().cached_bytes <= 4 << 20);
}

#[test]
fn after_a_failed_write_nothing_is_written_and_reads_go_on() {
    for append in [true, false] {
        let fs = fresh();
        let f = fs.t_file("f", &pattern(9_000, 1));
        fs.t_fsync(f);
        fs.t_write(f, 0, b"lost");
        let fault = if append {
            &fs.layout().fail_append
        } else {
            &fs.layout().fail_commit
        };
        fault.store(true, Relaxed);
        assert!(fs.fsync(f, false).is_err());
        fault.store(false, Relaxed);
        assert!(
            fs.fsync(f, false).is_err(),
            "a failed flush is never retried"
        );
        // Lost data is EIO, a refused change is EROFS.
        assert_eq!(fs.fsync(f, false).unwrap_err().errno(), 5);
        assert_eq!(fs.sync().unwrap_err().errno(), 5);
        let write = fs.write(&Caller::root(), f, 0, b"x");
        assert!(matches!(write, Err(Error::ReadOnly(_))));
        let rename = fs.t_rename("f", "g");
        assert!(matches!(rename, Err(Error::ReadOnly(_))));
        assert_eq!(&fs.t_read(f)[..4], b"lost");
        assert!(fs.unmount().is_err());
        assert_eq!(crash(&fs, None).t_read(f), pattern(9_000, 1));
    }
}

#[test]
fn a_read_only_volume_is_read() {
    let fs = fresh();
    let f = fs.t_file("f", b"content");
    fs.unmount().unwrap();
    let memory = fs.layout().memory();
    memory.refuse_writes("the test");
    let fs = Fs::mount(Recorder::new(memory.crash()), clock(), Options::default()).unwrap();
    assert_eq!(fs.t_read(f), b"content");
    let memory = fs.layout().memory();
    memory.refuse_writes("the test");
    let layout = Arc::clone(fs.layout());
    let fs = Fs::mount(layout, clock(), Options::default()).unwrap();
    assert_eq!(fs.t_content("f"), b"content");
    let made = fs.mknod(&Caller::root(), ROOT, b"x", 0o644, 0);
    assert!(matches!(made, Err(Error::ReadOnly(_))));
    assert!(matches!(
        fs.access(&Caller::root(), f, 2),
        Err(Error::ReadOnly(_))
    ));
    fs.unmount().unwrap();
}

#[test]
fn a_size_is_never_ahead_of_its_data() {
    let fs = fresh_with(
        MemoryOptions {
            group_bytes: 16_384,
            ..Default::default()
        },
        Options {
            cache_bytes: 1 << 20,
            ..Default::default()
        },
    );
    fs.layout().dense.store(true, Relaxed);
    for round in 0..20u32 {
        for n in 0..6 {
            let name = format!("f{n}");
            let f = fs
                .t_lookup(&name)
                .unwrap_or_else(|_| fs.t_create(ROOT, &name).ino);
            fs.append(&Caller::root(), f, &pattern(3_000 * (n + 1), round as u8))
                .unwrap();
            if (round + n as u32).is_multiple_of(3) {
                fs.link(&Caller::root(), f, ROOT, format!("l{round}-{n}").as_bytes())
                    .unwrap();
            }
            if (round + n as u32).is_multiple_of(7) {
                let size = fs.getattr(f).unwrap().size;
                fs.t_truncate(f, size / 2);
            }
        }
        match round % 3 {
            0 => fs.t_fsync(ROOT),
            1 => fs.t_fsync(fs.t_lookup("f3").unwrap()),
            _ => while fs.write_back().unwrap() {},
        }
    }
    fs.sync().unwrap();
}

#[test]
fn access_times_wait_for_a_reason() {
    let fs = fresh();
    let f = fs.t_file("f", b"x");
    fs.sync().unwrap();
    let before = fs.getattr(f).unwrap();
    fs.t_read(f);
    let read = fs.getattr(f).unwrap();
    assert!(
        read.atime > before.atime,
        "relatime: read since the last change"
    );
    fs.t_read(f);
    assert_eq!(fs.getattr(f).unwrap().atime, read.atime, "and only once");
    let groups = group_count(&fs);
    fs.sync().unwrap();
    fs.drop_caches();
    assert_eq!(group_count(&fs), groups, "never written alone");
    fs.checkpoint().unwrap();
    assert_eq!(crash(&fs, None).getattr(f).unwrap().atime, read.atime);
}

#[test]
fn strict_access_times_follow_every_read() {
    for (atime, of_directories) in [(Atime::Strict, true), (Atime::StrictOfFiles, false)] {
        let options = Options {
            relatime: atime,
            ..Options::default()
        };
        let fs = fresh_with(MemoryOptions::default(), options);
        let f = fs.t_file("f", b"x");
        let atime = |ino| fs.getattr(ino).unwrap().atime;
        for _ in 0..3 {
            let before = atime(f);
            fs.t_read(f);
            assert!(atime(f) > before);
        }
        let list = || drop(fs.t_names(ROOT));
        list();
        let before = atime(ROOT);
        list();
        assert_eq!(atime(ROOT) > before, of_directories);
        let groups = group_count(&fs);
        fs.t_read(f);
        let read = atime(f);
        fs.sync().unwrap();
        fs.drop_caches();
        assert!(group_count(&fs) <= groups + 1, "never written alone");
        fs.checkpoint().unwrap();
        assert_eq!(crash(&fs, None).getattr(f).unwrap().atime, read);
    }
}

#[test]
fn both_halves_of_a_rename_are_in_one_group() {
    let fs = fresh();
    let (d, e) = (fs.t_mkdir(ROOT, "d"), fs.t_mkdir(ROOT, "e"));
    let f = fs.t_create(d, "f").ino;
    fs.sync().unwrap();
    let mv = Rename::default();
    fs.rename(&Caller::root(), d, b"f", e, b"g", mv).unwrap();
    fs.t_fsync(f);
    let memory = fs.layout().memory();
    for position in memory.committed().0..=memory.appended().0 {
        let after = crash(&fs, Some(crate::Position(position)));
        assert_eq!(after.t_names(d).len() + after.t_names(e).len(), 1);
    }
}

#[test]
fn a_whiteout_comes_with_its_rename() {
    let fs = fresh();
    let (d, e) = (fs.t_mkdir(ROOT, "d"), fs.t_mkdir(ROOT, "e"));
    let f = fs.t_create(d, "f").ino;
    fs.sync().unwrap();
    let whiteout = Rename {
        whiteout: true,
        ..Rename::default()
    };
    fs.rename(&Caller::root(), d, b"f", e, b"g", whiteout)
        .unwrap();
    fs.t_fsync(f);
    let memory = fs.layout().memory();
    let mut seen = Vec::new();
    for position in memory.committed().0..=memory.appended().0 {
        let after = crash(&fs, Some(crate::Position(position)));
        let old = after.lookup(&Caller::root(), d, b"f").unwrap();
        let moved = after.t_names(e) == ["g"];
        let kind = if moved {
            FileKind::CharDevice
        } else {
            FileKind::Regular
        };
        assert_eq!((old.kind, old.rdev, old.nlink), (kind, 0, 1));
        seen.push(moved);
    }
    assert_eq!(seen.last(), Some(&true));
}

/// Runs `meddle` in another thread while the next group is being appended.
fn while_appending(fs: &Arc<Fs>, meddle: impl FnOnce(&Fs) + Send + 'static) {
    let weak = Arc::downgrade(fs);
    let hook = move || {
        let fs = weak.upgrade().unwrap();
        std::thread::spawn(move || meddle(&fs)).join().unwrap();
    };
    *fs.layout().during_append.lock() = Some(Box::new(hook));
}

#[test]
fn what_is_on_its_way_is_not_forgotten() {
    let fs = Arc::new(fresh());
    let d = fs.t_mkdir(ROOT, "d");
    let f = fs.t_create(d, "f").ino;
    while_appending(&fs, move |fs| {
        fs.drop_caches();
        assert_eq!(fs.getattr(f).unwrap().nlink, 1);
        assert_eq!(fs.t_names(d), ["f"]);
    });
    fs.sync().unwrap();
    assert_eq!(fs.t_names(d), ["f"]);
}

#[test]
fn what_changes_while_it_is_on_its_way_stays_dirty() {
    let fs = Arc::new(fresh());
    let f = fs.t_file("f", &pattern(20_000, 1));
    let g = fs.t_file("g", &pattern(20_000, 2));
    let h = fs.t_file("h", &pattern(20_000, 3));
    while_appending(&fs, move |fs| {
        fs.t_write(f, 4096, b"new");
        fs.t_truncate(g, 5_000);
        fs.t_unlink("h");
        fs.fallocate(&Caller::root(), f, 3, 8192, 4096).unwrap();
    });
    fs.sync().unwrap();
    assert!(matches!(fs.getattr(h), Err(Error::Stale)));
    let mut expected = pattern(20_000, 1);
    expected[4096..4099].copy_from_slice(b"new");
    expected[8192..12_288].fill(0);
    for _ in 0..2 {
        fs.drop_caches();
        assert_eq!(fs.t_read(f), expected);
        assert_eq!(fs.t_read(g), pattern(20_000, 2)[..5_000]);
        assert!(matches!(fs.getattr(h), Err(Error::Stale)));
        fs.sync().unwrap();
    }
    let after = crash(&fs, None);
    assert_eq!(after.t_read(f), expected);
    assert_eq!(after.t_read(g), pattern(20_000, 2)[..5_000]);
    assert!(matches!(after.getattr(h), Err(Error::Stale)));
    assert_eq!(fs.layout().usage(), fs.usage());
}

#[test]
fn a_large_file_is_logged_piece_by_piece() {
    let memory = MemoryOptions {
        group_bytes: 16_384,
        ..Default::default()
    };
    for fsync in [false, true] {
        let fs = fresh_with(memory.clone(), Options::default());
        fs.layout().dense.store(true, Relaxed);
        let data = pattern(200_000, 1);
        let f = fs.t_file("f", &data);
        if fsync {
            fs.t_fsync(f);
        } else {
            fs.sync().unwrap();
        }
        let last = fs.layout().memory().appended().0;
        assert!(last > 10, "{last} groups");
        let groups = fs.layout().groups.lock().clone();
        let memory = MemoryLayout::new(memory.clone());
        memory
            .allocate_inode(InodeNo::ROOT, FileKind::Regular)
            .unwrap();
        for group in groups {
            memory.append(group).unwrap();
            let crashed = memory.crash_after(memory.appended());
            let after = Fs::mount(Recorder::new(crashed), clock(), Options::default()).unwrap();
            if let Ok(f) = after.t_lookup("f") {
                let found = after.t_read(f);
                assert!(found == data[..found.len()], "{} bytes", found.len());
            }
        }
    }
}

#[test]
fn an_fsync_waits_for_the_group_that_is_on_its_way() {
    let fs = Arc::new(fresh());
    let f = fs.t_create(ROOT, "f").ino;
    let (weak, (send, receive)) = (Arc::downgrade(&fs), std::sync::mpsc::channel());
    let hook = move || {
        let fs = weak.upgrade().unwrap();
        let wait = std::thread::spawn(move || {
            fs.t_fsync(f);
            assert_eq!(crash(&fs, None).t_names(ROOT), ["f"]);
        });
        std::thread::sleep(Duration::from_millis(50));
        send.send(wait).unwrap();
    };
    *fs.layout().during_append.lock() = Some(Box::new(hook));
    fs.append_all(Cause::WriteBack).unwrap();
    receive.recv().unwrap().join().unwrap();
}
