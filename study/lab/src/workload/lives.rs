//! Files that are made, sometimes updated, and die whole: what befalls them, one after the
//! other. `lifetimes.rs` makes blocks of them, `program/office.rs` files.

use super::balance::{Balance, Living, Session};
use super::lifetimes::{Files, Population};
use super::normal;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use varve_prove::random::Random;

const SECOND_NS: u64 = 1_000_000_000;
/// Longest life, seconds: thirty years.
const LONGEST_S: f64 = 1e9;
/// Room that is left when a volume of other than balanced files is filled, blocks.
const LEFT: u32 = 2048;

/// What befalls a file. The number of one that was removed is given to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It is made, of so many blocks.
    Made {
        /// Its number.
        file: u32,
        /// Blocks.
        size: u32,
    },
    /// It is written anew, as large as it was.
    Updated {
        /// Its number.
        file: u32,
        /// Blocks.
        size: u32,
    },
    /// It is read whole.
    Read {
        /// Its number.
        file: u32,
        /// Blocks.
        size: u32,
    },
    /// It dies.
    Removed {
        /// Its number.
        file: u32,
    },
    /// Time passes.
    Wait {
        /// How much.
        ns: u64,
    },
}

#[derive(Debug, Clone, Copy, Default)]
struct File {
    /// Blocks.
    size: u32,
    /// Its place in the list of those alive, or none.
    listed: Option<u32>,
}

/// See the module's head.
#[derive(Debug)]
pub struct Lives {
    population: Population,
    random: Random,
    live_target: u32,
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

impl Lives {
    /// A population that fills at most `live` blocks; beyond them the files
    /// that would die soonest are removed early.
    pub fn new(population: Population, live: u32, seed: u64) -> Self {
        Lives {
            population,
            random: Random::new(seed),
            live_target: live,
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

    /// Most blocks that live.
    pub fn live_target(&self) -> u32 {
        self.live_target
    }

    /// Blocks that live now.
    pub fn live(&self) -> u32 {
        self.live
    }

    /// Files that live now.
    pub fn living(&self) -> usize {
        self.alive.len()
    }

    /// Blocks that lived, in the mean over all steps.
    pub fn mean_live(&self) -> f64 {
        self.counts.live as f64 / self.counts.steps.max(1) as f64
    }

    /// Files that were removed early.
    pub fn removed_early(&self) -> u64 {
        self.counts.early
    }

    /// Size and life of a new file.
    pub(super) fn draw(&mut self, short: bool) -> (u32, f64) {
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

    pub(super) fn is_short(&mut self) -> bool {
        match self.population.files {
            Files::Balanced(_) => false,
            Files::TwoKinds { short_share, .. } => self.random.below(1000) < short_share,
        }
    }

    fn bury(&mut self, file: u32, events: &mut Vec<Event>) {
        let gone = std::mem::take(&mut self.files[file as usize]);
        let Some(at) = gone.listed else {
            return;
        };
        self.alive.swap_remove(at as usize);
        if let Some(moved) = self.alive.get(at as usize) {
            self.files[*moved as usize].listed = Some(at);
        }
        self.live -= gone.size;
        events.push(Event::Removed { file });
        self.gone.push(file);
    }

    /// Makes a file that lives so long, after room has been made.
    fn make(&mut self, (size, life_s): (u32, f64), events: &mut Vec<Event>) {
        while self.live + size > self.live_target {
            let Reverse((_, file)) = self.deaths.pop().expect("what lives will die");
            self.bury(file, events);
            self.counts.early += 1;
        }
        let file = self.gone.pop().unwrap_or_else(|| {
            self.files.push(File::default());
            self.files.len() as u32 - 1
        });
        events.push(Event::Made { file, size });
        self.live += size;
        self.files[file as usize] = File {
            size,
            listed: Some(self.alive.len() as u32),
        };
        self.alive.push(file);
        let life_ns = (life_s.min(LONGEST_S) * SECOND_NS as f64) as u64;
        self.deaths.push(Reverse((self.now_ns + life_ns, file)));
    }

    /// What lives already, oldest first, as a log would have it.
    fn inhabit(&mut self, balance: &Balance, blocks: u32, events: &mut Vec<Event>) {
        let mut met = Vec::new();
        let mut all = 0;
        while all < blocks {
            met.push(balance.meet(&mut self.random));
            all += met.last().map_or(0, |file: &Living| file.size);
        }
        met.sort_by(|a, b| b.age_s.total_cmp(&a.age_s));
        for file in met {
            self.make((file.size, file.left_s), events);
        }
    }

    /// Until the volume is as full as it shall be: of files in balance what
    /// lives, otherwise long-lived ones only.
    pub fn prefill(&mut self, events: &mut Vec<Event>) {
        if let Files::Balanced(balance) = self.population.files.clone() {
            let blocks = f64::from(self.live_target) / super::BALANCED_ROOM;
            return self.inhabit(&balance, blocks as u32, events);
        }
        while self.live + LEFT < self.live_target {
            let file = self.draw(false);
            self.make(file, events);
        }
    }

    /// Any file that lives, and its blocks.
    fn some_file(&mut self) -> Option<(u32, u32)> {
        let count = self.alive.len() as u64;
        let file = (count > 0).then(|| self.alive[self.random.below(count) as usize])?;
        Some((file, self.files[file as usize].size))
    }

    /// Some time passes, some files die, and one is read, or made or updated.
    pub fn step(&mut self, events: &mut Vec<Event>) {
        let wait_ns = (self.population.every_s * SECOND_NS as f64) as u64;
        self.now_ns += wait_ns;
        events.push(Event::Wait { ns: wait_ns });
        while let Some(Reverse((dies_ns, file))) = self.deaths.peek().copied() {
            if dies_ns > self.now_ns {
                break;
            }
            self.deaths.pop();
            self.bury(file, events);
        }
        if self.population.reads
            && let Some((file, size)) = self.some_file()
        {
            events.push(Event::Read { file, size });
        }
        let update = self.random.below(1000) < self.population.updates;
        match update.then(|| self.some_file()).flatten() {
            Some((file, size)) => events.push(Event::Updated { file, size }),
            None => self.make_one(events),
        }
        self.counts.steps += 1;
        self.counts.live += u64::from(self.live);
    }

    fn make_one(&mut self, events: &mut Vec<Event>) {
        let short = self.is_short();
        let file = self.draw(short);
        self.make(file, events);
    }

    /// A short-lived file is made, whatever else happens.
    pub fn make_short(&mut self, events: &mut Vec<Event>) {
        let file = self.draw(true);
        self.make(file, events);
    }
}
