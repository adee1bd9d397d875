//! Names, links, and listings during changes.

use crate::mount::{Answer, Layout, Mount, Table};
use rustix::fs::{AtFlags, CWD, Dir, FileType, SeekFrom, mknodat};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

on_every_layout! {
    what_names_may_be,
    links_are_counted_and_loops_end,
    listings_tell_kinds_and_inodes,
    a_listing_goes_on_where_it_was_while_names_come_and_go,
    directories_are_no_files,
}

fn what_names_may_be(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    let make = |name: &str| rustix::fs::mkdir(m.path(name), 0o755.into());
    let (longest, too_long) = ("n".repeat(255), "n".repeat(256));
    fs::write(m.path("file"), b"").unwrap();
    fs::create_dir_all(m.path("full/below")).unwrap();
    for (name, want) in [
        (longest.as_str(), Ok(())),
        (&too_long, Err(Errno::NAMETOOLONG)),
        ("\u{1}\n \u{fc}", Ok(())),
        ("full", Err(Errno::EXIST)),
        ("file", Err(Errno::EXIST)),
        ("file/x", Err(Errno::NOTDIR)),
        ("absent/x", Err(Errno::NOENT)),
        (".", Err(Errno::EXIST)),
        ("slash/", Ok(())),
    ] {
        table.row(("mkdir", name), make(name), want);
    }
    let path = "d/".repeat(2048);
    table.row("a long path", make(&path), Err(Errno::NAMETOOLONG));
    type Call = fn(&Path) -> Answer;
    let (unlink, rmdir): (Call, Call) = (|p| rustix::fs::unlink(p), |p| rustix::fs::rmdir(p));
    for (what, call, name, want) in [
        ("rmdir", rmdir, "full", Err(Errno::NOTEMPTY)),
        ("rmdir", rmdir, "full/below/.", Err(Errno::INVAL)),
        ("rmdir", rmdir, "full/below/..", Err(Errno::NOTEMPTY)),
        ("rmdir", rmdir, "file", Err(Errno::NOTDIR)),
        ("rmdir", rmdir, "absent", Err(Errno::NOENT)),
        ("rmdir", rmdir, &too_long, Err(Errno::NAMETOOLONG)),
        ("unlink", unlink, "full", Err(Errno::ISDIR)),
        ("unlink", unlink, "file/", Err(Errno::NOTDIR)),
        ("unlink", unlink, "absent", Err(Errno::NOENT)),
        ("unlink", unlink, &too_long, Err(Errno::NAMETOOLONG)),
        ("rmdir", rmdir, "full/below/", Ok(())),
        ("unlink", unlink, "file", Ok(())),
    ] {
        table.row((what, name), call(&m.path(name)), want);
    }
    table.end();
}

fn links_are_counted_and_loops_end(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    let links = |name: &str| fs::symlink_metadata(m.path(name)).unwrap().nlink();
    fs::create_dir(m.path("d")).unwrap();
    for n in 0..5 {
        fs::create_dir(m.path(&format!("d/{n}"))).unwrap();
    }
    fs::write(m.path("d/f"), b"x").unwrap();
    table.row("directory", links("d"), 7);
    for n in 0..1000 {
        fs::hard_link(m.path("d/f"), m.path(&format!("link{n}"))).unwrap();
    }
    table.row("file", links("d/f"), 1001);
    let link = |old, new| rustix::fs::link(m.path(old), m.path(new));
    table.row("link of a directory", link("d", "e"), Err(Errno::PERM));
    table.row("link onto a name", link("d/f", "link1"), Err(Errno::EXIST));
    table.row("link of nothing", link("absent", "e"), Err(Errno::NOENT));
    rustix::fs::symlink("nowhere", m.path("s")).unwrap();
    table.row("link of a link", link("s", "t"), Ok(()));
    table.row("link of a link", links("s"), 2);

    for (old, new) in [("b", "a"), ("a", "b"), ("self", "self")] {
        rustix::fs::symlink(old, m.path(new)).unwrap();
    }
    fs::write(m.path("c0"), b"").unwrap();
    for n in 0..41 {
        rustix::fs::symlink(format!("c{n}"), m.path(&format!("c{}", n + 1))).unwrap();
    }
    let stat = |name: &str| rustix::fs::stat(m.path(name)).map(drop);
    for (name, want) in [
        ("a", Err(Errno::LOOP)),
        ("self/x", Err(Errno::LOOP)),
        ("c40", Ok(())),
        ("c41", Err(Errno::LOOP)),
    ] {
        table.row(name, stat(name), want);
    }
    let symlink = |target: &str, name| rustix::fs::symlink(target, m.path(name));
    table.row("longest target", symlink(&"t".repeat(4095), "long"), Ok(()));
    table.row(
        "its length",
        fs::symlink_metadata(m.path("long")).unwrap().len(),
        4095,
    );
    table.row(
        "too long",
        symlink(&"t".repeat(4096), "longer"),
        Err(Errno::NAMETOOLONG),
    );
    table.row("no target", symlink("", "none"), Err(Errno::NOENT));
    table.end();
}

/// The entries of a listing: names, kinds, inodes, and the position after each.
fn list(dir: &mut Dir) -> Vec<(String, FileType, u64, u64)> {
    let mut all = Vec::new();
    while let Some(entry) = dir.read() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_str().unwrap().to_owned();
        all.push((name, entry.file_type(), entry.ino(), entry.offset() as u64));
    }
    all
}

fn listings_tell_kinds_and_inodes(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let kinds = [
        ("file", FileType::RegularFile),
        ("fifo", FileType::Fifo),
        ("socket", FileType::Socket),
        ("char", FileType::CharacterDevice),
        ("block", FileType::BlockDevice),
    ];
    for (name, kind) in kinds {
        mknodat(CWD, m.path(name), kind, 0o600.into(), 0x101).unwrap();
    }
    fs::create_dir(m.path("dir")).unwrap();
    rustix::fs::symlink("x", m.path("link")).unwrap();
    let more = [("dir", FileType::Directory), ("link", FileType::Symlink)];
    let dots = [(".", FileType::Directory), ("..", FileType::Directory)];
    let want: BTreeMap<String, FileType> = kinds
        .into_iter()
        .chain(more)
        .chain(dots)
        .map(|(name, kind)| (name.to_owned(), kind))
        .collect();
    let listed = list(&mut Dir::read_from(File::open(m.path(".")).unwrap()).unwrap());
    let found: BTreeMap<String, FileType> = listed.iter().map(|e| (e.0.clone(), e.1)).collect();
    assert_eq!(found, want);
    for (name, _, ino, _) in listed.iter().filter(|e| e.0 != "..") {
        assert_eq!(
            fs::symlink_metadata(m.path(name)).unwrap().ino(),
            *ino,
            "{name}"
        );
    }
}

fn a_listing_goes_on_where_it_was_while_names_come_and_go(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let dir = m.path("d");
    fs::create_dir(&dir).unwrap();
    let name = |n: usize| dir.join(format!("{n:05}"));
    for n in 0..2_000 {
        File::create(name(n)).unwrap();
    }
    let mut listing = Dir::read_from(File::open(&dir).unwrap()).unwrap();
    let all = list(&mut listing);
    let cookies: BTreeSet<u64> = all.iter().map(|e| e.3).collect();
    assert_eq!(
        (all.len(), cookies.len()),
        (2_002, 2_002),
        "names and places"
    );
    // From any place the same names follow, now and after half of them are removed.
    for removed in [false, true] {
        for at in (0..all.len() - 1).step_by(97) {
            listing.seek(all[at].3 as i64).unwrap();
            // Removed names may still be shown.
            let next = loop {
                let next = listing.read().unwrap().unwrap();
                let name = next.file_name().to_str().unwrap().to_owned();
                if dir.join(&name).exists() {
                    break name;
                }
            };
            let want = all[at + 1..]
                .iter()
                .find(|e| dir.join(&e.0).exists())
                .unwrap();
            assert_eq!(next, want.0, "after {}", all[at].0);
        }
        if !removed {
            for entry in all
                .iter()
                .skip(2)
                .step_by(2)
                .filter(|e| !e.0.starts_with('.'))
            {
                fs::remove_file(dir.join(&entry.0)).unwrap();
            }
        }
    }
    // While files are made, removed and renamed, lasting names are seen once.
    let stays: BTreeSet<String> = fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    listing.rewind();
    let (mut seen, mut n) = (Vec::new(), 0);
    while let Some(entry) = listing.read() {
        seen.push(entry.unwrap().file_name().to_str().unwrap().to_owned());
        n += 1;
        if n < 3_000 {
            File::create(dir.join(format!("new{n}"))).unwrap();
            if n % 3 == 0 {
                fs::rename(dir.join(format!("new{n}")), dir.join(format!("moved{n}"))).unwrap();
            }
        }
        assert!(n < 50_000, "a listing without end");
    }
    for name in &stays {
        let times = seen.iter().filter(|s| *s == name).count();
        assert_eq!(times, 1, "{name}");
    }
    // Rewound, it shows the present names.
    listing.rewind();
    let now = list(&mut listing);
    assert_eq!(now.len(), fs::read_dir(&dir).unwrap().count() + 2);
}

fn directories_are_no_files(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    fs::create_dir(m.path("d")).unwrap();
    let dir = File::open(m.path("d")).unwrap();
    table.row(
        "read",
        rustix::io::read(&dir, &mut [0; 8][..]),
        Err(Errno::ISDIR),
    );
    table.row(
        "truncate",
        rustix::fs::ftruncate(&dir, 0),
        Err(Errno::INVAL),
    );
    table.row("fsync", rustix::fs::fsync(&dir), Ok(()));
    table.row("fdatasync", rustix::fs::fdatasync(&dir), Ok(()));
    table.row("syncfs", rustix::fs::syncfs(&dir), Ok(()));
    table.row("seek", rustix::fs::seek(&dir, SeekFrom::Start(0)), Ok(0));
    fs::remove_dir(m.path("d")).unwrap();
    // Removed, but open: empty, and stays so.
    table.row("links", rustix::fs::fstat(&dir).unwrap().st_nlink, 0);
    let at = rustix::fs::mkdirat(&dir, "x", 0o755.into());
    table.row("mkdir", at, Err(Errno::NOENT));
    let at = rustix::fs::symlinkat("x", &dir, "y");
    table.row("symlink", at, Err(Errno::NOENT));
    table.row(
        "stat",
        rustix::fs::statat(&dir, ".", AtFlags::empty()).map(drop),
        Ok(()),
    );
    table.row("chmod", rustix::fs::fchmod(&dir, 0o700.into()), Ok(()));
    table.row("names", list(&mut Dir::read_from(&dir).unwrap()).len(), 0);
    table.end();
}
