//! Overwrites of a fixed set of files: uniform, hot-and-cold, Zipf.
//!
//! With files of one block this is the workload of Rosenblum & Ousterhout
//! (1992, §3.5), with a law of sizes that of WOLF §3.2.2: every access takes a
//! whole small file or a run of a large one, and as many runs are read as
//! written.

use super::{FileTable, Locality, Op, SizeLaw, Workload};
use varve_prove::random::Random;

/// Which files are written how often.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Skew {
    /// All alike.
    Uniform,
    /// So many percent of the accesses go to so many percent of the files.
    HotCold {
        /// Percent of accesses.
        accesses: u32,
        /// Percent of files.
        files: u32,
    },
    /// The r-th most popular file is accessed in proportion to 1 / r^s, with
    /// s in thousandths, not 1000.
    Zipf {
        /// Thousandths.
        exponent: u32,
    },
}

/// Longest run that one access takes, blocks.
const RUN: u32 = 16;
/// Runs per call of `more`.
const CHUNK: usize = 4096;

/// See the module's head.
#[derive(Debug)]
pub struct Skewed {
    skew: Skew,
    random: Random,
    /// First block of each file, and the end of the last.
    starts: Vec<u32>,
    /// For Zipf: which file has which rank.
    ranks: Vec<u32>,
    zipf: Option<Zipf>,
    read: bool,
    wait_ns: u64,
}

impl Skewed {
    /// Files of one block that are only written.
    pub fn of_blocks(skew: Skew, blocks: u32, seed: u64) -> Self {
        let starts = (0..=blocks).collect();
        Self::new(skew, starts, false, 0, Random::new(seed))
    }

    /// Files of about so many blocks together, read as often as written, one
    /// access of each kind every `wait_ns`.
    pub fn of_files(skew: Skew, sizes: &SizeLaw, blocks: u32, wait_ns: u64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let starts = sizes.fill(blocks, &mut random);
        Self::new(skew, starts, true, wait_ns, random)
    }

    fn new(skew: Skew, starts: Vec<u32>, read: bool, wait_ns: u64, mut random: Random) -> Self {
        let files = starts.len() as u32 - 1;
        let mut ranks = Vec::new();
        let mut zipf = None;
        if let Skew::Zipf { exponent } = skew {
            ranks = (0..files).collect();
            for at in (1..ranks.len()).rev() {
                ranks.swap(at, random.below(at as u64 + 1) as usize);
            }
            zipf = Some(Zipf::new(files, f64::from(exponent) / 1000.0));
        }
        Skewed {
            skew,
            random,
            starts,
            ranks,
            zipf,
            read,
            wait_ns,
        }
    }

    /// Whether a block belongs to the hot files.
    #[cfg(test)]
    fn is_hot(&self, block: u32) -> bool {
        let Skew::HotCold { files, .. } = self.skew else {
            return false;
        };
        let file = self.starts.partition_point(|start| *start <= block) - 1;
        (file as u32) < self.hot_files(files)
    }

    fn hot_files(&self, percent: u32) -> u32 {
        let files = self.starts.len() as u64 - 1;
        ((files * u64::from(percent)).div_ceil(100) as u32).max(1)
    }

    #[inline]
    fn pick(&mut self) -> usize {
        let files = self.starts.len() as u32 - 1;
        let among = |random: &mut Random, from: u32, to: u32| {
            from + random.below(u64::from(to - from)) as u32
        };
        let file = match self.skew {
            Skew::Uniform => among(&mut self.random, 0, files),
            Skew::HotCold {
                accesses,
                files: percent,
            } => {
                let hot = self.hot_files(percent).min(files - 1);
                match self.random.below(100) < u64::from(accesses) {
                    true => among(&mut self.random, 0, hot),
                    false => among(&mut self.random, hot, files),
                }
            }
            Skew::Zipf { .. } => {
                let zipf = self.zipf.as_ref().expect("made with the skew");
                self.ranks[zipf.draw(&mut self.random) as usize]
            }
        };
        file as usize
    }

    #[inline]
    fn access(&mut self, ops: &mut Vec<Op>, op: impl Fn(u32) -> Op) {
        let file = self.pick();
        let (mut first, end) = (self.starts[file], self.starts[file + 1]);
        let mut blocks = end - first;
        if blocks > RUN {
            first += self.random.below(u64::from(blocks - RUN + 1)) as u32;
            blocks = RUN;
        }
        ops.extend((first..first + blocks).map(op));
    }
}

impl Workload for Skewed {
    fn blocks(&self) -> u32 {
        *self.starts.last().expect("it has an end")
    }

    fn live_max(&self) -> u32 {
        self.blocks()
    }

    fn prefill(&mut self, ops: &mut Vec<Op>) {
        ops.extend((0..self.blocks()).map(|block| Op::Write { block }));
    }

    fn more(&mut self, ops: &mut Vec<Op>) {
        for _ in 0..CHUNK {
            self.access(ops, |block| Op::Write { block });
            if self.read {
                self.access(ops, |block| Op::Read { block });
                ops.push(Op::Wait { ns: self.wait_ns });
            }
        }
    }

    fn locality(&self) -> Box<dyn Locality> {
        let mut file_of = Vec::with_capacity(self.blocks() as usize);
        for (file, pair) in self.starts.windows(2).enumerate() {
            file_of.resize(pair[1] as usize, file as u32);
        }
        Box::new(FileTable {
            file_of,
            directory_files: 32,
        })
    }
}

/// Draws ranks by rejection from the integral of the density (Hörmann &
/// Derflinger 1996), so no table of probabilities is needed.
#[derive(Debug)]
struct Zipf {
    exponent: f64,
    low: f64,
    high: f64,
    ranks: u32,
}

impl Zipf {
    fn new(ranks: u32, exponent: f64) -> Self {
        assert!(
            (exponent - 1.0).abs() > 1e-9,
            "the integral is another at 1"
        );
        let integral = |x: f64| x.powf(1.0 - exponent) / (1.0 - exponent);
        Zipf {
            exponent,
            low: integral(1.5) - 1.0,
            high: integral(f64::from(ranks) + 0.5),
            ranks,
        }
    }

    /// A rank from 0.
    fn draw(&self, random: &mut Random) -> u32 {
        let power = 1.0 - self.exponent;
        loop {
            let unit = (random.word() >> 11) as f64 / (1u64 << 53) as f64;
            let u = self.high + unit * (self.low - self.high);
            let x = (power * u).powf(1.0 / power);
            let k = (x + 0.5).floor().clamp(1.0, f64::from(self.ranks));
            let above = (k + 0.5).powf(power) / power;
            if u >= above - k.powf(-self.exponent) {
                return k as u32 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(skew: Skew, blocks: u32) -> Vec<u32> {
        let mut workload = Skewed::of_blocks(skew, blocks, 1);
        let mut ops = Vec::new();
        super::super::gather(&mut workload, 200_000, &mut ops);
        let mut counts = vec![0; blocks as usize];
        for op in ops {
            if let Op::Write { block } = op {
                counts[block as usize] += 1;
            }
        }
        counts
    }

    #[test]
    fn nine_in_ten_go_to_the_tenth_that_is_hot() {
        let skew = Skew::HotCold {
            accesses: 90,
            files: 10,
        };
        let counts = counts(skew, 1000);
        let hot: u32 = counts[..100].iter().sum();
        let share = f64::from(hot) / f64::from(counts.iter().sum::<u32>());
        assert!((share - 0.9).abs() < 0.01, "{share}");
        let workload = Skewed::of_blocks(skew, 1000, 1);
        assert!(workload.is_hot(99) && !workload.is_hot(100));
    }

    #[test]
    fn zipf_follows_its_law() {
        let mut counts = counts(Skew::Zipf { exponent: 900 }, 1000);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let all: u32 = counts.iter().sum();
        let norm: f64 = (1..=1000).map(|r| f64::from(r).powf(-0.9)).sum();
        for rank in [1, 2, 10] {
            let expected = f64::from(rank).powf(-0.9) / norm;
            let found = f64::from(counts[rank as usize - 1]) / f64::from(all);
            assert!((found / expected - 1.0).abs() < 0.1, "{rank}: {found}");
        }
    }
}
