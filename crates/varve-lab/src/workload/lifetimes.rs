//! Files that are made, sometimes updated, and die whole.
//!
//! Two uses of one engine. *Ephemeral small files* (WOLF §3.2.2): mail and
//! news, 90 % of the bytes dead within five minutes. *Long-term use* (Rosenblum
//! & Ousterhout 1992, §5.2): months of an office's home directories, in balance
//! (`balance.rs`): a file is updated by being written anew, so its life ends
//! there, too, and what lives at the beginning is as old as it would be.

use super::balance::{Balance, Living, Session};
use super::{FileTable, Locality, Op, SizeLaw, Workload, normal};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use varve_prove::random::Random;

const SECOND_NS: u64 = 1_000_000_000;
/// Longest life, seconds: thirty years.
const LONGEST_S: f64 = 1e9;

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

#[derive(Debug, Clone, Default)]
struct File {
    blocks: Vec<u32>,
    /// Its place in the list of those alive, or none.
    listed: Option<u32>,
}

/// See the module's head.
#[derive(Debug)]
pub struct Lifetimes {
    population: Population,
    random: Random,
    live_target: u32,
    blocks: u32,
    free: Vec<u32>,
    files: Vec<File>,
    gone: Vec<u32>,
    alive: Vec<u32>,
    deaths: BinaryHeap<Reverse<(u64, u32)>>,
    live: u32,
    now_ns: u64,
    session: Session,
    counts: Counts,
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    steps: u64,
    live: u64,
    early: u64,
}

impl Lifetimes {
    /// A population that fills at most `live` blocks; beyond them the files
    /// that would die soonest are removed early.
    pub fn new(population: Population, live: u32, seed: u64) -> Self {
        let blocks = live + 4096;
        Lifetimes {
            population,
            random: Random::new(seed),
            live_target: live,
            blocks,
            free: (0..blocks).rev().collect(),
            files: Vec::new(),
            gone: Vec::new(),
            alive: Vec::new(),
            deaths: BinaryHeap::new(),
            live: 0,
            now_ns: 0,
            session: Session::default(),
            counts: Counts::default(),
        }
    }

    /// Blocks that lived, in the mean over all steps.
    pub fn mean_live(&self) -> f64 {
        self.counts.live as f64 / self.counts.steps.max(1) as f64
    }

    /// Files that were removed early.
    pub fn removed_early(&self) -> u64 {
        self.counts.early
    }

    /// Mean size of the files that live now, blocks.
    pub fn mean_size(&self) -> f64 {
        f64::from(self.live) / self.alive.len().max(1) as f64
    }

    /// Size and life of a new file.
    fn draw(&mut self, short: bool) -> (u32, f64) {
        match &self.population.files {
            Files::Balanced(balance) => balance.make(&mut self.session, &mut self.random),
            Files::TwoKinds {
                sizes,
                median_s: (brief, long),
                spread,
                ..
            } => {
                let size = sizes.draw(&mut self.random);
                let median = if short { brief } else { long };
                let life_s = median * (normal(&mut self.random) * spread).exp();
                (size, life_s)
            }
        }
    }

    fn is_short(&mut self) -> bool {
        match self.population.files {
            Files::Balanced(_) => false,
            Files::TwoKinds { short_share, .. } => self.random.below(1000) < short_share,
        }
    }

    fn bury(&mut self, file: u32, ops: &mut Vec<Op>) {
        let gone = std::mem::take(&mut self.files[file as usize]);
        let Some(at) = gone.listed else {
            return;
        };
        self.alive.swap_remove(at as usize);
        if let Some(moved) = self.alive.get(at as usize) {
            self.files[*moved as usize].listed = Some(at);
        }
        self.live -= gone.blocks.len() as u32;
        ops.extend(gone.blocks.iter().map(|&block| Op::Trim { block }));
        self.free.extend(gone.blocks);
        self.gone.push(file);
    }

    /// Makes a file that lives so long, after room has been made.
    fn make(&mut self, (size, life_s): (u32, f64), ops: &mut Vec<Op>) {
        while self.live + size > self.live_target {
            let Reverse((_, file)) = self.deaths.pop().expect("what lives will die");
            self.bury(file, ops);
            self.counts.early += 1;
        }
        let file = self.gone.pop().unwrap_or_else(|| {
            self.files.push(File::default());
            self.files.len() as u32 - 1
        });
        let blocks = self.free.split_off(self.free.len() - size as usize);
        ops.extend(blocks.iter().map(|&block| Op::Write { block }));
        self.live += size;
        self.files[file as usize] = File {
            blocks,
            listed: Some(self.alive.len() as u32),
        };
        self.alive.push(file);
        let life_ns = (life_s.min(LONGEST_S) * SECOND_NS as f64) as u64;
        self.deaths.push(Reverse((self.now_ns + life_ns, file)));
    }

    /// What lives already, oldest first, as a log would have it.
    fn inhabit(&mut self, balance: &Balance, blocks: u32, ops: &mut Vec<Op>) {
        let mut met = Vec::new();
        let mut all = 0;
        while all < blocks {
            met.push(balance.meet(&mut self.random));
            all += met.last().map_or(0, |file: &Living| file.size);
        }
        met.sort_by(|a, b| b.age_s.total_cmp(&a.age_s));
        for file in met {
            self.make((file.size, file.left_s), ops);
        }
    }

    fn some_file(&mut self) -> Option<u32> {
        let count = self.alive.len() as u64;
        (count > 0).then(|| self.alive[self.random.below(count) as usize])
    }

    fn access(&mut self, ops: &mut Vec<Op>, op: impl Fn(u32) -> Op) -> bool {
        let Some(file) = self.some_file() else {
            return false;
        };
        ops.extend(self.files[file as usize].blocks.iter().map(|b| op(*b)));
        true
    }

    fn step(&mut self, ops: &mut Vec<Op>) {
        let wait_ns = (self.population.every_s * SECOND_NS as f64) as u64;
        self.now_ns += wait_ns;
        ops.push(Op::Wait { ns: wait_ns });
        while let Some(Reverse((dies_ns, file))) = self.deaths.peek().copied() {
            if dies_ns > self.now_ns {
                break;
            }
            self.deaths.pop();
            self.bury(file, ops);
        }
        if self.population.reads {
            self.access(ops, |block| Op::Read { block });
        }
        let update = self.random.below(1000) < self.population.updates;
        if !(update && self.access(ops, |block| Op::Write { block })) {
            let short = self.is_short();
            let file = self.draw(short);
            self.make(file, ops);
        }
        self.counts.steps += 1;
        self.counts.live += u64::from(self.live);
    }
}

impl Workload for Lifetimes {
    fn blocks(&self) -> u32 {
        self.blocks
    }

    fn live_max(&self) -> u32 {
        self.live_target
    }

    /// Until the volume is as full as it shall be: of files in balance what
    /// lives, otherwise long-lived ones only.
    fn prefill(&mut self, ops: &mut Vec<Op>) {
        if let Files::Balanced(balance) = self.population.files.clone() {
            let blocks = f64::from(self.live_target) / BALANCED_ROOM;
            return self.inhabit(&balance, blocks as u32, ops);
        }
        while self.live + 2048 < self.live_target {
            let file = self.draw(false);
            self.make(file, ops);
        }
    }

    fn more(&mut self, ops: &mut Vec<Op>) {
        for _ in 0..256 {
            self.step(ops);
        }
        // A step may only update nothing; one more file settles it.
        let file = self.draw(true);
        self.make(file, ops);
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
        assert_eq!(alive.len() as u32, workload.live);
    }

    #[test]
    fn nine_tenths_of_the_mail_is_dead_after_five_minutes() {
        let mut workload = Lifetimes::new(Population::ephemeral(), 20_000, 1);
        let drawn = |workload: &mut Lifetimes| {
            let short = workload.is_short();
            workload.draw(short).1
        };
        let early = (0..10_000).filter(|_| drawn(&mut workload) < 300.0);
        let share = early.count() as f64 / 10_000.0;
        assert!((0.87..0.93).contains(&share), "{share}");
    }
}
