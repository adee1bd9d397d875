//! One writer, or any number of readers, for a whole volume.
//!
//! Invariants:
//! - A writer has an exclusive `flock`, a reader a shared one; the kernel releases it
//!   with the descriptor, however the process ends.
//! - A loop device and the file behind it are one volume. Both are locked, so that one
//!   cannot be opened while the other is in use.
//! - Waiting is bounded by a fraction of a second. A killed server keeps the volume
//!   until the disk has answered its last requests, and device managers lock block
//!   devices briefly to probe them.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, Stat, flock, major, minor};
use rustix::io::Errno;

use super::open::{OpenError, OpenMode};

/// Number of attempts to lock a file.
pub(super) const FILE_ATTEMPTS: u32 = 5;
/// Number of attempts to open and to lock a block device.
pub(super) const DEVICE_ATTEMPTS: u32 = 20;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(25);

/// Repeats `attempt` while it fails with `busy`: another process has the lock.
pub(super) fn patiently<T>(
    tries: u32,
    busy: Errno,
    attempt: impl Fn() -> Result<T, Errno>,
) -> Result<T, Errno> {
    let mut failed = 0;
    loop {
        match attempt() {
            Err(Errno::INTR) => {}
            Err(error) if error == busy && failed + 1 < tries => {
                failed += 1;
                thread::sleep(PAUSE);
            }
            outcome => return outcome,
        }
    }
}

/// Locks an open file or device as `mode` requires.
pub(super) fn lock(
    fd: impl AsFd,
    path: &Path,
    mode: OpenMode,
    tries: u32,
) -> Result<(), OpenError> {
    let operation = match mode {
        OpenMode::ReadOnly => FlockOperation::NonBlockingLockShared,
        OpenMode::ReadWrite => FlockOperation::NonBlockingLockExclusive,
    };
    match patiently(tries, Errno::WOULDBLOCK, || flock(&fd, operation)) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(OpenError::in_use(path)),
        Err(error) => Err(OpenError::io(path, "lock", error)),
    }
}

/// Locks a block device and, for a loop device, the file behind it. The caller must
/// keep the descriptor of that file, which is returned, for its lock.
pub(super) fn lock_block_device(
    fd: impl AsFd,
    path: &Path,
    stat: &Stat,
    mode: OpenMode,
) -> Result<Option<OwnedFd>, OpenError> {
    lock(fd, path, mode, DEVICE_ATTEMPTS)?;
    let number = format!("{}:{}", major(stat.st_rdev), minor(stat.st_rdev));
    match loop_backing_file(&Path::new("/sys/dev/block").join(number)) {
        Some(backing) => lock_backing_file(&backing, mode),
        None => Ok(None),
    }
}

/// Returns the path of the file behind a loop device, or behind the loop device of a
/// partition. `sysfs` is the device's directory in sysfs.
fn loop_backing_file(sysfs: &Path) -> Option<PathBuf> {
    let directory = fs::canonicalize(sysfs).ok()?;
    let read = |directory: &Path| fs::read_to_string(directory.join("loop/backing_file")).ok();
    let text = read(&directory).or_else(|| read(directory.parent()?))?;
    Some(PathBuf::from(text.trim_end_matches('\n')))
}

/// Locks the backing file. A file that this process cannot see (deleted, or in another
/// mount namespace) cannot be locked and is skipped: no other process can open it here
/// by that name either.
fn lock_backing_file(backing: &Path, mode: OpenMode) -> Result<Option<OwnedFd>, OpenError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match rustix::fs::open(backing, flags, Mode::empty()) {
        Ok(fd) => {
            lock(&fd, backing, mode, FILE_ATTEMPTS)?;
            Ok(Some(fd))
        }
        Err(Errno::NOENT | Errno::ACCESS) => Ok(None),
        Err(error) => Err(OpenError::io(backing, "open", error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backing_file_is_found_for_loop_devices_and_their_partitions() {
        let sysfs = tempfile::tempdir().unwrap();
        let disk = sysfs.path().join("loop0");
        fs::create_dir_all(disk.join("loop")).unwrap();
        fs::create_dir_all(disk.join("loop0p1")).unwrap();
        fs::create_dir_all(sysfs.path().join("sda")).unwrap();
        fs::write(disk.join("loop/backing_file"), "/some/image file\n").unwrap();
        let want = Some(PathBuf::from("/some/image file"));
        assert_eq!(loop_backing_file(&disk), want);
        assert_eq!(loop_backing_file(&disk.join("loop0p1")), want);
        assert_eq!(loop_backing_file(&sysfs.path().join("sda")), None);
        assert_eq!(loop_backing_file(&sysfs.path().join("absent")), None);
    }
}
