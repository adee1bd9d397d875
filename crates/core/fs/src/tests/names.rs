//! Names: where they exist, and which callers may change them.

use super::harness::*;
use crate::{Caller, Error, FileKind, InodeNo, Layout, MemoryOptions, Options, Rename, SetAttr};

fn root() -> Caller {
    Caller::root()
}

#[test]
fn a_file_is_made_found_and_removed() {
    let fs = fresh();
    let made = fs.t_create(ROOT, "a");
    assert_eq!(made.kind, FileKind::Regular);
    assert_eq!(made.mode, 0o100_644);
    assert_eq!(fs.lookup(&root(), ROOT, b"a").unwrap(), made);
    assert!(matches!(
        fs.mknod(&root(), ROOT, b"a", 0o644, 0),
        Err(Error::Exists)
    ));
    fs.t_unlink("a");
    assert!(matches!(fs.t_lookup("a"), Err(Error::NotFound)));
    assert!(matches!(fs.getattr(made.ino), Err(Error::Stale)));
    fs.unmount().unwrap();
    assert_eq!(fs.usage().inodes, 1);
}

#[test]
fn names_are_checked() {
    let fs = fresh();
    let long = [b'x'; 256];
    let make = |name: &[u8]| fs.mknod(&root(), ROOT, name, 0o644, 0).map(|_| ());
    assert!(matches!(make(&long), Err(Error::NameTooLong)));
    assert!(matches!(make(b"a/b"), Err(Error::Invalid(_))));
    assert!(matches!(make(b"a\0"), Err(Error::Invalid(_))));
    assert!(matches!(make(b"."), Err(Error::Exists)));
    assert!(matches!(make(b""), Err(Error::NotFound)));
    make(&long[..255]).unwrap();
    make(b"\xff\xfe\n").unwrap();
    assert!(matches!(
        fs.lookup(&root(), ROOT, &long),
        Err(Error::NameTooLong)
    ));
    let file = fs.t_create(ROOT, "f").ino;
    assert!(matches!(
        fs.lookup(&root(), file, b"x"),
        Err(Error::NotDirectory)
    ));
}

#[test]
fn directories_count_links_and_know_their_parent() {
    let fs = fresh();
    let d = fs.t_mkdir(ROOT, "d");
    let e = fs.t_mkdir(d, "e");
    let nlink = |ino| fs.getattr(ino).unwrap().nlink;
    assert_eq!((nlink(ROOT), nlink(d), nlink(e)), (3, 3, 2));
    assert_eq!(fs.parent(e).unwrap(), d);
    assert_eq!(fs.lookup(&root(), e, b"..").unwrap().ino, d);
    assert_eq!(fs.lookup(&root(), e, b".").unwrap().ino, e);
    assert!(matches!(
        fs.rmdir(&root(), ROOT, b"d"),
        Err(Error::NotEmpty)
    ));
    assert!(matches!(
        fs.unlink(&root(), ROOT, b"d"),
        Err(Error::IsDirectory)
    ));
    fs.rmdir(&root(), d, b"e").unwrap();
    fs.rmdir(&root(), ROOT, b"d").unwrap();
    assert_eq!(nlink(ROOT), 2);
    fs.t_create(ROOT, "f");
    assert!(matches!(
        fs.rmdir(&root(), ROOT, b"f"),
        Err(Error::NotDirectory)
    ));
}

#[test]
fn nothing_is_made_in_a_removed_directory() {
    let fs = fresh();
    let d = fs.t_mkdir(ROOT, "d");
    fs.retain(d).unwrap();
    fs.rmdir(&root(), ROOT, b"d").unwrap();
    assert!(matches!(
        fs.mknod(&root(), d, b"x", 0o644, 0),
        Err(Error::NotFound)
    ));
    assert_eq!(fs.getattr(d).unwrap().nlink, 0);
    fs.release(d, 1);
    assert!(matches!(fs.getattr(d), Err(Error::Stale)));
}

#[test]
fn links_share_one_inode_until_the_last_goes() {
    let fs = fresh();
    let a = fs.t_file("a", b"content");
    assert_eq!(fs.link(&root(), a, ROOT, b"b").unwrap().nlink, 2);
    fs.t_unlink("a");
    assert_eq!(fs.t_content("b"), b"content");
    fs.t_unlink("b");
    assert!(matches!(fs.getattr(a), Err(Error::Stale)));
    let d = fs.t_mkdir(ROOT, "d");
    assert!(matches!(
        fs.link(&root(), d, ROOT, b"e"),
        Err(Error::NotPermitted)
    ));
}

#[test]
fn what_is_held_need_not_stay_in_memory() {
    let fs = fresh();
    let files: Vec<_> = (0..20_000)
        .map(|i| {
            let ino = fs.t_create(ROOT, &format!("f{i}")).ino;
            fs.retain(ino).unwrap();
            if i % 1000 == 0 {
                fs.sync().unwrap();
            }
            ino
        })
        .collect();
    fs.t_write(files[7], 0, b"seven");
    fs.sync().unwrap();
    for &ino in &files {
        fs.getattr(ino).unwrap();
    }
    let bound = crate::Options::default().idle_vnodes() as u64 + 1000;
    assert!(fs.statistics().vnodes < bound, "{:?}", fs.statistics());

    fs.drop_caches();
    assert!(fs.statistics().vnodes < 10);
    fs.t_unlink("f7");
    fs.t_unlink("f8");
    fs.sync().unwrap();
    assert_eq!(fs.t_read(files[7]), b"seven");
    for &ino in &files {
        fs.release(ino, 1);
    }
    assert!(matches!(fs.getattr(files[7]), Err(Error::Stale)));
    assert!(fs.getattr(files[9]).is_ok());
    fs.t_unlink("f9");
    assert!(matches!(fs.getattr(files[9]), Err(Error::Stale)));
    fs.sync().unwrap();
    assert_eq!(fs.layout().memory().usage(), fs.usage());
}

#[test]
fn a_held_file_outlives_its_names() {
    let fs = fresh();
    let a = fs.t_file("a", &pattern(10_000, 1));
    fs.retain(a).unwrap();
    fs.sync().unwrap();
    fs.t_unlink("a");
    fs.sync().unwrap();
    assert_eq!(fs.t_read(a), pattern(10_000, 1));
    fs.t_write(a, 10_000, b"more");
    assert!(matches!(
        fs.link(&root(), a, ROOT, b"again"),
        Err(Error::NotFound)
    ));
    let after = crash(&fs, None);
    assert!(
        matches!(after.getattr(a), Err(Error::Stale)),
        "orphans go at mount"
    );
    assert_eq!(after.usage().inodes, 1);
    fs.release(a, 1);
    assert!(matches!(fs.getattr(a), Err(Error::Stale)));
    fs.sync().unwrap();
    assert_eq!(fs.layout().memory().usage(), fs.usage());
}

#[test]
fn a_temporary_file_can_be_given_a_name_once() {
    let fs = fresh();
    let t = fs.tmpfile(&root(), ROOT, 0o600).unwrap();
    assert_eq!(t.nlink, 0);
    fs.t_write(t.ino, 0, b"later");
    assert_eq!(fs.link(&root(), t.ino, ROOT, b"t").unwrap().nlink, 1);
    fs.release(t.ino, 1);
    assert_eq!(fs.t_content("t"), b"later");
    let gone = fs.tmpfile(&root(), ROOT, 0o600).unwrap();
    fs.release(gone.ino, 1);
    assert!(matches!(fs.getattr(gone.ino), Err(Error::Stale)));
}

#[test]
fn symbolic_links_short_and_long() {
    let fs = fresh();
    for length in [1, 100, 128, 129, 4095] {
        let target = pattern(length, 3);
        let name = format!("l{length}");
        let made = fs.symlink(&root(), ROOT, name.as_bytes(), &target).unwrap();
        assert_eq!((made.size, made.mode), (length as u64, 0o120_777));
        assert_eq!(fs.readlink(made.ino).unwrap(), target);
        fs.sync().unwrap();
        let after = crash(&fs, None);
        assert_eq!(after.readlink(made.ino).unwrap(), target);
    }
    let long = fs.symlink(&root(), ROOT, b"x", &[b'x'; 4096]);
    assert!(matches!(long, Err(Error::NameTooLong)));
    let file = fs.t_create(ROOT, "f").ino;
    assert!(matches!(fs.readlink(file), Err(Error::Invalid(_))));
}

#[test]
fn rename_replaces_what_it_may() {
    let fs = fresh();
    fs.t_file("a", b"a");
    let b = fs.t_file("b", b"b");
    fs.t_rename("a", "b").unwrap();
    assert_eq!(fs.t_names(ROOT), ["b"]);
    assert_eq!(fs.t_content("b"), b"a");
    assert!(matches!(fs.getattr(b), Err(Error::Stale)));
    let d = fs.t_mkdir(ROOT, "d");
    let e = fs.t_mkdir(ROOT, "e");
    assert!(matches!(fs.t_rename("b", "d"), Err(Error::IsDirectory)));
    assert!(matches!(fs.t_rename("d", "b"), Err(Error::NotDirectory)));
    fs.t_create(e, "x");
    assert!(matches!(fs.t_rename("d", "e"), Err(Error::NotEmpty)));
    fs.t_rename("e", "d").unwrap();
    assert_eq!(fs.t_names(ROOT), ["b", "d"]);
    assert_eq!(fs.getattr(ROOT).unwrap().nlink, 3);
    assert!(matches!(fs.getattr(d), Err(Error::Stale)));
    assert!(matches!(fs.t_rename("nothing", "d"), Err(Error::NotFound)));
    assert!(matches!(fs.t_rename(".", "d"), Err(Error::Busy)));
}

#[test]
fn rename_of_two_names_of_one_file_does_nothing() {
    let fs = fresh();
    let a = fs.t_file("a", b"x");
    fs.link(&root(), a, ROOT, b"b").unwrap();
    fs.t_rename("a", "b").unwrap();
    assert_eq!(fs.t_names(ROOT), ["a", "b"]);
    fs.t_rename("a", "a").unwrap();
    assert_eq!(fs.getattr(a).unwrap().nlink, 2);
}

#[test]
fn rename_between_directories_moves_links_and_refuses_circles() {
    let fs = fresh();
    let d = fs.t_mkdir(ROOT, "d");
    let e = fs.t_mkdir(ROOT, "e");
    let mv = |from, old: &str, to, new: &str| {
        let (old, new) = (old.as_bytes(), new.as_bytes());
        fs.rename(&root(), from, old, to, new, Rename::default())
    };
    mv(ROOT, "d", e, "d").unwrap();
    let nlink = |ino| fs.getattr(ino).unwrap().nlink;
    assert_eq!((nlink(ROOT), nlink(e), nlink(d)), (3, 3, 2));
    assert_eq!(fs.parent(d).unwrap(), e);
    assert!(matches!(mv(ROOT, "e", d, "e"), Err(Error::Invalid(_))));
    assert!(matches!(mv(ROOT, "e", e, "e"), Err(Error::Invalid(_))));
    let file = fs.t_create(d, "f").ino;
    fs.t_mkdir(d, "g");
    assert!(
        matches!(mv(d, "g", ROOT, "e"), Err(Error::NotEmpty)),
        "onto an ancestor"
    );
    mv(d, "f", ROOT, "f").unwrap();
    assert_eq!(fs.t_lookup("f").unwrap(), file);
    fs.unmount().unwrap();
}

#[test]
fn rename_flags() {
    let fs = fresh();
    let a = fs.t_file("a", b"a");
    let d = fs.t_mkdir(ROOT, "d");
    let inner = fs.t_mkdir(d, "inner");
    let flagged = |from, old: &[u8], to, new: &[u8], no_replace, exchange| {
        fs.rename(
            &root(),
            from,
            old,
            to,
            new,
            Rename {
                no_replace,
                exchange,
                ..Rename::default()
            },
        )
    };
    assert!(matches!(
        flagged(ROOT, b"a", ROOT, b"d", true, false),
        Err(Error::Exists)
    ));
    assert!(matches!(
        flagged(ROOT, b"a", ROOT, b"x", false, true),
        Err(Error::NotFound)
    ));
    flagged(ROOT, b"a", d, b"inner", false, true).unwrap();
    assert_eq!(fs.lookup(&root(), d, b"inner").unwrap().ino, a);
    assert_eq!(fs.t_lookup("a").unwrap(), inner);
    assert_eq!(fs.parent(inner).unwrap(), ROOT);
    let nlink = |ino| fs.getattr(ino).unwrap().nlink;
    assert_eq!((nlink(ROOT), nlink(d)), (4, 2));
    flagged(ROOT, b"a", ROOT, b"d", false, true).unwrap();
    assert_eq!(
        (fs.t_lookup("a").unwrap(), fs.t_lookup("d").unwrap()),
        (d, inner)
    );
    fs.unmount().unwrap();
}

#[test]
fn of_two_reasons_to_refuse_the_one_that_linux_tells() {
    let fs = fresh();
    let a = fs.t_mkdir(ROOT, "a");
    fs.t_create(a, "b");
    let c = fs.t_mkdir(a, "c");
    let link = |name: &[u8]| fs.link(&root(), c, a, name).unwrap_err().errno();
    assert_eq!((link(b"b"), link(b"new")), (17, 1));
    let rename = |from, old: &[u8], to, new: &[u8], no_replace, exchange| {
        let flags = Rename {
            no_replace,
            exchange,
            ..Rename::default()
        };
        let renamed = fs.rename(&root(), from, old, to, new, flags);
        renamed.unwrap_err().errno()
    };
    assert_eq!(
        rename(a, b"b", ROOT, b"a", true, false),
        17,
        "the target is taken, and above the source"
    );
    assert_eq!(rename(ROOT, b"a", a, b"c", true, false), 17);
    assert_eq!(
        rename(ROOT, b"a", c, b"missing", false, true),
        2,
        "there is no target, and it would be below the source"
    );
    assert_eq!(rename(a, b"b", ROOT, b"a", false, false), 39);
    assert_eq!(rename(ROOT, b"a", c, b"new", false, false), 22);
    fs.unmount().unwrap();
}

#[test]
fn sticky_directories_protect_their_entries() {
    let fs = fresh();
    let d = fs.t_mkdir(ROOT, "tmp");
    let set = SetAttr {
        mode: Some(0o1777),
        ..Default::default()
    };
    fs.setattr(&root(), d, &set).unwrap();
    fs.mknod(&user(1), d, b"mine", 0o666, 0).unwrap();
    fs.mknod(&user(2), d, b"theirs", 0o666, 0).unwrap();
    assert!(matches!(
        fs.unlink(&user(2), d, b"mine"),
        Err(Error::NotPermitted)
    ));
    let onto = fs.rename(&user(2), d, b"theirs", d, b"mine", Rename::default());
    assert!(matches!(onto, Err(Error::NotPermitted)));
    fs.unlink(&user(1), d, b"mine").unwrap();
    fs.unlink(&root(), d, b"theirs").unwrap();
}

#[test]
fn permissions_govern_names() {
    let fs = fresh();
    let d = fs.mkdir(&user(1), ROOT, b"d", 0o755);
    assert!(matches!(d, Err(Error::AccessDenied)));
    let d = fs.t_mkdir(ROOT, "d");
    fs.setattr(
        &root(),
        d,
        &SetAttr {
            mode: Some(0o700),
            ..Default::default()
        },
    )
    .unwrap();
    assert!(matches!(
        fs.lookup(&user(1), d, b"x"),
        Err(Error::AccessDenied)
    ));
    let checked = Caller {
        checked: true,
        ..user(1)
    };
    assert!(matches!(fs.lookup(&checked, d, b"x"), Err(Error::NotFound)));
}

#[test]
fn new_files_follow_umask_and_set_gid_directories() {
    let fs = fresh();
    let caller = Caller {
        umask: 0o027,
        ..Caller::root()
    };
    assert_eq!(
        fs.mknod(&caller, ROOT, b"a", 0o666, 0).unwrap().mode,
        0o100_640
    );
    let d = fs.t_mkdir(ROOT, "d");
    let set = SetAttr {
        mode: Some(0o2777),
        gid: Some(77),
        ..Default::default()
    };
    fs.setattr(&root(), d, &set).unwrap();
    let made = fs.mknod(&user(5), d, b"f", 0o644, 0).unwrap();
    assert_eq!((made.uid, made.gid), (5, 77));
    let sub = fs.mkdir(&user(5), d, b"s", 0o755).unwrap();
    assert_eq!((sub.gid, sub.mode), (77, 0o042_755));
}

#[test]
fn a_listing_is_resumed_by_cookie_and_may_call_back() {
    let fs = fresh();
    let d = fs.t_mkdir(ROOT, "d");
    for i in 0..1_000 {
        fs.t_create(d, &format!("file-{i}"));
    }
    fs.sync().unwrap();
    fs.drop_caches();
    let mut seen = Vec::new();
    let mut after = 0;
    loop {
        let mut taken = 0;
        fs.readdir(d, after, &mut |entry| {
            assert!(entry.cookie > after);
            assert_eq!(fs.getattr(entry.ino).unwrap().kind, entry.kind);
            after = entry.cookie;
            seen.push(entry.name.to_vec());
            taken += 1;
            taken < 7
        })
        .unwrap();
        if taken < 7 {
            break;
        }
    }
    assert_eq!(&seen[..2], [b".".to_vec(), b"..".to_vec()]);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 1_002);
}

#[test]
fn parents_times_follow_their_entries() {
    let fs = fresh();
    let before = fs.getattr(ROOT).unwrap();
    fs.t_create(ROOT, "a");
    let made = fs.getattr(ROOT).unwrap();
    assert!(made.mtime > before.mtime && made.ctime > before.ctime);
    let a = fs.t_lookup("a").unwrap();
    let file = fs.getattr(a).unwrap();
    fs.t_rename("a", "b").unwrap();
    let renamed = fs.getattr(a).unwrap();
    assert!(renamed.ctime > file.ctime && renamed.mtime == file.mtime);
    assert!(fs.getattr(ROOT).unwrap().mtime > made.mtime);
}

#[test]
fn special_files_keep_their_numbers() {
    let fs = fresh();
    let mode = FileKind::CharDevice.mode_bits() | 0o600;
    let made = fs.mknod(&root(), ROOT, b"null", mode, 0x103).unwrap();
    assert_eq!((made.kind, made.rdev), (FileKind::CharDevice, 0x103));
    fs.sync().unwrap();
    let after = crash(&fs, None);
    assert_eq!(after.getattr(made.ino).unwrap().rdev, 0x103);
    let mode = FileKind::BlockDevice.mode_bits() | 0o600;
    fs.setattr(
        &root(),
        ROOT,
        &SetAttr {
            mode: Some(0o777),
            ..Default::default()
        },
    )
    .unwrap();
    let refused = fs.mknod(&user(1), ROOT, b"sda", mode, 1);
    assert!(matches!(refused, Err(Error::NotPermitted)));
    assert!(matches!(fs.getattr(InodeNo(1)), Err(Error::Stale)));
}

#[test]
fn a_held_file_is_not_evicted() {
    let options = Options {
        cache_bytes: 1 << 20,
        ..Default::default()
    };
    let fs = fresh_with(MemoryOptions::default(), options);
    let held = fs.t_file("held", &pattern(5_000, 1));
    fs.retain(held).unwrap();
    for _ in 0..3 {
        let d = fs.t_mkdir(ROOT, "d");
        for n in 0..1_000 {
            fs.t_create(d, &format!("f{n}"));
        }
        fs.sync().unwrap();
        for n in 0..1_000 {
            let name = format!("f{n}");
            fs.lookup(&root(), d, name.as_bytes()).unwrap();
        }
        assert!(fs.statistics().vnodes < 1_500, "{:?}", fs.statistics());
        fs.t_rename("d", &format!("e{}", fs.usage().inodes))
            .unwrap();
    }
    fs.t_unlink("held");
    fs.sync().unwrap();
    assert_eq!(fs.t_read(held), pattern(5_000, 1));
    fs.release(held, 1);
    assert!(matches!(fs.getattr(held), Err(Error::Stale)));
}

#[test]
fn a_number_that_was_given_to_another_file_is_not_held() {
    let fs = fresh();
    let found = fs.t_create(ROOT, "a");
    fs.sync().unwrap();
    // The file is removed before the caller references it.
    fs.t_unlink("a");
    assert!(matches!(fs.hold(&found), Err(Error::Stale)));
    let other = (0..1_000).find_map(|n| {
        fs.sync().unwrap(); // numbers are reused once that is logged
        let made = fs.t_create(ROOT, &format!("b{n}"));
        (made.ino == found.ino).then_some(made)
    });
    let other = other.expect("numbers come back");
    assert!(matches!(fs.hold(&found), Err(Error::Stale)));
    fs.hold(&other).unwrap();
    fs.release(other.ino, 1);
}

#[test]
fn what_a_lookup_holds_outlives_its_name() {
    let fs = fresh();
    let found = fs.t_mkdir(ROOT, "d");
    let held = fs.lookup_held(&root(), ROOT, b"d").unwrap();
    assert_eq!(held.ino, found);
    let made = fs.mknod_held(&root(), found, b"f", 0o644, 0).unwrap();
    fs.unlink(&root(), found, b"f").unwrap();
    fs.t_write(made.ino, 0, b"still here");
    assert_eq!(fs.t_read(made.ino), b"still here");
    fs.rmdir(&root(), ROOT, b"d").unwrap();
    // Its parent may be removed by now, and the number another file's.
    let up = fs.lookup_held(&root(), found, b"..");
    assert!(matches!(up, Err(Error::NotFound)));
    for ino in [found, made.ino] {
        fs.release(ino, 1);
        assert!(matches!(fs.getattr(ino), Err(Error::Stale)));
    }
    fs.sync().unwrap();
    assert_eq!(fs.usage().inodes, 1);
}
