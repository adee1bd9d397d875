//! POSIX access control lists, on a mount with `-o acl`.

use crate::mount::{
    Answer, GUEST, Layout, MEMBER, Mount, OWNER, STAFF, STRANGER, Table, chmod, directory, file,
    mode_of, open,
};
use rustix::fs::{OFlags, XattrFlags};
use rustix::io::Errno;
use std::fs;
use std::path::Path;

on_every_layout! {
    lists_grant_within_their_mask_and_follow_chmod,
    defaults_are_inherited_in_place_of_the_umask,
    a_list_set_by_an_outsider_ends_set_group_id,
}

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

const OWNER_OF: u16 = 1;
const USER: u16 = 2;
const GROUP_OF: u16 = 4;
const GROUP: u16 = 8;
const MASK: u16 = 16;
const OTHERS: u16 = 32;
/// Identity of an entry that names no user or group.
const NOBODY: u32 = u32::MAX;

type Entry = (u16, u16, u32);

/// A list as Linux writes it: a version, then entries of 8 bytes.
fn bytes(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn set(path: &Path, name: &str, entries: &[Entry]) -> Answer {
    rustix::fs::setxattr(path, name, &bytes(entries), XattrFlags::empty())
}

fn get(path: &Path, name: &str) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; 4096];
    let length = rustix::fs::getxattr(path, name, &mut value[..])?;
    value.truncate(length);
    Ok(value)
}

/// Owner rw, STRANGER rw, group r, MASK as given, no rights for other users.
fn for_stranger(mask: u16) -> Vec<Entry> {
    vec![
        (OWNER_OF, 6, NOBODY),
        (USER, 6, STRANGER.uid),
        (GROUP_OF, 4, NOBODY),
        (MASK, mask, NOBODY),
        (OTHERS, 0, NOBODY),
    ]
}

fn lists_grant_within_their_mask_and_follow_chmod(on: Layout) {
    let Some(m) = Mount::with(on, "acl") else {
        return;
    };
    let (path, mut table) = (m.path("f"), Table::default());
    drop(file(&path, b"x", 0o640));
    table.row("set", set(&path, ACCESS, &for_stranger(6)), Ok(()));
    table.row("the mask shows as group", mode_of(&path), 0o660);
    let opens = |user: &crate::mount::User, flags| user.run(|| open(&path, flags, 0).map(drop));
    let denied = Err(Errno::ACCESS);
    table.row("named", opens(&STRANGER, OFlags::RDWR), Ok(()));
    table.row("member reads", opens(&MEMBER, OFlags::RDONLY), Ok(()));
    table.row("guest reads", opens(&GUEST, OFlags::RDONLY), Ok(()));
    table.row("member writes", opens(&MEMBER, OFlags::RDWR), denied);
    table.row("chmod", chmod(&path, 0o640), Ok(()));
    table.row("follows", get(&path, ACCESS), Ok(bytes(&for_stranger(4))));
    table.row("named, masked", opens(&STRANGER, OFlags::RDWR), denied);
    table.row("named, read", opens(&STRANGER, OFlags::RDONLY), Ok(()));
    table.row(
        "others may not",
        STRANGER.run(|| set(&path, ACCESS, &for_stranger(6))),
        Err(Errno::PERM),
    );
    table.row(
        "the owner may",
        OWNER.run(|| set(&path, ACCESS, &for_stranger(6))),
        Ok(()),
    );
    table.row("removed", rustix::fs::removexattr(&path, ACCESS), Ok(()));
    table.row(
        "removed again",
        rustix::fs::removexattr(&path, ACCESS),
        Ok(()),
    );
    table.row("an empty list", set(&path, ACCESS, &[]), Ok(()));
    table.row("gone", get(&path, ACCESS), Err(Errno::NODATA));
    // A list that the mode can express is stored as the mode.
    let plain = [
        (OWNER_OF, 7, NOBODY),
        (GROUP_OF, 5, NOBODY),
        (OTHERS, 1, NOBODY),
    ];
    table.row("plain", set(&path, ACCESS, &plain), Ok(()));
    table.row(
        "mode",
        (mode_of(&path), get(&path, ACCESS)),
        (0o751, Err(Errno::NODATA)),
    );
    for wrong in [
        &for_stranger(6)[..3],
        &for_stranger(6)[1..],
        &[(OWNER_OF, 9, NOBODY)],
    ] {
        table.row(wrong, set(&path, ACCESS, wrong), Err(Errno::INVAL));
    }
    let on_file = set(&path, DEFAULT, &plain);
    table.row("a default of a file", on_file, Err(Errno::ACCESS));
    table.end();
}

fn defaults_are_inherited_in_place_of_the_umask(on: Layout) {
    let Some(m) = Mount::with(on, "acl") else {
        return;
    };
    let (dir, mut table) = (m.path("d"), Table::default());
    directory(&dir, 0o755);
    let list = [
        (OWNER_OF, 7, NOBODY),
        (GROUP_OF, 5, NOBODY),
        (GROUP, 7, STAFF),
        (MASK, 7, NOBODY),
        (OTHERS, 5, NOBODY),
    ];
    table.row("set", set(&dir, DEFAULT, &list), Ok(()));
    crate::support::shell(&format!(
        "cd {}; umask 077; >f; mkdir s; ln -s f l",
        dir.display()
    ));
    table.row("file", mode_of(&dir.join("f")), 0o664);
    table.row("directory", mode_of(&dir.join("s")), 0o775);
    table.row("passed on", get(&dir.join("s"), DEFAULT), Ok(bytes(&list)));
    let mut inherited = list;
    for (tag, permissions) in [(OWNER_OF, 6), (MASK, 6), (OTHERS, 4)] {
        inherited.iter_mut().find(|e| e.0 == tag).unwrap().1 = permissions;
    }
    table.row(
        "file's list",
        get(&dir.join("f"), ACCESS),
        Ok(bytes(&inherited)),
    );
    let temporary = open(&dir, OFlags::TMPFILE | OFlags::RDWR, 0o660).unwrap();
    let mode = rustix::fs::fstat(&temporary).unwrap().st_mode & 0o777;
    table.row("O_TMPFILE", mode, 0o660);
    table.row("removed", rustix::fs::removexattr(&dir, DEFAULT), Ok(()));
    fs::remove_file(dir.join("f")).unwrap();
    crate::support::shell(&format!("cd {}; umask 077; >f", dir.display()));
    table.row("the umask again", mode_of(&dir.join("f")), 0o600);
    table.end();
}

fn a_list_set_by_an_outsider_ends_set_group_id(on: Layout) {
    let Some(m) = Mount::with(on, "acl") else {
        return;
    };
    let (path, mut table) = (m.path("f"), Table::default());
    for (user, kept) in [(OWNER, 0), (GUEST, 0o2000), (crate::mount::ROOT, 0o2000)] {
        drop(file(&path, b"", 0o2755));
        crate::mount::chown(&path, Some(user.uid), None).unwrap();
        chmod(&path, 0o2755).unwrap();
        table.row(
            user.name,
            user.run(|| set(&path, ACCESS, &for_stranger(7))),
            Ok(()),
        );
        table.row(user.name, mode_of(&path) & 0o2000, kept);
    }
    table.end();
}
