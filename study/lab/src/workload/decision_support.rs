//! Decision support in the manner of TPC-D (WOLF §3.2.2).
//!
//! Twenty large tables. A query sweeps one of them from end to end; then it is
//! updated: 0.1 % of it at random places of its active part, 0.1 % appended as
//! new sales, 0.1 % of the oldest removed. A table is a ring of blocks.

use super::{Locality, Op, Runs, Workload};
use varve_prove::random::Random;

const TABLES: u32 = 20;
/// The part of a table that is updated at random: the newest tenth.
const ACTIVE: u32 = 10;
/// Blocks of a table per block updated, appended, removed.
const THOUSAND: u32 = 1000;

/// See the module's head.
#[derive(Debug)]
pub struct DecisionSupport {
    random: Random,
    /// Blocks that live in a table, and numbers it has.
    rows: u32,
    ring: u32,
    /// Oldest live block of each table.
    oldest: Vec<u32>,
    /// Between blocks that are read or written.
    wait_ns: u64,
}

impl DecisionSupport {
    /// Tables of about `blocks` together, a block every `wait_ns`.
    pub fn new(blocks: u32, wait_ns: u64, seed: u64) -> Self {
        let rows = (blocks / TABLES).max(1);
        DecisionSupport {
            random: Random::new(seed),
            rows,
            ring: rows + rows.div_ceil(THOUSAND),
            oldest: vec![0; TABLES as usize],
            wait_ns,
        }
    }

    fn at(&self, table: u32, row: u32) -> u32 {
        table * self.ring + (self.oldest[table as usize] + row) % self.ring
    }
}

impl Workload for DecisionSupport {
    fn blocks(&self) -> u32 {
        TABLES * self.ring
    }

    fn live_max(&self) -> u32 {
        self.blocks()
    }

    fn prefill(&mut self, ops: &mut Vec<Op>) {
        for table in 0..TABLES {
            ops.extend((0..self.rows).map(|row| Op::Write {
                block: self.at(table, row),
            }));
        }
    }

    fn more(&mut self, ops: &mut Vec<Op>) {
        let table = self.random.below(u64::from(TABLES)) as u32;
        let share = self.rows.div_ceil(THOUSAND);
        ops.extend((0..self.rows).map(|row| Op::Read {
            block: self.at(table, row),
        }));
        let active = (self.rows / ACTIVE).max(1);
        for _ in 0..share {
            let row = self.rows - 1 - self.random.below(u64::from(active)) as u32;
            let block = self.at(table, row);
            ops.push(Op::Write { block });
        }
        for _ in 0..share {
            let new = self.at(table, self.rows);
            ops.push(Op::Write { block: new });
            let old = self.at(table, 0);
            ops.push(Op::Trim { block: old });
            let oldest = &mut self.oldest[table as usize];
            *oldest = (*oldest + 1) % self.ring;
        }
        let ns = self.wait_ns * u64::from(self.rows + 2 * share);
        ops.push(Op::Wait { ns });
    }

    fn locality(&self) -> Box<dyn Locality> {
        Box::new(Runs {
            file_blocks: self.ring,
            directory_files: TABLES,
        })
    }
}
