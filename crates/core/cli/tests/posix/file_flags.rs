//! File flags and projects on a mount: `chattr`, `lsattr`, and the operations that flags
//! forbid. The expectations were tried on ext4.

use crate::ioctls::{Fsxattr, fl, get_extended, get_flags, set_extended, set_flags};
use crate::mount::{Layout, Mount, OWNER, STRANGER, Table, chmod, directory, file, open};
use crate::support::varve;
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

on_every_layout! {
    flags_of_files_are_enforced_as_on_ext4,
    flags_of_directories_are_enforced_without_an_option,
    only_root_makes_immutable_and_only_the_owner_sets_others,
    a_mount_that_is_not_asked_at_open_makes_no_promise,
    a_volume_with_such_files_is_asked_at_open_whatever_the_options,
    a_file_that_is_open_when_it_becomes_immutable_is_not_written_any_more,
    a_file_that_is_open_when_it_becomes_append_only_is_written_on,
    an_append_only_file_grows_through_the_cache_and_past_it,
    chattr_and_lsattr_speak_to_a_mount,
    projects_are_set_asked_and_kept,
    what_is_written_to_a_synchronous_file_survives_its_server,
    fsck_and_dump_know_the_flags,
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap()
}

/// Opens, writes a byte at the beginning or where the flags require, and syncs.
fn written(path: &Path, flags: OFlags) -> Result<(), Errno> {
    let mut file = open(path, flags, 0)?;
    file.write_all(b"x").map_err(errno)?;
    file.sync_all().map_err(errno)
}

type Attempt = fn(&Mount) -> Result<(), Errno>;

/// Operations on `f` in `d`, and whether an append-only file, or a file in an append-only
/// directory, allows them.
const OF_FILE: [(&str, bool, Attempt); 17] = [
    ("open to write", false, |m| {
        open(&m.path("d/f"), OFlags::WRONLY, 0).map(drop)
    }),
    ("open for both", false, |m| {
        open(&m.path("d/f"), OFlags::RDWR, 0).map(drop)
    }),
    ("open to append", true, |m| {
        written(&m.path("d/f"), OFlags::WRONLY | OFlags::APPEND)
    }),
    ("open and empty", false, |m| {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::TRUNC;
        open(&m.path("d/f"), flags, 0).map(drop)
    }),
    ("open to read and empty", false, |m| {
        open(&m.path("d/f"), OFlags::RDONLY | OFlags::TRUNC, 0).map(drop)
    }),
    ("truncate", false, |m| {
        open(&m.path("d/f"), OFlags::WRONLY | OFlags::APPEND, 0)
            .and_then(|f| rustix::fs::ftruncate(f, 1))
    }),
    ("punch", false, |m| {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let f = open(&m.path("d/f"), OFlags::WRONLY | OFlags::APPEND, 0)?;
        rustix::fs::fallocate(f, flags, 0, 4096)
    }),
    ("reserve", true, |m| {
        let f = open(&m.path("d/f"), OFlags::WRONLY | OFlags::APPEND, 0)?;
        rustix::fs::fallocate(f, FallocateFlags::empty(), 0, 4096)
    }),
    ("chmod", false, |m| chmod(&m.path("d/f"), 0o600)),
    ("chown", false, |m| {
        crate::mount::chown(&m.path("d/f"), Some(7), None)
    }),
    ("touch", true, |m| {
        let f = File::open(m.path("d/f")).unwrap();
        rustix::fs::futimens(
            &f,
            &rustix::fs::Timestamps {
                last_access: now(),
                last_modification: now(),
            },
        )
    }),
    ("set times", false, |m| {
        let f = File::open(m.path("d/f")).unwrap();
        let times = fs::FileTimes::new()
            .set_accessed(std::time::UNIX_EPOCH)
            .set_modified(std::time::UNIX_EPOCH);
        f.set_times(times).map_err(errno)
    }),
    ("set attribute", false, |m| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(m.path("d/f"), "user.a", b"1", flags)
    }),
    ("link", false, |m| {
        fs::hard_link(m.path("d/f"), m.path("l")).map_err(errno)
    }),
    ("unlink", false, |m| {
        fs::remove_file(m.path("d/f")).map_err(errno)
    }),
    ("rename", false, |m| {
        fs::rename(m.path("d/f"), m.path("n")).map_err(errno)
    }),
    ("rename over", false, |m| {
        fs::rename(m.path("o"), m.path("d/f")).map_err(errno)
    }),
];

const OF_DIRECTORY: [(&str, bool, Attempt); 9] = [
    ("create", true, |m| {
        open(&m.path("d/n"), OFlags::CREATE | OFlags::WRONLY, 0o644).map(drop)
    }),
    ("mkdir", true, |m| {
        fs::create_dir(m.path("d/n")).map_err(errno)
    }),
    ("symlink", true, |m| {
        symlink("x", m.path("d/n")).map_err(errno)
    }),
    ("link into", true, |m| {
        fs::hard_link(m.path("o"), m.path("d/n")).map_err(errno)
    }),
    ("rename into", true, |m| {
        fs::rename(m.path("o"), m.path("d/n")).map_err(errno)
    }),
    ("unlink from", false, |m| {
        fs::remove_file(m.path("d/f")).map_err(errno)
    }),
    ("rmdir from", false, |m| {
        fs::remove_dir(m.path("d/s")).map_err(errno)
    }),
    ("rename within", false, |m| {
        fs::rename(m.path("d/f"), m.path("d/n")).map_err(errno)
    }),
    ("chmod", false, |m| chmod(&m.path("d"), 0o700)),
];

fn now() -> rustix::fs::Timespec {
    rustix::fs::Timespec {
        tv_sec: 0,
        tv_nsec: rustix::fs::UTIME_NOW,
    }
}

fn table(m: &Mount, attempts: &[(&str, bool, Attempt)], guarded: &str) {
    let mut table = Table::default();
    for (what, takes, attempt) in attempts {
        for (flags, allowed) in [(fl::IMMUTABLE, false), (fl::APPEND, *takes), (0, true)] {
            directory(&m.path("d"), 0o755);
            fs::create_dir(m.path("d/s")).unwrap();
            drop(file(&m.path("d/f"), b"sediment", 0o644));
            fs::write(m.path("o"), b"other").unwrap();
            let path = m.path(guarded);
            set_flags(&path, flags).unwrap();
            let want = match allowed {
                true => Ok(()),
                false => Err(Errno::PERM),
            };
            table.row((what, flags), attempt(m), want);
            for name in [guarded, "n", "d/n", "l"] {
                if m.path(name).is_file() || m.path(name).is_dir() {
                    set_flags(&m.path(name), 0).unwrap();
                }
            }
            m.clear();
        }
    }
    table.end();
}

fn flags_of_files_are_enforced_as_on_ext4(on: Layout) {
    let Some(m) = Mount::with(on, "chattr") else {
        return;
    };
    table(&m, &OF_FILE, "d/f");
}

fn flags_of_directories_are_enforced_without_an_option(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    table(&m, &OF_DIRECTORY, "d");
}

fn only_root_makes_immutable_and_only_the_owner_sets_others(on: Layout) {
    let Some(m) = Mount::with(on, "chattr") else {
        return;
    };
    let path = m.path("f");
    drop(file(&path, b"x", 0o666));
    let as_user = |user: &crate::mount::User, flags| user.run(|| set_flags(&path, flags));
    assert_eq!(as_user(&OWNER, fl::NOATIME | fl::NODUMP), Ok(()));
    assert_eq!(get_flags(&path), Ok(fl::NOATIME | fl::NODUMP));
    assert_eq!(as_user(&STRANGER, 0), Err(Errno::PERM));
    for flag in [fl::IMMUTABLE, fl::APPEND] {
        assert_eq!(as_user(&OWNER, flag), Err(Errno::PERM));
        assert_eq!(set_flags(&path, flag), Ok(()));
        assert_eq!(as_user(&OWNER, 0), Err(Errno::PERM));
        assert_eq!(set_flags(&path, 0), Ok(()));
    }
    // Flags of other file systems, and a directory's on a file.
    for unknown in [0x4, 0x0080_0000, fl::DIRSYNC, fl::PROJINHERIT] {
        assert_eq!(set_flags(&path, unknown), Err(Errno::OPNOTSUPP));
    }
}

fn a_mount_that_is_not_asked_at_open_makes_no_promise(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let path = m.path("f");
    fs::write(&path, b"x").unwrap();
    for flag in [fl::IMMUTABLE, fl::APPEND, fl::SYNC] {
        assert_eq!(set_flags(&path, flag), Err(Errno::OPNOTSUPP));
    }
    // New files in a directory would inherit this one.
    fs::create_dir(m.path("d")).unwrap();
    assert_eq!(set_flags(&m.path("d"), fl::SYNC), Err(Errno::OPNOTSUPP));
    assert_eq!(set_flags(&path, fl::NODUMP), Ok(()));
    assert_eq!(get_flags(&path), Ok(fl::NODUMP));
}

fn a_volume_with_such_files_is_asked_at_open_whatever_the_options(on: Layout) {
    let Some(m) = Mount::with(on, "chattr") else {
        return;
    };
    for (name, flag) in [("i", fl::IMMUTABLE), ("a", fl::APPEND)] {
        fs::write(m.path(name), b"x").unwrap();
        set_flags(&m.path(name), flag).unwrap();
    }
    m.remount();
    for (name, flag) in [("i", fl::IMMUTABLE), ("a", fl::APPEND)] {
        let path = &m.path(name);
        assert_eq!(get_flags(path), Ok(flag));
        assert_eq!(written(path, OFlags::RDWR), Err(Errno::PERM));
        let appended = written(path, OFlags::WRONLY | OFlags::APPEND);
        assert_eq!(appended.is_ok(), flag == fl::APPEND);
        assert_eq!(fs::read(path).unwrap()[0], b'x');
        set_flags(path, 0).unwrap();
    }
}

fn a_file_that_is_open_when_it_becomes_immutable_is_not_written_any_more(on: Layout) {
    let Some(m) = Mount::with(on, "chattr") else {
        return;
    };
    let path = m.path("f");
    fs::write(&path, b"before").unwrap();
    let held = open(&path, OFlags::RDWR, 0).unwrap();
    held.write_all_at(b"BEFORE", 0).unwrap(); // in the kernel's cache
    set_flags(&path, fl::IMMUTABLE).unwrap();
    assert_eq!(
        held.write_all_at(b"after!", 0).map_err(errno),
        Err(Errno::PERM)
    );
    assert_eq!(
        held.write_all_at(b"after!", 0).map_err(errno),
        Err(Errno::PERM)
    );
    held.sync_all().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"BEFORE");
    drop(held);
    m.remount();
    assert_eq!(fs::read(&path).unwrap(), b"BEFORE");
    set_flags(&path, 0).unwrap();
}

fn a_file_that_is_open_when_it_becomes_append_only_is_written_on(on: Layout) {
    let Some(m) = Mount::with(on, "chattr") else {
        return;
    };
    let path = m.path("f");
    fs::write(&path, b"before").unwrap();
    let held = open(&path, OFlags::RDWR, 0).unwrap();
    set_flags(&path, fl::APPEND).unwrap();
    held.write_all_at(b"AFTER", 0).unwrap();
    held.sync_all().unwrap();
    drop(held);
    m.remount();
    assert_eq!(fs::read(&path).unwrap(), b"AFTERe");
    set_flags(&path, 0).unwrap();
}

fn an_append_only_file_grows_through_the_cache_and_past_it(on: Layout) {
    let Some(m) = Mount::with(on, "chattr") else {
        return;
    };
    let path = m.path("log");
    fs::write(&path, b"").unwrap();
    set_flags(&path, fl::APPEND).unwrap();
    let mut want = Vec::new();
    for round in 0..200_u32 {
        let direct = if round % 3 == 0 {
            OFlags::DIRECT
        } else {
            OFlags::empty()
        };
        let flags = OFlags::WRONLY | OFlags::APPEND | direct;
        let line = vec![b'a' + (round % 26) as u8; 1 + round as usize * 7 % 500];
        open(&path, flags, 0).unwrap().write_all(&line).unwrap();
        want.extend(line);
    }
    m.remount();
    assert!(fs::read(&path).unwrap() == want);
    set_flags(&path, 0).unwrap();
}

fn chattr_and_lsattr_speak_to_a_mount(on: Layout) {
    if crate::support::mounted::lacks("chattr", crate::support::has("chattr")) {
        return;
    }
    let Some(m) = Mount::with(on, "chattr") else {
        return;
    };
    fs::write(m.path("f"), b"x").unwrap();
    fs::create_dir(m.path("d")).unwrap();
    let dir = m.path("");
    crate::support::shell(&format!(
        "cd {dir}
         chattr +iAd f; chattr +aDSP d; chattr -p 7 d
         lsattr f | grep -q '^----i-dA' || {{ lsattr f; exit 1; }}
         lsattr -dp d | grep -q '^ *7 --SD-a-*P-* d$' || {{ lsattr -dp d; exit 1; }}
         ! rm -f f 2>/dev/null
         touch d/n; lsattr -p d/n | grep -q '^ *7 --S-' || {{ lsattr -p d/n; exit 1; }}
         lsattr -v f >/dev/null
         chattr -i f; chattr -a d",
        dir = dir.display()
    ));
}

fn projects_are_set_asked_and_kept(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let (d, f) = (m.path("d"), m.path("f"));
    fs::create_dir(&d).unwrap();
    fs::write(&f, b"x").unwrap();
    let seven = Fsxattr {
        projid: 7,
        xflags: 0x200,
        ..Fsxattr::default()
    };
    set_extended(&d, seven).unwrap();
    let below = d.join("below");
    fs::write(&below, b"x").unwrap();
    assert_eq!(get_extended(&below).unwrap().projid, 7);
    let crosses = fs::rename(&f, d.join("f")).unwrap_err();
    assert_eq!(crosses.raw_os_error(), Some(Errno::XDEV.raw_os_error()));
    let nodump = Fsxattr {
        xflags: 0x80,
        projid: 9,
        ..Fsxattr::default()
    };
    set_extended(&f, nodump).unwrap();
    m.remount();
    assert_eq!(get_extended(&f).unwrap(), nodump);
    assert_eq!(get_flags(&f), Ok(fl::NODUMP));
    assert_eq!(get_extended(&d).unwrap(), seven);
    let hint = Fsxattr {
        extsize: 4096,
        ..nodump
    };
    assert!(set_extended(&f, hint).is_err());
}

fn what_is_written_to_a_synchronous_file_survives_its_server(on: Layout) {
    let Some(m) = Mount::with(on, "chattr") else {
        return;
    };
    let (sync, plain) = (m.path("sync"), m.path("plain"));
    for path in [&sync, &plain] {
        fs::write(path, b"").unwrap();
    }
    set_flags(&sync, fl::SYNC).unwrap();
    let mut file = open(&sync, OFlags::WRONLY, 0).unwrap();
    file.write_all(b"durable").unwrap();
    fs::write(&plain, b"in a cache").unwrap();
    drop(file);
    m.kill_and_remount();
    assert_eq!(fs::read(&sync).unwrap(), b"durable");
    assert_eq!(fs::read(&plain).unwrap(), b"");
    set_flags(&sync, 0).unwrap();
}

fn fsck_and_dump_know_the_flags(on: Layout) {
    let Some(m) = Mount::with(on, "chattr") else {
        return;
    };
    fs::write(m.path("f"), b"x").unwrap();
    set_flags(&m.path("f"), fl::IMMUTABLE | fl::NODUMP).unwrap();
    m.offline(|image| {
        varve(["fsck", "--data", image]).expect(0, ": clean");
        if !on.is_log() {
            varve(["dump", image, "inode", "/f"]).expect(1, "has no");
            return;
        }
        let inode = varve(["dump", "--json", image, "inode", "/f"])
            .expect(0, "")
            .json();
        assert_eq!(inode["flags"].as_u64().unwrap() & 0x3fc, 0x24);
    });
    set_flags(&m.path("f"), 0).unwrap();
}
