//! Snapshots of the volume: names, content, differences, former files.

use super::harness::*;
use crate::{Caller, Change, Error, Rename, Schedule, SetAttr, Timestamp};
use std::sync::Arc;

fn names(fs: &Fs) -> Vec<String> {
    let all = fs.snapshots().unwrap();
    all.into_iter().map(|snapshot| snapshot.name).collect()
}

#[test]
fn a_snapshot_has_what_was_written_and_nothing_later() {
    let fs = shared();
    let file = fs.t_file("file", &pattern(50_000, 1));
    let home = fs.t_mkdir(ROOT, "home");
    fs.t_create(home, "inner");
    let taken = fs.create_snapshot("monday").unwrap();
    assert_eq!(fs.statistics().dirty_bytes, 0, "it was appended first");
    fs.t_write(file, 10_000, &pattern(20_000, 9));
    fs.t_truncate(file, 40_000);
    fs.t_file("later", b"later");
    fs.unlink(&Caller::root(), home, b"inner").unwrap();
    fs.sync().unwrap();
    fs.layout().memory().move_blocks();
    let after = Arc::new(crash(&fs, None));
    for fs in [&fs, &after] {
        let tree = fs.at(taken.number).unwrap();
        assert_eq!(tree.t_names(ROOT), ["file", "home"]);
        assert_eq!(tree.t_content("file"), pattern(50_000, 1));
        assert_eq!(tree.t_names(home), ["inner"]);
        drop(tree);
        assert_eq!(fs.layout().memory().snapshots(), 0, "one was not released");
        assert_eq!(fs.statistics().transaction_aborts, 0);
        assert_eq!(names(fs), ["monday"]);
    }
}

#[test]
fn its_tree_takes_no_change() {
    let fs = shared();
    let file = fs.t_file("file", b"content");
    let number = fs.create_snapshot("s").unwrap().number;
    let tree = fs.at(number).unwrap();
    let caller = Caller::root();
    let set = SetAttr {
        size: Some(1),
        ..SetAttr::default()
    };
    let refused = [
        tree.write(&caller, file, 0, b"x").map(drop),
        tree.setattr(&caller, file, &set).map(drop),
        tree.setxattr(&caller, file, b"user.a", b"x", false, false),
        tree.mkdir(&caller, ROOT, b"d", 0o755).map(drop),
        tree.mknod(&caller, ROOT, b"f", 0o644, 0).map(drop),
        tree.symlink(&caller, ROOT, b"l", b"t").map(drop),
        tree.link(&caller, file, ROOT, b"h").map(drop),
        tree.unlink(&caller, ROOT, b"file"),
        tree.rename(&caller, ROOT, b"file", ROOT, b"g", Rename::default()),
        tree.fallocate(&caller, file, 0, 0, 10_000),
        tree.create_snapshot("within").map(drop),
        tree.delete_snapshots(&[number]),
        tree.tree().begin_transaction(&Default::default()).map(drop),
    ];
    for (nth, answer) in refused.into_iter().enumerate() {
        let text = answer.unwrap_err().to_string();
        assert_eq!(text, "the volume is read-only: it is a snapshot", "{nth}");
    }
    assert_eq!(tree.t_content("file"), b"content");
    assert_eq!(fs.statistics().transactions_open, 0);
}

#[test]
fn names_are_checked() {
    let fs = shared();
    let long = "n".repeat(256);
    for name in ["a/b", "@-2h", "@", ".", "..", "a\nb", "a\0", &long] {
        let refused = fs.create_snapshot(name);
        assert!(matches!(refused, Err(Error::Invalid(_))), "{name}");
    }
    let first = fs.create_snapshot(&long[1..]).unwrap();
    fs.create_snapshot("a b@\u{e4}").unwrap();
    fs.create_snapshot("").unwrap();
    let automatic = fs.create_snapshot("").unwrap();
    assert!(automatic.is_automatic() && !first.is_automatic());
    let again = fs.create_snapshot("a b@\u{e4}");
    assert!(matches!(again, Err(Error::SnapshotExists)));
    let again = fs.rename_snapshot(first.number, "a b@\u{e4}");
    assert!(matches!(again, Err(Error::SnapshotExists)));
    let unnamed = fs.rename_snapshot(first.number, "");
    assert!(matches!(unnamed, Err(Error::Invalid(_))));
    fs.rename_snapshot(automatic.number, "kept").unwrap();
    fs.rename_snapshot(first.number, "first").unwrap();
    assert_eq!(names(&fs), ["first", "a b@\u{e4}", "", "kept"]);
    assert_eq!(fs.snapshot_named("kept").unwrap().number, automatic.number);
    assert!(matches!(fs.snapshot_named(""), Err(Error::NoSuchSnapshot)));
    assert!(matches!(fs.snapshot_named("x"), Err(Error::NoSuchSnapshot)));
}

#[test]
fn a_time_means_the_newest_that_is_not_younger() {
    let fs = shared();
    let mut taken = Vec::new();
    for day in 1..=3 {
        let ctime = Some(Timestamp {
            seconds: 1_000_000_000 + day * 86_400,
            nanos: 7,
        });
        let set = SetAttr {
            mode: Some(0o700 + day as u32),
            ctime,
            ..SetAttr::default()
        };
        fs.setattr(&Caller::root(), ROOT, &set).unwrap();
        taken.push(fs.create_snapshot("").unwrap());
    }
    for snapshot in &taken {
        let name = crate::show_time(snapshot.taken);
        assert_eq!(&fs.snapshot_named(&name).unwrap(), snapshot);
    }
    // The clock of these tests begins at 1,000,000,000.
    let missing = fs.snapshot_named("@-1s");
    assert!(matches!(missing, Err(Error::NoSuchSnapshot)), "{missing:?}");
    let latest = fs.snapshot_named("@2099-01-01T00:00").unwrap();
    assert_eq!(latest, taken[2]);
    assert!(matches!(fs.snapshot_named("@x"), Err(Error::Invalid(_))));
}

#[test]
fn a_deleted_one_is_gone_for_its_readers_too() {
    let fs = shared();
    fs.t_file("file", &pattern(50_000, 1));
    let one = fs.create_snapshot("one").unwrap().number;
    fs.t_write(fs.t_lookup("file").unwrap(), 0, &pattern(8192, 2));
    let two = fs.create_snapshot("two").unwrap().number;
    assert_eq!(fs.snapshot_bytes().unwrap(), [(one, 8192), (two, 0)]);
    let tree = fs.at(one).unwrap();
    let unknown = fs.delete_snapshots(&[one, two + 1]);
    assert!(matches!(unknown, Err(Error::NoSuchSnapshot)));
    assert_eq!(tree.t_names(ROOT), ["file"]);
    fs.delete_snapshots(&[one]).unwrap();
    assert!(matches!(tree.t_lookup("file"), Err(Error::Aborted)));
    assert!(matches!(fs.at(one), Err(Error::NoSuchSnapshot)));
    assert_eq!(names(&fs), ["two"]);
    let three = fs.create_snapshot("three").unwrap().number;
    assert!(three > two);
    fs.delete_snapshots(&[two, three]).unwrap();
    assert!(crash(&fs, None).create_snapshot("four").unwrap().number > three);
}

#[test]
fn unmounting_ends_its_trees() {
    let fs = shared();
    let number = fs.create_snapshot("s").unwrap().number;
    let tree = fs.at(number).unwrap();
    fs.unmount().unwrap();
    assert!(matches!(tree.t_lookup("x"), Err(Error::Aborted)));
    assert!(matches!(fs.at(number), Err(Error::Aborted)));
}

/// A difference as text: kind, paths, ranges.
fn shown(changes: Vec<Change>) -> Vec<String> {
    let show = |change: Change| {
        let text = |path: Vec<u8>| String::from_utf8(path).unwrap();
        let from = change.from.map(|from| format!("{} -> ", text(from)));
        let (kind, from) = (change.kind, from.unwrap_or_default());
        format!("{kind:?} {from}{} {:?}", text(change.path), change.ranges)
    };
    changes.into_iter().map(show).collect()
}

#[test]
fn a_difference_names_each_change_once() {
    let fs = shared();
    let caller = Caller::root();
    let home = fs.t_mkdir(ROOT, "home");
    let deep = fs.t_mkdir(home, "deep");
    let inner = fs.t_create(deep, "inner").ino;
    fs.t_write(inner, 0, &pattern(20_000, 1));
    fs.t_file("same", &pattern(9000, 1));
    fs.t_file("gone", b"x");
    fs.t_file("moved", b"x");
    let mode = fs.t_file("mode", b"x");
    let from = fs.create_snapshot("from").unwrap().number;
    assert_eq!(shown(fs.diff(from, None).unwrap()), [""; 0]);
    fs.t_write(inner, 5000, b"other");
    fs.t_truncate(inner, 19_000);
    fs.t_unlink("gone");
    fs.t_rename("moved", "renamed").unwrap();
    fs.t_rename("home", "house").unwrap();
    let new = fs.t_mkdir(ROOT, "new");
    let below = fs.t_mkdir(new, "below");
    let file = fs.t_create(below, "file").ino;
    fs.t_write(file, 0, &pattern(5000, 1));
    let set = SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    };
    fs.setattr(&caller, mode, &set).unwrap();
    let wanted = [
        "Removed /gone []",
        "Renamed /home -> /house []",
        "Modified /house/deep/inner [4096..8192, 19000..20000]",
        "Attributes /mode []",
        "Created /new []",
        "Created /new/below []",
        "Created /new/below/file [0..5000]",
        "Renamed /moved -> /renamed []",
    ];
    assert_eq!(shown(fs.diff(from, None).unwrap()), wanted);
    let to = fs.create_snapshot("to").unwrap().number;
    fs.t_unlink("same");
    assert_eq!(shown(fs.diff(from, Some(to)).unwrap()), wanted);
    assert_eq!(shown(fs.diff(to, None).unwrap()), ["Removed /same []"]);
    assert!(matches!(fs.diff(to, Some(from)), Err(Error::Invalid(_))));
}

#[test]
fn a_file_has_versions_and_a_directory_names_that_are_gone() {
    let fs = shared();
    let caller = Caller::root();
    let home = fs.t_mkdir(ROOT, "home");
    let file = fs.t_create(home, "file").ino;
    fs.t_write(file, 0, b"one");
    let first = fs.create_snapshot("first").unwrap();
    let second = fs.create_snapshot("second").unwrap();
    fs.t_write(file, 3, b"two");
    let third = fs.create_snapshot("third").unwrap();
    fs.t_write(file, 6, b"three");
    let versions = |fs: &Arc<Fs>| -> Vec<(Option<u32>, u64)> {
        let versions = fs.versions(&caller, b"/home/file").unwrap().into_iter();
        versions
            .map(|version| (version.snapshot.map(|s| s.number), version.attr.size))
            .collect()
    };
    let [one, three] = [Some(first.number), Some(third.number)];
    assert_eq!(versions(&fs), [(one, 3), (three, 6), (None, 11)]);
    assert!(fs.removed_names(&caller, b"/home").unwrap().is_empty());
    fs.unlink(&caller, home, b"file").unwrap();
    assert_eq!(versions(&fs), [(one, 3), (three, 6)]);
    let gone = |path: &[u8]| -> Vec<(Vec<u8>, u32)> {
        let removed = fs.removed_names(&caller, path).unwrap().into_iter();
        removed.map(|one| (one.name, one.snapshot.number)).collect()
    };
    assert_eq!(gone(b"/home"), [(b"file".to_vec(), third.number)]);
    fs.rmdir(&caller, ROOT, b"home").unwrap();
    assert_eq!(gone(b"home/"), [(b"file".to_vec(), third.number)]);
    assert_eq!(gone(b"/"), [(b"home".to_vec(), third.number)]);
    let newest = fs.newest_with(&caller, b"/home/file").unwrap();
    assert_eq!(newest, third);
    assert!(matches!(
        fs.newest_with(&caller, b"/x"),
        Err(Error::NotFound)
    ));
    // A part is restored with the directories above it.
    let txn = begin(&fs);
    let from = fs.at(second.number).unwrap();
    txn.restore(&caller, &from, b"/home/file").unwrap();
    txn.commit().unwrap();
    let found = fs.lookup_path(&caller, b"/home/file").unwrap();
    assert_eq!(fs.t_read(found.ino), b"one");
}

#[test]
fn what_a_user_may_not_read_is_not_restored_for_him() {
    let fs = shared();
    let file = fs.t_file("secret", b"secret");
    let set = SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    };
    fs.setattr(&Caller::root(), file, &set).unwrap();
    let home = fs.t_mkdir(ROOT, "home");
    let set = SetAttr {
        uid: Some(7),
        ..SetAttr::default()
    };
    fs.setattr(&Caller::root(), home, &set).unwrap();
    let own = fs.mknod(&user(7), home, b"own", 0o600, 0).unwrap().ino;
    fs.write(&user(7), own, 0, b"mine").unwrap();
    let from = fs.create_snapshot("s").unwrap().number;
    fs.unlink(&user(7), home, b"own").unwrap();
    fs.t_unlink("secret");
    let from = fs.at(from).unwrap();
    let txn = begin(&fs);
    txn.restore(&user(7), &from, b"/home/own").unwrap();
    let refused = txn.restore(&user(7), &from, b"/secret");
    assert!(matches!(refused, Err(Error::AccessDenied)), "{refused:?}");
    txn.commit().unwrap();
    let found = fs.lookup_path(&Caller::root(), b"/home/own").unwrap();
    assert_eq!((fs.t_read(found.ino), found.uid), (b"mine".to_vec(), 7));
}

#[test]
fn a_schedule_takes_and_deletes_snapshots() {
    let fs = shared();
    fs.keep_snapshots().unwrap();
    assert!(
        fs.snapshots().unwrap().is_empty(),
        "none without a schedule"
    );
    let schedule = Schedule {
        hourly: 1,
        ..Schedule::default()
    };
    fs.set_snapshot_schedule(schedule).unwrap();
    assert_eq!(crash(&fs, None).snapshot_schedule().unwrap(), schedule);
    let listed = fs.listxattr(&user(7), ROOT).unwrap();
    assert!(listed.is_empty(), "no affair of users");
    fs.create_snapshot("kept").unwrap();
    // The layout's snapshots are as old as the root directory, which is old.
    fs.keep_snapshots().unwrap();
    let first = fs.snapshots().unwrap();
    assert_eq!(first.len(), 2);
    fs.t_file("later", b"x");
    fs.create_snapshot("").unwrap();
    fs.keep_snapshots().unwrap();
    let second = fs.snapshots().unwrap();
    assert_eq!((second.len(), &second[0]), (2, &first[0]));
    assert_ne!(second[1], first[1]);
    fs.set_snapshot_schedule(Schedule::default()).unwrap();
    assert!(fs.snapshot_schedule().unwrap().is_off());
}

#[test]
fn of_a_large_directory_only_nodes_that_changed_are_compared() {
    let fs = shared();
    let home = fs.t_mkdir(ROOT, "home");
    let name = |n: u32| format!("a name that takes some space {n}");
    for n in 0..3000 {
        fs.t_create(home, &name(n));
    }
    let mut from = fs.create_snapshot("from").unwrap().number;
    let caller = Caller::root();
    for round in 0..4 {
        let mut wanted = Vec::new();
        // The last ones collapse nodes, and then split them again.
        let gone = if round < 2 { 5 } else { 600 };
        for n in (0..gone).map(|n| (round % 2) * 700 + n) {
            fs.unlink(&caller, home, name(n).as_bytes()).unwrap();
            wanted.push(format!("Removed /home/{} []", name(n)));
        }
        for n in 0..gone {
            let name = format!("new in {round}: {n}");
            fs.t_create(home, &name);
            wanted.push(format!("Created /home/{name} []"));
        }
        // The number of a removed file may be that of a new one under the same name.
        let again = name(2000 + round);
        fs.unlink(&caller, home, again.as_bytes()).unwrap();
        fs.sync().unwrap();
        fs.t_create(home, &again);
        wanted.push(format!("Created /home/{again} []"));
        wanted.push(format!("Removed /home/{again} []"));
        let mut found = shown(fs.diff(from, None).unwrap());
        found.sort();
        wanted.sort();
        assert_eq!(found.len(), wanted.len(), "round {round}");
        assert_eq!(found, wanted);
        for n in (0..gone).map(|n| (round % 2) * 700 + n) {
            fs.t_create(home, &name(n));
        }
        from = fs.create_snapshot(&format!("{round}")).unwrap().number;
    }
}
