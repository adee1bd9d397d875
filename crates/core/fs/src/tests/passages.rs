//! The path cache: a cached path leads to the same directory as a walk, and for the same
//! callers.

use super::harness::*;
use crate::{Caller, Error, FileKind, InodeNo, MemoryOptions, Options, Rename, Result, SetAttr};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn enter_as(fs: &Fs, caller: &Caller, path: &str) -> Result<Option<InodeNo>> {
    let entered = fs.directory_at(caller, path.as_bytes())?;
    if let Some(ino) = entered.filter(|ino| *ino != ROOT) {
        fs.release(ino, 1);
    }
    Ok(entered)
}

fn enter(fs: &Fs, path: &str) -> Result<Option<InodeNo>> {
    enter_as(fs, &Caller::root(), path)
}

/// Looks a path up until it is cached.
fn learn(fs: &Fs, path: &str) -> InodeNo {
    let before = fs.statistics().passages;
    let ino = enter(fs, path).unwrap().unwrap();
    assert_eq!(enter(fs, path).unwrap(), Some(ino));
    assert_eq!(fs.statistics().passages, before + 1, "{path} is remembered");
    ino
}

/// Makes the directories `/a/b/c`.
fn three(fs: &Fs) -> [InodeNo; 3] {
    let a = fs.t_mkdir(ROOT, "a");
    let b = fs.t_mkdir(a, "b");
    [a, b, fs.t_mkdir(b, "c")]
}

fn move_within(fs: &Fs, parents: (InodeNo, InodeNo), names: (&str, &str), flags: Rename) {
    let (from, to) = (names.0.as_bytes(), names.1.as_bytes());
    fs.rename(&Caller::root(), parents.0, from, parents.1, to, flags)
        .unwrap();
}

#[test]
fn a_way_is_gone_without_look_ups() {
    let fs = fresh();
    let [_, _, c] = three(&fs);
    assert_eq!(learn(&fs, "/a/b/c"), c);
    let before = fs.statistics();
    assert_eq!(enter(&fs, "/a/b/c").unwrap(), Some(c));
    let after = fs.statistics();
    assert_eq!(after.lookups, before.lookups);
    assert_eq!(after.passages, before.passages + 1);
    // Changes of files in the path's directories do not invalidate it.
    fs.t_file("a file", b"x");
    fs.t_rename("a file", "another").unwrap();
    fs.t_unlink("another");
    assert_eq!(enter(&fs, "/a/b/c").unwrap(), Some(c));
    assert_eq!(fs.statistics().passages, before.passages + 2);
}

#[test]
fn only_plain_ways_are_walked() {
    let fs = fresh();
    let [a, ..] = three(&fs);
    fs.t_file("f", b"x");
    fs.symlink(&Caller::root(), ROOT, b"l", b"a").unwrap();
    assert_eq!(enter(&fs, "").unwrap(), Some(ROOT));
    assert_eq!(enter(&fs, "//").unwrap(), Some(ROOT));
    assert_eq!(enter(&fs, "//a//").unwrap(), Some(a));
    for other in ["l", "l/b", "a/..", "./a", "a/b/./c"] {
        assert_eq!(enter(&fs, other).unwrap(), None, "{other}");
    }
    assert!(matches!(enter(&fs, "f"), Err(Error::NotDirectory)));
    assert!(matches!(enter(&fs, "f/x"), Err(Error::NotDirectory)));
    assert!(matches!(enter(&fs, "a/x"), Err(Error::NotFound)));
    let long = "x".repeat(256);
    assert!(matches!(enter(&fs, &long), Err(Error::NameTooLong)));
}

/// Walks the path name by name, as one caller.
fn walk_to_directory(fs: &Fs, caller: &Caller, path: &str) -> Result<Option<InodeNo>> {
    let mut at = ROOT;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        if matches!(name, "." | "..") {
            return Ok(None);
        }
        let found = fs.lookup(caller, at, name.as_bytes())?;
        match found.kind {
            FileKind::Directory => at = found.ino,
            FileKind::Symlink => return Ok(None),
            _ => return Err(Error::NotDirectory),
        }
    }
    Ok(Some(at))
}

/// The first error on the path is reported, as by a walk.
#[test]
fn errors_are_those_of_a_walk() {
    let fs = fresh();
    let [a, b, _] = three(&fs);
    fs.t_file("f", b"x");
    fs.symlink(&Caller::root(), a, b"l", b"b").unwrap();
    let closed = SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    };
    fs.setattr(&Caller::root(), b, &closed).unwrap();
    let long = "x".repeat(256);
    let names = ["a", "b", "c", "f", "l", "none", ".", "..", "", &long];
    let mut seen = std::collections::BTreeSet::new();
    for caller in [Caller::root(), user(1000)] {
        for n in 0..names.len().pow(4) {
            let name = |place: u32| names[n / names.len().pow(place) % names.len()];
            let path = [0, 1, 2, 3].map(name).join("/");
            let walked = format!("{:?}", walk_to_directory(&fs, &caller, &path));
            for _ in 0..2 {
                let entered = format!("{:?}", enter_as(&fs, &caller, &path));
                assert_eq!(entered, walked, "{path}");
            }
            seen.insert(walked);
        }
    }
    assert!(seen.len() >= 9, "{seen:?}");
}

#[test]
fn a_way_ends_with_any_of_its_names() {
    let fs = fresh();
    let [a, b, c] = three(&fs);
    let plain = Rename::default();
    learn(&fs, "a/b/c");
    move_within(&fs, (b, b), ("c", "d"), plain);
    assert!(matches!(enter(&fs, "a/b/c"), Err(Error::NotFound)));
    assert_eq!(learn(&fs, "a/b/d"), c);
    move_within(&fs, (a, ROOT), ("b", "b"), plain);
    assert!(matches!(enter(&fs, "a/b/d"), Err(Error::NotFound)));
    assert_eq!(learn(&fs, "b/d"), c);
    // Another directory replaces it, and is removed.
    let other = fs.t_mkdir(ROOT, "other");
    let swap = Rename {
        exchange: true,
        ..plain
    };
    move_within(&fs, (ROOT, ROOT), ("other", "b"), swap);
    assert_eq!(learn(&fs, "b"), other);
    assert_eq!(learn(&fs, "other/d"), c);
    fs.rmdir(&Caller::root(), ROOT, b"b").unwrap();
    assert!(matches!(enter(&fs, "b"), Err(Error::NotFound)));
    fs.t_file("b", b"no directory");
    assert!(matches!(enter(&fs, "b"), Err(Error::NotDirectory)));
    // Replaced by a rename.
    let (from, to) = (fs.t_mkdir(ROOT, "from"), fs.t_mkdir(ROOT, "to"));
    assert_eq!(learn(&fs, "to"), to);
    move_within(&fs, (ROOT, ROOT), ("from", "to"), plain);
    assert_eq!(learn(&fs, "to"), from);
}

#[test]
fn a_way_is_open_to_whom_it_was_open() {
    let fs = fresh();
    let [a, b, c] = three(&fs);
    learn(&fs, "a/b/c");
    let [alice, bob] = [user(1000), user(1001)];
    let set = |ino, set: SetAttr| fs.setattr(&Caller::root(), ino, &set).unwrap();
    let mode = |mode| SetAttr {
        mode: Some(mode),
        ..SetAttr::default()
    };
    set(b, mode(0o700));
    assert!(matches!(
        enter_as(&fs, &alice, "a/b/c"),
        Err(Error::AccessDenied)
    ));
    set(
        b,
        SetAttr {
            uid: Some(1000),
            ..SetAttr::default()
        },
    );
    for _ in 0..2 {
        assert_eq!(enter_as(&fs, &alice, "a/b/c").unwrap(), Some(c));
        // A path cached for one caller is not used for another.
        assert!(matches!(
            enter_as(&fs, &bob, "a/b/c"),
            Err(Error::AccessDenied)
        ));
    }
    let before = fs.statistics().passages;
    assert_eq!(enter_as(&fs, &alice, "a/b/c").unwrap(), Some(c));
    assert_eq!(fs.statistics().passages, before + 1, "remembered for her");
    // Closed by the mode of a directory above, closed by a list, opened again.
    set(a, mode(0o600));
    assert!(matches!(
        enter_as(&fs, &alice, "a/b/c"),
        Err(Error::AccessDenied)
    ));
    set(a, mode(0o755));
    assert_eq!(enter_as(&fs, &alice, "a/b/c").unwrap(), Some(c));
    assert_eq!(enter_as(&fs, &alice, "a/b/c").unwrap(), Some(c));
    let none = u32::MAX;
    let list = access_list(&[
        (0x01, 7, none),
        (0x02, 0, 1000),
        (0x04, 5, none),
        (0x10, 5, none),
        (0x20, 5, none),
    ]);
    let access = b"system.posix_acl_access";
    fs.setxattr(&Caller::root(), a, access, &list, false, false)
        .unwrap();
    assert!(matches!(
        enter_as(&fs, &alice, "a/b/c"),
        Err(Error::AccessDenied)
    ));
    fs.removexattr(&Caller::root(), a, access).unwrap();
    assert_eq!(enter_as(&fs, &alice, "a/b/c").unwrap(), Some(c));
}

#[test]
fn what_was_entered_is_held() {
    let fs = fresh();
    let [_, b, c] = three(&fs);
    learn(&fs, "a/b/c");
    let entered = fs.directory_at(&Caller::root(), b"a/b/c").unwrap();
    fs.rmdir(&Caller::root(), b, b"c").unwrap();
    assert_eq!(fs.getattr(c).unwrap().nlink, 0);
    assert!(matches!(enter(&fs, "a/b/c"), Err(Error::NotFound)));
    fs.release(entered.unwrap(), 1);
    assert!(matches!(fs.getattr(c), Err(Error::Stale)));
    fs.unmount().unwrap();
    assert_eq!(fs.usage().inodes, 3);
}

#[test]
fn memory_is_bounded_and_given_back() {
    let options = Options {
        cache_bytes: 16 << 20,
        ..Options::default()
    };
    let fs = fresh_with(MemoryOptions::default(), options);
    for n in 0..5000 {
        fs.t_mkdir(ROOT, &format!("d{n}"));
    }
    fs.sync().unwrap();
    for _ in 0..2 {
        for n in 0..5000 {
            enter(&fs, &format!("d{n}")).unwrap();
        }
        // Cached paths reference vnodes, but most vnodes must not be kept.
        fs.drop_caches();
        assert!(fs.statistics().vnodes <= 1, "{:?}", fs.statistics());
    }
    (0..5000).for_each(|n| assert!(enter(&fs, &format!("d{n}")).unwrap().is_some()));
    assert!(fs.statistics().vnodes < 4500, "{:?}", fs.statistics());
}

/// Walks the path name by name, as root.
fn walk(fs: &Fs, path: &str) -> Option<InodeNo> {
    let mut at = ROOT;
    for name in path.split('/') {
        let caller = Caller::root();
        at = fs.lookup(&caller, at, name.as_bytes()).ok()?.ino;
    }
    Some(at)
}

#[test]
fn random_changes_never_mislead() {
    for seed in seeds(1, 40) {
        eprintln!("seed {seed}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let fs = fresh();
        let paths: Vec<String> = ["a", "b", "c"]
            .iter()
            .flat_map(|one| {
                let two = ["a", "b"].map(|two| format!("{one}/{two}"));
                let three = two.clone().map(|two| format!("{two}/c"));
                [vec![(*one).to_owned()], two.into(), three.into()].concat()
            })
            .collect();
        let split = |path: &str| match path.rsplit_once('/') {
            Some((parent, name)) => (walk(&fs, parent), name.to_owned()),
            None => (Some(ROOT), path.to_owned()),
        };
        let caller = Caller::root();
        for _ in 0..400 {
            let [one, two] = [0; 2].map(|_| split(&paths[random.random_range(0..paths.len())]));
            let (Some(from), Some(to)) = (one.0, two.0) else {
                let _ = fs.mkdir(&caller, ROOT, b"a", 0o755);
                continue;
            };
            let (name, other) = (one.1.as_bytes(), two.1.as_bytes());
            let flags = Rename {
                exchange: random.random_bool(0.3),
                ..Rename::default()
            };
            // Most of these are refused, as they should be.
            let _ = match random.random_range(0..8) {
                0..=3 => fs.mkdir(&caller, from, name, 0o755).map(drop),
                4 => fs.rmdir(&caller, from, name),
                5 => {
                    fs.drop_caches();
                    Ok(())
                }
                _ => fs.rename(&caller, from, name, to, other, flags),
            };
            for path in &paths {
                assert_eq!(enter(&fs, path).ok().flatten(), walk(&fs, path), "{path}");
            }
        }
        assert!(fs.statistics().passages > 500, "{:?}", fs.statistics());
        fs.unmount().unwrap();
    }
}
