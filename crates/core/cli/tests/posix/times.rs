//! Which operation changes which time, and the range of a time.

use crate::map::SharedMap;
use crate::mount::{Answer, Layout, Mount, Table, chmod, chown, file, open};
use rustix::fs::{AtFlags, CWD, FallocateFlags, OFlags, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

on_every_layout! {
    every_operation_changes_its_times,
    a_younger_file_is_never_older,
    times_hold_nanoseconds_before_1970_and_after_2446,
    the_time_of_birth_stays,
}

/// Longer than the kernel's tick, from which times are taken.
const TICKS: Duration = Duration::from_millis(12);

/// Modification and change time of `path`.
fn times(path: &Path) -> [(i64, i64); 2] {
    let meta = fs::symlink_metadata(path).unwrap();
    [
        (meta.mtime(), meta.mtime_nsec()),
        (meta.ctime(), meta.ctime_nsec()),
    ]
}

/// The times that change: neither, the change time, both.
const NONE: [bool; 2] = [false, false];
const CHANGE: [bool; 2] = [false, true];
const BOTH: [bool; 2] = [true, true];

/// An operation, and the times it changes of file `f` and of its directory.
type Row<'a> = (&'a str, [[bool; 2]; 2], &'a dyn Fn() -> Answer);

fn every_operation_changes_its_times(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    let (d, f) = (m.path("d"), m.path("d/f"));
    fs::create_dir(&d).unwrap();
    let open_file = file(&f, &[1; 10_000], 0o644);
    let other = file(&m.path("other"), b"other", 0o644);
    let map = SharedMap::new(&open_file, 4096);
    let allocate = |flags, from, length| rustix::fs::fallocate(&open_file, flags, from, length);
    let keep = FallocateFlags::KEEP_SIZE;
    let done = |result: std::io::Result<()>| result.map_err(|e| Errno::from_io_error(&e).unwrap());
    let nine = Timespec {
        tv_sec: 9,
        tv_nsec: 9,
    };
    let given = Timestamps {
        last_access: nine,
        last_modification: nine,
    };
    let xattr = |value: &[u8]| rustix::fs::setxattr(&f, "user.a", value, XattrFlags::empty());
    let rows: &[Row<'_>] = &[
        ("write", [BOTH, NONE], &|| {
            done(open_file.write_all_at(b"x", 0))
        }),
        ("write nothing", [NONE, NONE], &|| {
            done(open_file.write_at(b"", 0).map(drop))
        }),
        ("map", [BOTH, NONE], &|| {
            map.set(7, map.get(7) ^ 1);
            map.sync();
            Ok(())
        }),
        ("fsync", [NONE, NONE], &|| rustix::fs::fsync(&open_file)),
        ("truncate", [BOTH, NONE], &|| {
            rustix::fs::ftruncate(&open_file, 9000)
        }),
        ("extend", [BOTH, NONE], &|| {
            rustix::fs::ftruncate(&open_file, 20_000)
        }),
        ("O_TRUNC", [BOTH, NONE], &|| {
            open(&f, OFlags::WRONLY | OFlags::TRUNC, 0).map(drop)
        }),
        ("open", [NONE, NONE], &|| {
            open(&f, OFlags::RDWR | OFlags::CREATE, 0).map(drop)
        }),
        ("allocate", [BOTH, NONE], &|| {
            allocate(FallocateFlags::empty(), 0, 30_000)
        }),
        ("reserve", [BOTH, NONE], &|| allocate(keep, 0, 90_000)),
        ("punch", [BOTH, NONE], &|| {
            allocate(keep | FallocateFlags::PUNCH_HOLE, 0, 4096)
        }),
        ("zero", [BOTH, NONE], &|| {
            allocate(FallocateFlags::ZERO_RANGE, 0, 4096)
        }),
        ("copy", [BOTH, NONE], &|| {
            rustix::fs::copy_file_range(&other, Some(&mut 0), &open_file, Some(&mut 0), 5).map(drop)
        }),
        ("chmod", [CHANGE, NONE], &|| chmod(&f, 0o600)),
        ("chmod, same", [CHANGE, NONE], &|| chmod(&f, 0o600)),
        ("chown", [CHANGE, NONE], &|| chown(&f, Some(5), Some(6))),
        ("setxattr", [CHANGE, NONE], &|| xattr(b"1")),
        ("removexattr", [CHANGE, NONE], &|| {
            rustix::fs::removexattr(&f, "user.a")
        }),
        ("utimensat", [BOTH, NONE], &|| {
            rustix::fs::utimensat(CWD, &f, &given, AtFlags::empty())
        }),
        ("link", [CHANGE, BOTH], &|| {
            rustix::fs::link(&f, d.join("g"))
        }),
        ("unlink", [CHANGE, BOTH], &|| {
            rustix::fs::unlink(d.join("g"))
        }),
        ("rename away", [CHANGE, BOTH], &|| {
            rustix::fs::rename(&f, d.join("g"))
        }),
        ("rename back", [CHANGE, BOTH], &|| {
            rustix::fs::rename(d.join("g"), &f)
        }),
        ("rename, same", [NONE, NONE], &|| rustix::fs::rename(&f, &f)),
        ("mkdir", [NONE, BOTH], &|| {
            rustix::fs::mkdir(d.join("s"), 0o755.into())
        }),
        ("rmdir", [NONE, BOTH], &|| rustix::fs::rmdir(d.join("s"))),
        ("symlink", [NONE, BOTH], &|| {
            rustix::fs::symlink("x", d.join("l"))
        }),
        ("refused", [NONE, NONE], &|| {
            assert_eq!(
                rustix::fs::mkdir(d.join("l"), 0o755.into()),
                Err(Errno::EXIST)
            );
            Ok(())
        }),
    ];
    for row in rows {
        changes_its_times(&mut table, row, &d);
    }
    table.end();
}

/// Runs the operation on the file in directory `d`, `f` or for the moment `g`.
fn changes_its_times(table: &mut Table, (what, changes, call): &Row<'_>, d: &Path) {
    let look = || {
        let file = if d.join("f").exists() { "f" } else { "g" };
        [times(&d.join(file)), times(d)]
    };
    std::thread::sleep(TICKS);
    let before = look();
    std::thread::sleep(TICKS);
    table.row(what, call(), Ok(()));
    let after = look();
    let changed = [0, 1].map(|of| [0, 1].map(|time| after[of][time] != before[of][time]));
    table.row(what, changed, *changes);
    let back = [0, 1].map(|of| after[of][1] < before[of][1]);
    table.row((what, "went back"), back, [false, false]);
}

fn a_younger_file_is_never_older(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    // The kernel sets the times of written files, the server those of new ones.
    for n in 0..200 {
        let (a, b) = (m.path(&format!("a{n}")), m.path(&format!("b{n}")));
        drop(open(&a, OFlags::CREATE | OFlags::WRONLY, 0o644).unwrap());
        let made = times(&a);
        fs::write(&b, b"x").unwrap();
        assert!(
            times(&b)[0] >= made[0],
            "round {n}: {:?} < {made:?}",
            times(&b)
        );
        // A new link is a change by the server, after one by the kernel.
        let written = times(&b);
        fs::hard_link(&b, a.with_extension("link")).unwrap();
        assert!(
            times(&b)[1] >= written[1],
            "round {n}: {:?} < {written:?}",
            times(&b)
        );
    }
}

fn times_hold_nanoseconds_before_1970_and_after_2446(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    let path = m.path("f");
    drop(file(&path, b"", 0o644));
    let stamps: [i64; 10] = [
        -(1 << 40),
        -(1 << 31) - 1,
        -(1 << 31),
        -1,
        0,
        (1 << 31) - 1,
        1 << 31,
        1 << 32,
        1 << 34,
        1 << 40,
    ];
    for seconds in stamps {
        let set = Timestamps {
            last_access: Timespec {
                tv_sec: seconds,
                tv_nsec: 999_999_999,
            },
            last_modification: Timespec {
                tv_sec: seconds,
                tv_nsec: 1,
            },
        };
        rustix::fs::utimensat(CWD, &path, &set, AtFlags::empty()).unwrap();
        let look = || {
            let meta = fs::metadata(&path).unwrap();
            (
                meta.atime(),
                meta.atime_nsec(),
                meta.mtime(),
                meta.mtime_nsec(),
            )
        };
        table.row(seconds, look(), (seconds, 999_999_999, seconds, 1));
        m.remount();
        table.row(
            (seconds, "remounted"),
            look(),
            (seconds, 999_999_999, seconds, 1),
        );
    }
    table.end();
}

fn the_time_of_birth_stays(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let path = m.path("f");
    let open_file = file(&path, b"x", 0o644);
    let born = fs::metadata(&path).unwrap().created().unwrap();
    std::thread::sleep(TICKS);
    open_file.write_all_at(b"more", 0).unwrap();
    drop(open_file);
    fs::rename(&path, m.path("g")).unwrap();
    chmod(&m.path("g"), 0o600).unwrap();
    m.remount();
    assert_eq!(fs::metadata(m.path("g")).unwrap().created().unwrap(), born);
}
