//! Four kinds of use, after the file systems of Seltzer et al. 1995, table 4.
//!
//! The paper gives their sizes, cylinder groups and ages, how full they were, and
//! what they held; not how many files came and went. That is estimated, before
//! anything was measured with it: `study/file-systems.md` has the numbers and why.

use super::volume::{Make, Volume};
use crate::workload::log_uniform;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use varve_prove::random::Random;

const KB: u64 = 1 << 10;
const DAY_S: u64 = 86_400;

/// What a file system is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// A news spool: small articles that expire (`cnews`).
    News,
    /// Installed software and its sources: packages that are replaced (`glan5`).
    Software,
    /// Home directories (`usr4`, `usr6`, `white`).
    Accounts,
    /// Temporary files, many of them large. The paper has none such.
    Scratch,
}

/// Sizes: a share in a hundred, the least and the greatest; drawn evenly in the
/// logarithm.
type Sizes = &'static [(u64, u64, u64)];

/// How files come and go.
#[derive(Clone, Copy, Debug)]
struct Habits {
    sizes: Sizes,
    directories: usize,
    /// Files that come together, into as many directories as `spread` says.
    batch: u64,
    spread: u64,
    /// Lives: a share in a hundred, the least and the greatest, in seconds; drawn
    /// evenly in the logarithm.
    lives: Sizes,
    /// A batch lives and dies as one.
    together: bool,
    /// One in so many operations lengthens a file instead of making one.
    grows_in: u64,
    /// Full, in percent: at least, and at most.
    full: (u64, u64),
    /// Days after which it is full again as it was.
    season_days: u64,
    /// Share of the volume that is written anew each day, in thousandths.
    turnover: u64,
}

impl Profile {
    /// All of them.
    pub const ALL: [Profile; 4] = [
        Profile::News,
        Profile::Software,
        Profile::Accounts,
        Profile::Scratch,
    ];

    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            Profile::News => "news",
            Profile::Software => "software",
            Profile::Accounts => "accounts",
            Profile::Scratch => "scratch",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Profile::ALL
            .into_iter()
            .find(|profile| profile.name() == name)
    }

    /// The file system, as table 4 has it; the software's is as large as the drive of
    /// table 5 allows.
    pub fn make(self) -> Make {
        let (groups, group_blocks) = match self {
            Profile::News => (49, 1480),
            Profile::Software => (45, 2500),
            Profile::Accounts | Profile::Scratch => (85, 1460),
        };
        Make {
            block_bytes: 8 * KB,
            fragment_bytes: KB,
            group_blocks,
            groups,
            maxcontig: 7,
            clusters: false,
        }
    }

    fn habits(self) -> Habits {
        const HOUR: u64 = 3600;
        match self {
            Profile::News => Habits {
                sizes: &[
                    (92, KB / 2, 6 * KB),
                    (7, 6 * KB, 32 * KB),
                    (1, 32 * KB, 96 * KB),
                ],
                directories: 1200,
                batch: 40,
                spread: 20,
                lives: &[(60, 4 * DAY_S, 14 * DAY_S), (40, 14 * DAY_S, 40 * DAY_S)],
                together: false,
                grows_in: 200,
                full: (70, 88),
                season_days: 45,
                turnover: 45,
            },
            Profile::Software => Habits {
                sizes: &[
                    (75, KB / 2, 16 * KB),
                    (22, 16 * KB, 128 * KB),
                    (3, 128 * KB, 4096 * KB),
                ],
                directories: 900,
                batch: 300,
                spread: 12,
                lives: &[(20, 20 * DAY_S, 90 * DAY_S), (80, 90 * DAY_S, 900 * DAY_S)],
                together: true,
                grows_in: 1000,
                full: (70, 80),
                season_days: 300,
                turnover: 4,
            },
            Profile::Accounts => Habits {
                sizes: &[
                    (85, KB / 4, 12 * KB),
                    (13, 12 * KB, 96 * KB),
                    (2, 96 * KB, 2048 * KB),
                ],
                directories: 2500,
                batch: 6,
                spread: 2,
                lives: &[
                    (65, 60, 12 * HOUR),
                    (20, 12 * HOUR, 10 * DAY_S),
                    (15, 10 * DAY_S, 1000 * DAY_S),
                ],
                together: false,
                grows_in: 8,
                full: (75, 90),
                season_days: 120,
                turnover: 12,
            },
            Profile::Scratch => Habits {
                sizes: &[
                    (60, KB, 64 * KB),
                    (30, 64 * KB, 1024 * KB),
                    (10, 1024 * KB, 16_384 * KB),
                ],
                directories: 200,
                batch: 10,
                spread: 1,
                lives: &[(70, 300, DAY_S), (30, DAY_S, 14 * DAY_S)],
                together: true,
                grows_in: 20,
                full: (10, 90),
                season_days: 14,
                turnover: 150,
            },
        }
    }

    /// Uses a volume for so many days. `scale` divides the number of directories, for
    /// volumes that are smaller than the profile's.
    pub(super) fn live(self, volume: &mut Volume, days: u64, scale: u64, random: &mut Random) {
        let habits = self.habits();
        let mut use_ = Use {
            habits,
            volume,
            random,
            ends: BinaryHeap::new(),
            recent: Vec::new(),
        };
        let directories = (habits.directories as u64 / scale.max(1)).max(8);
        for _ in 0..directories {
            use_.volume.mkdir();
        }
        use_.fill();
        for day in 0..days {
            if day == days * 3 / 4 {
                use_.volume.take_score();
            }
            use_.day(day);
        }
    }
}

/// A volume in use.
struct Use<'a> {
    habits: Habits,
    volume: &'a mut Volume,
    random: &'a mut Random,
    /// Files by the second at which their lives end.
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    /// Files that were made lately: some of them grow.
    recent: Vec<u64>,
}

impl Use<'_> {
    fn drawn(&mut self, classes: Sizes) -> u64 {
        let mut ticket = self.random.below(100);
        for &(share, least, most) in classes {
            if ticket < share {
                return log_uniform(self.random, least as f64, most as f64) as u64;
            }
            ticket -= share;
        }
        unreachable!("shares add up to a hundred")
    }

    /// How full it is to be on a day, of one: it rises for three quarters of a season
    /// and is cleaned up in the last.
    fn target(&self, day: u64) -> f64 {
        let (low, high) = (self.habits.full.0 as f64, self.habits.full.1 as f64);
        let season = self.habits.season_days.max(4);
        let phase = (day % season) as f64 / season as f64;
        let risen = match phase < 0.75 {
            true => phase / 0.75,
            false => (1.0 - phase) / 0.25,
        };
        (low + (high - low) * risen) / 100.0
    }

    /// The first files: as if they had come over a while.
    fn fill(&mut self) {
        let target = self.target(0);
        while self.volume.utilisation() < target {
            if !self.batch(0) {
                break;
            }
        }
    }

    /// Files that come together. False if there was no room for one.
    fn batch(&mut self, now_s: u64) -> bool {
        let directories = self.volume.directories() as u64;
        let first = self.random.below(directories);
        let life = self.drawn(self.habits.lives);
        for _ in 0..self.habits.batch {
            if self.random.once_in(self.habits.grows_in) && !self.recent.is_empty() {
                let file = *self.random.pick(&self.recent);
                let bytes = 1 + self.drawn(self.habits.sizes) / 4;
                if self.volume.grow(file, bytes).is_err() {
                    return false;
                }
                continue;
            }
            let near = self.random.below(self.habits.spread);
            let directory = ((first + near) % directories) as usize;
            let bytes = self.drawn(self.habits.sizes);
            let Ok(file) = self.volume.create(directory, bytes) else {
                return false;
            };
            let life = match self.habits.together {
                true => life,
                false => self.drawn(self.habits.lives),
            };
            self.ends.push(Reverse((now_s + life, file)));
            match self.recent.len() < 64 {
                true => self.recent.push(file),
                false => {
                    let at = self.random.below(64) as usize;
                    self.recent[at] = file;
                }
            }
        }
        true
    }

    /// Files whose lives are over are removed; true if there were any.
    fn end_until(&mut self, now_s: u64) {
        while let Some(&Reverse((end_s, file))) = self.ends.peek()
            && end_s <= now_s
        {
            self.ends.pop();
            self.volume.remove(file);
        }
    }

    /// The file whose life ends first is removed before its time.
    fn end_one(&mut self) -> bool {
        let first = self.ends.pop();
        first
            .map(|Reverse((_, file))| self.volume.remove(file))
            .is_some()
    }

    /// What is written on a day comes in batches, each after what has ended by then; when
    /// the volume is fuller than it is to be, what would end first ends.
    fn day(&mut self, day: u64) {
        let target = self.target(day);
        let all = self.volume.bytes();
        let turnover = all * self.habits.turnover / 1000;
        let mut written = 0;
        let mut rounds = 0;
        loop {
            let now_s = day * DAY_S + (DAY_S * written / turnover.max(1)).min(DAY_S);
            self.end_until(now_s);
            while self.volume.utilisation() > target && self.end_one() {}
            // At least what is written each day; more if there is less than there is
            // to be.
            let lacks = self.volume.utilisation() < target - 0.01;
            rounds += 1;
            if (written >= turnover && !lacks) || rounds > 100_000 {
                return;
            }
            let before = self.volume.written();
            if !self.batch(now_s) {
                // The room is there, and not in such pieces.
                for _ in 0..self.habits.batch {
                    self.end_one();
                }
            }
            written += (self.volume.written() - before).max(1);
        }
    }
}
