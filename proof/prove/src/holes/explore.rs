//! Every short life of the model's log, starting with a segment with holes, and every
//! crash in it.

use super::log::{Log, Missing, Part};
use super::medium::{Image, Medium, NAMES, Payload, Pointer, Record, Stored, Write};
use super::recovery::{Recovered, recover};
use crate::abstract_log::{self, Explored, Model};

/// Limits of the exploration.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Steps of all lives together; a checkpoint is one.
    pub steps: u32,
    /// Crashes after which a new life begins.
    pub crashes: u32,
    /// Largest number of unflushed writes.
    pub pending: usize,
    /// True if the segment was plugged once, two checkpoints ago.
    pub plugged: bool,
}

/// A step.
#[derive(Clone, Debug)]
enum Step {
    Append(Vec<Part>),
    Flush,
    Begin,
    Record,
    End,
}

/// One moment of one story.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Moment {
    log: Log,
    medium: Medium,
    /// The state at each boundary of groups, from the last acknowledged one on.
    states: Vec<Image>,
}

struct Holes {
    limits: Limits,
    missing: Option<Missing>,
}

/// Explores until a promise is broken or everything was visited. The first life begins
/// behind a full segment, of which the first block is live, and two checkpoints of that
/// state.
pub fn explore(limits: Limits, missing: Option<Missing>) -> Explored {
    let (log, medium) = Log::format();
    let mut first = Moment {
        states: vec![log.image],
        log,
        medium,
    };
    let model = Holes { limits, missing };
    let part = |name, value, plugs| Step::Append(vec![Part { name, value, plugs }]);
    let mut begin = vec![part(1, 1, false)];
    begin.extend([1, 2, 1, 2, 1, 2].map(|value| part(0, value, false)));
    let checkpoint = [Step::Begin, Step::Record, Step::End];
    begin.extend([checkpoint.clone(), checkpoint.clone()].concat());
    if limits.plugged {
        begin.push(part(1, 2, true));
        begin.extend([checkpoint.clone(), checkpoint].concat());
    }
    for step in begin {
        assert!(model.take(&mut first, &step), "there is room");
        if matches!(step, Step::Append(_)) {
            assert!(model.take(&mut first, &Step::Flush), "always possible");
        }
    }
    abstract_log::explore(&model, &first, limits.steps, limits.crashes)
}

impl Moment {
    /// Records that everything is acknowledged.
    fn acknowledged(&mut self) {
        self.states = vec![self.log.image];
    }

    fn steps(&self, limits: &Limits) -> Vec<Step> {
        if let Some(begun) = &self.log.begun {
            if matches!(self.medium.pending.last(), Some(Write::Record(_))) {
                return vec![Step::End];
            }
            let more = self.log.chain.0 == begun.chain.0;
            let mut steps = if more {
                self.appends(limits)
            } else {
                Vec::new()
            };
            steps.push(Step::Record);
            return steps;
        }
        let mut steps = self.appends(limits);
        if !self.medium.pending.is_empty() {
            steps.push(Step::Flush);
        }
        steps.push(Step::Begin);
        steps
    }

    fn appends(&self, limits: &Limits) -> Vec<Step> {
        let room = limits.pending.saturating_sub(self.medium.pending.len());
        let mut steps = Vec::new();
        for name in 0..NAMES as u8 {
            for plugs in [false, true] {
                let writes = if plugs { 3 } else { 1 };
                // Partials of two lives with the same serial have the same content,
                // adjacent ones do not.
                let value = 1 + self.log.chain.0 % 2;
                let part = Part { name, value, plugs };
                if room >= writes {
                    steps.push(Step::Append(vec![part]));
                }
                if room > writes {
                    let other = Part {
                        name: 1 - name,
                        value: 3 - value,
                        plugs: false,
                    };
                    steps.push(Step::Append(vec![part, other]));
                }
            }
        }
        steps
    }
}

impl Model for Holes {
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

    /// A checkpoint is one step.
    fn cost(&self, step: &Step, _next: &Moment) -> u32 {
        u32::from(!matches!(step, Step::Record | Step::End))
    }

    fn told(&self, step: &Step) -> String {
        let Step::Append(parts) = step else {
            return format!("{step:?}");
        };
        let part = |part: &Part| {
            let verb = if part.plugs { "plug" } else { "append" };
            format!("{verb} {}={}", part.name, part.value)
        };
        parts.iter().map(part).collect::<Vec<_>>().join(" and ")
    }

    fn take(&self, moment: &mut Moment, step: &Step) -> bool {
        let (log, medium) = (&mut moment.log, &mut moment.medium);
        match step {
            Step::Append(parts) => {
                let done = log.append(medium, parts, self.missing);
                moment.states.push(log.image);
                return done;
            }
            Step::Flush => log.flush(medium),
            Step::Begin => log.begin(medium),
            Step::Record => log.write_record(medium),
            Step::End => log.end(medium),
        }
        moment.acknowledged();
        true
    }

    /// Recovery from either record must keep every promise.
    fn judge(&self, moment: &Moment, medium: &Medium) -> Result<Recovered, String> {
        let mut records: Vec<&Record> = medium.stored.records.iter().flatten().collect();
        records.sort_by_key(|record| record.number);
        let newest = records.pop().ok_or("no record is left")?;
        let found = recover(medium, newest, self.missing);
        if found.damage {
            return Err("a sound volume is reported as damaged".to_owned());
        }
        if !moment.states.contains(&found.log.image) {
            let (image, states) = (found.log.image, &moment.states);
            return Err(format!("{image:?} survives, not one of {states:?}"));
        }
        unsound(medium, &found.log).map_or(Ok(()), Err)?;
        let Some(older) = records.pop() else {
            return Ok(found);
        };
        let from_older = recover(medium, older, self.missing).log;
        if from_older.image != found.log.image {
            let (image, newer) = (from_older.image, found.log.image);
            return Err(format!(
                "the older record leads to {image:?}, the newer to {newer:?}"
            ));
        }
        if from_older.chain != found.log.chain {
            return Err("the older record leads to another end of the log".to_owned());
        }
        let gone = |pointer: &Pointer| {
            let value = Payload::Value(pointer.value);
            medium.stored.slot(pointer.at).payload != value
        };
        if older.image.iter().flatten().any(gone) {
            return Err("the older record leads to a block that is gone".to_owned());
        }
        Ok(found)
    }

    /// The loss of a block in a hole must be reported if anything on the medium proves
    /// that it was durable.
    fn examine(&self, _moment: &Moment, medium: &Medium) -> Result<(), String> {
        let records = medium.stored.records.iter().flatten();
        let Some(record) = records.max_by_key(|record| record.number) else {
            return Ok(());
        };
        let whole = recover(medium, record, self.missing).log;
        for pointer in whole.image.iter().flatten() {
            let described = medium.stored.slot(pointer.at).header.as_ref();
            let inline = described.is_some_and(|header| header.serial == pointer.birth);
            let replayed = pointer.birth > record.chain.0 && pointer.birth <= record.through;
            if inline || !replayed {
                continue;
            }
            let mut damaged = medium.clone();
            damaged.stored.spoil(pointer.at);
            let found = recover(&damaged, record, self.missing);
            if !found.damage && found.log.chain.0 < whole.chain.0 {
                let serial = pointer.birth;
                return Err(format!("partial {serial} is lost and nobody is told"));
            }
        }
        Ok(())
    }

    /// A mount clears torn partials.
    fn mount(&self, moment: &Moment, found: Recovered, mut medium: Medium) -> Moment {
        let mut log = found.log;
        log.life = moment.log.life + 1;
        if let Some(at) = found.leftover
            && self.missing != Some(Missing::ClearTorn)
        {
            medium.pending.push(Write::Clear(at));
        }
        Moment {
            states: vec![log.image],
            log,
            medium,
        }
    }
}

/// Returns the fault of a volume: a name with a wrong value, or with a block that nothing
/// in its segment describes.
fn unsound(medium: &Medium, log: &Log) -> Option<String> {
    let names = (0u8..).zip(log.image);
    for (name, pointer) in names.filter_map(|(name, p)| Some((name, p?))) {
        let stored = medium.stored.slot(pointer.at);
        if stored.payload != Payload::Value(pointer.value) {
            return Some(format!("name {name} leads to {:?}", stored.payload));
        }
        let (segment, slot) = pointer.at;
        let opening = log.written[usize::from(segment)].1;
        let by_summary = stored.header.as_ref().is_some_and(|header| {
            let same = (header.serial, header.block.0) == (pointer.birth, name);
            same && header.opening == opening && header.plug.is_none()
        });
        let listed = (slot, name, pointer.birth);
        let mut maps = medium.stored.maps(segment, opening);
        if !by_summary && !maps.any(|(_, map)| map.blocks.contains(&listed)) {
            return Some(format!("nothing says that {listed:?} is name {name}'s"));
        }
    }
    None
}
