//! What V6 to V9 share: one file as large as a share of the drive, and random
//! updates of 4 KiB to it.

use super::{LabError, Row};
use crate::platform::store::Spent;
use crate::platform::{BLOCK, Built};
use varve_prove::random::Random;

/// Percent of the utilisation that figure 8 shows that is not in the file: `df` counts
/// about 12 % of reserved free space (V333), so that 80 % are a file of 68 % of the drive.
pub(super) const RESERVED_PERCENT: u64 = 12;

/// A file system with one file, and chance.
pub(super) struct Updates {
    pub system: Built,
    random: Random,
    blocks: u64,
    sync: bool,
}

impl Updates {
    /// Writes the file of a drive that `df` calls `percent` full ([`RESERVED_PERCENT`]),
    /// in order. Updates are synchronous, or wait in memory that is taken for
    /// non-volatile.
    pub fn new(mut system: Built, percent: u64, sync: bool, seed: u64) -> Result<Self, LabError> {
        let percent = percent.saturating_sub(RESERVED_PERCENT);
        let blocks = (system.store().drive_bytes() * percent / 100 / BLOCK).max(1);
        system.create(0)?;
        for block in 0..blocks {
            system.write(0, block * BLOCK, BLOCK as u32, false)?;
        }
        system.sync()?;
        Ok(Updates {
            system,
            random: Random::new(seed),
            blocks,
            sync,
        })
    }

    /// Blocks of the drive.
    pub fn drive_blocks(&self) -> u64 {
        self.system.store().drive_bytes() / BLOCK
    }

    /// One random update.
    pub fn one(&mut self) -> Result<(), LabError> {
        let block = self.random.below(self.blocks);
        self.system.write(0, block * BLOCK, BLOCK as u32, self.sync)
    }

    /// So many, and what they took.
    pub fn run(&mut self, updates: u64) -> Result<Spent, LabError> {
        let before = self.system.store().spent();
        for _ in 0..updates {
            self.one()?;
        }
        Ok(self.system.store().spent() - before)
    }
}

/// Milliseconds for each of `updates`.
pub(super) fn ms_each(ns: u64, updates: u64) -> f64 {
    ns as f64 / 1e6 / updates as f64
}

/// What was measured; or, where the log has no room for that much because of
/// its reserve, a row that says so and nothing else.
pub(super) fn unless_full(row: Row, measured: Result<Row, LabError>) -> Result<Row, LabError> {
    match measured {
        Err(LabError::System(reason)) if reason.contains("no space") => Ok(row.with("full", 1.0)),
        measured => measured,
    }
}
