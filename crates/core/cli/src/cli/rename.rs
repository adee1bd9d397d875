//! `varve rename`: gives a file another name in its directory, even one that differs from
//! the old one only in case.
//!
//! rename(2) works wherever the kernel passes it on. If both names refer to one file
//! already, the kernel returns 0 and changes nothing; then the server of the mount is
//! asked itself (`RESPELL`).

use super::output::{Failure, Outcome};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, XattrFlags};
use rustix::fs::{fsetxattr, fstat, open, openat, renameat_with, statat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Give a file or directory another name in its directory.
///
/// Nothing is replaced: a name that another file has is refused. On a mounted volume that
/// folds case (`varve mkfs --case-fold`) this also changes the case of a name, as from
/// `foo` to `FOO`, which mv(1) and rename(2) cannot do there: the kernel considers both
/// one file and does nothing.
#[derive(clap::Args)]
pub struct Rename {
    /// The file or directory.
    path: PathBuf,
    /// Its new name, without a directory.
    name: OsString,
}

impl Rename {
    pub fn run(self) -> Outcome {
        let shown = self.path.display();
        let refused = |why: String| Failure::new(1, format_args!("{shown}: {why}"));
        self.rename().map_err(refused)?;
        Ok(0)
    }

    fn rename(&self) -> Result<(), String> {
        let old = self.path.file_name();
        let old = old.ok_or("the path does not end with a name; give one that does")?;
        let new = self.name.as_os_str();
        let new_shown = Path::new(new).display();
        let is_name = !matches!(new.as_bytes(), b"" | b"." | b"..");
        if !is_name || new.as_bytes().contains(&b'/') {
            return Err(format!(
                "`{new_shown}` is not a name within the directory; use mv(1) to move a file"
            ));
        }
        if old == new {
            return Ok(());
        }
        let directory = self.directory().map_err(|error| error.to_string())?;
        match renameat_with(&directory, old, &directory, new, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            done => return done.map_err(|error| error.to_string()),
        }
        let both = [old, new].map(|name| identity(&directory, name));
        match both {
            [Ok(from), Ok(to)] if from == to => {}
            [Err(error), _] | [_, Err(error)] => return Err(error.to_string()),
            _ => return Err(format!("another file is named {new_shown} already")),
        }
        respell(&directory, old, new)?;
        // The kernel drops its cached listing when it sees the directory's new time.
        let other = fstat(&directory).and_then(|_| lists(&directory, old));
        match other {
            Ok(false) => {}
            Ok(true) => {
                return Err(format!(
                    "{new_shown} is another name of the same file already"
                ));
            }
            Err(error) => return Err(error.to_string()),
        }
        // From here on the kernel shows a directory by its new name in paths.
        let looked_up = identity(&directory, new);
        looked_up.map_or_else(|error| Err(error.to_string()), |_| Ok(()))
    }

    fn directory(&self) -> Result<OwnedFd, Errno> {
        let parent = self.path.parent().filter(|path| *path != Path::new(""));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match parent {
            Some(parent) => open(parent, flags, Mode::empty()),
            None => openat(CWD, ".", flags, Mode::empty()),
        }
    }
}

/// Asks the server for the new spelling of a name.
fn respell(directory: &OwnedFd, old: &OsStr, new: &OsStr) -> Result<(), String> {
    let names = [old.as_bytes(), b"\0", new.as_bytes(), b"\0"].concat();
    let asked = fsetxattr(directory, varve_fuse::RESPELL, &names, XattrFlags::empty());
    asked.map_err(|error| match error {
        Errno::OPNOTSUPP => format!(
            "{} is another name of the same file already, and this is no mounted volume of \
             Varve that folds case",
            Path::new(new).display()
        ),
        error => error.to_string(),
    })
}

/// Device and inode numbers, which identify a file.
fn identity(directory: &OwnedFd, name: &OsStr) -> Result<(u64, u64), Errno> {
    let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((found.st_dev, found.st_ino))
}

/// True if the directory has the name in this very spelling.
fn lists(directory: &OwnedFd, name: &OsStr) -> Result<bool, Errno> {
    for entry in Dir::read_from(directory)? {
        if entry?.file_name().to_bytes() == name.as_bytes() {
            return Ok(true);
        }
    }
    Ok(false)
}
