//! The benchmark that every one of the papers has: many files of one size are made,
//! read, written over and removed.

use super::System;
use crate::error::LabError;

/// Most bytes that are read or written by one call.
const AT_ONCE: u64 = 4 << 20;

/// Files of one size.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    /// How many.
    pub count: u32,
    /// Bytes of each.
    pub bytes: u64,
    /// How many lie in a directory; 0: all in the root.
    pub in_directory: u32,
}

/// What is done to all of them, in the order in which they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// They are made and written.
    Create,
    /// They are read, after the caches were emptied.
    Read,
    /// They are written again.
    Overwrite,
    /// They are removed.
    Delete,
}

impl Phase {
    /// All of them.
    pub const ALL: [Phase; 4] = [Phase::Create, Phase::Read, Phase::Overwrite, Phase::Delete];
    /// Those of small files.
    pub const SMALL: [Phase; 3] = [Phase::Create, Phase::Read, Phase::Delete];
}

impl Files {
    /// Does it to each, syncs, and empties the caches. With `sync`, each file and each
    /// removal is on the medium before the next.
    ///
    /// # Errors
    /// As the system.
    pub fn run(self, phase: Phase, system: &mut dyn System, sync: bool) -> Result<(), LabError> {
        for file in 0..self.count {
            match phase {
                Phase::Create => {
                    if let Some(directory) = file.checked_div(self.in_directory) {
                        system.enter(1 + directory)?;
                    }
                    system.create(file)?;
                    self.pieces(|at, bytes| system.write(file, at, bytes, sync))?;
                }
                Phase::Read => self.pieces(|at, bytes| system.read(file, at, bytes))?,
                Phase::Overwrite => self.pieces(|at, bytes| system.write(file, at, bytes, sync))?,
                Phase::Delete => {
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

    fn pieces(
        self,
        mut each: impl FnMut(u64, u32) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let mut at = 0;
        while at < self.bytes {
            let bytes = (self.bytes - at).min(AT_ONCE);
            each(at, bytes as u32)?;
            at += bytes;
        }
        Ok(())
    }
}
