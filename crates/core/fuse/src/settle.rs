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
    pub ino: InodeNo,
    pub from: (InodeNo, Vec<u8>),
    pub to: (InodeNo, Vec<u8>),
}

/// A look-up that takes directories to their new names in the kernel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Of a directory under the name [`aside_name`] in the root.
    Aside(InodeNo),
    /// Of a new name.
    Name(InodeNo, Vec<u8>),
}

/// What precedes the number of a directory in the name under which a commit's own thread
/// finds it in the root. Nothing stores such a name.
const ASIDE: &str = ".varve-aside-";

pub(crate) fn aside_name(ino: InodeNo) -> String {
    format!("{ASIDE}{}", ino.0)
}

/// The directory that is set aside under this name.
pub(crate) fn set_aside(name: &[u8]) -> Option<InodeNo> {
    let name = std::str::from_utf8(name).ok()?;
    name.strip_prefix(ASIDE)?.parse().ok().map(InodeNo)
}

/// In which order to look moved directories up: one that has the former name of another
/// one after that one, or the other would be cut off before it is found. Of directories
/// that have exchanged names one is set aside first.
pub(crate) fn in_order(moved: Vec<Moved>) -> Vec<Step> {
    let one = |one: Moved| (one.from, (one.ino, one.to));
    let mut by_former: HashMap<_, _> = moved.into_iter().map(one).collect();
    let mut ordered = Vec::new();
    while let Some((first, (ino, _))) = by_former.iter().next() {
        let (first, ino) = (first.clone(), *ino);
        let (mut at, mut chain) = (first.clone(), Vec::new());
        while let Some((_, to)) = by_former.remove(&at) {
            chain.push(Step::Name(to.0, to.1.clone()));
            at = to;
        }
        if at == first {
            ordered.push(Step::Aside(ino));
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
            ino: InodeNo(u64::from(from.as_bytes()[0])),
            from: name(from),
            to: name(to),
        });
        let ordered = in_order(moved.into());
        assert_eq!(ordered.len(), moves.len() + 1);
        let at = |step: Step| ordered.iter().position(|found| *found == step);
        let place = |to: &str| at(Step::Name(InodeNo::ROOT, to.into()));
        assert!(place("d") < place("c") && place("c") < place("b"));
        assert!(["y", "p", "q"].iter().all(|to| place(to).is_some()));
        assert_eq!(
            set_aside(aside_name(InodeNo(7)).as_bytes()),
            Some(InodeNo(7))
        );
        // Whichever is set aside is looked up last.
        let aside = |from: &str| at(Step::Aside(InodeNo(u64::from(from.as_bytes()[0]))));
        let (p, q) = (aside("p"), aside("q"));
        assert!(p.is_none() || p < place("p") && place("p") < place("q"));
        assert!(q.is_none() || q < place("q") && place("q") < place("p"));
    }
}
