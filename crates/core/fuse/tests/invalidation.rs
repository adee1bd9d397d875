//! After each operation the kernel shows what the server has.
//!
//! The kernel keeps attributes one by one: a question for all of them refreshes
//! what a question for one would have taken from its cache, and whoever runs a
//! program asks for the mode alone. So each operation is done anew for every
//! attribute, which is then asked for alone. The table of `docs/guide/semantics.md`
//! ("Who tells the kernel") is what is walked here.

mod fields;
mod operations;

use crate::support::Mounted;
use fields::{FIELDS, Field};
use operations::{
    Act, LISTS, OPERATIONS, Place, WATCHED, as_stranger, copy, stat_all, sync_range, writable,
};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, StatxFlags};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use varve_fs::{InodeNo, MemoryOptions, Options};
use varve_fuse::MountOptions;

/// What the kernel's clock needs to move on.
const TICK: Duration = Duration::from_millis(12);
/// A user who owns nothing.
const STRANGER: u32 = 1234;

/// Without a name, and without a question before the one that counts.
fn watch(path: &Path) -> (OwnedFd, InodeNo) {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty()).unwrap();
    let ino = rustix::fs::fstat(&fd).unwrap().st_ino;
    (fd, InodeNo(ino))
}

/// Does one operation and compares one attribute of all that is watched.
fn check(m: &Mounted, number: usize, what: (&str, Act), field: &Field, wrong: &mut Vec<String>) {
    let place = Place::new(m.path(&format!("{number}-{}", field.name)));
    let watched: Vec<_> = WATCHED.map(|name| watch(&place.path(name))).into();
    stat_all(&place);
    std::thread::sleep(TICK);
    what.1(&place);
    for (name, (fd, ino)) in WATCHED.iter().zip(&watched) {
        let flags = AtFlags::EMPTY_PATH;
        let held = || (field.held)(&m.fs.getattr(*ino).unwrap());
        let server = held();
        let shown = (field.shown)(&rustix::fs::statx(fd, "", flags, field.mask).unwrap());
        // What the kernel keeps itself of regular files it hands over when it
        // is to be durable.
        let own = ["size", "mtime", "ctime"].contains(&field.name);
        let regular = m.fs.getattr(*ino).unwrap().mode & 0o170_000 == 0o100_000;
        let server = match own && regular {
            true => {
                let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(fd));
                File::open(path).unwrap().sync_all().unwrap();
                held()
            }
            false => server,
        };
        if shown != server {
            let row = format!("{}: {} of {name}", what.0, field.name);
            wrong.push(format!("{row}: shown {shown:?}, held {server:?}"));
        }
    }
}

fn walk(options: MountOptions, operations: &[(&str, Act)]) {
    let Some(m) = Mounted::with(options) else {
        return;
    };
    crate::support::open_to_all(m.root());
    let mut wrong = Vec::new();
    for (number, what) in operations.iter().enumerate() {
        for field in &FIELDS {
            check(&m, number, *what, field, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// Nobody waits for what the kernel writes back in its own time.
#[test]
fn blocks_of_a_file_that_stays_open_are_shown_in_a_moment() {
    let Some(m) = Mounted::new() else { return };
    let place = Place::new(m.path("open"));
    let blocks = || {
        let (fd, ino) = watch(&place.path("f"));
        let shown = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::BLOCKS);
        let held = m.fs.getattr(ino).unwrap().sectors;
        (shown.unwrap().stx_blocks, held)
    };
    for round in 1..4 {
        stat_all(&place);
        let before = blocks().1;
        let at = round * 100_000;
        place.file.write_all_at(&[1; 70_000], at).unwrap();
        sync_range(&place.file);
        let deadline = Instant::now() + 10 * varve_fuse::BLOCK_COUNT_LAG;
        while blocks().0 != blocks().1 {
            assert!(Instant::now() < deadline, "{:?}", blocks());
            std::thread::sleep(TICK);
        }
        assert!(blocks().1 > before, "nothing was written back");
    }
    // One notification for many writes: the next write asks once, not each.
    let cost = m.cost(|| {
        for n in 0..200 {
            place
                .file
                .write_all_at(&[2; 4096], 500_000 + n * 8192)
                .unwrap();
            sync_range(&place.file);
        }
    });
    assert!(
        cost.of("write") >= 200 && cost.of("getattr") < 20,
        "{cost:?}"
    );
}

/// What the table is for.
#[test]
fn a_stranger_cannot_run_what_he_wrote_with_the_rights_of_its_owner() {
    for strict_order in [false, true] {
        let Some(m) = Mounted::ordered(strict_order) else {
            return;
        };
        crate::support::open_to_all(m.root());
        let program = fs::read("/usr/bin/id").unwrap();
        fs::write(m.path("whole"), &program).unwrap();
        let f = &m.path("f");
        let allocate = |flags: FallocateFlags| {
            // Holes in a program would keep it from running: behind its end.
            let (offset, file) = (program.len() as u64 + 8192, writable(f, 0)?);
            Ok(rustix::fs::fallocate(file, flags, offset, 4096)?)
        };
        let keep = FallocateFlags::KEEP_SIZE;
        type Way<'a> = (&'a str, &'a (dyn Fn() -> io::Result<()> + Sync));
        let ways: [Way<'_>; 9] = [
            ("write", &|| {
                writable(f, 0)?.write_all_at(&program[..4096], 0)
            }),
            ("direct write", &|| {
                writable(f, libc::O_DIRECT)?.write_all_at(&program[..4096], 0)
            }),
            ("all of it", &|| fs::write(f, &program)),
            ("fallocate", &|| allocate(FallocateFlags::empty())),
            ("keep size", &|| allocate(keep)),
            ("punch", &|| allocate(FallocateFlags::PUNCH_HOLE | keep)),
            ("zero", &|| allocate(FallocateFlags::ZERO_RANGE)),
            ("extend", &|| {
                writable(f, 0)?.set_len(program.len() as u64 + 4096)
            }),
            ("copy", &|| copy(&m.path("whole"), f, 4096)),
        ];
        for (name, way) in ways {
            fs::write(f, &program).unwrap();
            File::open(f).unwrap().sync_all().unwrap();
            fs::set_permissions(f, Permissions::from_mode(0o4777)).unwrap();
            let run = || {
                let mut id = Command::new(f);
                let output = id.arg("-u").uid(STRANGER).gid(STRANGER).output().unwrap();
                String::from_utf8(output.stdout).unwrap().trim().to_owned()
            };
            assert_eq!(run(), "0", "set-id programs run here");
            as_stranger(way).unwrap();
            assert_eq!(run(), STRANGER.to_string(), "{name}, strict {strict_order}");
        }
    }
}

/// A refusal changes what it changed all the same.
#[test]
fn what_a_refused_request_has_changed_is_told() {
    if !crate::support::can_mount() {
        return;
    }
    let memory = MemoryOptions {
        capacity_bytes: 8 << 20,
        ..MemoryOptions::default()
    };
    let fs = crate::support::file_system(memory, Options::default());
    let m = Mounted::serve(fs, MountOptions::default());
    crate::support::open_to_all(m.root());
    fs::write(m.path("f"), b"x").unwrap();
    fs::set_permissions(m.path("f"), Permissions::from_mode(0o6777)).unwrap();
    let (fd, ino) = watch(&m.path("f"));
    let refused = as_stranger(|| {
        let file = writable(&m.path("f"), 0).unwrap();
        rustix::fs::fallocate(file, FallocateFlags::empty(), 0, 1 << 30)
    });
    assert_eq!(refused, Err(rustix::io::Errno::NOSPC));
    let shown = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::MODE).unwrap();
    let held = m.fs.getattr(ino).unwrap().mode;
    assert_eq!(u32::from(shown.stx_mode), held);
    assert_eq!(held & 0o7777, 0o777, "the server clears them first");
}

#[test]
fn the_kernel_shows_what_the_server_has() {
    walk(MountOptions::default(), OPERATIONS);
}

#[test]
fn the_kernel_shows_what_the_server_has_over_the_device() {
    let options = MountOptions {
        uring: false,
        ..MountOptions::default()
    };
    walk(options, OPERATIONS);
}

#[test]
fn the_kernel_shows_what_the_server_has_without_write_back() {
    let options = MountOptions {
        strict_order: true,
        ..MountOptions::default()
    };
    walk(options, OPERATIONS);
}

#[test]
fn the_kernel_shows_what_access_lists_make_of_modes() {
    for strict_order in [false, true] {
        let options = MountOptions {
            acl: true,
            strict_order,
            ..MountOptions::default()
        };
        walk(options, LISTS);
    }
}
