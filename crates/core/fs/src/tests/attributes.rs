//! Attributes, permissions, extended attributes and access control lists.

use super::harness::*;
use crate::{Caller, Error, InodeNo, Result, SetAttr, SetTime, Timestamp};

fn set(fs: &Fs, caller: &Caller, ino: InodeNo, set: SetAttr) -> Result<u32> {
    fs.setattr(caller, ino, &set).map(|attr| attr.mode & 0o7777)
}

fn mode(mode: u32) -> SetAttr {
    SetAttr {
        mode: Some(mode),
        ..Default::default()
    }
}

fn owned(fs: &Fs, uid: u32, bits: u32) -> InodeNo {
    let f = fs.t_create(ROOT, &format!("f{uid}-{bits:o}")).ino;
    let to = SetAttr {
        uid: Some(uid),
        gid: Some(uid),
        ..Default::default()
    };
    set(fs, &Caller::root(), f, to).unwrap();
    set(fs, &Caller::root(), f, mode(bits)).unwrap();
    f
}

#[test]
fn only_the_owner_changes_the_mode() {
    let fs = fresh();
    let f = owned(&fs, 1, 0o644);
    assert_eq!(set(&fs, &user(1), f, mode(0o4755)).unwrap(), 0o4755);
    assert!(matches!(
        set(&fs, &user(2), f, mode(0o777)),
        Err(Error::NotPermitted)
    ));
    let outside = Caller { gid: 9, ..user(1) };
    assert_eq!(
        set(&fs, &outside, f, mode(0o2755)).unwrap(),
        0o755,
        "not in the group"
    );
}

#[test]
fn changing_the_owner_ends_set_id_rights() {
    let fs = fresh();
    let f = owned(&fs, 1, 0o6755);
    let give = SetAttr {
        uid: Some(2),
        ..Default::default()
    };
    assert!(matches!(
        set(&fs, &user(1), f, give),
        Err(Error::NotPermitted)
    ));
    assert_eq!(set(&fs, &Caller::root(), f, give).unwrap(), 0o755);
    let f = owned(&fs, 3, 0o644);
    let group = |gid| SetAttr {
        gid: Some(gid),
        ..Default::default()
    };
    assert!(matches!(
        set(&fs, &user(3), f, group(8)),
        Err(Error::NotPermitted)
    ));
    let member = Caller {
        groups: vec![8],
        ..user(3)
    };
    set(&fs, &member, f, group(8)).unwrap();
    assert_eq!(fs.getattr(f).unwrap().gid, 8);
}

#[test]
fn writing_ends_set_id_rights_but_for_root() {
    let fs = fresh();
    let f = owned(&fs, 1, 0o6777);
    fs.t_write(f, 0, b"root");
    assert_eq!(fs.getattr(f).unwrap().mode & 0o7777, 0o6777);
    fs.write(
        &Caller {
            checked: true,
            ..user(2)
        },
        f,
        0,
        b"kernel",
    )
    .unwrap();
    assert_eq!(fs.getattr(f).unwrap().mode & 0o7777, 0o6777);
    fs.write(&user(2), f, 0, b"other").unwrap();
    assert_eq!(fs.getattr(f).unwrap().mode & 0o7777, 0o777);
}

#[test]
fn set_group_id_without_group_execution_stays_for_the_group() {
    let fs = fresh();
    let member = Caller {
        groups: vec![1],
        ..user(2)
    };
    for (caller, kept) in [(user(2), 0o666), (member, 0o2666), (Caller::root(), 0o6666)] {
        let f = owned(&fs, 1, 0o6666);
        fs.write(&caller, f, 0, b"x").unwrap();
        assert_eq!(fs.getattr(f).unwrap().mode & 0o7777, kept);
        fs.t_unlink("f1-6666");
    }
    let f = owned(&fs, 3, 0o6777);
    let cut = SetAttr {
        size: Some(3),
        ..Default::default()
    };
    assert_eq!(set(&fs, &user(2), f, cut).unwrap(), 0o777, "truncate");
    // For a caller that is a kernel, set-id bits are cleared only on request.
    let f = owned(&fs, 1, 0o6777);
    let checked = Caller {
        checked: true,
        ..user(2)
    };
    let before = fs.getattr(f).unwrap();
    let kill = SetAttr {
        kill_set_id: true,
        ..Default::default()
    };
    assert_eq!(set(&fs, &checked, f, kill).unwrap(), 0o777);
    let after = fs.getattr(f).unwrap();
    assert!(after.ctime > before.ctime);
    assert_eq!(set(&fs, &checked, f, kill).unwrap(), 0o777);
    assert_eq!(fs.getattr(f).unwrap().ctime, after.ctime, "nothing to do");
}

#[test]
fn times_are_set_by_those_who_may() {
    let fs = fresh();
    let f = owned(&fs, 1, 0o666);
    let when = Timestamp {
        seconds: -5,
        nanos: 999_999_999,
    };
    let at = SetAttr {
        atime: Some(SetTime::At(when)),
        mtime: Some(SetTime::At(when)),
        ..Default::default()
    };
    let now = SetAttr {
        mtime: Some(SetTime::Now),
        ..Default::default()
    };
    assert!(matches!(
        set(&fs, &user(2), f, at),
        Err(Error::NotPermitted)
    ));
    set(&fs, &user(2), f, now).unwrap();
    set(&fs, &user(1), f, at).unwrap();
    let attr = fs.getattr(f).unwrap();
    assert_eq!((attr.atime, attr.mtime), (when, when));
    assert!(attr.ctime > when);
    let f = owned(&fs, 1, 0o644);
    assert!(matches!(
        set(&fs, &user(2), f, now),
        Err(Error::AccessDenied)
    ));
    fs.sync().unwrap();
    assert_eq!(crash(&fs, None).getattr(f).unwrap(), fs.getattr(f).unwrap());
}

#[test]
fn access_follows_the_bits() {
    let fs = fresh();
    let f = owned(&fs, 1, 0o640);
    let ask = |caller: &Caller, mask| fs.access(caller, f, mask).is_ok();
    assert!(ask(&user(1), 6) && !ask(&user(1), 1));
    assert!(ask(
        &Caller {
            groups: vec![1],
            ..user(2)
        },
        4
    ));
    assert!(!ask(
        &Caller {
            groups: vec![1],
            ..user(2)
        },
        2
    ));
    assert!(!ask(&user(3), 4) && ask(&user(3), 0));
    assert!(ask(&Caller::root(), 6) && !ask(&Caller::root(), 1));
    let size = SetAttr {
        size: Some(0),
        ..Default::default()
    };
    assert!(matches!(
        set(&fs, &user(3), f, size),
        Err(Error::AccessDenied)
    ));
}

fn xset(fs: &Fs, caller: &Caller, f: InodeNo, name: &str, value: &[u8]) -> Result<()> {
    fs.setxattr(caller, f, name.as_bytes(), value, false, false)
}

#[test]
fn extended_attributes_are_kept_and_listed() {
    let fs = fresh();
    let f = fs.t_create(ROOT, "f").ino;
    let root = Caller::root();
    let get = |fs: &Fs, name: &str| fs.getxattr(&root, f, name.as_bytes());
    assert!(matches!(get(&fs, "user.a"), Err(Error::NoAttribute)));
    xset(&fs, &root, f, "user.a", b"one").unwrap();
    xset(&fs, &root, f, "security.b", b"").unwrap();
    xset(&fs, &root, f, "trusted.c", &[3; 10_000]).unwrap();
    let create = fs.setxattr(&root, f, b"user.a", b"", true, false);
    assert!(matches!(create, Err(Error::Exists)));
    let replace = fs.setxattr(&root, f, b"user.z", b"", false, true);
    assert!(matches!(replace, Err(Error::NoAttribute)));
    fs.sync().unwrap();
    let after = crash(&fs, None);
    assert_eq!(get(&after, "user.a").unwrap(), b"one");
    assert_eq!(get(&after, "security.b").unwrap(), b"");
    assert_eq!(get(&after, "trusted.c").unwrap(), [3; 10_000]);
    let names = after.listxattr(&root, f).unwrap();
    assert_eq!(names, [&b"security.b"[..], b"trusted.c", b"user.a"]);
    assert_eq!(after.listxattr(&user(1), f).unwrap().len(), 2);
    after.removexattr(&root, f, b"trusted.c").unwrap();
    let again = after.removexattr(&root, f, b"trusted.c");
    assert!(matches!(again, Err(Error::NoAttribute)));
    after.unmount().unwrap();
}

#[test]
fn extended_attributes_have_limits_and_owners() {
    let fs = fresh();
    let f = owned(&fs, 1, 0o644);
    let root = Caller::root();
    assert!(matches!(
        xset(&fs, &root, f, "user.a", &[0; 65_537]),
        Err(Error::Range)
    ));
    xset(&fs, &root, f, "user.a", &[0; 65_536]).unwrap();
    assert!(matches!(
        xset(&fs, &root, f, "user.b", &[0; 65_536]),
        Err(Error::NoSpace)
    ));
    fs.removexattr(&root, f, b"user.a").unwrap();
    assert!(matches!(
        xset(&fs, &root, f, &"user.x".repeat(50), b""),
        Err(Error::Range)
    ));
    assert!(matches!(
        xset(&fs, &root, f, "other.a", b""),
        Err(Error::NotSupported)
    ));
    assert!(matches!(
        xset(&fs, &root, f, "user.", b""),
        Err(Error::Invalid(_))
    ));
    assert!(matches!(
        xset(&fs, &user(2), f, "user.a", b""),
        Err(Error::AccessDenied)
    ));
    assert!(matches!(
        xset(&fs, &user(1), f, "trusted.a", b""),
        Err(Error::NotPermitted)
    ));
    xset(&fs, &user(1), f, "user.a", b"x").unwrap();
    xset(&fs, &root, f, "trusted.a", b"x").unwrap();
    let hidden = fs.getxattr(&user(1), f, b"trusted.a");
    assert!(matches!(hidden, Err(Error::NoAttribute)));
    let link = fs.symlink(&root, ROOT, b"l", b"f").unwrap().ino;
    assert!(matches!(
        xset(&fs, &root, link, "user.a", b""),
        Err(Error::NotPermitted)
    ));
}

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
const NONE: u32 = u32::MAX;

#[test]
fn access_control_lists_refine_the_bits() {
    let fs = fresh();
    let f = owned(&fs, 1, 0o600);
    let acl = access_list(&[
        (1, 6, NONE),
        (2, 6, 7),
        (4, 0, NONE),
        (0x10, 6, NONE),
        (0x20, 0, NONE),
    ]);
    assert!(fs.access(&user(7), f, 4).is_err());
    xset(&fs, &user(1), f, ACCESS, &acl).unwrap();
    assert_eq!(
        fs.getattr(f).unwrap().mode & 0o777,
        0o660,
        "the mask shows as the group"
    );
    fs.access(&user(7), f, 6).unwrap();
    assert!(fs.access(&user(8), f, 4).is_err());
    set(&fs, &user(1), f, mode(0o640)).unwrap();
    fs.access(&user(7), f, 4).unwrap();
    assert!(fs.access(&user(7), f, 2).is_err(), "chmod narrows the mask");
    let minimal = access_list(&[(1, 6, NONE), (4, 4, NONE), (0x20, 4, NONE)]);
    xset(&fs, &user(1), f, ACCESS, &minimal).unwrap();
    assert_eq!(fs.getattr(f).unwrap().mode & 0o777, 0o644);
    assert!(fs.listxattr(&user(1), f).unwrap().is_empty());
    assert!(matches!(
        xset(&fs, &user(1), f, ACCESS, &acl[..20]),
        Err(Error::Invalid(_))
    ));
    assert!(matches!(
        xset(&fs, &user(1), f, DEFAULT, &acl),
        Err(Error::AccessDenied)
    ));
}

/// A new directory has the list that it inherits twice.
#[test]
fn a_directory_whose_lists_would_be_too_long_is_not_made() {
    let fs = fresh();
    let d = fs.t_mkdir(ROOT, "d");
    let mut entries = vec![(1, 7, NONE)];
    entries.extend((0..8180).map(|id| (2, 6, id)));
    entries.extend([(4, 5, NONE), (0x10, 7, NONE), (0x20, 0, NONE)]);
    xset(&fs, &Caller::root(), d, DEFAULT, &access_list(&entries)).unwrap();
    fs.sync().unwrap();
    let before = (fs.usage(), fs.getattr(d).unwrap());
    let made = fs.mkdir(&Caller::root(), d, b"e", 0o755);
    assert!(matches!(made, Err(Error::NoSpace)), "{made:?}");
    assert_eq!((fs.usage(), fs.getattr(d).unwrap()), before);
    assert!(fs.t_names(d).is_empty());
    let file = fs.t_create(d, "f").ino;
    let list = fs.getxattr(&Caller::root(), file, ACCESS.as_bytes());
    assert_eq!(list.unwrap().len(), 4 + 8 * entries.len());
    let unnamed = fs.tmpfile(&Caller::root(), d, 0o600).unwrap();
    fs.release(unnamed.ino, 1);
}

#[test]
fn default_lists_are_inherited() {
    let fs = fresh();
    let d = fs.t_mkdir(ROOT, "d");
    let root = Caller {
        umask: 0o077,
        ..Caller::root()
    };
    let acl = access_list(&[
        (1, 7, NONE),
        (2, 7, 7),
        (4, 5, NONE),
        (0x10, 7, NONE),
        (0x20, 0, NONE),
    ]);
    xset(&fs, &root, d, DEFAULT, &acl).unwrap();
    let f = fs.mknod(&root, d, b"f", 0o664, 0).unwrap();
    assert_eq!(f.mode & 0o777, 0o660, "the list takes the umask's place");
    fs.access(&user(7), f.ino, 6).unwrap();
    let sub = fs.mkdir(&root, d, b"s", 0o755).unwrap();
    assert_eq!(
        fs.getxattr(&root, sub.ino, DEFAULT.as_bytes()).unwrap(),
        acl
    );
    let deep = fs.mknod(&root, sub.ino, b"f", 0o600, 0).unwrap();
    assert!(fs.access(&user(7), deep.ino, 4).is_err());
    fs.unmount().unwrap();
}

#[test]
fn damaged_inodes_and_entries_give_errors() {
    use crate::layout::{Cause, Group, Item};
    use crate::{Inode, Layout, MemoryLayout, Options};
    let fs = fresh();
    let f = fs.t_file("f", &pattern(9_000, 1));
    let d = fs.t_mkdir(ROOT, "d");
    fs.link(&Caller::root(), f, ROOT, b"g").unwrap();
    fs.unmount().unwrap();
    let damage = |ino: InodeNo, change: &dyn Fn(&mut Inode)| -> Fs {
        let memory: MemoryLayout = fs.layout().memory().crash();
        let mut inode = memory.read_inode(LIVE, ino).unwrap();
        change(&mut inode);
        let items = vec![Item::Inode(Box::new(inode))];
        let usage = memory.usage();
        let group = Group {
            items,
            usage,
            cause: Cause::SyncAll,
        };
        memory.append(group).unwrap();
        Fs::mount(Recorder::new(memory), clock(), Options::default()).unwrap()
    };
    let caller = Caller::root();
    // One link too few: the second name refers to a removed file.
    let hurt = damage(f, &|inode| inode.nlink = 1);
    hurt.t_unlink("f");
    let again = hurt.unlink(&caller, ROOT, b"g");
    assert!(matches!(again, Err(Error::Stale | Error::Damaged { .. })));
    hurt.sync().unwrap();
    assert!(matches!(hurt.t_lookup("g"), Err(Error::Damaged { .. })));
    // A directory whose inode names another parent.
    let hurt = damage(d, &|inode| inode.parent = d);
    assert!(matches!(hurt.t_lookup("d"), Err(Error::Damaged { .. })));
    assert!(matches!(
        hurt.rmdir(&caller, ROOT, b"d"),
        Err(Error::Damaged { .. })
    ));
    assert!(matches!(
        hurt.t_rename("d", "e"),
        Err(Error::Damaged { .. })
    ));
    // A kind that differs from the entry's.
    let hurt = damage(f, &|inode| inode.mode = 0o010_644);
    assert!(matches!(
        hurt.unlink(&caller, ROOT, b"f"),
        Err(Error::Damaged { .. })
    ));
}
