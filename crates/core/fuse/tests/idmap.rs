//! Mounts that are mounted elsewhere with other owners: idmapped mounts.
#![allow(unsafe_code)]

use crate::support::{Mounted, as_user, ioctls};
use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use varve_fuse::{MountOptions, query_statistics};

/// What user and group 0 of the mapped mount's files look like, and so on.
const FIRST: u32 = 100_000;

/// A second mount of `root`, mapped.
struct Mapped {
    at: PathBuf,
    _directory: tempfile::TempDir,
}

impl Mapped {
    /// Nothing if the kernel refuses.
    fn of(root: &Path) -> std::io::Result<Self> {
        let users = Users::new();
        let directory = tempfile::tempdir()?;
        let (from, to) = (c(root), c(directory.path()));
        let empty = CString::default();
        // open_tree(2) with OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC.
        // SAFETY: the string ends with NUL; the result is checked.
        let tree =
            unsafe { libc::syscall(428, libc::AT_FDCWD, from.as_ptr(), 1 | libc::O_CLOEXEC) };
        // SAFETY: a descriptor that nobody else has.
        let tree = unsafe { OwnedFd::from_raw_fd(checked(tree)? as i32) };
        // MOUNT_ATTR_IDMAP
        let attr = [0x0010_0000_u64, 0, 0, users.namespace.as_raw_fd() as u64];
        // mount_setattr(2).
        // SAFETY: `attr` is a `struct mount_attr` of 32 bytes.
        checked(unsafe {
            let (flags, size) = (libc::AT_EMPTY_PATH, size_of_val(&attr));
            libc::syscall(
                442,
                tree.as_raw_fd(),
                empty.as_ptr(),
                flags,
                &raw const attr,
                size,
            )
        })?;
        // move_mount(2) with MOVE_MOUNT_F_EMPTY_PATH.
        // SAFETY: both strings end with NUL.
        checked(unsafe {
            let (fd, cwd) = (tree.as_raw_fd(), libc::AT_FDCWD);
            libc::syscall(429, fd, empty.as_ptr(), cwd, to.as_ptr(), 4)
        })?;
        Ok(Mapped {
            at: directory.path().to_owned(),
            _directory: directory,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.at, rustix::mount::UnmountFlags::DETACH);
    }
}

/// A user namespace that maps 0.. to [`FIRST`]...
struct Users {
    child: Child,
    namespace: File,
}

impl Users {
    fn new() -> Self {
        let mut child = Command::new("unshare")
            .args(["--user", "sh", "-c", "echo; exec sleep 1000"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0];
        use std::io::Read;
        let mut output = child.stdout.take().unwrap();
        output.read_exact(&mut said).unwrap();
        let of = |name: &str| format!("/proc/{}/{name}", child.id());
        for map in ["uid_map", "gid_map"] {
            fs::write(of(map), format!("0 {FIRST} 65536")).unwrap();
        }
        let namespace = File::open(of("ns/user")).unwrap();
        Users { child, namespace }
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn c(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

fn checked(result: i64) -> std::io::Result<i64> {
    match result {
        -1 => Err(std::io::Error::last_os_error()),
        other => Ok(other),
    }
}

fn owner(path: &Path) -> (u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.uid(), found.gid())
}

fn mounted() -> Option<Mounted> {
    let with_mapping = MountOptions {
        idmap: true,
        ..MountOptions::default()
    };
    let m = Mounted::with(with_mapping)?;
    let agreed = m.adapter.statistics_text().contains("allow_idmap");
    if !agreed {
        eprintln!("SKIPPED: the kernel's FUSE does not map owners");
        return None;
    }
    crate::support::open_to_all(m.root());
    Some(m)
}

#[test]
fn files_of_a_mapped_mount_have_mapped_owners() {
    let Some(m) = mounted() else { return };
    let mapped = Mapped::of(m.root()).unwrap();
    crate::support::open_to_all(&mapped.at);
    fs::write(m.path("of-5"), b"x").unwrap();
    std::os::unix::fs::chown(m.path("of-5"), Some(5), Some(6)).unwrap();
    assert_eq!(owner(&mapped.path("of-5")), (FIRST + 5, FIRST + 6));

    // Whoever makes something there owns it here as what he is mapped from.
    as_user(FIRST + 5, || {
        fs::write(mapped.path("file"), b"x").unwrap();
        fs::create_dir(mapped.path("dir")).unwrap();
        std::os::unix::fs::symlink("x", mapped.path("link")).unwrap();
        // He is the owner, so this is his to change.
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(mapped.path("of-5"), mode).unwrap();
        File::options()
            .append(true)
            .open(mapped.path("of-5"))
            .unwrap();
    });
    for name in ["file", "dir", "link"] {
        assert_eq!(owner(&m.path(name)), (5, 5), "{name}");
        assert_eq!(owner(&mapped.path(name)), (FIRST + 5, FIRST + 5), "{name}");
    }
    // Others are others, and who is mapped from nobody makes nothing.
    let refused = as_user(FIRST + 9, || fs::read(mapped.path("of-5")).unwrap_err());
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    let nobody = as_user(77, || fs::write(mapped.path("n"), b"").unwrap_err());
    assert_eq!(nobody.raw_os_error(), Some(libc::EOVERFLOW));
    // An owner that is given there is translated.
    let to = Some(FIRST + 8);
    std::os::unix::fs::chown(mapped.path("file"), to, to).unwrap();
    assert_eq!(owner(&m.path("file")), (8, 8));
    as_user(5, || assert!(fs::read(m.path("of-5")).is_ok()));
}

#[test]
fn without_the_option_a_mount_is_not_mapped() {
    let Some(m) = Mounted::new() else { return };
    let refused = Mapped::of(m.root()).err().unwrap();
    assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
}

/// Requests say less of who asks, and what depends on it must not.
#[test]
fn who_asks_is_known_where_it_matters() {
    let Some(m) = mounted() else { return };
    let path = &m.path("f");
    // The bit that gives no rights stays when root changes owner or content.
    fs::write(path, b"x").unwrap();
    let set = |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let mode = || fs::metadata(path).unwrap().mode() & 0o7777;
    set(0o2644);
    std::os::unix::fs::chown(path, Some(5), Some(5)).unwrap();
    assert_eq!(mode(), 0o2644, "root gives it away");
    set(0o6777);
    let file = File::options().write(true).open(path).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 9000).unwrap();
    assert_eq!(mode(), 0o6777, "root reserves");
    as_user(9, || {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(b"y", 0).unwrap();
    });
    assert_eq!(mode(), 0o777, "another writes");
    set(0o6777);
    as_user(9, || {
        let flags = libc::O_DIRECT;
        let file = fs::OpenOptions::new()
            .write(true)
            .custom_flags(flags)
            .open(path)
            .unwrap();
        file.write_all_at(&[1; 512], 0).unwrap();
    });
    assert_eq!(mode(), 0o777, "another writes directly");
    // Attributes for the privileged are seen by them alone.
    let name = "trusted.t";
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(path, name, b"v", flags).unwrap();
    let mut value = [0; 8];
    assert_eq!(rustix::fs::getxattr(path, name, &mut value), Ok(1));
    let list = || {
        let mut names = [0; 64];
        let length = rustix::fs::listxattr(path, &mut names).unwrap();
        names[..length].to_vec()
    };
    assert_eq!(list(), b"trusted.t\0");
    assert_eq!(as_user(9, list), b"");
    // And ioctls know who asks.
    query_statistics(m.root()).unwrap();
    let refused = as_user(9, || ioctls::shut_down(m.root(), 2));
    assert_eq!(refused, Err(rustix::io::Errno::PERM));
    // Root is let through, to a layout that has nothing to trim.
    let all = ioctls::Trim {
        start: 0,
        len: u64::MAX,
        minlen: 0,
    };
    assert_eq!(
        ioctls::trim(m.root(), all),
        Err(rustix::io::Errno::OPNOTSUPP)
    );
}
