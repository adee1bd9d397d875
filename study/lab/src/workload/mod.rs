//! Workloads: endless seeded streams of block operations.

mod balance;
mod decision_support;
mod lifetimes;
mod lives;
mod sizes;
mod skew;

pub use balance::{Balance, Facts};
pub use decision_support::DecisionSupport;
pub use lifetimes::{BALANCED_ROOM, Files, Lifetimes, Population};
pub use lives::{Event, Lives};
pub use sizes::SizeLaw;
pub use skew::{Skew, Skewed};

use varve_prove::random::Random;

/// What happens to a block, or to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// A user writes the whole block.
    Write {
        /// Its dense number.
        block: u32,
    },
    /// A user reads it.
    Read {
        /// Its dense number.
        block: u32,
    },
    /// It is removed.
    Trim {
        /// Its dense number.
        block: u32,
    },
    /// A user asks for durability.
    Sync,
    /// Time passes.
    Wait {
        /// How much.
        ns: u64,
    },
}

impl Op {
    /// The block whose present copy dies.
    pub(crate) fn changes(&self) -> Option<u32> {
        match *self {
            Op::Write { block } | Op::Trim { block } => Some(block),
            _ => None,
        }
    }
}

/// Where a block belongs, for those who group by it.
pub trait Locality {
    /// File and directory of a block.
    fn of(&self, block: u32) -> (u32, u32);
}

/// A stream of operations.
pub trait Workload {
    /// Block numbers lie below this.
    fn blocks(&self) -> u32;

    /// Most blocks that live at a time.
    fn live_max(&self) -> u32;

    /// The operations that make everything that is there at the beginning.
    fn prefill(&mut self, ops: &mut Vec<Op>);

    /// Appends operations, at least one user write among them.
    fn more(&mut self, ops: &mut Vec<Op>);

    /// Which file and directory each block belongs to at the beginning.
    fn locality(&self) -> Box<dyn Locality>;
}

/// Files are runs of so many blocks, directories runs of so many files.
#[derive(Debug, Clone, Copy)]
pub struct Runs {
    /// Blocks of a file.
    pub file_blocks: u32,
    /// Files of a directory.
    pub directory_files: u32,
}

impl Locality for Runs {
    fn of(&self, block: u32) -> (u32, u32) {
        let file = block / self.file_blocks;
        (file, file / self.directory_files)
    }
}

/// A table: each block's file, and so many files to a directory.
#[derive(Debug, Clone)]
pub struct FileTable {
    /// File of each block.
    pub file_of: Vec<u32>,
    /// Files of a directory.
    pub directory_files: u32,
}

impl Locality for FileTable {
    fn of(&self, block: u32) -> (u32, u32) {
        let file = self.file_of[block as usize];
        (file, file / self.directory_files)
    }
}

/// Appends operations until there are `writes` user writes in `ops`.
pub fn gather(workload: &mut dyn Workload, writes: usize, ops: &mut Vec<Op>) {
    let mut seen = 0;
    let mut from = 0;
    while seen < writes {
        workload.more(ops);
        let news = ops[from..].iter();
        seen += news.filter(|op| matches!(op, Op::Write { .. })).count();
        from = ops.len();
    }
}

/// From one to another, evenly in the logarithm.
pub(crate) fn log_uniform(random: &mut Random, least: f64, most: f64) -> f64 {
    let unit = (random.word() >> 11) as f64 / (1u64 << 53) as f64;
    least * (most / least).powf(unit)
}

/// Evenly from `(0, 1)`.
fn unit(random: &mut Random) -> f64 {
    ((random.word() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// Normal, of mean 0 and deviation 1 (Box & Muller 1958).
pub(crate) fn normal(random: &mut Random) -> f64 {
    let angle = std::f64::consts::TAU * unit(random);
    (-2.0 * unit(random).ln()).sqrt() * angle.cos()
}
