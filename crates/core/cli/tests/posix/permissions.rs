//! Permissions: permission bits, owners, sticky directories.

use crate::mount::{
    Answer, GUEST, Layout, MEMBER, Mount, OWNER, ROOT, STAFF, STRANGER, Table, User, chmod, chown,
    directory, file, mode_of, open,
};
use rustix::fs::{Access, AtFlags, CWD, OFlags, RenameFlags, Timespec, Timestamps};
use rustix::io::Errno;
use std::fs;
use std::path::Path;

on_every_layout! {
    permission_bits_decide_who_opens_a_file,
    directories_are_searched_listed_and_changed_by_their_bits,
    only_the_owner_and_root_change_modes_and_owners,
    times_are_set_by_the_owner_and_now_by_writers,
    sticky_directories_keep_what_belongs_to_others,
    new_files_belong_to_their_maker_and_obey_the_umask,
}

const USERS: [User; 5] = [ROOT, OWNER, MEMBER, GUEST, STRANGER];

/// The bits of `mode` that apply to `user`.
fn class(user: &User, mode: u32) -> u32 {
    match user.name {
        "owner" => mode >> 6 & 7,
        "member" | "guest" => mode >> 3 & 7,
        _ => mode & 7,
    }
}

fn permission_bits_decide_who_opens_a_file(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let (path, mut table) = (m.path("f"), Table::default());
    let modes = [
        0, 0o111, 0o222, 0o444, 0o700, 0o070, 0o007, 0o640, 0o750, 0o077, 0o604,
    ];
    for mode in modes {
        drop(file(&path, b"content", mode));
        for user in USERS {
            let ways = [
                (OFlags::RDONLY, Access::READ_OK, 4),
                (OFlags::WRONLY, Access::WRITE_OK, 2),
                (OFlags::RDWR, Access::READ_OK | Access::WRITE_OK, 6),
            ];
            for (flags, access, needed) in ways {
                let granted = user.uid == 0 || class(&user, mode) & needed == needed;
                let want = if granted { Ok(()) } else { Err(Errno::ACCESS) };
                let what = (format!("{mode:o}"), user.name, needed);
                table.row(&what, user.run(|| open(&path, flags, 0).map(drop)), want);
                let asked = user.run(|| rustix::fs::accessat(CWD, &path, access, AtFlags::EACCESS));
                table.row((&what, "access"), asked, want);
            }
            // Root may execute a file that any user may execute.
            let granted = class(&user, mode) & 1 != 0 || (user.uid == 0 && mode & 0o111 != 0);
            let asked =
                user.run(|| rustix::fs::accessat(CWD, &path, Access::EXEC_OK, AtFlags::EACCESS));
            let want = if granted { Ok(()) } else { Err(Errno::ACCESS) };
            table.row((format!("{mode:o}"), user.name, "exec"), asked, want);
        }
    }
    table.end();
}

fn directories_are_searched_listed_and_changed_by_their_bits(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let (dir, mut table) = (m.path("d"), Table::default());
    directory(&dir, 0o777);
    drop(file(&dir.join("f"), b"", 0o666));
    let denied = |granted| if granted { Ok(()) } else { Err(Errno::ACCESS) };
    for mode in 0..8 {
        chmod(&dir, mode).unwrap();
        let (list, change, search) = (mode & 4 != 0, mode & 3 == 3, mode & 1 != 0);
        let [f, g, victim, empty] = ["f", "g", "victim", "empty"].map(|name| dir.join(name));
        drop(file(&victim, b"", 0o666));
        directory(&empty, 0o777);
        let mut row = |what, want, call: &(dyn Fn() -> Answer + Sync)| {
            table.row((mode, what), STRANGER.run(call), denied(want));
        };
        row("stat", search, &|| rustix::fs::stat(&f).map(drop));
        row("list", list, &|| open(&dir, OFlags::RDONLY, 0).map(drop));
        row("create", change, &|| {
            open(&g, OFlags::CREATE | OFlags::WRONLY, 0o600).map(drop)
        });
        row("mkdir", change, &|| {
            rustix::fs::mkdir(dir.join("h"), 0o700.into())
        });
        row("symlink", change, &|| {
            rustix::fs::symlink("f", dir.join("i"))
        });
        row("link", change, &|| rustix::fs::link(&f, dir.join("j")));
        row("rename", change, &|| {
            rustix::fs::rename(&victim, dir.join("k"))
        });
        row("rmdir", change, &|| rustix::fs::rmdir(&empty));
        row("unlink", change, &|| {
            rustix::fs::unlink(if change {
                dir.join("k")
            } else {
                victim.clone()
            })
        });
        for made in ["g", "i", "j", "victim"] {
            let _ = fs::remove_file(dir.join(made));
        }
        for made in ["h", "empty"] {
            let _ = fs::remove_dir(dir.join(made));
        }
    }
    table.end();
}

fn only_the_owner_and_root_change_modes_and_owners(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let (path, mut table) = (m.path("f"), Table::default());
    let not_permitted = Err(Errno::PERM);
    for user in USERS {
        drop(file(&path, b"", 0o644));
        let (root, owner) = (user.uid == 0, user.uid == OWNER.uid);
        let allowed = |yes| if yes { Ok(()) } else { not_permitted };
        let mut row = |what, yes, call: &(dyn Fn() -> Answer + Sync)| {
            table.row((user.name, what), user.run(call), allowed(yes));
        };
        row("chmod", root || owner, &|| chmod(&path, 0o600));
        row("chown to nobody", true, &|| chown(&path, None, None));
        row("chown to oneself", root || owner, &|| {
            chown(&path, Some(OWNER.uid), None)
        });
        row("give away", root, &|| {
            chown(&path, Some(STRANGER.uid), None)
        });
        chown(&path, Some(OWNER.uid), None).unwrap();
        row("own group", root || owner, &|| {
            chown(&path, None, Some(OWNER.gid))
        });
        row("group of others", root, &|| chown(&path, None, Some(9999)));
    }
    // A supplementary group is enough.
    chown(&path, Some(GUEST.uid), Some(GUEST.gid)).unwrap();
    table.row(
        "guest",
        GUEST.run(|| chown(&path, None, Some(STAFF))),
        Ok(()),
    );
    table.end();
}

fn times_are_set_by_the_owner_and_now_by_writers(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let (path, mut table) = (m.path("f"), Table::default());
    let time = |tv_nsec| Timespec { tv_sec: 1, tv_nsec };
    let times = |atime, mtime| Timestamps {
        last_access: time(atime),
        last_modification: time(mtime),
    };
    let (now, omit) = (rustix::fs::UTIME_NOW, rustix::fs::UTIME_OMIT);
    for mode in [0o666, 0o644] {
        for user in USERS {
            drop(file(&path, b"", mode));
            let owner = user.uid == 0 || user.uid == OWNER.uid;
            let writer = owner || class(&user, mode) & 2 != 0;
            let allowed = |yes, error| if yes { Ok(()) } else { Err(error) };
            for (what, times, want) in [
                ("now", times(now, now), allowed(writer, Errno::ACCESS)),
                ("given", times(5, 5), allowed(owner, Errno::PERM)),
                ("one now", times(now, omit), allowed(owner, Errno::PERM)),
                ("neither", times(omit, omit), Ok(())),
            ] {
                let set = || rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty());
                table.row((user.name, format!("{mode:o}"), what), user.run(set), want);
            }
        }
    }
    table.end();
}

/// Whether `user` may remove a name from a sticky directory.
fn may_remove(user: &User, directory_owner: u32, file_owner: u32) -> Answer {
    if [0, directory_owner, file_owner].contains(&user.uid) {
        Ok(())
    } else {
        Err(Errno::PERM)
    }
}

fn sticky_directories_keep_what_belongs_to_others(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let (sticky, other) = (m.path("sticky"), m.path("other"));
    let mut table = Table::default();
    directory(&sticky, 0o1777);
    directory(&other, 0o777);
    let (x, y) = (sticky.join("x"), other.join("y"));
    let rename =
        |from: &Path, to: &Path, flags| rustix::fs::renameat_with(CWD, from, CWD, to, flags);
    for directory_owner in [0, OWNER.uid, STRANGER.uid] {
        for file_owner in [0, OWNER.uid, STRANGER.uid] {
            for user in [ROOT, OWNER] {
                let want = may_remove(&user, directory_owner, file_owner);
                type Call<'a> = &'a (dyn Fn() -> Answer + Sync);
                let calls: [(&str, Call<'_>); 4] = [
                    ("unlink", &|| rustix::fs::unlink(&x)),
                    ("rename", &|| {
                        rename(&x, &other.join("z"), RenameFlags::empty())
                    }),
                    ("replace", &|| rename(&y, &x, RenameFlags::empty())),
                    ("exchange", &|| rename(&y, &x, RenameFlags::EXCHANGE)),
                ];
                for (what, call) in calls {
                    for path in [&x, &y] {
                        drop(file(path, b"", 0o666));
                    }
                    chown(&x, Some(file_owner), None).unwrap();
                    chown(&sticky, Some(directory_owner), None).unwrap();
                    let row = (what, user.name, directory_owner, file_owner);
                    table.row(row, user.run(call), want);
                    for path in [&x, &y, &other.join("z")] {
                        let _ = fs::remove_file(path);
                    }
                }
            }
        }
    }
    table.end();
}

fn new_files_belong_to_their_maker_and_obey_the_umask(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    for user in USERS {
        let path = m.path(user.name);
        user.run(|| open(&path, OFlags::CREATE, 0o640).map(drop))
            .unwrap();
        let meta = rustix::fs::stat(&path).unwrap();
        let found = (meta.st_uid, meta.st_gid, meta.st_mode & 0o7777);
        table.row(user.name, found, (user.uid, user.gid, 0o640));
    }
    // The umask belongs to a process, so the test uses a process of its own.
    let script = "umask 027; >f; mkdir d; mkfifo p; ln -s f s";
    let dir = m.path("umask");
    fs::create_dir(&dir).unwrap();
    crate::support::shell(&format!("cd {}; {script}", dir.display()));
    for (name, mode) in [("f", 0o640), ("d", 0o750), ("p", 0o640), ("s", 0o777)] {
        table.row(name, mode_of(&dir.join(name)), mode);
    }
    table.end();
}
