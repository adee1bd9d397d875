//! Files that are made, sometimes updated, and die whole (`lives.rs`), as blocks.
//!
//! Two uses of one engine. *Ephemeral small files* (WOLF §3.2.2): mail and
//! news, 90 % of the bytes dead within five minutes. *Long-term use* (Rosenblum
//! & Ousterhout 1992, §5.2): months of an office's home directories, in balance
//! (`balance.rs`): a file is updated by being written anew, so its life ends
//! there, too, and what lives at the beginning is as old as it would be.

use super::lives::{Event, Lives};
use super::{Balance, FileTable, Locality, Op, SizeLaw, Workload};

/// Numbers of blocks beyond those that live.
const SPARE: u32 = 4096;

/// Most that lives of a population in balance over what lives in the mean: it
/// goes up and down, and nothing should have to die early.
pub const BALANCED_ROOM: f64 = 1.06;

/// Sizes and lives of files.
#[derive(Debug, Clone)]
pub enum Files {
    /// Short-lived and others.
    TwoKinds {
        /// How large.
        sizes: SizeLaw,
        /// Share of new files that are short-lived, in thousandths.
        short_share: u64,
        /// Median lives of short-lived and other files, seconds.
        median_s: (f64, f64),
        /// A factor of `e` to this power either way is usual.
        spread: f64,
    },
    /// What keeps a volume as full as it is.
    Balanced(Balance),
}

/// What the files of a volume are like.
#[derive(Debug, Clone)]
pub struct Population {
    /// How large, and how long they live.
    pub files: Files,
    /// Thousandths of operations that write an existing file anew instead of
    /// making one.
    pub updates: u64,
    /// Seconds between operations.
    pub every_s: f64,
    /// Whether files are read as often as written.
    pub reads: bool,
}

impl Population {
    /// Mail and news.
    pub fn ephemeral() -> Self {
        Population {
            files: Files::TwoKinds {
                sizes: SizeLaw::ephemeral(),
                short_share: 920,
                median_s: (45.0, 20_000.0),
                spread: 1.0,
            },
            updates: 150,
            every_s: 0.05,
            reads: true,
        }
    }

    /// Home directories in balance: `bytes_per_hour` written.
    pub fn balanced(balance: Balance, bytes_per_hour: f64) -> Self {
        Population {
            every_s: 3600.0 * balance.mean_made() * 4096.0 / bytes_per_hour,
            files: Files::Balanced(balance),
            updates: 0,
            reads: false,
        }
    }
}

/// See the module's head.
#[derive(Debug)]
pub struct Lifetimes {
    lives: Lives,
    blocks: u32,
    free: Vec<u32>,
    /// Blocks of each file.
    held: Vec<Vec<u32>>,
    events: Vec<Event>,
}

impl Lifetimes {
    /// A population that fills at most `live` blocks; beyond them the files
    /// that would die soonest are removed early.
    pub fn new(population: Population, live: u32, seed: u64) -> Self {
        let blocks = live + SPARE;
        Lifetimes {
            lives: Lives::new(population, live, seed),
            blocks,
            free: (0..blocks).rev().collect(),
            held: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Blocks that lived, in the mean over all steps.
    pub fn mean_live(&self) -> f64 {
        self.lives.mean_live()
    }

    /// Files that were removed early.
    pub fn removed_early(&self) -> u64 {
        self.lives.removed_early()
    }

    /// Mean size of the files that live now, blocks.
    pub fn mean_size(&self) -> f64 {
        f64::from(self.lives.live()) / self.lives.living().max(1) as f64
    }

    /// What has happened to files, as operations on blocks.
    fn befall(&mut self, ops: &mut Vec<Op>) {
        for event in self.events.drain(..) {
            match event {
                Event::Made { file, size } => {
                    let blocks = self.free.split_off(self.free.len() - size as usize);
                    ops.extend(blocks.iter().map(|&block| Op::Write { block }));
                    let file = file as usize;
                    if file >= self.held.len() {
                        self.held.resize(file + 1, Vec::new());
                    }
                    self.held[file] = blocks;
                }
                Event::Updated { file, .. } => {
                    let blocks = self.held[file as usize].iter();
                    ops.extend(blocks.map(|&block| Op::Write { block }));
                }
                Event::Read { file, .. } => {
                    let blocks = self.held[file as usize].iter();
                    ops.extend(blocks.map(|&block| Op::Read { block }));
                }
                Event::Removed { file } => {
                    let blocks = std::mem::take(&mut self.held[file as usize]);
                    ops.extend(blocks.iter().map(|&block| Op::Trim { block }));
                    self.free.extend(blocks);
                }
                Event::Wait { ns } => ops.push(Op::Wait { ns }),
            }
        }
    }
}

impl Workload for Lifetimes {
    fn blocks(&self) -> u32 {
        self.blocks
    }

    fn live_max(&self) -> u32 {
        self.lives.live_target()
    }

    fn prefill(&mut self, ops: &mut Vec<Op>) {
        self.lives.prefill(&mut self.events);
        self.befall(ops);
    }

    fn more(&mut self, ops: &mut Vec<Op>) {
        for _ in 0..256 {
            self.lives.step(&mut self.events);
            self.befall(ops);
        }
        // A step may only update nothing; one more file settles it.
        self.lives.make_short(&mut self.events);
        self.befall(ops);
    }

    /// Numbers are given out in runs; a run of 16 stands for a file.
    fn locality(&self) -> Box<dyn Locality> {
        Box::new(FileTable {
            file_of: (0..self.blocks).map(|block| block / 16).collect(),
            directory_files: 32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn what_is_trimmed_was_written_and_room_is_kept() {
        let mut workload = Lifetimes::new(Population::ephemeral(), 20_000, 1);
        let mut ops = Vec::new();
        workload.prefill(&mut ops);
        super::super::gather(&mut workload, 100_000, &mut ops);
        let mut alive = HashSet::new();
        for op in ops {
            match op {
                Op::Write { block } => {
                    alive.insert(block);
                }
                Op::Trim { block } => assert!(alive.remove(&block)),
                _ => {}
            }
            assert!(alive.len() <= 20_000);
        }
        assert_eq!(alive.len() as u32, workload.lives.live());
    }

    #[test]
    fn nine_tenths_of_the_mail_is_dead_after_five_minutes() {
        let mut workload = Lifetimes::new(Population::ephemeral(), 20_000, 1);
        let drawn = |workload: &mut Lifetimes| {
            let lives = &mut workload.lives;
            let short = lives.is_short();
            lives.draw(short).1
        };
        let early = (0..10_000).filter(|_| drawn(&mut workload) < 300.0);
        let share = early.count() as f64 / 10_000.0;
        assert!((0.87..0.93).contains(&share), "{share}");
    }
}
