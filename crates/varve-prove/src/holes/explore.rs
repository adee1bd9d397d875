//! Every short life of the model's log from a segment with holes on, and every
//! crash in it.

use super::log::{Log, Missing, Part};
use super::medium::{Image, Medium, NAMES, Payload, Record, Write};
use super::recovery::{Recovered, recover};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Steps of all lives together; a checkpoint is one.
    pub steps: u32,
    /// Crashes after which life goes on.
    pub crashes: u32,
    /// Writes that may be on their way at once.
    pub pending: usize,
    /// Whether the segment has been plugged once, two checkpoints ago.
    pub plugged: bool,
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
    /// The state at each boundary of groups from the last acknowledged one on.
    states: Vec<Image>,
}

struct Explorer {
    limits: Limits,
    missing: Option<Missing>,
    /// Steps and crashes left when a moment was met before.
    met: HashMap<u64, (u32, u32)>,
    out: Explored,
    story: Vec<String>,
}

/// A number for what is equal.
pub(super) fn fingerprint(of: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::new().hash_one(of)
}

/// Explores until a promise is broken or there is nothing left. Life begins
/// behind a full segment, of which the first block lives, and two checkpoints
/// that say so.
pub fn explore(limits: Limits, missing: Option<Missing>) -> Explored {
    let (log, medium) = Log::format();
    let mut first = Moment {
        states: vec![log.image],
        log,
        medium,
    };
    let mut explorer = Explorer {
        limits,
        missing,
        met: HashMap::new(),
        out: Explored::default(),
        story: Vec::new(),
    };
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
        assert!(explorer.take(&mut first, &step), "there is room");
        if matches!(step, Step::Append(_)) {
            assert!(explorer.take(&mut first, &Step::Flush), "always possible");
        }
    }
    explorer.go_on(&first, limits.steps, limits.crashes);
    explorer.out
}

impl Moment {
    /// Everything is acknowledged.
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
                // Partials of two lives with the same serial have the same
                // content, neighbours do not.
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

impl Explorer {
    fn broken(&mut self, what: &str) {
        let mut story = self.story.join(", ");
        story.push_str(": ");
        story.push_str(what);
        self.out.broken.get_or_insert(story);
    }

    fn go_on(&mut self, moment: &Moment, steps: u32, crashes: u32) {
        let met = self.met.entry(fingerprint(moment)).or_insert((0, 0));
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
                self.story.push(told(&step));
                // A checkpoint is one step.
                let cost = u32::from(!matches!(step, Step::Record | Step::End));
                self.go_on(&next, steps - cost, crashes);
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

    /// The power is cut now, and everything that may be left is recovered.
    fn crash(&mut self, moment: &Moment, steps: u32, crashes: u32) {
        for (way, medium) in moment.medium.after_power_cut().into_iter().enumerate() {
            self.out.images += 1;
            self.story.push(format!("Mount({way})"));
            let found = self.judge(moment, &medium);
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

    /// Whether what is recovered, from either record, keeps every promise.
    fn judge(&mut self, moment: &Moment, medium: &Medium) -> Option<Recovered> {
        let mut records: Vec<&Record> = medium.records.iter().flatten().collect();
        records.sort_by_key(|record| record.number);
        let found = recover(medium, records.pop()?, self.missing);
        if found.damage {
            self.broken("a sound volume is reported as damaged");
        } else if !moment.states.contains(&found.log.image) {
            let (image, states) = (found.log.image, &moment.states);
            self.broken(&format!("{image:?} survives, not one of {states:?}"));
        } else if let Some(problem) = unsound(medium, &found.log) {
            self.broken(&problem);
        }
        if let Some(older) = records.pop() {
            let from_older = recover(medium, older, self.missing).log;
            if from_older.image != found.log.image {
                let (image, newer) = (from_older.image, found.log.image);
                self.broken(&format!(
                    "the older record leads to {image:?}, the newer to {newer:?}"
                ));
            } else if from_older.chain != found.log.chain {
                self.broken("the older record leads to another end of the log");
            }
            if older.image.iter().flatten().any(|pointer| {
                let value = Payload::Value(pointer.value);
                medium.slot(pointer.at).payload != value
            }) {
                self.broken("the older record leads to a block that is gone");
            }
        }
        Some(found)
    }

    /// A block in a hole that is lost must be reported if anything on the
    /// medium says that it was durable.
    fn damage(&mut self, medium: &Medium) {
        let records = medium.records.iter().flatten();
        let Some(record) = records.max_by_key(|record| record.number) else {
            return;
        };
        let whole = recover(medium, record, self.missing).log;
        for pointer in whole.image.iter().flatten() {
            let described = medium.slot(pointer.at).header.as_ref();
            let inline = described.is_some_and(|header| header.serial == pointer.birth);
            let replayed = pointer.birth > record.chain.0 && pointer.birth <= record.through;
            if inline || !replayed {
                continue;
            }
            let mut damaged = medium.clone();
            damaged.spoil(pointer.at);
            let found = recover(&damaged, record, self.missing);
            if !found.damage && found.log.chain.0 < whole.chain.0 {
                let serial = pointer.birth;
                self.broken(&format!("partial {serial} is lost and nobody is told"));
            }
        }
    }

    /// A mount clears what was torn, flushes, and life goes on.
    fn mount(&mut self, found: Recovered, medium: Medium, life: u8, steps: u32, crashes: u32) {
        let mut log = found.log;
        log.life = life + 1;
        let mut moment = Moment {
            states: vec![log.image],
            log,
            medium,
        };
        if let Some(at) = found.leftover
            && self.missing != Some(Missing::ClearTorn)
        {
            moment.medium.pending.push(Write::Clear(at));
            for medium in moment.medium.after_power_cut() {
                self.out.images += 1;
                self.judge(&moment, &medium);
            }
        }
        moment.medium.flush();
        self.go_on(&moment, steps - 1, crashes);
    }
}

/// What is wrong with a volume: a name that leads to something else than was
/// written, or to a block that nothing in its segment describes.
fn unsound(medium: &Medium, log: &Log) -> Option<String> {
    let names = (0u8..).zip(log.image);
    for (name, pointer) in names.filter_map(|(name, p)| Some((name, p?))) {
        let stored = medium.slot(pointer.at);
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
        let mut maps = medium.maps(segment, opening);
        if !by_summary && !maps.any(|(_, map)| map.blocks.contains(&listed)) {
            return Some(format!("nothing says that {listed:?} is name {name}'s"));
        }
    }
    None
}

fn told(step: &Step) -> String {
    let Step::Append(parts) = step else {
        return format!("{step:?}");
    };
    let part = |part: &Part| {
        let verb = if part.plugs { "plug" } else { "append" };
        format!("{verb} {}={}", part.name, part.value)
    };
    parts.iter().map(part).collect::<Vec<_>>().join(" and ")
}
