//! Every short life of the model's log, and every crash in it.

use super::log::{Log, Missing, Recovered, recover};
use super::medium::{Medium, Record, Write};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Steps of all lives together.
    pub steps: u32,
    /// Crashes after which life goes on.
    pub crashes: u32,
    /// Heads at most.
    pub heads: usize,
    /// Writes that may be on their way at once.
    pub pending: usize,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// States that steps led to.
    pub states: u64,
    /// Media that a power cut left, each recovered.
    pub images: u64,
    /// The story of the first state that breaks a promise.
    pub broken: Option<String>,
}

/// A step.
#[derive(Clone, Debug)]
enum Step {
    Append(Vec<(u8, u8)>),
    Flush,
    Begin,
    Record,
    End,
    Resize(usize),
}

/// One moment of one story.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Moment {
    log: Log,
    medium: Medium,
    /// Lengths of the state at the boundaries of groups from the last
    /// acknowledged one on.
    lengths: Vec<usize>,
    /// Steps that must come before any other: records for a change of heads.
    due: u8,
}

struct Explorer {
    limits: Limits,
    missing: Option<Missing>,
    /// Steps left when a moment was met before.
    met: HashMap<u64, (u32, u32)>,
    out: Explored,
    story: Vec<String>,
}

/// Explores until a promise is broken or there is nothing left.
pub fn explore(limits: Limits, missing: Option<Missing>) -> Explored {
    let (log, medium) = Log::format();
    let first = Moment {
        log,
        medium,
        lengths: vec![0],
        due: 0,
    };
    let mut explorer = Explorer {
        limits,
        missing,
        met: HashMap::new(),
        out: Explored::default(),
        story: Vec::new(),
    };
    explorer.go_on(&first, limits.steps, limits.crashes);
    explorer.out
}

impl Moment {
    /// Everything is acknowledged.
    fn acknowledged(&mut self) {
        self.lengths = vec![self.log.state.len()];
    }

    fn steps(&self, limits: &Limits) -> Vec<Step> {
        let log = &self.log;
        if let Some(begun) = &log.begun {
            let written = matches!(self.medium.pending.last(), Some(Write::Record(_)));
            if written {
                return vec![Step::End];
            }
            if self.due > 0 {
                return vec![Step::Record];
            }
            let more = log.chain.0 == begun.chain.0;
            let mut steps = if more {
                self.appends(limits)
            } else {
                Vec::new()
            };
            steps.push(Step::Record);
            return steps;
        }
        if self.due > 0 {
            return vec![Step::Begin];
        }
        let mut steps = self.appends(limits);
        if !self.medium.pending.is_empty() {
            steps.push(Step::Flush);
        }
        steps.push(Step::Begin);
        if self.medium.pending.is_empty() {
            let others = (1..=limits.heads).filter(|heads| *heads != log.heads.len());
            steps.extend(others.map(Step::Resize));
        }
        steps
    }

    fn appends(&self, limits: &Limits) -> Vec<Step> {
        let room = limits.pending.saturating_sub(self.medium.pending.len());
        let heads = self.log.heads.len() as u8;
        let mut steps = Vec::new();
        for head in 0..heads {
            if room >= 1 {
                steps.extend([1, 2].map(|value| Step::Append(vec![(head, value)])));
            }
            if room >= 2 {
                steps.extend((0..heads).map(|other| Step::Append(vec![(head, 1), (other, 2)])));
            }
        }
        steps
    }
}

impl Explorer {
    fn broken(&mut self, what: &str) {
        let mut story = self.story.join(", ");
        story.push_str(": ");
        story.push_str(what);
        self.out.broken.get_or_insert(story);
    }

    fn go_on(&mut self, moment: &Moment, steps: u32, crashes: u32) {
        let key = BuildHasherDefault::<DefaultHasher>::new().hash_one(moment);
        let met = self.met.entry(key).or_insert((0, 0));
        if self.out.broken.is_some() || (met.0 > steps && met.1 >= crashes) {
            return;
        }
        *met = (met.0.max(steps + 1), met.1.max(crashes));
        self.out.states += 1;
        self.crash(moment, steps, crashes);
        if steps == 0 {
            return;
        }
        for step in moment.steps(&self.limits) {
            let mut next = moment.clone();
            if self.take(&mut next, &step) {
                self.story.push(format!("{step:?}"));
                if !next.log.is_sound() {
                    self.broken("two heads share a segment");
                }
                let cost = u32::from(next.due == 0);
                self.go_on(&next, steps - cost.min(steps), crashes);
                self.story.pop();
            }
        }
    }

    /// False if the step is impossible.
    fn take(&self, moment: &mut Moment, step: &Step) -> bool {
        let (log, medium) = (&mut moment.log, &mut moment.medium);
        match step {
            Step::Append(parts) => {
                let done = log.append(medium, parts, self.missing);
                moment.lengths.push(log.state.len());
                return done;
            }
            Step::Flush => {
                log.flush(medium);
                moment.acknowledged();
            }
            Step::Begin => {
                log.begin(medium);
                moment.acknowledged();
            }
            Step::Record => {
                log.write_record(medium, self.missing);
                moment.acknowledged();
            }
            Step::End => {
                log.end(medium);
                moment.due = moment.due.saturating_sub(1);
                if moment.due == 0 {
                    log.withheld.clear();
                }
            }
            Step::Resize(heads) => {
                let before = log.heads.len();
                if !log.resize(*heads, self.missing) {
                    return false;
                }
                moment.due = log.records_for(before, self.missing);
            }
        }
        true
    }

    /// The power is cut now, and everything that may be left is recovered.
    fn crash(&mut self, moment: &Moment, steps: u32, crashes: u32) {
        for (way, medium) in moment.medium.after_power_cut().into_iter().enumerate() {
            self.out.images += 1;
            self.story.push(format!("Mount({way})"));
            let found = self.judge(moment, &medium);
            self.older(moment, &medium);
            self.damage(&medium);
            if let Some(found) = found.filter(|_| crashes > 0 && steps > 0) {
                self.mount(found, medium, moment.log.life, steps, crashes - 1);
            }
            self.story.pop();
            if self.out.broken.is_some() {
                return;
            }
        }
    }

    fn newest(medium: &Medium) -> Option<&Record> {
        let records = medium.records.iter().flatten();
        records.max_by_key(|record| record.number)
    }

    /// Whether what is recovered keeps every promise.
    fn judge(&mut self, moment: &Moment, medium: &Medium) -> Option<Recovered> {
        let record = Self::newest(medium)?;
        let found = recover(medium, record, self.missing);
        let state = &found.log.state;
        let allowed = moment.lengths.contains(&state.len());
        if found.damage {
            self.broken("a sound volume is reported as damaged");
        } else if !allowed || *state != moment.log.state[..state.len()] {
            let (want, lengths) = (&moment.log.state, &moment.lengths);
            self.broken(&format!(
                "{state:?} of {want:?} survives, not one of {lengths:?}"
            ));
        } else if !found.log.is_sound() {
            self.broken("two heads share a segment after recovery");
        }
        Some(found)
    }

    /// The older record must lead to the same state.
    fn older(&mut self, moment: &Moment, medium: &Medium) {
        let mut records: Vec<&Record> = medium.records.iter().flatten().collect();
        records.sort_by_key(|record| record.number);
        let [older, newest] = records[..] else { return };
        let want = recover(medium, newest, self.missing).log;
        let found = recover(medium, older, self.missing).log;
        if found.state != want.state {
            self.broken(&format!(
                "the older record leads to {:?}, the newer to {:?}",
                found.state, want.state
            ));
        } else if !found.is_sound() {
            self.broken("two heads share a segment after recovery from the older record");
        } else if moment.due == 0 && found.chain != want.chain {
            self.broken("the older record leads to another end of the log");
        }
    }

    /// A partial of the chain that is lost must be reported if anything on the
    /// medium says that it was durable.
    fn damage(&mut self, medium: &Medium) {
        let Some(record) = Self::newest(medium) else {
            return;
        };
        let whole = recover(medium, record, self.missing).log;
        let places = chain(medium, record, &whole);
        for (nth, &(segment, slot, serial)) in places.iter().enumerate() {
            let later = places[nth + 1..].iter();
            let mut witnesses = later.filter_map(|&(s, o, _)| medium.slot(s, o).header);
            if !witnesses.any(|header| header.through >= serial) {
                continue;
            }
            let mut damaged = medium.clone();
            damaged.erase(segment, slot);
            let found = recover(&damaged, record, self.missing);
            if !found.damage && found.log.chain.0 < whole.chain.0 {
                self.broken(&format!("partial {serial} is lost and nobody is told"));
            }
        }
    }

    /// A mount clears what was torn, flushes, and life goes on.
    fn mount(&mut self, found: Recovered, medium: Medium, life: u8, steps: u32, crashes: u32) {
        let mut log = found.log;
        log.life = life + 1;
        let due = log.heads_to_confirm(&medium, self.missing);
        let mut moment = Moment {
            lengths: vec![log.state.len()],
            log,
            medium,
            due,
        };
        if !found.leftovers.is_empty() {
            for (segment, slot) in found.leftovers {
                moment.medium.pending.push(Write::Clear(segment, slot));
            }
            for medium in moment.medium.after_power_cut() {
                self.out.images += 1;
                self.judge(&moment, &medium);
            }
        }
        moment.medium.flush();
        self.go_on(&moment, steps - 1, crashes);
    }
}

/// The partials that recovery from `record` takes: segment, slot and serial.
fn chain(medium: &Medium, record: &Record, whole: &Log) -> Vec<(u8, u8, u8)> {
    let mut places = Vec::new();
    for segment in 0..super::medium::SEGMENTS {
        for slot in 0..super::medium::SLOTS {
            if let Some(header) = medium.slot(segment, slot).header
                && header.serial > record.chain.0
                && header.serial <= whole.chain.0
                && header.life <= whole.chain.2
                && header.value == medium.slot(segment, slot).payload
            {
                places.push((segment, slot, header));
            }
        }
    }
    // Of leftovers with the same serial, the one that its successor names.
    let mut want = whole.chain.1;
    let mut taken = Vec::new();
    for serial in (record.chain.0 + 1..=whole.chain.0).rev() {
        let found = places
            .iter()
            .find(|(_, _, header)| header.serial == serial && header.sum() == want);
        let Some(&(segment, slot, header)) = found else {
            break;
        };
        taken.push((segment, slot, serial));
        want = header.predecessor;
    }
    taken.reverse();
    taken
}
