//! rename(2) and renameat2(2).

use crate::mount::{Answer, Layout, Mount, Table};
use rustix::fs::{CWD, FileType, RenameFlags, mknodat};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

on_every_policy! {
    every_kind_onto_every_kind,
    paths_that_lead_astray,
    a_moved_directory_knows_its_new_parent,
    a_whiteout_takes_the_old_name,
    an_overlay_takes_a_mount_as_its_upper_layer,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Nothing,
    File,
    Link,
    Fifo,
    Empty,
    Full,
}

const KINDS: [Kind; 6] = [
    Kind::Nothing,
    Kind::File,
    Kind::Link,
    Kind::Fifo,
    Kind::Empty,
    Kind::Full,
];

impl Kind {
    fn make(self, path: &Path) {
        match self {
            Kind::Nothing => {}
            Kind::File => fs::write(path, b"x").unwrap(),
            Kind::Link => rustix::fs::symlink("nowhere", path).unwrap(),
            Kind::Fifo => mknodat(CWD, path, FileType::Fifo, 0o600.into(), 0).unwrap(),
            Kind::Empty => fs::create_dir(path).unwrap(),
            Kind::Full => fs::create_dir_all(path.join("below")).unwrap(),
        }
    }

    fn is_dir(self) -> bool {
        matches!(self, Kind::Empty | Kind::Full)
    }
}

/// The result on Linux.
fn expected(from: Kind, to: Kind, flags: RenameFlags) -> Answer {
    if from == Kind::Nothing {
        return Err(Errno::NOENT);
    }
    if flags == RenameFlags::NOREPLACE {
        return if to == Kind::Nothing {
            Ok(())
        } else {
            Err(Errno::EXIST)
        };
    }
    if flags == RenameFlags::EXCHANGE {
        return if to == Kind::Nothing {
            Err(Errno::NOENT)
        } else {
            Ok(())
        };
    }
    match (from.is_dir(), to.is_dir()) {
        _ if to == Kind::Nothing => Ok(()),
        (true, false) => Err(Errno::NOTDIR),
        (false, true) => Err(Errno::ISDIR),
        _ if to == Kind::Full => Err(Errno::NOTEMPTY),
        _ => Ok(()),
    }
}

fn inode(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|meta| meta.ino())
}

fn every_kind_onto_every_kind(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    let ways = [
        RenameFlags::empty(),
        RenameFlags::NOREPLACE,
        RenameFlags::EXCHANGE,
    ];
    for flags in ways {
        for across in [false, true] {
            for (from, to) in KINDS.iter().flat_map(|&a| KINDS.map(|b| (a, b))) {
                let (p, q) = (m.path("p"), m.path("q"));
                fs::create_dir(&p).unwrap();
                fs::create_dir(&q).unwrap();
                let (old, new) = (p.join("old"), if across { &q } else { &p }.join("new"));
                from.make(&old);
                to.make(&new);
                let before = (inode(&old), inode(&new));
                let got = rustix::fs::renameat_with(CWD, &old, CWD, &new, flags);
                let row = (from, to, flags, across);
                table.row(row, got, expected(from, to, flags));
                let want = match got {
                    Err(_) => before,
                    Ok(()) if flags == RenameFlags::EXCHANGE => (before.1, before.0),
                    Ok(()) => (None, before.0),
                };
                table.row((row, "inodes"), (inode(&old), inode(&new)), want);
                for dir in [&p, &q] {
                    let below = fs::read_dir(dir).unwrap();
                    let dirs = below
                        .filter(|e| e.as_ref().unwrap().path().is_dir())
                        .count();
                    let links = fs::metadata(dir).unwrap().nlink();
                    table.row((row, "links"), links, 2 + dirs as u64);
                }
                m.clear();
            }
        }
    }
    table.end();
}

fn paths_that_lead_astray(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    fs::create_dir_all(m.path("a/b/c")).unwrap();
    fs::write(m.path("f"), b"x").unwrap();
    fs::hard_link(m.path("f"), m.path("g")).unwrap();
    let long = "n".repeat(256);
    for (old, new, want) in [
        ("a", "a/b/c/d", Err(Errno::INVAL)),
        ("a", "a/b", Err(Errno::INVAL)),
        ("a/b/c", "a", Err(Errno::NOTEMPTY)),
        ("a/.", "d", Err(Errno::BUSY)),
        ("a/..", "d", Err(Errno::BUSY)),
        ("f", "a/..", Err(Errno::BUSY)),
        ("f/", "d", Err(Errno::NOTDIR)),
        ("f", "d/", Err(Errno::NOTDIR)),
        ("f/x", "d", Err(Errno::NOTDIR)),
        ("f", &long, Err(Errno::NAMETOOLONG)),
        ("a", "a", Ok(())),
        ("f", "g", Ok(())),
        ("a/", "d/", Ok(())),
    ] {
        table.row(
            (old, new),
            rustix::fs::rename(m.path(old), m.path(new)),
            want,
        );
    }
    // Two names of one file remain two names.
    table.row("links", fs::metadata(m.path("g")).unwrap().nlink(), 2);
    table.row("old name", m.path("f").exists(), true);
    table.end();
}

fn a_moved_directory_knows_its_new_parent(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    fs::create_dir_all(m.path("a/moved")).unwrap();
    fs::create_dir(m.path("b")).unwrap();
    let held = fs::File::open(m.path("a/moved")).unwrap();
    fs::rename(m.path("a/moved"), m.path("b/here")).unwrap();
    let up = rustix::fs::statat(&held, "..", rustix::fs::AtFlags::empty()).unwrap();
    assert_eq!(Some(up.st_ino), inode(&m.path("b")));
    rustix::fs::mkdirat(&held, "new", 0o755.into()).unwrap();
    assert!(m.path("b/here/new").is_dir());
    m.remount_after(held);
    assert_eq!(inode(&m.path("b/here/..")), inode(&m.path("b")));
}

impl Mount {
    /// Mounts again once `file` is closed.
    fn remount_after(&self, file: fs::File) {
        drop(file);
        self.remount();
    }
}

fn a_whiteout_takes_the_old_name(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    let rename =
        |old, new, flags| rustix::fs::renameat_with(CWD, m.path(old), CWD, m.path(new), flags);
    let whiteout = RenameFlags::WHITEOUT;
    fs::create_dir_all(m.path("d/below")).unwrap();
    for (old, new) in [("f", "g"), ("a", "d/b"), ("taken", "g")] {
        fs::write(m.path(old), old).unwrap();
        table.row((old, new), rename(old, new, whiteout), Ok(()));
    }
    table.row("directory", rename("d/below", "e", whiteout), Ok(()));
    fs::write(m.path("f2"), b"").unwrap();
    for (with, want) in [
        (RenameFlags::NOREPLACE, Err(Errno::EXIST)),
        (RenameFlags::EXCHANGE, Err(Errno::INVAL)),
    ] {
        table.row(with, rename("f2", "g", whiteout | with), want);
    }
    m.remount();
    table.row("content", fs::read(m.path("g")).unwrap(), b"taken".to_vec());
    table.row("content", fs::read(m.path("d/b")).unwrap(), b"a".to_vec());
    for old in ["f", "a", "taken", "d/below"] {
        let left = rustix::fs::lstat(m.path(old)).unwrap();
        let kind = FileType::from_raw_mode(left.st_mode);
        let found = (kind, left.st_rdev, left.st_mode & 0o7777, left.st_nlink);
        table.row(old, found, (FileType::CharacterDevice, 0, 0, 1));
    }
    table.row("links", fs::metadata(m.path("d")).unwrap().nlink(), 2);
    table.row("moved", m.path("e").is_dir(), true);
    table.end();
}

fn an_overlay_takes_a_mount_as_its_upper_layer(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let kernel = fs::read_to_string("/proc/filesystems").unwrap();
    if !kernel.contains("overlay") {
        assert!(std::env::var_os("CI").is_none(), "CI must have overlayfs");
        return eprintln!("SKIPPED: no overlayfs");
    }
    let (lower, merged) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["changed", "removed", "kept"] {
        fs::write(lower.path().join(name), name).unwrap();
    }
    let (upper, work) = (m.path("upper"), m.path("work"));
    for dir in [&upper, &work] {
        fs::create_dir(dir).unwrap();
    }
    let [lower, upper_dir, work, at] =
        [lower.path(), &upper, &work, merged.path()].map(|path| path.display().to_string());
    // In a mount table of its own, so that no mount is left.
    let script = format!(
        "mount -t overlay -o lowerdir={lower},upperdir={upper_dir},workdir={work} o {at}
        cd {at}; echo more >>changed; rm removed; mv kept moved
        [ \"$(echo *)\" = 'changed moved' ]"
    );
    crate::support::shell(&format!(
        "unshare -m bash -e -c \"$(cat <<'E'\n{script}\nE\n)\""
    ));
    let mut table = Table::default();
    let content = |name: &str| fs::read_to_string(upper.join(name)).unwrap();
    table.row("changed", content("changed"), "changedmore\n".to_owned());
    table.row("moved", content("moved"), "kept".to_owned());
    for gone in ["removed", "kept"] {
        let left = rustix::fs::lstat(upper.join(gone)).unwrap();
        let kind = FileType::from_raw_mode(left.st_mode);
        table.row(gone, (kind, left.st_rdev), (FileType::CharacterDevice, 0));
    }
    table.end();
}
