//! The blocks of a file as runs.

use serde::Serialize;
use std::fmt;
use varve_lfs::format::Pointer;
use varve_lfs::internal::{InodeDelta, RangeState};

/// State of a run's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// The blocks store data.
    Written,
    /// The blocks are reserved and read as zeros.
    Unwritten,
}

/// Blocks that are adjacent both in the file and on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Run {
    /// First logical block.
    pub block: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Sector of the first block; 0 if unwritten.
    pub sector: u64,
    /// Sectors of all blocks.
    pub sectors: u64,
    /// Lowest and highest serial of the partials that first wrote the blocks.
    pub births: (u64, u64),
    /// State of the blocks.
    pub state: RunState,
}

/// Joins blocks that are adjacent in the file and on the device.
pub(super) fn joined(blocks: &[(u64, Pointer)]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (block, pointer) in blocks {
        let state = if pointer.is_unwritten() {
            RunState::Unwritten
        } else {
            RunState::Written
        };
        let sectors = u64::from(pointer.sectors());
        if let Some(last) = runs.last_mut()
            && last.block + last.blocks == *block
            && last.state == state
            && (state == RunState::Unwritten || last.sector + last.sectors == pointer.sector())
        {
            last.blocks += 1;
            last.sectors += sectors;
            last.births.0 = last.births.0.min(pointer.birth());
            last.births.1 = last.births.1.max(pointer.birth());
            continue;
        }
        runs.push(Run {
            block: *block,
            blocks: 1,
            sector: pointer.sector(),
            sectors,
            births: (pointer.birth(), pointer.birth()),
            state,
        });
    }
    runs
}

/// Returns the ranges that the log reserved, without the blocks written there since.
pub(super) fn reserved(delta: &InodeDelta, block_sectors: u64) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut add = |from: u64, to: u64, birth| {
        if from < to {
            runs.push(Run {
                block: from,
                blocks: to - from,
                sector: 0,
                sectors: (to - from).saturating_mul(block_sectors),
                births: (birth, birth),
                state: RunState::Unwritten,
            });
        }
    };
    for (from, to, state) in delta.ranges.within(0, u64::MAX) {
        if let RangeState::Unwritten(birth) = state {
            let mut start = from;
            for (block, _) in delta.blocks.range(from, to) {
                add(start, block, birth);
                start = block + 1;
            }
            add(start, to, birth);
        }
    }
    runs
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.block + self.blocks.saturating_sub(1);
        write!(f, "blocks {}..={last}: ", self.block)?;
        match self.state {
            RunState::Written => write!(
                f,
                "{} sectors at {}, born in {}..={}",
                self.sectors, self.sector, self.births.0, self.births.1
            ),
            RunState::Unwritten => write!(f, "reserved in {}", self.births.0),
        }
    }
}
