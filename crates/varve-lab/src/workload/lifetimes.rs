//! Files that are made, sometimes updated, and die whole.
//!
//! Two uses of one engine. *Ephemeral small files* (WOLF §3.2.2): mail and
//! news, 90 % of the bytes dead within five minutes. *Long-term use* (Rosenblum
//! & Ousterhout 1992, §5.2): months of an office's home directories; most new
//! files die within a day, the others become cold, and large ones die whole.

use super::{FileTable, Locality, Op, SizeLaw, Workload};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use varve_prove::random::Random;

const SECOND_NS: u64 = 1_000_000_000;

/// What the files of a volume are like.
#[derive(Debug, Clone)]
pub struct Population {
    /// How large.
    pub sizes: SizeLaw,
    /// Share of new files that are short-lived, in thousandths.
    pub short_share: u64,
    /// Median lives of short-lived and other files, seconds.
    pub median_s: (f64, f64),
    /// Spread of a life: a factor of `e` to this power either way is usual.
    pub spread: f64,
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
            sizes: SizeLaw::ephemeral(),
            short_share: 920,
            median_s: (45.0, 20_000.0),
            spread: 1.0,
            updates: 150,
            every_s: 0.05,
            reads: true,
        }
    }

    /// Home directories: `bytes_per_hour` written, as /user6 had 3.2 MB.
    pub fn office(bytes_per_hour: f64) -> Self {
        let sizes = SizeLaw::office();
        let every_s = 3600.0 * sizes.mean() * 4096.0 / bytes_per_hour;
        Population {
            sizes,
            short_share: 700,
            median_s: (3600.0, 90.0 * 86_400.0),
            spread: 1.5,
            updates: 100,
            every_s,
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
}

impl Lifetimes {
    /// A population that fills `live` blocks; beyond them the files that would
    /// die soonest are removed early.
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
        }
    }

    fn unit(&mut self) -> f64 {
        ((self.random.word() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// A life: lognormal about one of the two medians.
    fn life_ns(&mut self, short: bool) -> u64 {
        let angle = std::f64::consts::TAU * self.unit();
        let normal = (-2.0 * self.unit().ln()).sqrt() * angle.cos();
        let (brief, long) = self.population.median_s;
        let median = if short { brief } else { long };
        let seconds = median * (normal * self.population.spread).exp();
        (seconds.min(1e9) * SECOND_NS as f64) as u64
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

    /// Makes a file that lives until `dies_ns`, after room has been made.
    fn make(&mut self, short: bool, ops: &mut Vec<Op>) {
        let size = self.population.sizes.draw(&mut self.random);
        while self.live + size > self.live_target {
            let Reverse((_, file)) = self.deaths.pop().expect("what lives will die");
            self.bury(file, ops);
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
        let dies_ns = self.now_ns + self.life_ns(short);
        self.deaths.push(Reverse((dies_ns, file)));
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
            let short = self.random.below(1000) < self.population.short_share;
            self.make(short, ops);
        }
    }
}

impl Workload for Lifetimes {
    fn blocks(&self) -> u32 {
        self.blocks
    }

    fn live_max(&self) -> u32 {
        self.live_target
    }

    /// Long-lived files only, until the volume is as full as it shall be.
    fn prefill(&mut self, ops: &mut Vec<Op>) {
        while self.live + 2048 < self.live_target {
            self.make(false, ops);
        }
    }

    fn more(&mut self, ops: &mut Vec<Op>) {
        for _ in 0..256 {
            self.step(ops);
        }
        // A step may only update nothing; one more file settles it.
        self.make(true, ops);
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
            let short = workload.random.below(1000) < workload.population.short_share;
            workload.life_ns(short)
        };
        let early = (0..10_000).filter(|_| drawn(&mut workload) < 300 * SECOND_NS);
        let share = early.count() as f64 / 10_000.0;
        assert!((0.87..0.93).contains(&share), "{share}");
    }
}
