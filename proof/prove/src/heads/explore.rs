//! Every short life of the model's log, and every crash in it.

use super::log::{Log, Missing, Recovered, recover};
use super::medium::{Medium, Record, Stored, Write};
use crate::abstract_log::{self, Explored, Model};

/// Limits of the exploration.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Steps of all lives together.
    pub steps: u32,
    /// Crashes after which a new life begins.
    pub crashes: u32,
    /// Largest number of heads.
    pub heads: usize,
    /// Largest number of unflushed writes.
    pub pending: usize,
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
    /// Lengths of the state at the boundaries of groups, from the last acknowledged one
    /// on.
    lengths: Vec<usize>,
    /// Number of steps that must precede all others: records for a change of heads.
    due: u8,
}

struct Heads {
    limits: Limits,
    missing: Option<Missing>,
}

/// Explores until a promise is broken or everything was visited.
pub fn explore(limits: Limits, missing: Option<Missing>) -> Explored {
    let (log, medium) = Log::format();
    let first = Moment {
        log,
        medium,
        lengths: vec![0],
        due: 0,
    };
    let model = Heads { limits, missing };
    abstract_log::explore(&model, &first, limits.steps, limits.crashes)
}

impl Moment {
    /// Records that everything is acknowledged.
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

impl Model for Heads {
    type Storage = Stored;
    type Moment = Moment;
    type Step = Step;
    type Recovered = Recovered;

    fn medium(moment: &Moment) -> &Medium {
        &moment.medium
    }

    fn medium_mut(moment: &mut Moment) -> &mut Medium {
        &mut moment.medium
    }

    fn steps(&self, moment: &Moment) -> Vec<Step> {
        moment.steps(&self.limits)
    }

    /// Steps that are due cost nothing.
    fn cost(&self, _step: &Step, next: &Moment) -> u32 {
        u32::from(next.due == 0)
    }

    fn told(&self, step: &Step) -> String {
        format!("{step:?}")
    }

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

    fn judge(&self, moment: &Moment, medium: &Medium) -> Result<Recovered, String> {
        let record = newest(medium).ok_or("no record is left")?;
        let found = recover(medium, record, self.missing);
        let state = &found.log.state;
        let allowed = moment.lengths.contains(&state.len());
        if found.damage {
            return Err("a sound volume is reported as damaged".to_owned());
        }
        if !allowed || *state != moment.log.state[..state.len()] {
            let (want, lengths) = (&moment.log.state, &moment.lengths);
            return Err(format!(
                "{state:?} of {want:?} survives, not one of {lengths:?}"
            ));
        }
        if !found.log.is_sound() {
            return Err("two heads share a segment after recovery".to_owned());
        }
        Ok(found)
    }

    fn examine(&self, moment: &Moment, medium: &Medium) -> Result<(), String> {
        if !moment.log.is_sound() {
            return Err("two heads share a segment".to_owned());
        }
        self.older(moment, medium)?;
        self.damage(medium)
    }

    /// A mount clears torn partials.
    fn mount(&self, moment: &Moment, found: Recovered, mut medium: Medium) -> Moment {
        let mut log = found.log;
        log.life = moment.log.life + 1;
        let due = log.heads_to_confirm(&medium, self.missing);
        let clear = |(segment, slot)| Write::Clear(segment, slot);
        medium
            .pending
            .extend(found.leftovers.into_iter().map(clear));
        Moment {
            lengths: vec![log.state.len()],
            log,
            medium,
            due,
        }
    }
}

impl Heads {
    /// Checks that the older record leads to the same state.
    fn older(&self, moment: &Moment, medium: &Medium) -> Result<(), String> {
        let mut records: Vec<&Record> = medium.stored.records.iter().flatten().collect();
        records.sort_by_key(|record| record.number);
        let [older, newest] = records[..] else {
            return Ok(());
        };
        let want = recover(medium, newest, self.missing).log;
        let found = recover(medium, older, self.missing).log;
        if found.state != want.state {
            return Err(format!(
                "the older record leads to {:?}, the newer to {:?}",
                found.state, want.state
            ));
        }
        if !found.is_sound() {
            return Err(
                "two heads share a segment after recovery from the older record".to_owned(),
            );
        }
        if moment.due == 0 && found.chain != want.chain {
            return Err("the older record leads to another end of the log".to_owned());
        }
        Ok(())
    }

    /// Checks that the loss of a partial of the chain is reported if anything on the
    /// medium proves that it was durable.
    fn damage(&self, medium: &Medium) -> Result<(), String> {
        let Some(record) = newest(medium) else {
            return Ok(());
        };
        let whole = recover(medium, record, self.missing).log;
        let places = chain(medium, record, &whole);
        for (nth, &(segment, slot, serial)) in places.iter().enumerate() {
            let later = places[nth + 1..].iter();
            let mut witnesses = later.filter_map(|&(s, o, _)| medium.stored.slot(s, o).header);
            if !witnesses.any(|header| header.through >= serial) {
                continue;
            }
            let mut damaged = medium.clone();
            damaged.stored.erase(segment, slot);
            let found = recover(&damaged, record, self.missing);
            if !found.damage && found.log.chain.0 < whole.chain.0 {
                return Err(format!("partial {serial} is lost and nobody is told"));
            }
        }
        Ok(())
    }
}

fn newest(medium: &Medium) -> Option<&Record> {
    let records = medium.stored.records.iter().flatten();
    records.max_by_key(|record| record.number)
}

/// Returns the partials that recovery from `record` accepts: segment, slot and serial.
fn chain(medium: &Medium, record: &Record, whole: &Log) -> Vec<(u8, u8, u8)> {
    let mut places = Vec::new();
    for segment in 0..super::medium::SEGMENTS {
        for slot in 0..super::medium::SLOTS {
            if let Some(header) = medium.stored.slot(segment, slot).header
                && header.serial > record.chain.0
                && header.serial <= whole.chain.0
                && header.life <= whole.chain.2
                && header.value == medium.stored.slot(segment, slot).payload
            {
                places.push((segment, slot, header));
            }
        }
    }
    // Of leftovers with the same serial, the one that its successor names is used.
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
