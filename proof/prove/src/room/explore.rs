//! Explores every life of a small volume, breadth first, so that stories are shortest.

use super::geometry::Geometry;
use super::log::{Log, NoRoom};
use super::rules::{Purpose, Rules};
use crate::abstract_log::explore::fingerprint;
use crate::random::Random;
use std::collections::HashSet;

/// Limits of the adversary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Largest number of states, after which the exploration ends incomplete.
    pub states: usize,
    /// Largest number of steps.
    pub steps: usize,
    /// Number of crashes during a checkpoint.
    pub torn: u8,
    /// Number of states kept after each step, those from which the least space can be
    /// freed. The exploration is then a hunt, and never complete.
    pub beam: usize,
    /// Number of random steps tried from a state that has more.
    pub choices: usize,
    /// True if space that is not freed is a broken promise.
    pub returns: bool,
    /// True if a refused overwrite is a broken promise.
    pub overwrites: bool,
}

/// Result of an exploration.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// Number of states after steps.
    pub states: usize,
    /// True if these are all states.
    pub complete: bool,
    /// Largest number of live slots in any state.
    pub fullest: usize,
    /// Number of steps to the furthest state.
    pub depth: usize,
    /// The shortest story that breaks a promise.
    pub broken: Option<(Broken, String)>,
}

/// A step of the adversary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Creates a file of this number of slots.
    Create(usize, u8),
    /// Overwrites a file.
    Overwrite(usize),
    /// Removes a file.
    Remove(usize),
    /// Logs the dirty state.
    Append,
    /// Takes a checkpoint.
    Checkpoint,
    /// Cleans a segment.
    Clean(u8),
    /// Cuts the power.
    Crash,
    /// Cuts the power after this number of slots of a checkpoint.
    Torn(usize),
}

/// A broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// An admitted operation finds no space in the log.
    Stuck,
    /// A removal is refused.
    RemovalRefused,
    /// An overwrite is refused.
    OverwriteRefused,
    /// Everything was removed, and no file can be created.
    RoomLost,
}

impl From<NoRoom> for Broken {
    fn from(_: NoRoom) -> Self {
        Broken::Stuck
    }
}

/// The previous state, the step, and the number of the preparing step after which the
/// power was cut, if it was.
type Origin = (u32, Step, Option<usize>);

/// A state and the number of checkpoints that may still be torn.
#[derive(Clone)]
struct Moment {
    log: Log,
    torn: u8,
    number: u32,
}

struct Explorer {
    rules: Rules,
    limits: Limits,
    met: HashSet<u64>,
    /// Origin of each state.
    from: Vec<Origin>,
    next: Vec<Moment>,
    hunts: bool,
    out: Explored,
}

/// Explores until a promise is broken, the limits are reached or everything was visited.
pub fn explore(geometry: Geometry, rules: Rules, limits: Limits) -> Explored {
    explore_from(Log::format(geometry), rules, limits)
}

/// Does the same from a given state.
pub fn explore_from(log: Log, rules: Rules, limits: Limits) -> Explored {
    let mut explorer = Explorer {
        rules,
        limits,
        met: HashSet::new(),
        from: Vec::new(),
        next: Vec::new(),
        hunts: false,
        out: Explored::default(),
    };
    explorer.meet(log, limits.torn, (0, Step::Checkpoint, None));
    for depth in 0..limits.steps {
        let moments = std::mem::take(&mut explorer.next);
        if moments.is_empty() {
            explorer.out.complete = !explorer.hunts;
            break;
        }
        explorer.out.depth = depth;
        let moments = explorer.worst(moments);
        for moment in moments {
            explorer.go_on(&moment);
            if explorer.out.broken.is_some() || explorer.met.len() > limits.states {
                explorer.out.states = explorer.met.len();
                return explorer.out;
            }
        }
    }
    explorer.out.states = explorer.met.len();
    explorer.out
}

impl Limits {
    /// Returns limits for a complete exploration of at most `states` states.
    pub fn exhaustive(states: usize) -> Self {
        Limits {
            states,
            steps: usize::MAX,
            torn: 0,
            beam: usize::MAX,
            choices: usize::MAX,
            returns: true,
            overwrites: false,
        }
    }

    /// Returns limits for a hunt of `steps` steps.
    pub fn hunt(steps: usize) -> Self {
        Limits {
            steps,
            beam: 10,
            choices: 12,
            returns: false,
            ..Limits::exhaustive(usize::MAX)
        }
    }
}

impl Explorer {
    fn meet(&mut self, log: Log, torn: u8, from: Origin) {
        let log = log.canonical();
        if self.met.insert(fingerprint(&(log.bytes(), torn))) {
            self.out.fullest = self.out.fullest.max(log.live());
            let number = self.from.len() as u32;
            self.from.push(from);
            self.next.push(Moment { log, torn, number });
        }
    }

    /// Returns the states from which the least space can be freed, if there are too many.
    fn worst(&mut self, moments: Vec<Moment>) -> Vec<Moment> {
        if moments.len() <= self.limits.beam {
            return moments;
        }
        self.hunts = true;
        let keyed = moments.into_iter().map(|moment| {
            let reach = self.rules.reach(&moment.log);
            (reach, fingerprint(&moment.log.bytes()), moment)
        });
        let mut keyed: Vec<_> = keyed.collect();
        keyed.sort_unstable_by_key(|(reach, print, _)| (*reach, *print));
        keyed.truncate(self.limits.beam);
        keyed.into_iter().map(|(_, _, moment)| moment).collect()
    }

    fn go_on(&mut self, moment: &Moment) {
        let mut judged = lives_on(&self.rules, &moment.log);
        if judged == Err(Broken::RoomLost) && !self.limits.returns {
            judged = Ok(());
        }
        if judged.is_ok() {
            let mut steps = steps(&self.rules, moment);
            if steps.len() > self.limits.choices {
                let mut random = Random::new(fingerprint(&moment.log.bytes()));
                let chosen = (0..self.limits.choices).map(|_| *random.pick(&steps));
                steps = chosen.collect();
            }
            for step in steps {
                if let Err(broken) = self.take(moment, step) {
                    return self.tell(moment, Some(step), broken);
                }
            }
        }
        if let Err(broken) = judged {
            self.tell(moment, None, broken);
        }
    }

    /// Records how a promise was broken in this state, by a step or without one. Files
    /// with the same blocks are renumbered after each step, so that equivalent states are
    /// one.
    fn tell(&mut self, moment: &Moment, last: Option<Step>, broken: Broken) {
        let mut told: Vec<String> = last.iter().map(|step| format!("{step:?}")).collect();
        let mut number = moment.number;
        while number > 0 {
            let (before, step, cut) = self.from[number as usize];
            told.push(match cut {
                Some(nth) => format!("{step:?} cut at {nth}"),
                None => format!("{step:?}"),
            });
            number = before;
        }
        told.reverse();
        let (story, picture) = (told.join(", "), moment.log.picture());
        self.out.broken = Some((broken, format!("{story}: {broken:?} behind {picture}")));
    }

    fn take(&mut self, moment: &Moment, step: Step) -> Result<(), Broken> {
        if matches!(step, Step::Clean(_)) && !may(&self.rules, &moment.log, step) {
            return Ok(());
        }
        let mut log = moment.log.clone();
        let mut torn = moment.torn;
        let taken = take(&self.rules, &mut log, step)?;
        if let Step::Torn(_) = step {
            torn -= 1;
        }
        if !taken.admitted && self.limits.overwrites && matches!(step, Step::Overwrite(_)) {
            return Err(Broken::OverwriteRefused);
        }
        for (nth, mut cut) in taken.between.into_iter().enumerate() {
            cut.crash(0)?;
            self.meet(cut, torn, (moment.number, step, Some(nth)));
        }
        self.meet(log, torn, (moment.number, step, None));
        Ok(())
    }
}

/// Result of a step.
pub struct Taken {
    /// States while space was freed.
    pub between: Vec<Log>,
    /// True if the operation was admitted.
    pub admitted: bool,
}

/// Takes a step.
///
/// # Errors
/// The promise that it breaks.
pub fn take(rules: &Rules, log: &mut Log, step: Step) -> Result<Taken, Broken> {
    let purpose = match step {
        Step::Remove(_) => Purpose::Shrink,
        _ => Purpose::Grow,
    };
    let mut taken = Taken {
        between: Vec::new(),
        admitted: true,
    };
    let mut admit = |operation: &dyn Fn(&mut Log)| -> Result<(), NoRoom> {
        (taken.between, taken.admitted) = rules.admit(log, purpose, operation)?;
        Ok(())
    };
    match step {
        Step::Create(file, size) => admit(&|log| log.write(file, size))?,
        Step::Overwrite(file) => admit(&|log| log.write(file, log.files[file].size))?,
        Step::Remove(file) => {
            admit(&|log| log.remove(file))?;
            if !taken.admitted {
                return Err(Broken::RemovalRefused);
            }
        }
        Step::Append => log.append()?,
        Step::Checkpoint => log.checkpoint()?,
        Step::Clean(victim) => log.clean(victim)?,
        Step::Crash => log.crash(0)?,
        Step::Torn(slots) => log.crash(slots)?,
    }
    Ok(taken)
}

/// Returns the possible next steps.
fn steps(rules: &Rules, moment: &Moment) -> Vec<Step> {
    let log = &moment.log;
    let mut steps = Vec::new();
    let mut free = Vec::new();
    for (file, state) in log.files.iter().enumerate() {
        if state.size > 0 {
            steps.push(Step::Remove(file));
            if !state.waits {
                steps.push(Step::Overwrite(file));
            }
            continue;
        }
        // One of several equivalent files is enough.
        let like = log.likeness(file);
        if log.may_be_created(file) && !free.contains(&like) {
            free.push(like);
            steps.extend((1..=log.geometry.largest).map(|size| Step::Create(file, size)));
        }
    }
    if log.waits() {
        steps.extend([Step::Append, Step::Crash]);
    }
    let unfolded = log.changed() > 0 || log.emptied() > 0;
    if unfolded && may(rules, log, Step::Checkpoint) {
        steps.push(Step::Checkpoint);
    }
    if moment.torn > 0 && unfolded {
        steps.extend((1..=log.changed() + 1).map(Step::Torn));
    }
    if rules.keeps(log, rules.batch) {
        let victims = log.victims().into_iter();
        steps.extend(victims.map(|(_, victim)| Step::Clean(victim)));
    }
    steps
}

/// Returns true if an optional checkpoint or move leaves a batch.
pub fn may(rules: &Rules, log: &Log, step: Step) -> bool {
    let mut after = log.clone();
    take(rules, &mut after, step).is_ok() && rules.keeps(&after, rules.batch)
}

/// Checks the promises that every state must keep.
///
/// # Errors
/// The promise that is broken.
pub fn lives_on(rules: &Rules, log: &Log) -> Result<(), Broken> {
    let mut folded = log.clone();
    folded.append()?;
    folded.checkpoint()?;
    if log.files.iter().all(|file| file.size == 0) && !log.waits() {
        let mut emptied = log.clone();
        let write = |log: &mut Log| log.write(0, log.geometry.largest);
        let (_, admitted) = rules.admit(&mut emptied, Purpose::Grow, write)?;
        if !admitted {
            return Err(Broken::RoomLost);
        }
    }
    Ok(())
}
