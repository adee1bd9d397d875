//! Space: an admitted operation fits, a full volume can be read, emptied and overwritten,
//! and the account is right.

use super::harness::*;
use crate::{
    Caller, Error, FileSystem, HeldTimes, Layout, MemoryOptions, Options, Purpose, SetAttr, Usage,
};
use std::sync::atomic::Ordering::Relaxed;

fn small(capacity_bytes: u64) -> Fs {
    let memory = MemoryOptions {
        capacity_bytes,
        ..Default::default()
    };
    fresh_with(
        memory,
        Options {
            cache_bytes: 8 << 20,
            ..Default::default()
        },
    )
}

#[test]
fn a_volume_fills_up_and_is_emptied_again() {
    let fs = small(4 << 20);
    let mut made = 0;
    let refused = loop {
        let name = format!("f{made}");
        let file = fs.mknod(&Caller::root(), ROOT, name.as_bytes(), 0o644, 0);
        let written = file.and_then(|f| fs.write(&Caller::root(), f.ino, 0, &[1; 20_000]));
        match written {
            Ok(20_000) => made += 1,
            Ok(short) => panic!("{short} bytes of one chunk"),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::NoSpace));
    assert!(made > 150, "{made} files");
    fs.sync().unwrap();
    let name = |n: i32| format!("f{n}");
    fs.t_rename(&name(0), "renamed").unwrap();
    fs.t_truncate(fs.t_lookup(&name(1)).unwrap(), 5_000);
    let f2 = fs.t_lookup(&name(2)).unwrap();
    fs.t_write(f2, 4096, &[2; 4096]);
    fs.setattr(
        &Caller::root(),
        f2,
        &SetAttr {
            mode: Some(0o600),
            ..Default::default()
        },
    )
    .unwrap();
    let free = fs.statfs().free;
    fs.t_unlink(&name(3));
    assert!(fs.statfs().free >= free + 5, "space comes back at once");
    fs.t_write(f2, 20_000, &[3; 5_000]);
    for entry in fs.t_names(ROOT) {
        fs.t_unlink(&entry);
    }
    fs.unmount().unwrap();
    assert_eq!(
        fs.usage(),
        Usage {
            inodes: 1,
            blocks: 0,
            sectors: 0
        }
    );
    assert_eq!(fs.layout().usage(), fs.usage());
}

#[test]
fn a_full_volume_is_overwritten_and_not_grown() {
    let fs = fresh();
    let f = fs.t_file("f", &pattern(20_000, 1));
    fs.sync().unwrap();
    *fs.layout().limit.lock() = Some(fs.usage());
    let grow = fs.write(&Caller::root(), f, 1 << 20, &[1; 4096]);
    assert!(matches!(grow, Err(Error::NoSpace)));
    fs.t_write(f, 100, &[9; 12_000]);
    let mut expected = pattern(20_000, 1);
    expected[100..12_100].fill(9);
    assert_eq!(fs.t_read(f), expected);
    fs.unmount().unwrap();
}

#[test]
fn usage_follows_every_change() {
    let fs = fresh();
    let f = fs.t_file("f", &pattern(100_000, 1));
    let caller = Caller::root();
    let check = |fs: &Fs, step: &str| {
        let before = fs.usage();
        fs.sync().unwrap();
        assert_eq!(fs.usage(), before, "{step}: logging changes nothing");
        assert_eq!(fs.layout().usage(), before, "{step}: as the layout counts");
    };
    check(&fs, "write");
    fs.t_write(f, 100, &[1; 8000]);
    check(&fs, "overwrite");
    fs.fallocate(&caller, f, 3, 8192, 16_384).unwrap();
    fs.t_write(f, 9_000, b"in the hole");
    check(&fs, "punch");
    fs.fallocate(&caller, f, 0, 0, 300_000).unwrap();
    fs.t_write(f, 200_000, b"in the reservation");
    check(&fs, "reserve");
    fs.fallocate(&caller, f, 16, 50_000, 100_000).unwrap();
    fs.fallocate(&caller, f, 3, 60_000, 10_000).unwrap();
    check(&fs, "zero, and punch of the reserved");
    fs.setxattr(&caller, f, b"user.x", &[1; 3_000], false, false)
        .unwrap();
    check(&fs, "xattr");
    fs.setxattr(&caller, f, b"user.x", &[1; 30], false, true)
        .unwrap();
    check(&fs, "smaller xattr");
    fs.t_truncate(f, 70_000);
    check(&fs, "truncate");
    fs.t_write(f, 0, &pattern(50_000, 4));
    fs.fallocate(&caller, f, 3, 0, 4096).unwrap();
    fs.t_unlink("f");
    check(&fs, "unlink");
    assert_eq!(
        fs.usage(),
        Usage {
            inodes: 1,
            blocks: 0,
            sectors: 0
        }
    );
}

#[test]
fn refused_operations_change_nothing() {
    let fs = fresh();
    let f = fs.t_file("f", b"x");
    fs.sync().unwrap();
    *fs.layout().limit.lock() = Some(fs.usage());
    let before = (
        fs.usage(),
        fs.getattr(ROOT).unwrap(),
        fs.getattr(f).unwrap(),
    );
    let caller = Caller::root();
    assert!(fs.mkdir(&caller, ROOT, b"d", 0o755).is_err());
    assert!(fs.symlink(&caller, ROOT, b"s", b"target").is_err());
    assert!(fs.link(&caller, f, ROOT, b"l").is_err());
    assert!(fs.tmpfile(&caller, ROOT, 0o600).is_err());
    assert!(fs.write(&caller, f, 0, &[1; 5_000]).is_err());
    assert!(
        fs.setxattr(&caller, f, b"user.x", b"y", false, false)
            .is_err()
    );
    assert!(fs.fallocate(&caller, f, 0, 0, 100_000).is_err());
    let after = (
        fs.usage(),
        fs.getattr(ROOT).unwrap(),
        fs.getattr(f).unwrap(),
    );
    assert_eq!(before, after);
    fs.t_rename("f", "g").unwrap();
    fs.removexattr(&caller, f, b"user.x").unwrap_err();
    fs.t_unlink("g");
    fs.unmount().unwrap();
}

#[test]
fn an_attribute_is_looked_for_before_space_is() {
    let fs = fresh();
    let f = fs.t_file("f", b"x");
    let (root, other) = (Caller::root(), user(1000));
    fs.setxattr(&root, f, b"user.there", b"y", false, false)
        .unwrap();
    fs.sync().unwrap();
    *fs.layout().limit.lock() = Some(fs.usage());
    let set = |caller: &Caller, name: &str, create, replace| {
        let value = [1; 5_000];
        fs.setxattr(caller, f, name.as_bytes(), &value, create, replace)
    };
    assert!(matches!(
        set(&root, "user.there", true, false),
        Err(Error::Exists)
    ));
    assert!(matches!(
        set(&root, "user.new", false, true),
        Err(Error::NoAttribute)
    ));
    assert!(matches!(
        set(&other, "user.new", false, false),
        Err(Error::AccessDenied)
    ));
    for (name, create, replace) in [("user.new", true, false), ("user.there", false, true)] {
        assert!(
            matches!(set(&root, name, create, replace), Err(Error::NoSpace)),
            "{name}"
        );
    }
    let same = fs.setxattr(&root, f, b"user.there", b"z", false, true);
    assert!(same.is_ok(), "a value of the same length: {same:?}");
    fs.unmount().unwrap();
}

#[test]
fn memory_does_not_grow_with_files_that_are_gone() {
    let fs = fresh();
    for round in 0..50 {
        for n in 0..10 {
            let f = fs.t_file(&format!("f{n}"), &pattern(500, n));
            if round % 2 == 0 {
                fs.t_fsync(f);
            }
        }
        for n in 0..10 {
            fs.t_unlink(&format!("f{n}"));
        }
        fs.sync().unwrap();
        let statistics = fs.statistics();
        assert_eq!((statistics.vnodes, statistics.dirty_bytes), (1, 0));
    }
}

#[test]
fn what_is_freed_in_steps_counts_as_free_at_once() {
    let mut fs = small(4 << 20);
    fs.settings.step_blocks = 8;
    let size = 2 << 20;
    let empty = fs.statfs().free;
    for round in 0..2 {
        let f = fs.t_file("f", &pattern(size, 1));
        fs.sync().unwrap();
        let full = fs.statfs().free;
        assert!(full + 500 < empty);
        if round == 0 {
            fs.t_unlink("f");
        } else {
            fs.t_truncate(f, 10);
        }
        assert!(fs.statfs().free > full + 500, "round {round}");
        // Nothing has been freed yet, and only the writer can do it.
        let g = fs.t_file("g", &pattern(size, 2));
        assert_eq!(fs.t_read(g), pattern(size, 2));
        fs.t_unlink("g");
        fs.sync().unwrap();
    }
}

/// A step may be refused when its space is used up; the file waits for the next step, in
/// this mount and in the next.
#[test]
fn a_step_without_room_is_taken_later() {
    let mut fs = small(4 << 20);
    fs.settings.step_blocks = 8;
    let empty = fs.statfs().free;
    fs.t_file("f", &pattern(2 << 20, 1));
    fs.sync().unwrap();
    fs.t_unlink("f");
    fs.sync().unwrap();
    let free = fs.statfs().free;
    assert!(free >= empty, "what waits counts as free");
    fs.layout().without_reserve.store(true, Relaxed);
    for _ in 0..3 {
        assert!(!fs.reap_step().unwrap());
    }
    assert_eq!(fs.statfs().free, free, "it is still waited for");
    assert!(fs.usage().blocks > 500);
    fs.unmount().unwrap();

    let again = Recorder::new(fs.layout().memory().crash());
    again.without_reserve.store(true, Relaxed);
    let mut again = FileSystem::mount(again, clock(), Options::default()).unwrap();
    again.settings.step_blocks = 8;
    assert!(again.usage().blocks > 500);
    again.layout().without_reserve.store(false, Relaxed);
    again.unmount().unwrap();
    assert_eq!((again.usage().inodes, again.usage().blocks), (1, 0));
}

#[test]
fn held_writes_have_room_that_nothing_else_gets() {
    let fs = small(4 << 20);
    let caller = Caller::root();
    fs.keep_room(1 << 20);
    let f = fs.t_file("f", &pattern(20_000, 1));
    let mut end = 20_480;
    while let Ok(n) = fs.write(&caller, f, end, &[1; 40_960]) {
        end += n as u64;
    }
    assert!((2_900_000..3 << 20).contains(&end), "{end} bytes fit");
    assert!(fs.available() < 12 && fs.statfs().free >= 256);
    while fs.available() > 0 {
        fs.t_write(f, end, &[1; 4096]);
        end += 4096;
    }
    // Operations that grow the tree are refused, all other ones succeed.
    let made = fs.mknod(&caller, ROOT, b"g", 0o644, 0);
    assert!(matches!(made, Err(Error::NoSpace)));
    assert!(matches!(
        fs.fallocate(&caller, f, 0, end, 40_960),
        Err(Error::NoSpace)
    ));
    fs.t_write(f, 0, &[2; 20_000]);
    fs.t_rename("f", "h").unwrap();
    // A held write succeeds, and reports its use of the reserve; one that does not grow
    // the tree does not need it.
    let held = |at: u64| fs.write_held(&caller, f, at, &[3; 40_960], HeldTimes::HandedOver);
    assert!(!held(0).unwrap().used_kept_room);
    let mut used = 0;
    let refused = loop {
        match held(end) {
            Ok(held) => assert!(held.used_kept_room),
            Err(error) => break error,
        }
        end += 40_960;
        used += 40_960;
    };
    assert!(matches!(refused, Error::NoSpace));
    assert!(
        (900_000..1 << 20).contains(&used),
        "{used} bytes of held writes"
    );
    assert!(!held(8192).unwrap().used_kept_room);
    fs.t_truncate(f, 1 << 20);
    assert!(fs.available() > 400);
    assert!(!held(1 << 20).unwrap().used_kept_room);
    fs.unmount().unwrap();
}

/// A dozen writers that asked for a mebibyte each, and would be refused, made the layout
/// refuse an unlink.
#[test]
fn removing_a_name_needs_no_room_for_writes_that_wait_for_their_answer() {
    let fs = std::sync::Arc::new(small(64 << 20));
    fs.t_file("gone", &[1; 100]);
    let big = fs.t_file("big", &[1; 100]);
    fs.sync().unwrap();
    let other = std::sync::Arc::clone(&fs);
    *fs.layout().during_admit.lock() = Some(Box::new(move || {
        other.unlink(&Caller::root(), ROOT, b"gone").unwrap();
    }));
    fs.write(&Caller::root(), big, 0, &[1; 1 << 20]).unwrap();
    let asked = *fs.layout().shrinking.lock();
    assert!(asked.certain() + asked.asked < 64 << 10, "{asked:?}");
}

/// The space promised to each of a dozen running removals was denied to the cleaner,
/// until it could gain nothing and a removal was refused.
#[test]
fn where_room_is_short_removals_take_turns() {
    for take_turns in [false, true] {
        let fs = small(4 << 20);
        fs.t_file("gone", &[1; 100]);
        fs.layout().take_turns.store(take_turns, Relaxed);
        let operation = fs.begin(Usage::default(), 0, Purpose::Rewrite).unwrap();
        std::thread::scope(|scope| {
            let removal = scope.spawn(|| fs.t_unlink("gone"));
            if take_turns {
                std::thread::sleep(std::time::Duration::from_millis(50));
                assert!(!removal.is_finished(), "it waits for who is under way");
                drop(operation);
                removal.join().unwrap();
            } else {
                removal.join().unwrap();
                drop(operation);
            }
        });
        let asked = *fs.layout().shrinking.lock();
        assert_eq!(asked.operations, if take_turns { 1 } else { 2 });
        assert!(fs.t_lookup("gone").is_err());
    }
}
