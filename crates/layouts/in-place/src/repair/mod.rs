//! The check that repairs: what a volume without a journal needs after a crash, and
//! any volume after damage.
//!
//! 1. *Superblock.* The first block's, or a copy; those that differ are written again
//!    when all else has been looked at (`fsck.rs`).
//! 2. *Inodes and blocks* (`scan.rs`). Every inode table is read, and what each inode
//!    leads to. Where two claim one room, a checksum decides, else the first one. The
//!    maps and counts follow from what is found.
//! 3. *Names* (`names.rs`). Names that lead nowhere go, a directory has one name, and
//!    what has none goes to `/lost+found`, or is free if it holds nothing.
//! 4. *Link counts* are those that were counted.
//!
//! What is changed goes through ordinary groups, so a crash in the middle leaves a
//! volume that is repaired again. A *repair* is what a crash explains. A *loss* is not:
//! a mount that finds one, or no room, mends nothing on the device.
//!
//! Source: McKusick & Kowalski, *Fsck: the UNIX File System Check Program*.

mod directory;
mod mend;
mod names;
mod scan;
pub(crate) mod superblocks;

pub use superblocks::search;

pub(crate) use scan::{Found, Scan, scan};

/// Most findings that are told one by one.
const FINDINGS_MAX: usize = 1000;

/// What was found, in words.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// What a crash explains.
    pub repairs: Vec<String>,
    /// What it does not: something is gone.
    pub losses: Vec<String>,
    /// Findings beyond those told.
    pub untold: u64,
}

impl Report {
    pub fn repair(&mut self, text: String) {
        match self.repairs.len() < FINDINGS_MAX {
            true => self.repairs.push(text),
            false => self.untold += 1,
        }
    }

    pub fn loss(&mut self, text: String) {
        match self.losses.len() < FINDINGS_MAX {
            true => self.losses.push(text),
            false => self.untold += 1,
        }
    }
}
