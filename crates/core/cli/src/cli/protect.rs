//! `varve protect`: the attribute of files on which callers outside of transactions wait
//! for the locks of transactions.

use super::output::{self, Failure, Outcome};
use rustix::fs::{IFlags, Mode, OFlags, ioctl_getflags, ioctl_setflags, open};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Protect files by the locks of transactions.
///
/// A program that reads or writes a protected file outside of a transaction waits for the
/// locking transactions that use it, as if in a small one of its own. New files in a
/// protected directory are protected; names in it are, too. The attribute is the `j` of
/// lsattr and chattr.
///
/// Locking transactions are those of programs that use the library. The transactions of a
/// mount (`varve txn`) take no locks: they find conflicts when they commit, on protected
/// files as on others, and no program waits for them. So on a mount protection changes
/// nothing; it takes effect when the volume is opened by a program with locking
/// transactions.
///
/// Volumes with the layouts ffs and vlfs have no transactions, and no protection.
#[derive(clap::Args)]
pub struct Protect {
    /// Files and directories on a mounted volume.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Remove the protection.
    #[arg(long, conflicts_with = "show")]
    off: bool,
    /// Only print which are protected.
    #[arg(long)]
    show: bool,
}

impl Protect {
    pub fn run(self) -> Outcome {
        for path in &self.paths {
            let refused = |why: String| Failure::new(1, format_args!("{}: {why}", path.display()));
            self.one(path).map_err(refused)?;
        }
        Ok(0)
    }

    fn one(&self, path: &Path) -> Result<(), String> {
        let file = opened(path).map_err(|error| error.to_string())?;
        let flags = ioctl_getflags(&file).map_err(|error| match error {
            Errno::NOTTY | Errno::OPNOTSUPP => {
                "no file or directory of a mounted volume of Varve".to_owned()
            }
            error => error.to_string(),
        })?;
        if self.show {
            let shown = match flags.contains(IFlags::JOURNALING) {
                true => "protected",
                false => "unprotected",
            };
            output::line(format_args!("{shown} {}", path.display()));
            return Ok(());
        }
        let mut new = flags;
        new.set(IFlags::JOURNALING, !self.off);
        match new == flags {
            true => Ok(()),
            false => ioctl_setflags(&file, new).map_err(|error| match error {
                Errno::OPNOTSUPP => "there are no transactions here to protect it from: only \
                                     volumes of Varve with the layout log have them"
                    .to_owned(),
                error => error.to_string(),
            }),
        }
    }
}

/// Opens a file or directory itself, and follows neither links nor devices.
fn opened(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, Mode::empty())
}
