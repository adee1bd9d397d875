//! Every life of a small volume, breadth first: so stories are shortest.

use super::geometry::Geometry;
use super::log::{Log, NoRoom};
use super::rules::{Purpose, Rules};
use crate::abstract_log::explore::fingerprint;
use crate::random::Random;
use std::collections::HashSet;

/// What the adversary may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// States at most, after which the exploration is given up as incomplete.
    pub states: usize,
    /// Steps at most.
    pub steps: usize,
    /// Crashes in the middle of a checkpoint.
    pub torn: u8,
    /// How many states are gone on from after each step, those from which least room
    /// can be made: the exploration is a hunt then, and never complete.
    pub beam: usize,
    /// How many steps are tried from a state, drawn at random, if there are more.
    pub choices: usize,
    /// Whether room that does not come back is a promise broken.
    pub returns: bool,
    /// Whether overwriting that is refused is a promise broken.
    pub overwrites: bool,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// States that steps led to.
    pub states: usize,
    /// Whether these are all.
    pub complete: bool,
    /// The most slots that lived in any of them.
    pub fullest: usize,
    /// Steps to the furthest state.
    pub depth: usize,
    /// The shortest story that ends with a promise broken.
    pub broken: Option<(Broken, String)>,
}

/// What the adversary does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Creates a file of so many slots.
    Create(usize, u8),
    /// Writes a file anew.
    Overwrite(usize),
    /// Removes it.
    Remove(usize),
    /// Has logged what waits.
    Append,
    /// Takes a checkpoint.
    Checkpoint,
    /// Cleans a segment.
    Clean(u8),
    /// Cuts the power.
    Crash,
    /// Cuts the power after so many slots of a checkpoint.
    Torn(usize),
}

/// A promise that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// What was admitted finds no room in the log.
    Stuck,
    /// A removal is refused.
    RemovalRefused,
    /// Overwriting is refused.
    OverwriteRefused,
    /// Everything was removed, and nothing can be created.
    RoomLost,
}

impl From<NoRoom> for Broken {
    fn from(_: NoRoom) -> Self {
        Broken::Stuck
    }
}

/// The state before, the step that was taken, and at which of the steps that made room
/// for it the power was cut, if it was.
type Origin = (u32, Step, Option<usize>);

/// A state and how often a checkpoint may still be torn.
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
    /// How each state was reached.
    from: Vec<Origin>,
    next: Vec<Moment>,
    hunts: bool,
    out: Explored,
}

/// Explores until a promise is broken, the limits are reached or there is nothing
/// left.
pub fn explore(geometry: Geometry, rules: Rules, limits: Limits) -> Explored {
    explore_from(Log::format(geometry), rules, limits)
}

/// The same, from here on.
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
    /// Everything, as far as that is no more than so many states.
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

    /// A hunt of so many steps.
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

    /// Those from which least room can be made, if there are too many.
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

    /// How a promise was broken in this state, by a step or by itself. Files with
    /// neighbours are renumbered after each step, so that those of a kind are one.
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

/// What a step did.
pub struct Taken {
    /// States while room was made.
    pub between: Vec<Log>,
    /// Whether what was asked for was done.
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

/// What may come next.
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
        // Of those that nothing tells apart, one will do.
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

/// True if a checkpoint or a move that nobody needs leaves a batch.
pub fn may(rules: &Rules, log: &Log, step: Step) -> bool {
    let mut after = log.clone();
    take(rules, &mut after, step).is_ok() && rules.keeps(&after, rules.batch)
}

/// What every state must allow.
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
