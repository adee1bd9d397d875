//! Extended attributes.

use crate::mount::{Answer, Layout, Mount, OWNER, STRANGER, Table, User, file};
use rustix::fs::{CWD, FileType, XattrFlags, mknodat};
use rustix::io::Errno;
use std::fs;
use std::path::Path;

on_every_layout! {
    names_values_and_flags,
    kinds_of_file_and_users,
    access_lists_are_refused_unless_in_force,
}

fn set(path: &Path, name: &str, value: &[u8], flags: XattrFlags) -> Answer {
    rustix::fs::lsetxattr(path, name, value, flags)
}

fn get(path: &Path, name: &str) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; 1 << 16];
    let length = rustix::fs::lgetxattr(path, name, &mut value[..])?;
    value.truncate(length);
    Ok(value)
}

fn remove(path: &Path, name: &str) -> Answer {
    rustix::fs::lremovexattr(path, name)
}

fn list(path: &Path) -> Vec<String> {
    let mut names = vec![0; 1 << 16];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap();
    let names = String::from_utf8(names[..length].to_vec()).unwrap();
    let mut names: Vec<String> = names.split_terminator('\0').map(String::from).collect();
    names.sort();
    names
}

fn names_values_and_flags(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let (path, mut table) = (m.path("f"), Table::default());
    drop(file(&path, b"", 0o644));
    let any = XattrFlags::empty();
    let (create, replace) = (XattrFlags::CREATE, XattrFlags::REPLACE);
    let longest = format!("user.{}", "n".repeat(250));
    let odd = "user.\u{1}\u{fc}/..";
    let [large, largest] = on.long_attributes().map(|bytes| vec![9; bytes]);
    for (name, value, flags, want) in [
        ("user.a", &b"1"[..], replace, Err(Errno::NODATA)),
        ("user.a", b"1", create, Ok(())),
        ("user.a", b"2", create, Err(Errno::EXIST)),
        ("user.a", b"3", replace, Ok(())),
        ("user.empty", b"", any, Ok(())),
        (&longest, b"1", any, Ok(())),
        (&format!("{longest}n"), b"1", any, Err(Errno::RANGE)),
        (odd, b"odd", any, Ok(())),
        ("user.", b"1", any, Err(Errno::INVAL)),
        ("user", b"1", any, Err(Errno::OPNOTSUPP)),
        ("", b"1", any, Err(Errno::RANGE)),
        ("system.unknown", b"1", any, Err(Errno::OPNOTSUPP)),
        ("unknown.a", b"1", any, Err(Errno::OPNOTSUPP)),
        ("trusted.t", b"t", any, Ok(())),
        ("security.s", b"s", any, Ok(())),
        ("user.large", &large, any, Ok(())),
        ("user.largest", &largest, any, Ok(())),
        ("user.no room", &[9; 8_192], any, Err(Errno::NOSPC)),
        ("user.too large", &[9; 65_537], any, Err(Errno::TOOBIG)),
    ] {
        table.row(
            (name, value.len(), flags),
            set(&path, name, value, flags),
            want,
        );
    }
    m.remount();
    table.row("value", get(&path, "user.a"), Ok(b"3".to_vec()));
    table.row("empty value", get(&path, "user.empty"), Ok(vec![]));
    table.row("odd name", get(&path, odd), Ok(b"odd".to_vec()));
    table.row("large value", get(&path, "user.large"), Ok(large));
    table.row("largest value", get(&path, "user.largest"), Ok(largest));
    table.row("no such", get(&path, "user.none"), Err(Errno::NODATA));
    let mut short = [0; 3];
    let got = rustix::fs::getxattr(&path, "user.large", &mut short[..]);
    table.row("a short buffer", got, Err(Errno::RANGE));
    let got = rustix::fs::listxattr(&path, &mut short[..]);
    table.row("a short list", got, Err(Errno::RANGE));
    let mut names = [
        "security.s",
        "trusted.t",
        "user.a",
        "user.empty",
        "user.large",
        "user.largest",
        odd,
        &longest,
    ];
    names.sort_unstable();
    table.row("list", list(&path), names.map(String::from).to_vec());
    table.row("remove", remove(&path, "user.a"), Ok(()));
    table.row("remove again", remove(&path, "user.a"), Err(Errno::NODATA));
    table.end();
}

fn kinds_of_file_and_users(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    drop(file(&m.path("file"), b"", 0o644));
    fs::create_dir(m.path("dir")).unwrap();
    rustix::fs::symlink("file", m.path("link")).unwrap();
    mknodat(CWD, m.path("fifo"), FileType::Fifo, 0o666.into(), 0).unwrap();
    for (name, user_attributes) in [
        ("file", true),
        ("dir", true),
        ("link", false),
        ("fifo", false),
    ] {
        let path = m.path(name);
        let want = if user_attributes {
            Ok(())
        } else {
            Err(Errno::PERM)
        };
        table.row(
            (name, "user"),
            set(&path, "user.a", b"1", XattrFlags::empty()),
            want,
        );
        for attribute in ["trusted.a", "security.a"] {
            let set = set(&path, attribute, b"1", XattrFlags::empty());
            table.row((name, attribute), set, Ok(()));
            table.row((name, attribute), get(&path, attribute), Ok(b"1".to_vec()));
        }
    }
    let path = m.path("file");
    let mut row = |user: User, what: &str, got: Answer, want: Answer| {
        table.row((user.name, what.to_owned()), got, want);
    };
    let read = |name: &'static str| move |path: &Path| get(path, name).map(drop);
    let write = |name: &'static str| move |path: &Path| set(path, name, b"2", XattrFlags::empty());
    row(OWNER, "write", OWNER.run(|| write("user.a")(&path)), Ok(()));
    row(
        STRANGER,
        "read",
        STRANGER.run(|| read("user.a")(&path)),
        Ok(()),
    );
    row(
        STRANGER,
        "write",
        STRANGER.run(|| write("user.a")(&path)),
        Err(Errno::ACCESS),
    );
    row(
        STRANGER,
        "remove",
        STRANGER.run(|| remove(&path, "user.a")),
        Err(Errno::ACCESS),
    );
    row(
        OWNER,
        "read trusted",
        OWNER.run(|| read("trusted.a")(&path)),
        Err(Errno::NODATA),
    );
    row(
        OWNER,
        "write trusted",
        OWNER.run(|| write("trusted.a")(&path)),
        Err(Errno::PERM),
    );
    row(
        OWNER,
        "read security",
        OWNER.run(|| read("security.a")(&path)),
        Ok(()),
    );
    row(
        OWNER,
        "write security",
        OWNER.run(|| write("security.a")(&path)),
        Err(Errno::PERM),
    );
    let shown = OWNER.run(|| list(&path));
    table.row(
        "trusted is hidden",
        shown,
        vec!["security.a".into(), "user.a".into()],
    );
    table.end();
}

fn access_lists_are_refused_unless_in_force(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let path = m.path("f");
    drop(file(&path, b"", 0o644));
    let list = [2, 0, 0, 0];
    let name = "system.posix_acl_access";
    assert_eq!(
        set(&path, name, &list, XattrFlags::empty()),
        Err(Errno::OPNOTSUPP)
    );
    assert_eq!(get(&path, name), Err(Errno::OPNOTSUPP));
}
