//! The oldest method: write a temporary file, rename it over the old one.

use super::{Application, Diary, State, at, filler, sync_directory};
use crate::random::Random;
use std::fs;
use std::io::Write;
use std::path::Path;

/// A few files that are replaced one after the other.
pub struct Replace {
    /// True if the temporary file is synced before it is renamed, and the directory
    /// afterwards. Otherwise it is only closed, and the files that survive must be
    /// complete and in order.
    synced: bool,
}

impl Replace {
    /// Write, sync, rename, sync the directory.
    pub const SYNCED: Replace = Replace { synced: true };
    /// Write, close, rename.
    pub const CLOSED: Replace = Replace { synced: false };
}

const FILES: u64 = 4;

/// Returns the content of a file after its replacement in some step: the step, and bytes
/// that follow from it.
fn content(step: u64) -> Vec<u8> {
    let bytes = 1 + (step as usize * 7919) % 30_000;
    [&step.to_le_bytes()[..], &filler(step, bytes)].concat()
}

fn replace(dir: &Path, step: u64, synced: bool) -> Result<(), String> {
    let target = dir.join(format!("file{}", step % FILES));
    let temporary = dir.join("temporary");
    let write = || {
        let mut file = fs::File::create(&temporary)?;
        for piece in content(step).chunks(5000) {
            file.write_all(piece)?;
        }
        if synced {
            file.sync_all()?;
        }
        drop(file);
        fs::rename(&temporary, &target)
    };
    write().map_err(at("replace", &target))
}

/// Returns the replacement in each file.
fn read(dir: &Path) -> Result<State, String> {
    let mut state = String::new();
    for number in 0..FILES {
        let path = dir.join(format!("file{number}"));
        let found = fs::read(&path).map_err(at("read", &path))?;
        let step = found.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        match step {
            Some(step) if found == content(step) => state += &format!("{step} "),
            _ => {
                return Err(format!(
                    "file{number} is neither old nor new: {} bytes",
                    found.len()
                ));
            }
        }
    }
    Ok(state)
}

impl Application for Replace {
    fn name(&self) -> &'static str {
        match self.synced {
            true => "rename over, synced",
            false => "rename over, closed only",
        }
    }

    fn program(&self) -> Option<&'static str> {
        None
    }

    fn prepare(&self, dir: &Path) -> Result<State, String> {
        for number in 0..FILES {
            replace(dir, number, true)?;
        }
        read(dir)
    }

    fn work(
        &self,
        dir: &Path,
        steps: u64,
        random: &mut Random,
        diary: &mut Diary<'_>,
    ) -> Result<(), String> {
        for step in 1..=steps {
            replace(dir, FILES - 1 + step, self.synced)?;
            if self.synced {
                sync_directory(dir)?;
            }
            diary.step(self.synced, dir, random, || read(dir))?;
        }
        Ok(())
    }

    fn check(&self, dir: &Path) -> Result<State, String> {
        read(dir)
    }
}
