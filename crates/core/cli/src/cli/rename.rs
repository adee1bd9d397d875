//! `varve rename`: a new name in the same directory, also where it is only spelled anew.

use super::output::{Failure, Outcome};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::ffi::OsString;
use std::path::PathBuf;

/// Rename a file or directory on a mounted volume.
///
/// On a volume whose names ignore case (`varve mkfs --case-fold`) Linux answers `mv foo
/// FOO` with success and changes nothing, because both names lead to one file. This
/// command reaches the volume. It replaces nothing: a name that another file has is
/// refused.
#[derive(clap::Args)]
pub struct Rename {
    /// A file or directory on a mounted volume.
    path: PathBuf,
    /// Its new name, without directories.
    new_name: OsString,
}

impl Rename {
    pub fn run(self) -> Outcome {
        let path = self.path.display();
        let refused = |why: &str| Failure::new(1, format_args!("{path}: {why}"));
        let target = self.path.with_file_name(&self.new_name);
        if target.file_name() != Some(&self.new_name) || self.path.file_name().is_none() {
            let why = format!(
                "{} is no name; give the new name without directories",
                self.new_name.display()
            );
            return Err(Failure::new(2, format_args!("{path}: {why}")));
        }
        let respelled = varve_fuse::respell(&self.path, &self.new_name);
        let errno = |error: &std::io::Error| rustix::io::Errno::from_io_error(error);
        let renamed = match &respelled {
            Err(error) if errno(error) == Some(rustix::io::Errno::INVAL) => {
                renameat_with(CWD, &self.path, CWD, &target, RenameFlags::NOREPLACE)
                    .map_err(std::io::Error::from)
            }
            Err(error) if errno(error) == Some(rustix::io::Errno::NOTTY) => {
                return Err(refused("no file or directory of a mounted volume of Varve"));
            }
            _ => respelled,
        };
        match renamed {
            Ok(()) => Ok(0),
            Err(error) if errno(&error) == Some(rustix::io::Errno::EXIST) => {
                let why = format!("{} is there already, as another file", target.display());
                Err(refused(&why))
            }
            Err(error) => Err(refused(&error.to_string())),
        }
    }
}
