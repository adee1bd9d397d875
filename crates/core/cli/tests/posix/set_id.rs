//! Set-user-id and set-group-id bits: which operations set and clear them.

use crate::mount::{
    GUEST, Layout, MEMBER, Mount, OWNER, ROOT, STAFF, STRANGER, Table, User, chmod, chown,
    directory, file, mode_of, open,
};
use rustix::fs::{FallocateFlags, OFlags, XattrFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

on_every_layout! {
    a_change_of_content_ends_set_id_rights,
    a_change_of_content_or_owner_takes_capabilities_away,
    a_change_of_owner_ends_set_id_rights,
    chmod_gives_set_group_id_to_members_only,
    set_group_id_directories_pass_their_group_on,
}

/// A change of content.
type Change = fn(&Path) -> Result<(), Errno>;

fn opened(path: &Path, flags: OFlags) -> Result<File, Errno> {
    open(path, OFlags::RDWR | flags, 0)
}

fn written(file: &File, data: &[u8]) -> Result<(), Errno> {
    file.write_all_at(data, 0)
        .map_err(|e| Errno::from_io_error(&e).unwrap())
}

const CHANGES: [(&str, Change); 9] = [
    ("write", |f| written(&opened(f, OFlags::empty())?, b"xyz")),
    ("direct", |f| {
        written(&opened(f, OFlags::DIRECT)?, &[1; 512])
    }),
    ("truncate", |f| {
        rustix::fs::ftruncate(opened(f, OFlags::empty())?, 3)
    }),
    ("extend", |f| {
        rustix::fs::ftruncate(opened(f, OFlags::empty())?, 99_999)
    }),
    ("O_TRUNC", |f| opened(f, OFlags::TRUNC).map(drop)),
    ("fallocate", |f| {
        let flags = FallocateFlags::empty();
        rustix::fs::fallocate(opened(f, OFlags::empty())?, flags, 0, 65_536)
    }),
    ("punch", |f| {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(opened(f, OFlags::empty())?, flags, 0, 4096)
    }),
    ("zero", |f| {
        let flags = FallocateFlags::ZERO_RANGE;
        rustix::fs::fallocate(opened(f, OFlags::empty())?, flags, 0, 4096)
    }),
    ("copy", |f| {
        let source = File::open(f.with_file_name("source")).unwrap();
        let (mut from, mut to) = (0, 0);
        let target = opened(f, OFlags::empty())?;
        rustix::fs::copy_file_range(source, Some(&mut from), target, Some(&mut to), 100).map(drop)
    }),
];

/// The mode after a change of content. The bits of a program are cleared unless root
/// changes it; set-group-id without group execution remains for the group.
fn after_change(user: &User, mode: u32) -> u32 {
    match user.name {
        "root" => mode,
        "member" if mode & 0o010 == 0 => mode & !0o4000,
        _ => mode & !0o6000,
    }
}

fn a_change_of_content_ends_set_id_rights(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let (path, mut table) = (m.path("f"), Table::default());
    drop(file(&m.path("source"), &[7; 200], 0o666));
    for (what, change) in CHANGES {
        for mode in [0o6777, 0o6666, 0o2666, 0o2676, 0o4767, 0o755] {
            for user in [ROOT, MEMBER, STRANGER] {
                drop(file(&path, &[3; 10_000], mode | 0o666));
                chmod(&path, mode | 0o666).unwrap();
                let row = (what, user.name, format!("{mode:o}"));
                table.row(&row, user.run(|| change(&path)), Ok(()));
                table.row(&row, mode_of(&path), after_change(&user, mode | 0o666));
            }
        }
    }
    let shown = mode_of(&path);
    m.remount();
    table.row("remounted", mode_of(&path), shown);
    table.end();
}

fn a_change_of_content_or_owner_takes_capabilities_away(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let (path, mut table) = (m.path("f"), Table::default());
    drop(file(&m.path("source"), &[7; 200], 0o666));
    // Revision 2: cap_net_raw, permitted.
    let capability = [
        1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let name = "security.capability";
    let renew = || {
        drop(file(&path, &[3; 10_000], 0o777));
        rustix::fs::setxattr(&path, name, &capability, XattrFlags::empty()).unwrap();
    };
    let left = || rustix::fs::getxattr(&path, name, &mut [0; 64][..]).map(|_| ());
    for (what, change) in CHANGES {
        for user in [ROOT, STRANGER] {
            renew();
            user.run(|| change(&path)).unwrap();
            table.row((what, user.name), left(), Err(Errno::NODATA));
        }
    }
    renew();
    chown(&path, Some(OWNER.uid), Some(STAFF)).unwrap();
    table.row("chown", left(), Err(Errno::NODATA));
    renew();
    chmod(&path, 0o700).unwrap();
    table.row("chmod", left(), Ok(()));
    table.end();
}

fn a_change_of_owner_ends_set_id_rights(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let (path, mut table) = (m.path("f"), Table::default());
    for user in [ROOT, OWNER] {
        for (mode, kept) in [
            (0o6755, 0o755),
            (0o4644, 0o644),
            (0o2775, 0o775),
            (0o1777, 0o1777),
        ] {
            drop(file(&path, b"", mode));
            user.run(|| chown(&path, Some(OWNER.uid), Some(OWNER.gid)))
                .unwrap();
            table.row((user.name, format!("{mode:o}")), mode_of(&path), kept);
        }
    }
    directory(&m.path("d"), 0o6755);
    chown(&m.path("d"), Some(0), Some(0)).unwrap();
    table.row("a directory keeps them", mode_of(&m.path("d")), 0o6755);
    table.end();
}

fn chmod_gives_set_group_id_to_members_only(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let (path, mut table) = (m.path("f"), Table::default());
    for (user, kept) in [
        (ROOT, 0o2755),
        (MEMBER, 0o2755),
        (GUEST, 0o2755),
        (STRANGER, 0o755),
    ] {
        drop(file(&path, b"", 0o644));
        chown(&path, Some(user.uid), None).unwrap();
        user.run(|| chmod(&path, 0o2755)).unwrap();
        table.row(user.name, mode_of(&path), kept);
    }
    table.end();
}

fn set_group_id_directories_pass_their_group_on(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let (dir, mut table) = (m.path("d"), Table::default());
    for (user, program) in [
        (ROOT, 0o2755),
        (MEMBER, 0o2755),
        (GUEST, 0o2755),
        (STRANGER, 0o755),
    ] {
        directory(&dir, 0o2777);
        let made = |name: &str| {
            let meta = fs::symlink_metadata(dir.join(name)).unwrap();
            (meta.gid(), meta.mode() & 0o7777)
        };
        user.run(|| {
            rustix::fs::mkdir(dir.join("sub"), 0o755.into()).unwrap();
            rustix::fs::symlink("x", dir.join("link")).unwrap();
            for (name, mode) in [("plain", 0o644), ("program", 0o2755), ("bit", 0o2644)] {
                open(&dir.join(name), OFlags::CREATE | OFlags::EXCL, mode).unwrap();
            }
        });
        table.row((user.name, "sub"), made("sub"), (STAFF, 0o2755));
        table.row((user.name, "link"), made("link"), (STAFF, 0o777));
        table.row((user.name, "plain"), made("plain"), (STAFF, 0o644));
        table.row((user.name, "program"), made("program"), (STAFF, program));
        table.row((user.name, "bit"), made("bit"), (STAFF, 0o2644));
        fs::remove_dir_all(&dir).unwrap();
    }
    table.end();
}
