//! The check that repairs: what a volume without a journal needs after a crash, and any
//! volume after damage.
//!
//! 1. *Superblock.* The first block's, or a copy. Copies that differ are rewritten when
//!    everything else has been examined (`fsck.rs`).
//! 2. *Inodes and blocks* (`scan.rs`). Every inode table is read, and the blocks that
//!    each inode refers to. Where two files refer to the same space, a checksum
//!    decides, otherwise the first file keeps it. The maps and counts follow from the
//!    result.
//! 3. *Names* (`names.rs`). Names without a file are removed, and a directory keeps one
//!    name. A file without a name is moved to `/lost+found`, or freed if it is empty.
//! 4. *Link counts* are set to the numbers counted.
//!
//! Changes are ordinary groups, so a crash during a repair leaves a volume that is
//! repaired again. A *repair* is a finding that a crash explains; other findings are
//! *losses*. A mount that finds a loss, or has too little space, changes nothing on the
//! device.
//!
//! Source: McKusick & Kowalski, *Fsck: the UNIX File System Check Program*.

mod directory;
mod mend;
mod names;
mod scan;
pub(crate) mod superblocks;

pub use superblocks::search;

pub(crate) use scan::{Found, Scan, scan};

/// Maximum number of findings that are listed one by one.
const FINDINGS_MAX: usize = 1000;

/// The findings, as text.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Findings that a crash explains.
    pub repairs: Vec<String>,
    /// Findings that a crash does not explain: something is lost.
    pub losses: Vec<String>,
    /// Number of findings beyond those listed.
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
