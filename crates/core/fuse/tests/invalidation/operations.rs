//! What is done, to what.

use super::{STRANGER, TICK};
use crate::support::aio::Aio;
use rustix::fs::{
    AtFlags, FallocateFlags, IFlags, Mode, OFlags, RenameFlags, XattrFlags, ioctl_setflags,
};
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

/// An operation on what [`Place::new`] makes.
pub type Act = fn(&Place);

/// A directory of its own for each attempt: `f` and its other name `g`, set-id
/// and written; `victim`, `source`, `link` and `sub` with a file in it.
pub struct Place {
    dir: PathBuf,
    /// Open for reading and writing.
    pub file: File,
}

/// Names in a place that are looked at after each operation.
pub const WATCHED: [&str; 8] = [
    ".",
    "f",
    "victim",
    "source",
    "link",
    "sub",
    "sub/inner",
    "empty",
];

impl Place {
    pub fn new(dir: PathBuf) -> Self {
        fs::create_dir(&dir).unwrap();
        crate::support::open_to_all(&dir);
        let made = |name: &str, bytes: usize, mode: u32| {
            let file = File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .open(dir.join(name))
                .unwrap();
            file.write_all_at(&vec![5; bytes], 0).unwrap();
            file.set_permissions(Permissions::from_mode(mode)).unwrap();
            file.sync_all().unwrap();
            file
        };
        let file = made("f", 10_000, 0o6777);
        fs::hard_link(dir.join("f"), dir.join("g")).unwrap();
        made("victim", 300, 0o666);
        made("source", 50_000, 0o666);
        made("empty", 0, 0o6777);
        symlink("f", dir.join("link")).unwrap();
        fs::create_dir(dir.join("sub")).unwrap();
        crate::support::open_to_all(&dir.join("sub"));
        made("sub/inner", 10, 0o666);
        Place { dir, file }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Does something as somebody who owns nothing here.
    fn stranger(&self, work: impl FnOnce() -> io::Result<()> + Send) {
        as_stranger(work).unwrap();
    }

    fn fallocate(&self, flags: FallocateFlags, offset: u64, len: u64) {
        rustix::fs::fallocate(&self.file, flags, offset, len).unwrap();
    }
}

/// Runs `work` as a user of no rights.
pub fn as_stranger<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    crate::support::as_user(STRANGER, work)
}

/// Opens for writing.
pub fn writable(path: &Path, flags: i32) -> io::Result<File> {
    File::options().write(true).custom_flags(flags).open(path)
}

/// Copies `bytes` into a file.
pub fn copy(from: &Path, to: &Path, bytes: usize) -> io::Result<()> {
    let (source, target) = (File::open(from)?, writable(to, 0)?);
    let done = rustix::fs::copy_file_range(source, None, target, None, bytes)?;
    assert_eq!(done, bytes);
    Ok(())
}

fn allocate(path: &Path, flags: FallocateFlags, offset: u64, len: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(
        writable(path, 0)?,
        flags,
        offset,
        len,
    )?)
}

const KEEP: FallocateFlags = FallocateFlags::KEEP_SIZE;

pub const OPERATIONS: &[(&str, Act)] = &[
    ("write", |p| {
        p.file.write_all_at(b"xyz", 20_000).unwrap();
    }),
    ("change a directory's flags", |p| {
        leave_out_of_dumps(&p.path("sub"))
    }),
    ("write and fsync", |p| {
        p.file.write_all_at(&[1; 70_000], 20_000).unwrap();
        p.file.sync_all().unwrap();
    }),
    ("write and fdatasync", |p| {
        p.file.write_all_at(&[1; 70_000], 20_000).unwrap();
        p.file.sync_data().unwrap();
    }),
    ("map and msync", |p| {
        p.file.set_len(300_000).unwrap();
        stat_all(p);
        std::thread::sleep(TICK);
        let map = crate::support::map::SharedMap::new(&p.file, 300_000);
        map.set(200_000, 7);
        map.sync();
    }),
    ("direct write", |p| {
        let file = File::options()
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(p.path("f"))
            .unwrap();
        file.write_all_at(&[1; 8192], 65_536).unwrap();
    }),
    ("asynchronous direct write", |p| {
        let file = File::options()
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(p.path("f"))
            .unwrap();
        p.file.set_len(300_000).unwrap();
        stat_all(p);
        std::thread::sleep(TICK);
        Aio::new().write(&file, &[1; 65_536], 4096);
    }),
    ("write by a stranger", |p| {
        p.stranger(|| writable(&p.path("f"), 0)?.write_all_at(b"more", 0));
    }),
    ("append by a stranger", |p| {
        p.stranger(|| writable(&p.path("f"), libc::O_APPEND)?.write_all(b"more"));
    }),
    ("direct write by a stranger", |p| {
        p.stranger(|| writable(&p.path("f"), libc::O_DIRECT)?.write_all_at(&[0; 4096], 0));
    }),
    ("fallocate by a stranger", |p| {
        p.stranger(|| allocate(&p.path("f"), FallocateFlags::empty(), 0, 99_999));
    }),
    ("fallocate, keep size, by a stranger", |p| {
        p.stranger(|| allocate(&p.path("f"), KEEP, 0, 99_999));
    }),
    ("punch by a stranger", |p| {
        p.stranger(|| allocate(&p.path("f"), FallocateFlags::PUNCH_HOLE | KEEP, 0, 4096));
    }),
    ("zero by a stranger", |p| {
        p.stranger(|| allocate(&p.path("f"), FallocateFlags::ZERO_RANGE, 0, 4096));
    }),
    ("copy by a stranger", |p| {
        p.stranger(|| copy(&p.path("source"), &p.path("f"), 100));
    }),
    ("truncate by a stranger", |p| {
        p.stranger(|| writable(&p.path("f"), 0)?.set_len(5));
    }),
    ("O_TRUNC by a stranger", |p| {
        p.stranger(|| writable(&p.path("f"), libc::O_TRUNC).map(drop));
    }),
    ("fallocate", |p| {
        p.fallocate(FallocateFlags::empty(), 0, 100_000)
    }),
    ("fallocate, keep size", |p| p.fallocate(KEEP, 0, 100_000)),
    ("punch", |p| {
        p.fallocate(FallocateFlags::PUNCH_HOLE | KEEP, 0, 8192)
    }),
    ("zero", |p| {
        p.fallocate(FallocateFlags::ZERO_RANGE, 5000, 50_000)
    }),
    ("copy", |p| {
        let source = File::open(p.path("source")).unwrap();
        let (mut from, mut to) = (0, 30_000);
        rustix::fs::copy_file_range(source, Some(&mut from), &p.file, Some(&mut to), 40_000)
            .unwrap();
    }),
    ("truncate", |p| p.file.set_len(10).unwrap()),
    ("extend", |p| p.file.set_len(1_000_000).unwrap()),
    ("read", |p| {
        drop(fs::read(p.path("source")).unwrap());
    }),
    ("direct read", |p| {
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(p.path("source"))
            .unwrap();
        file.read_at(&mut [0; 4096], 0).unwrap();
    }),
    ("copy from", |p| {
        let source = File::open(p.path("source")).unwrap();
        rustix::fs::copy_file_range(&source, None, &p.file, None, 4096).unwrap();
    }),
    ("list", |p| {
        fs::read_dir(p.path("sub")).unwrap().for_each(drop);
    }),
    ("read link", |p| {
        drop(fs::read_link(p.path("link")).unwrap())
    }),
    ("chmod", |p| {
        fs::set_permissions(p.path("f"), Permissions::from_mode(0o640)).unwrap();
    }),
    ("chown", |p| chown(p.path("f"), Some(3), Some(4)).unwrap()),
    ("chown of a directory", |p| {
        chown(p.path("sub"), Some(3), Some(4)).unwrap()
    }),
    ("set times", |p| {
        let times = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
        p.file.set_times(times).unwrap();
    }),
    ("set an attribute", |p| {
        rustix::fs::setxattr(p.path("f"), "user.a", &[1; 3000], XattrFlags::empty()).unwrap();
    }),
    ("remove an attribute", |p| {
        rustix::fs::setxattr(p.path("f"), "user.a", &[1; 3000], XattrFlags::empty()).unwrap();
        stat_all(p);
        std::thread::sleep(TICK);
        rustix::fs::removexattr(p.path("f"), "user.a").unwrap();
    }),
    ("attribute of a directory", |p| {
        rustix::fs::setxattr(p.path("sub"), "user.a", &[1; 3000], XattrFlags::empty()).unwrap();
    }),
    ("create", |p| drop(File::create(p.path("sub/new")).unwrap())),
    ("mknod", |p| {
        let mode = Mode::from_raw_mode(0o644);
        let (kind, at) = (rustix::fs::FileType::Fifo, rustix::fs::CWD);
        rustix::fs::mknodat(at, p.path("sub/fifo"), kind, mode, 0).unwrap();
    }),
    ("mkdir", |p| fs::create_dir(p.path("sub/new")).unwrap()),
    ("symlink", |p| symlink("x", p.path("sub/new")).unwrap()),
    ("link", |p| {
        fs::hard_link(p.path("f"), p.path("sub/new")).unwrap()
    }),
    ("temporary file and link", |p| {
        let flags = OFlags::TMPFILE | OFlags::WRONLY;
        let file = rustix::fs::open(p.path("sub"), flags, 0o600.into()).unwrap();
        let at = rustix::fs::CWD;
        rustix::fs::linkat(&file, "", at, p.path("sub/new"), AtFlags::EMPTY_PATH).unwrap();
    }),
    ("unlink", |p| fs::remove_file(p.path("victim")).unwrap()),
    ("unlink one name of two", |p| {
        fs::remove_file(p.path("f")).unwrap()
    }),
    ("rmdir", |p| {
        fs::remove_file(p.path("sub/inner")).unwrap();
        fs::remove_dir(p.path("sub")).unwrap();
    }),
    ("rename", |p| {
        fs::rename(p.path("f"), p.path("sub/new")).unwrap()
    }),
    ("rename over a file", |p| {
        fs::rename(p.path("f"), p.path("victim")).unwrap()
    }),
    ("rename of a directory over another", |p| {
        fs::create_dir(p.path("other")).unwrap();
        stat_all(p);
        fs::rename(p.path("sub"), p.path("other")).unwrap();
    }),
    ("rename of a directory elsewhere", |p| {
        fs::create_dir(p.path("sub/moves")).unwrap();
        stat_all(p);
        std::thread::sleep(TICK);
        fs::rename(p.path("sub/moves"), p.path("moved")).unwrap();
    }),
    ("exchange", |p| {
        let at = rustix::fs::CWD;
        rustix::fs::renameat_with(at, p.path("f"), at, p.path("sub"), RenameFlags::EXCHANGE)
            .unwrap();
    }),
    ("rename with whiteout", |p| {
        let at = rustix::fs::CWD;
        let how = RenameFlags::WHITEOUT;
        rustix::fs::renameat_with(at, p.path("victim"), at, p.path("sub/new"), how).unwrap();
    }),
];

/// `chattr +d`.
fn leave_out_of_dumps(path: &Path) {
    ioctl_setflags(File::open(path).unwrap(), IFlags::NODUMP).unwrap();
}

/// With access lists in force.
pub const LISTS: &[(&str, Act)] = &[
    ("set an access list", |p| {
        set_list(&p.path("f"), "system.posix_acl_access", 5).unwrap();
    }),
    ("set a list that says what the mode says", |p| {
        let list = [
            entry(1, 7, u32::MAX),
            entry(4, 7, u32::MAX),
            entry(32, 7, u32::MAX),
        ];
        let value = [&2u32.to_le_bytes()[..], &list.concat()].concat();
        let (path, name) = (p.path("f"), "system.posix_acl_access");
        rustix::fs::setxattr(path, name, &value, XattrFlags::empty()).unwrap();
    }),
    ("set an access list as one who is not in the group", |p| {
        chown(p.path("f"), Some(1234), Some(0)).unwrap();
        fs::set_permissions(p.path("f"), Permissions::from_mode(0o2777)).unwrap();
        stat_all(p);
        p.stranger(|| Ok(set_list(&p.path("f"), "system.posix_acl_access", 4)?));
    }),
    ("remove an access list", |p| {
        set_list(&p.path("f"), "system.posix_acl_access", 5).unwrap();
        stat_all(p);
        rustix::fs::removexattr(p.path("f"), "system.posix_acl_access").unwrap();
    }),
    ("chmod of what has a list", |p| {
        set_list(&p.path("f"), "system.posix_acl_access", 5).unwrap();
        stat_all(p);
        fs::set_permissions(p.path("f"), Permissions::from_mode(0o640)).unwrap();
    }),
    ("make what inherits a list", |p| {
        set_list(&p.path("sub"), "system.posix_acl_default", 5).unwrap();
        stat_all(p);
        std::thread::sleep(TICK);
        fs::create_dir(p.path("sub/new")).unwrap();
        drop(File::create(p.path("sub/file")).unwrap());
    }),
];

/// Of an access list: what, permissions, for whom.
fn entry(tag: u16, permissions: u16, id: u32) -> Vec<u8> {
    let halves = [tag, permissions].map(u16::to_le_bytes).concat();
    [&halves[..], &id.to_le_bytes()].concat()
}

/// Gives the owner all, user 7 and the mask `some`, and others nothing.
fn set_list(path: &Path, name: &str, some: u16) -> rustix::io::Result<()> {
    let none = u32::MAX;
    let list = [
        entry(1, 7, none),
        entry(2, some, 7),
        entry(4, 4, none),
        entry(16, some, none),
        entry(32, 0, none),
    ];
    let value = [&2u32.to_le_bytes()[..], &list.concat()].concat();
    rustix::fs::setxattr(path, name, &value, XattrFlags::empty())
}

pub fn sync_range(file: &File) {
    use std::os::fd::AsRawFd;
    let flags = libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    #[allow(unsafe_code)]
    // SAFETY: four integers.
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) };
    assert_eq!(done, 0);
}

/// Has the kernel know everything.
pub fn stat_all(p: &Place) {
    for name in WATCHED {
        let _ = fs::symlink_metadata(p.path(name));
    }
}
