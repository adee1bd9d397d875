//! Random lives, for volumes that are too large to be explored: filled, changed and
//! emptied, repeatedly.

use super::explore::{Broken, Step, lives_on, may, take};
use super::geometry::Geometry;
use super::log::Log;
use super::rules::Rules;
use crate::random::Random;

/// Result of a walk.
#[derive(Clone, Debug, Default)]
pub struct Walked {
    /// Number of steps.
    pub steps: u64,
    /// Numbers of overwrites requested on a full volume, and refused.
    pub overwrites: (u64, u64),
    /// Largest number of live slots.
    pub fullest: usize,
    /// Number of steps up to a broken promise, the last step, and the promise.
    pub broken: Option<(u64, Step, Broken)>,
}

/// Habits of an adversary, drawn for each life.
#[derive(Clone, Copy, Debug)]
struct Habits {
    /// One in this number of steps logs the dirty state.
    appends: u64,
    /// One in this number of steps takes a checkpoint.
    checkpoints: u64,
    /// One in this number of steps cleans a random segment.
    cleans: u64,
    /// Number of overwrites on the full volume.
    churn: u64,
    /// Distance in the tree between files that are removed in succession; 0 for a random
    /// order.
    stride: usize,
}

impl Habits {
    fn draw(random: &mut Random, geometry: &Geometry) -> Self {
        let files = geometry.files;
        Habits {
            appends: *random.pick(&[1, 2, 4, 16]),
            checkpoints: *random.pick(&[1, 2, 8, 64]),
            cleans: *random.pick(&[1, 4, 16, 1 << 40]),
            churn: *random.pick(&[0, 1, 3]) * files as u64,
            stride: *random.pick(&[0, 1, geometry.per_map, geometry.per_directory]),
        }
    }
}

struct Walker<'r> {
    rules: &'r Rules,
    random: &'r mut Random,
    log: Log,
    out: Walked,
    failed: Option<(Step, Broken)>,
}

/// Walks `lives` lives, or until a promise is broken.
pub fn walk(geometry: Geometry, rules: &Rules, lives: u64, random: &mut Random) -> Walked {
    let mut walker = Walker {
        rules,
        random,
        log: Log::format(geometry),
        out: Walked::default(),
        failed: None,
    };
    for life in 0..lives {
        if life % 4 == 0 {
            walker.log = Log::format(geometry);
        }
        walker.live();
        if let Some((step, broken)) = walker.failed {
            walker.out.broken = Some((walker.out.steps, step, broken));
            break;
        }
    }
    walker.out
}

/// Returns a volume that was filled and changed at random.
pub fn filled(geometry: Geometry, rules: &Rules, random: &mut Random) -> Log {
    let mut walker = Walker {
        rules,
        random,
        log: Log::format(geometry),
        out: Walked::default(),
        failed: None,
    };
    let habits = Habits::draw(walker.random, &geometry);
    walker.fill(&habits);
    walker.log
}

impl Walker<'_> {
    fn live(&mut self) {
        let files = self.log.files.len();
        let habits = Habits::draw(self.random, &self.log.geometry);
        self.fill(&habits);
        self.drain(&habits, files);
    }

    fn fill(&mut self, habits: &Habits) {
        let files = self.log.files.len();
        let mut refused = 0;
        while refused < 4 && self.failed.is_none() {
            let free = (0..files).find(|file| self.log.may_be_created(*file));
            let Some(file) = free else { break };
            let size = 1 + self.random.below(u64::from(self.log.geometry.largest)) as u8;
            refused += u32::from(!self.take(Step::Create(file, size)));
            self.meanwhile(habits);
        }
        for _ in 0..habits.churn {
            let Some(file) = self.any_file() else { break };
            let done = self.take(Step::Overwrite(file));
            self.out.overwrites.0 += 1;
            self.out.overwrites.1 += u64::from(!done);
            self.meanwhile(habits);
        }
    }

    fn drain(&mut self, habits: &Habits, files: usize) {
        let keep = *self.random.pick(&[0, 0, 1, 2]) * files / 4;
        let first = self.random.below(files as u64) as usize;
        let mut next = first;
        while let Some(file) = self.any_file() {
            let left = self.log.files.iter().filter(|file| file.size > 0).count();
            if left <= keep || self.failed.is_some() {
                break;
            }
            let file = match habits.stride {
                0 => file,
                stride => {
                    next += stride;
                    while self.log.files[next % files].size == 0 {
                        next += 1;
                    }
                    next % files
                }
            };
            self.take(Step::Remove(file));
            self.meanwhile(habits);
        }
        if keep == 0 && self.failed.is_none() {
            self.take(Step::Append);
        }
    }

    fn any_file(&mut self) -> Option<usize> {
        let files = &self.log.files;
        let start = self.random.below(files.len() as u64) as usize;
        let around = (start..files.len()).chain(0..start);
        around
            .into_iter()
            .find(|file| files[*file].size > 0 && self.failed.is_none())
    }

    /// Takes the steps in parallel with operations.
    fn meanwhile(&mut self, habits: &Habits) {
        if self.random.once_in(habits.appends) {
            self.take(Step::Append);
        }
        let unfolded = self.log.changed() > 0 || self.log.emptied() > 0;
        if unfolded && self.random.once_in(habits.checkpoints) {
            self.volunteer(Step::Checkpoint);
        }
        if self.random.once_in(habits.cleans) {
            let victims = self.log.victims();
            if !victims.is_empty() {
                let (_, victim) = *self.random.pick(&victims);
                self.volunteer(Step::Clean(victim));
            }
        }
        if self.random.once_in(64) {
            self.take(Step::Crash);
        }
    }

    fn volunteer(&mut self, step: Step) {
        if may(self.rules, &self.log, step) {
            self.take(step);
        }
    }

    /// Takes a step. Returns true if it was admitted.
    fn take(&mut self, step: Step) -> bool {
        if self.failed.is_some() {
            return false;
        }
        self.out.steps += 1;
        let taken = take(self.rules, &mut self.log, step);
        let kept = taken.and_then(|taken| lives_on(self.rules, &self.log).map(|()| taken));
        self.out.fullest = self.out.fullest.max(self.log.live());
        match kept {
            Ok(taken) => taken.admitted,
            Err(broken) => {
                self.failed = Some((step, broken));
                false
            }
        }
    }
}
