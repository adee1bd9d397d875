//! The small-file benchmark of Wang et al. 1999, §5.1.

use super::System;
use crate::error::LabError;

/// Bytes of a file.
const FILE_BYTES: u32 = 1024;

/// A phase: files of 1 KB are made, read after the caches were emptied, removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmallFiles {
    /// They are made and written.
    Create,
    /// They are read.
    Read,
    /// They are removed.
    Delete,
}

impl SmallFiles {
    /// In order.
    pub const ALL: [SmallFiles; 3] = [SmallFiles::Create, SmallFiles::Read, SmallFiles::Delete];

    /// Goes through the files 0 to `files`, syncs, and empties the caches. With
    /// `sync`, each file and each removal is on the medium before the next.
    ///
    /// # Errors
    /// As the system.
    pub fn run(self, system: &mut dyn System, files: u32, sync: bool) -> Result<(), LabError> {
        for file in 0..files {
            match self {
                SmallFiles::Create => {
                    system.create(file)?;
                    system.write(file, 0, FILE_BYTES, sync)?;
                }
                SmallFiles::Read => system.read(file, 0, FILE_BYTES)?,
                SmallFiles::Delete => {
                    system.delete(file)?;
                    if sync {
                        system.sync_names()?;
                    }
                }
            }
        }
        system.sync()?;
        system.forget();
        Ok(())
    }
}
