//! Files of a mount as other programs of the host have them.
//!
//! A transaction's view has a page cache and locks of its own, so the kernel compares
//! what happens there with nothing outside. What must be compared is asked of the mount
//! itself, as any program would ask: a lock is taken on the mount's file, and a file that
//! can be opened for writing is not being executed.
//!
//! - Descriptors belong to a thread of their own (`aside.rs`), because opening and closing
//!   files of the own mount makes the kernel ask this server.
//! - **Locks are kept until the end** (two-phase locking). Without this rule, another
//!   process gets a lock that a program in a transaction has released, and finds the file
//!   as it was before the transaction. A lock is never weakened either.
//! - All programs in a transaction have one open file description here: the locks do not
//!   separate them from each other (`adapter/locks.rs` does).
//!
//! A file of the mount that is open keeps it from being unmounted, as with any program.

use crate::aside::{Aside, Files};
use crate::sys;
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use varve_fs::InodeNo;

/// The last byte of a lock without an end.
const END: u64 = i64::MAX as u64;

/// Which file of the mount is meant.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub ino: InodeNo,
    pub node: u64,
    pub version: u32,
    /// For servers that may not open files by number.
    pub path: Option<PathBuf>,
}

/// A lock of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lock {
    pub exclusive: bool,
    /// By flock(2): it has no range.
    pub whole: bool,
    pub first: u64,
    pub last: u64,
}

/// A lock that conflicts with another: the lock, and the process that has it.
pub(crate) type Holder = (Lock, i32);

/// Why a file must not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InUse {
    /// It is a running program.
    Executed,
    /// Another process has a lease of it (`F_SETLEASE`), and is being notified.
    Leased,
}

/// The descriptor and the locks that a transaction has of a file.
#[derive(Default)]
struct Held {
    read: Vec<(u64, u64)>,
    write: Vec<(u64, u64)>,
    /// By flock(2); exclusively if true.
    whole: Option<bool>,
}

type Exists = Box<dyn Fn(InodeNo, u32) -> bool + Send + Sync>;

/// Descriptors and locks that a transaction has on the mount itself. When it is dropped,
/// all of them are released.
pub struct Outside {
    mountpoint: PathBuf,
    exists: Exists,
    aside: Aside,
    held: Mutex<HashMap<InodeNo, Held>>,
}

impl Outside {
    /// Of the mount at `mountpoint`; `exists` says whether it has a file of this number
    /// and version.
    pub(crate) fn new(mountpoint: PathBuf, exists: Exists) -> Self {
        Outside {
            mountpoint,
            exists,
            aside: Aside::default(),
            held: Mutex::default(),
        }
    }

    /// Takes a lock on the mount's file, or as much of it as is not held yet. False if
    /// another process has one that conflicts. A file that the mount does not have
    /// has no other locks.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(crate) fn take(&self, place: &Place, lock: Lock) -> io::Result<bool> {
        if !(self.exists)(place.ino, place.version) {
            return Ok(true);
        }
        let mut held = self.held.lock();
        let held = held.entry(place.ino).or_default();
        if lock.whole {
            let has = held.whole;
            if has >= Some(lock.exclusive) {
                return Ok(true);
            }
            // Until it is known what is held.
            held.whole = None;
            let taken = self.take_whole(place, lock, has)?;
            held.whole = has.max(taken.then_some(lock.exclusive));
            return Ok(taken);
        }
        let mut missing = vec![(lock.first, lock.last)];
        without(&mut missing, &held.write);
        if !lock.exclusive {
            without(&mut missing, &held.read);
        }
        for (first, last) in missing {
            let part = Lock {
                first,
                last,
                ..lock
            };
            if !self.with_file(place, move |file| set(file, part))? {
                return Ok(false);
            }
            match lock.exclusive {
                true => held.write.push((first, last)),
                false => held.read.push((first, last)),
            }
        }
        Ok(true)
    }

    fn take_whole(&self, place: &Place, lock: Lock, has: Option<bool>) -> io::Result<bool> {
        let (wanted, weaker) = match lock.exclusive {
            true => (
                FlockOperation::NonBlockingLockExclusive,
                Some(FlockOperation::NonBlockingLockShared),
            ),
            false => (FlockOperation::NonBlockingLockShared, None),
        };
        self.with_file(place, move |file| match rustix::fs::flock(file, wanted) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => {
                // The kernel has given up the weaker one for the attempt.
                if let (Some(_), Some(weaker)) = (has, weaker) {
                    rustix::fs::flock(file, weaker)?;
                }
                Ok(false)
            }
            Err(error) => Err(error.into()),
        })
    }

    /// The lock of another process that conflicts with this one.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(crate) fn holder(&self, place: &Place, lock: Lock) -> io::Result<Option<Holder>> {
        if lock.whole || !(self.exists)(place.ino, place.version) {
            return Ok(None);
        }
        self.with_file(place, move |file| test(file, lock))
    }

    /// True if files of the mount are open here, which keep it from being unmounted. Does
    /// not wait: a request to lock a file may need the calling thread.
    pub fn has_files(&self) -> bool {
        self.held.try_lock().is_none_or(|held| !held.is_empty())
    }

    /// Gives up all locks, and lets the mount go.
    pub(crate) fn give_up(&self) {
        self.held.lock().clear();
        close(&self.aside);
    }

    fn with_file<R: Send + 'static>(
        &self,
        place: &Place,
        job: impl FnOnce(&File) -> io::Result<R> + Send + 'static,
    ) -> io::Result<R> {
        let (mountpoint, place) = (self.mountpoint.clone(), place.clone());
        self.aside.run(move |files| {
            let file = match files.get(&place.ino.0) {
                Some(file) => file,
                None => {
                    let file = open_to_lock(&mountpoint, &place)?;
                    files.entry(place.ino.0).or_insert(file)
                }
            };
            job(file)
        })
    }
}

/// Files that are not executed while this lives. When it has been dropped they are
/// closed, so that the kernel can forget them.
pub struct Kept {
    files: Aside,
}

impl Drop for Kept {
    fn drop(&mut self) {
        close(&self.files);
    }
}

/// Closes all files of a thread, and waits until that is done.
fn close(files: &Aside) {
    let closed = files.run(|files| {
        files.clear();
        Ok(())
    });
    if let Err(error) = closed {
        // Then it has none.
        tracing::debug!(%error, "no thread to close files");
    }
}

/// Finds out whether these files may be written, and keeps those that may be
/// executed from being executed until the answer is dropped.
///
/// # Errors
/// The first that may not be written, and why. Files that cannot be asked for, for
/// want of rights, may be.
pub(crate) fn keep_from_execution(
    mountpoint: &Path,
    places: Vec<Place>,
) -> Result<Kept, (InodeNo, InUse)> {
    let aside = Aside::default();
    let mountpoint = mountpoint.to_owned();
    let in_use = aside.run(move |files| Ok(open_all(&mountpoint, &places, files)));
    match in_use {
        Ok(Some(in_use)) => Err(in_use),
        Ok(None) => Ok(Kept { files: aside }),
        Err(error) => {
            tracing::warn!(%error, "cannot ask which files are being executed");
            Ok(Kept { files: aside })
        }
    }
}

/// Opens files for writing; answers the first that refuses because it is in use.
fn open_all(mountpoint: &Path, places: &[Place], files: &mut Files) -> Option<(InodeNo, InUse)> {
    for place in places {
        let in_use = match open(mountpoint, place, OFlags::WRONLY) {
            Ok(file) => {
                let mode = file
                    .metadata()
                    .map_or(0, |known| known.permissions().mode());
                if mode & 0o111 != 0 {
                    files.insert(place.ino.0, file);
                }
                continue;
            }
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::TXTBSY) => InUse::Executed,
                Some(Errno::WOULDBLOCK) => InUse::Leased,
                _ => {
                    tracing::debug!(ino = place.ino.0, %error, "not asked whether it is in use");
                    continue;
                }
            },
        };
        return Some((place.ino, in_use));
    }
    None
}

/// For reading and writing, as locks for writing need; only for reading if that is all
/// that may be.
fn open_to_lock(mountpoint: &Path, place: &Place) -> io::Result<File> {
    open(mountpoint, place, OFlags::RDWR).or_else(|error| match Errno::from_io_error(&error) {
        Some(Errno::ACCESS | Errno::PERM | Errno::TXTBSY) => {
            open(mountpoint, place, OFlags::RDONLY)
        }
        _ => Err(error),
    })
}

fn open(mountpoint: &Path, place: &Place, access: OFlags) -> io::Result<File> {
    // A lease is not waited for.
    let flags = access | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(mountpoint, root, Mode::empty())?;
    let by_number = sys::open_node(&root, place.node, place.version, flags);
    let file = match (by_number, &place.path) {
        (Err(error), Some(path)) if Errno::from_io_error(&error) == Some(Errno::PERM) => {
            let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
            rustix::fs::openat2(&root, path, flags, Mode::empty(), within)?
        }
        (opened, _) => opened?,
    };
    let file = File::from(file);
    match file.metadata()?.ino() == place.ino.0 {
        true => Ok(file),
        false => Err(Errno::STALE.into()),
    }
}

/// Removes ranges, both ends included, from others.
fn without(ranges: &mut Vec<(u64, u64)>, gone: &[(u64, u64)]) {
    for &(from, to) in gone {
        let parts = std::mem::take(ranges)
            .into_iter()
            .flat_map(|(first, last)| {
                let before = (first, last.min(from.wrapping_sub(1)));
                let behind = (first.max(to.saturating_add(1)), last);
                let before = (from > first).then_some(before);
                let behind = (to < last).then_some(behind);
                before.into_iter().chain(behind)
            });
        *ranges = parts.collect();
    }
}

fn described(lock: Lock) -> libc::flock {
    let length = match lock.last {
        END.. => 0,
        last => last - lock.first + 1,
    };
    libc::flock {
        l_type: match lock.exclusive {
            true => libc::F_WRLCK as _,
            false => libc::F_RDLCK as _,
        },
        l_whence: libc::SEEK_SET as _,
        l_start: lock.first as _,
        l_len: length as _,
        l_pid: 0,
    }
}

fn set(file: &File, lock: Lock) -> io::Result<bool> {
    match sys::lock_range(file, libc::F_OFD_SETLK, &mut described(lock)) {
        Ok(()) => Ok(true),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::WOULDBLOCK | Errno::ACCESS) => Ok(false),
            _ => Err(error),
        },
    }
}

fn test(file: &File, lock: Lock) -> io::Result<Option<Holder>> {
    let mut found = described(lock);
    sys::lock_range(file, libc::F_OFD_GETLK, &mut found)?;
    if i32::from(found.l_type) == libc::F_UNLCK {
        return Ok(None);
    }
    let first = found.l_start as u64;
    let last = match found.l_len {
        0 => END,
        length => first + length as u64 - 1,
    };
    let lock = Lock {
        exclusive: i32::from(found.l_type) == libc::F_WRLCK,
        whole: false,
        first,
        last,
    };
    Ok(Some((lock, found.l_pid)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_not_asked_for_again() {
        let left = |gone: &[(u64, u64)]| {
            let mut ranges = vec![(10, 19)];
            without(&mut ranges, gone);
            ranges
        };
        assert_eq!(left(&[]), [(10, 19)]);
        assert_eq!(left(&[(0, 9), (20, END)]), [(10, 19)]);
        assert_eq!(left(&[(12, 14)]), [(10, 11), (15, 19)]);
        assert_eq!(left(&[(0, 10), (19, 30)]), [(11, 18)]);
        assert_eq!(left(&[(12, 14), (15, END)]), [(10, 11)]);
        assert_eq!(left(&[(0, END)]), []);
    }

    #[test]
    fn a_lock_without_an_end_has_no_length() {
        let lock = |first, last| Lock {
            exclusive: true,
            whole: false,
            first,
            last,
        };
        assert_eq!(described(lock(5, END)).l_len, 0);
        assert_eq!(described(lock(5, 5)).l_len, 1);
    }
}
