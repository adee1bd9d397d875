//! What a program would do on the mount, done for the kernel's sake after a commit.
//!
//! Under write-back the size and the times of a regular file that the kernel knows are
//! the kernel's own: nothing but a truncate and a set time through the mount changes
//! them. A directory that the kernel knows and that was moved is taken to its new place
//! by a look-up there, with all that is mounted, open or a working directory
//! below; a look-up of the old name before that would cut all of it off.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::mount::OpenTreeFlags;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use varve_fs::{Attr, InodeNo};

/// A directory that the kernel knows, and that has another name now.
pub(crate) struct Moved {
    pub from: (InodeNo, Vec<u8>),
    pub to: (InodeNo, Vec<u8>),
}

/// In which order to look them up: who has the name of another one after that one, or
/// the other would be cut off before it is found. Of those that have exchanged names
/// one has to be first.
pub(crate) fn in_order(moved: Vec<Moved>) -> Vec<(InodeNo, Vec<u8>)> {
    let mut by_former: HashMap<_, _> = moved.into_iter().map(|one| (one.from, one.to)).collect();
    let mut ordered = Vec::new();
    while let Some(first) = by_former.keys().next().cloned() {
        let (mut at, mut chain) = (first, Vec::new());
        while let Some(to) = by_former.remove(&at) {
            chain.push(to.clone());
            at = to;
        }
        ordered.extend(chain.into_iter().rev());
    }
    ordered
}

/// The mount without what is mounted on top of any of it.
pub(crate) struct Root(OwnedFd);

impl Root {
    /// # Errors
    /// Those of open(2).
    pub fn open(mountpoint: &Path) -> io::Result<Self> {
        // A mount of its own, which others do not see; for root only.
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let alone = rustix::mount::open_tree(CWD, mountpoint, flags);
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let root = alone.or_else(|_| rustix::fs::open(mountpoint, flags, Mode::empty()))?;
        Ok(Root(root))
    }

    fn at(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let flags = flags | OFlags::CLOEXEC;
        Ok(rustix::fs::openat2(
            &self.0,
            path,
            flags,
            Mode::empty(),
            within,
        )?)
    }

    /// Has the kernel look a name up, where it holds something older.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn look_up(&self, path: &Path) -> io::Result<()> {
        self.at(path, OFlags::PATH | OFlags::NOFOLLOW).map(drop)
    }

    /// Sets the size and the time of modification that the kernel knows of a file.
    ///
    /// # Errors
    /// ESTALE if the path leads to another file; those of the calls.
    pub fn settle(&self, path: &Path, attr: &Attr) -> io::Result<()> {
        let file = self.at(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let known = rustix::fs::fstat(&file)?;
        if known.st_ino != attr.ino.0 {
            return Err(rustix::io::Errno::STALE.into());
        }
        if u64::try_from(known.st_size) != Ok(attr.size) {
            let file = self.at(path, OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK)?;
            match rustix::fs::fstat(&file)?.st_ino == attr.ino.0 {
                true => rustix::fs::ftruncate(&file, attr.size)?,
                false => return Err(rustix::io::Errno::STALE.into()),
            }
        }
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
            last_modification: Timespec {
                tv_sec: attr.mtime.seconds,
                tv_nsec: attr.mtime.nanos.into(),
            },
        };
        Ok(rustix::fs::utimensat(
            &file,
            "",
            &times,
            AtFlags::EMPTY_PATH,
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_looked_up_before_its_former_name_is() {
        let name = |name: &str| (InodeNo::ROOT, name.as_bytes().to_vec());
        let moves = [
            ("b", "c"),
            ("a", "b"),
            ("x", "y"),
            ("c", "d"),
            ("p", "q"),
            ("q", "p"),
        ];
        let moved = moves.map(|(from, to)| Moved {
            from: name(from),
            to: name(to),
        });
        let ordered = in_order(moved.into());
        assert_eq!(ordered.len(), moves.len());
        let place = |to: &str| ordered.iter().position(|found| *found == name(to));
        assert!(place("d") < place("c") && place("c") < place("b"));
        assert!(["y", "p", "q"].iter().all(|to| place(to).is_some()));
    }
}
