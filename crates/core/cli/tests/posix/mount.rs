//! A mounted volume, its users, and tables of expectations.

use crate::support::{Scratch, varve};
use rustix::fs::{CWD, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use std::fmt::Debug;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The result of a system call.
pub type Answer = Result<(), Errno>;

/// A layout, by its name in `mkfs --layout`. Its methods are the differences between
/// layouts (`docs/spec/in-place.md`, "Allocation").
#[derive(Clone, Copy)]
pub struct Layout(pub &'static str);

impl Layout {
    /// True for the segmented log, the only layout whose inodes `varve dump` shows.
    pub fn is_log(self) -> bool {
        self.0 == "log"
    }

    /// True for FFS with any policy.
    fn is_in_place(self) -> bool {
        !matches!(self.0, "log" | "vlfs")
    }

    /// Bytes of a volume with numbers for 8,000 files: VLFS has one for each 16 KiB.
    fn volume_bytes(self) -> &'static str {
        if self.0 == "vlfs" { "128M" } else { "64M" }
    }

    /// Bytes of the largest file.
    pub fn largest_file(self) -> u64 {
        // Blocks of 4 KiB: those of the inode, and those below three levels of indirect
        // blocks.
        const IN_PLACE: u64 = 12 + 336 + 336 * 336 + 336 * 336 * 336;
        if self.is_in_place() {
            IN_PLACE * 4096
        } else {
            1 << 60
        }
    }

    /// Bytes of two extended attributes that a file may have at once. Another of 8 KiB
    /// does not fit in addition: in place all together take at most a block.
    pub fn long_attributes(self) -> [usize; 2] {
        if self.is_in_place() {
            [1_000, 2_000]
        } else {
            [60_000, 65_536]
        }
    }
}

/// A mounted volume whose root is open to all users.
pub struct Mount {
    image: String,
    dir: String,
    _scratch: Scratch,
}

impl Mount {
    /// Mounts with default options; `None`, loudly, where mounting is impossible.
    pub fn new(on: Layout) -> Option<Self> {
        Self::with(on, "rw")
    }

    /// Mounts with these options of `-o`.
    pub fn with(on: Layout, options: &str) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        rustix::process::umask(Mode::empty());
        let scratch = Scratch::new();
        // Ordinary users must have access.
        open_to_all(scratch.dir.path(), 0o755);
        let image = scratch.text("image");
        varve([
            "mkfs",
            "--layout",
            on.0,
            "--size",
            on.volume_bytes(),
            &image,
        ])
        .expect(0, "");
        let dir = scratch.text("mnt");
        fs::create_dir(&dir).unwrap();
        varve(["mount", "-o", options, &image, &dir]).expect(0, "");
        open_to_all(Path::new(&dir), 0o777);
        Some(Mount {
            image,
            dir,
            _scratch: scratch,
        })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        Path::new(&self.dir).join(name)
    }

    /// Removes everything.
    pub fn clear(&self) {
        for entry in fs::read_dir(&self.dir).unwrap() {
            let path = entry.unwrap().path();
            if path.symlink_metadata().unwrap().is_dir() {
                fs::remove_dir_all(path).unwrap();
            } else {
                fs::remove_file(path).unwrap();
            }
        }
    }

    fn umount(&self) {
        crate::support::umount(&self.dir);
    }

    /// Unmounts and mounts again, so that no cache is used.
    pub fn remount(&self) {
        self.umount();
        varve(["mount", &self.image, &self.dir]).expect(0, "");
    }

    /// Calls `look` with the volume while it is not mounted.
    pub fn offline(&self, look: impl FnOnce(&str)) {
        self.umount();
        look(&self.image);
        varve(["mount", &self.image, &self.dir]).expect(0, "");
    }

    /// Kills the server and mounts the remaining image.
    pub fn kill_and_remount(&self) {
        let info = varve(["info", "--json", &self.dir]).expect(0, "").json();
        let server = info["holder"]["pid"].to_string();
        let killed = Command::new("kill").args(["-KILL", &server]).status();
        assert!(killed.unwrap().success());
        self.umount();
        varve(["mount", &self.image, &self.dir]).expect(0, "");
    }

    /// Mounts again, read-only.
    pub fn remount_read_only(&self) {
        self.umount();
        varve(["mount", "-r", &self.image, &self.dir]).expect(0, "");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = Command::new("umount").args(["-l", &self.dir]).status();
            return;
        }
        self.umount();
        varve(["fsck", "--data", &self.image]).expect(0, ": clean");
    }
}

fn can_mount() -> bool {
    let root = rustix::process::geteuid().is_root();
    let present = File::options().read(true).write(true).open("/dev/fuse");
    if root && present.is_ok() {
        return true;
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "CI must be root and have /dev/fuse"
    );
    eprintln!("SKIPPED: not root, or no /dev/fuse");
    false
}

fn open_to_all(dir: &Path, mode: u32) {
    fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
}

/// A user that makes calls.
#[derive(Clone, Copy, Debug)]
pub struct User {
    pub name: &'static str,
    pub uid: u32,
    pub gid: u32,
    pub groups: &'static [u32],
}

/// The group of these tests' files.
pub const STAFF: u32 = 2000;

pub const ROOT: User = user("root", 0, 0, &[]);
/// The owner of these tests' files.
pub const OWNER: User = user("owner", 1001, 1001, &[]);
/// A user in the files' group.
pub const MEMBER: User = user("member", 1002, STAFF, &[]);
/// A user in the files' group by a supplementary group.
pub const GUEST: User = user("guest", 1003, 1003, &[7, STAFF]);
/// A user without relation to the files.
pub const STRANGER: User = user("stranger", 1004, 1004, &[]);

const fn user(name: &'static str, uid: u32, gid: u32, groups: &'static [u32]) -> User {
    User {
        name,
        uid,
        gid,
        groups,
    }
}

impl User {
    /// Runs `work` as this user. Linux keeps credentials per thread, so the rest of the
    /// process stays root.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
        std::thread::scope(|scope| {
            let work = scope.spawn(|| {
                let groups: Vec<Gid> = self.groups.iter().map(|&g| Gid::from_raw(g)).collect();
                let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
                set_thread_groups(&groups).unwrap();
                set_thread_res_gid(gid, gid, gid).unwrap();
                set_thread_res_uid(uid, uid, uid).unwrap();
                work()
            });
            work.join().unwrap()
        })
    }
}

/// The rows of a table that failed.
#[derive(Default)]
pub struct Table {
    rows: usize,
    wrong: Vec<String>,
}

impl Table {
    /// Checks one row.
    pub fn row<T: PartialEq + Debug>(&mut self, what: impl Debug, got: T, want: T) {
        self.rows += 1;
        if got != want {
            self.wrong.push(format!("{what:?}: {got:?}, want {want:?}"));
        }
    }

    /// Fails with all wrong rows.
    #[track_caller]
    pub fn end(self) {
        let (wrong, rows) = (self.wrong.len(), self.rows);
        assert!(rows > 0, "an empty table");
        assert!(
            wrong == 0,
            "{wrong} of {rows} rows:\n{}",
            self.wrong.join("\n")
        );
    }
}

/// Makes a file with this content, mode, owner and [`STAFF`] as its group.
pub fn file(path: &Path, content: &[u8], mode: u32) -> File {
    fs::write(path, content).unwrap();
    std::os::unix::fs::chown(path, Some(OWNER.uid), Some(STAFF)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    File::options().read(true).write(true).open(path).unwrap()
}

/// Makes a directory likewise.
pub fn directory(path: &Path, mode: u32) {
    fs::create_dir(path).unwrap();
    std::os::unix::fs::chown(path, Some(OWNER.uid), Some(STAFF)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// open(2).
pub fn open(path: &Path, flags: OFlags, mode: u32) -> Result<File, Errno> {
    let fd = rustix::fs::openat(
        CWD,
        path,
        flags | OFlags::CLOEXEC,
        Mode::from_raw_mode(mode),
    )?;
    Ok(File::from(fd))
}

/// The permission bits of the file to which a name refers.
pub fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// chmod(2).
pub fn chmod(path: &Path, mode: u32) -> Answer {
    rustix::fs::chmodat(
        CWD,
        path,
        Mode::from_raw_mode(mode),
        rustix::fs::AtFlags::empty(),
    )
}

/// lchown(2); `None` means unchanged.
pub fn chown(path: &Path, uid: Option<u32>, gid: Option<u32>) -> Answer {
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    rustix::fs::chownat(CWD, path, uid, gid, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
}
