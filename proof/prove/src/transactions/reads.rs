//! What single reads show, and the order of versions on which they agree.

use super::history::{Action, Anomaly, Judgement, Object, Outcome, Record};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The writer of a value.
#[derive(Clone, Copy, Debug)]
struct Writer {
    record: usize,
    object: Object,
    /// True if this is the record's last append to the object.
    is_last: bool,
}

/// What a transaction saw of an object, without its own writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub record: usize,
    pub object: Object,
    /// Number of versions that the transaction saw, from the first one on.
    pub versions: usize,
}

/// The reads of a history, as far as they are valid.
#[derive(Default)]
pub(super) struct Reads {
    /// For each record, true if the transaction happened.
    pub happened: Vec<bool>,
    /// For each object, the writers of its versions in their order.
    pub versions: BTreeMap<Object, Vec<usize>>,
    pub seen: Vec<Seen>,
}

fn writers(records: &[Record], judgement: &mut Judgement) -> HashMap<u64, Writer> {
    let mut writers = HashMap::new();
    for (record, of) in records.iter().enumerate() {
        let mut last = HashMap::new();
        for action in &of.actions {
            let Action::Append { object, value } = *action else {
                continue;
            };
            let writer = Writer {
                record,
                object,
                is_last: true,
            };
            if writers.insert(value, writer).is_some() {
                judgement.add(Anomaly::Garbage, || format!("{value} was appended twice"));
            }
            if let Some(before) = last.insert(object, value)
                && let Some(writer) = writers.get_mut(&before)
            {
                writer.is_last = false;
            }
        }
    }
    writers
}

/// Returns the lists that a transaction saw, without the numbers that it had appended
/// itself.
fn foreign<'a>(
    number: usize,
    record: &'a Record,
    judgement: &mut Judgement,
) -> BTreeMap<Object, &'a [u64]> {
    let mut own: HashMap<Object, Vec<u64>> = HashMap::new();
    let mut seen: BTreeMap<Object, &[u64]> = BTreeMap::new();
    for action in &record.actions {
        match action {
            Action::Append { object, value } => own.entry(*object).or_default().push(*value),
            Action::Read { object, values } => {
                let mine = own.get(object).map_or(&[][..], Vec::as_slice);
                let Some(rest) = values.strip_suffix(mine) else {
                    judgement.add(Anomaly::Unrepeatable, || {
                        format!(
                            "transaction {number} wrote {mine:?} to {object} and read {values:?}"
                        )
                    });
                    continue;
                };
                let first = *seen.entry(*object).or_insert(rest);
                if first != rest {
                    judgement.add(Anomaly::Unrepeatable, || {
                        format!("transaction {number} read {object} as {first:?}, then as {rest:?}")
                    });
                }
            }
        }
    }
    seen
}

impl Reads {
    pub fn of(records: &[Record], judgement: &mut Judgement) -> Reads {
        let writers = writers(records, judgement);
        let mut reads = Reads {
            happened: records
                .iter()
                .map(|record| record.outcome == Outcome::Committed)
                .collect(),
            ..Reads::default()
        };
        let mut lists = Vec::new();
        for (number, record) in records.iter().enumerate() {
            if record.outcome == Outcome::Aborted {
                continue; // its reads were reported to no caller
            }
            for (object, list) in foreign(number, record, judgement) {
                let sane = reads.judge_list(number, object, list, &writers, records, judgement);
                if sane {
                    lists.push((number, object, list));
                }
            }
        }
        let mut longest: BTreeMap<Object, &[u64]> = BTreeMap::new();
        for &(number, object, list) in lists.iter().filter(|(n, ..)| reads.happened[*n]) {
            let known = longest.entry(object).or_default();
            let (short, long) = match list.len() > known.len() {
                true => (*known, list),
                false => (list, *known),
            };
            if !long.starts_with(short) {
                judgement.add(Anomaly::DivergentOrder, || {
                    format!("object {object} was {short:?} and {long:?} (transaction {number})")
                });
            }
            *known = long;
        }
        for (number, object, list) in lists {
            if reads.happened[number] && longest[&object].starts_with(list) {
                let versions = list.len();
                reads.seen.push(Seen {
                    record: number,
                    object,
                    versions,
                });
            }
        }
        reads.versions = longest
            .iter()
            .map(|(object, list)| {
                let list = list.iter().map(|value| writers[value].record);
                (*object, list.collect())
            })
            .collect();
        lost(records, &reads, &longest, judgement);
        reads
    }

    /// Judges one list by itself.
    fn judge_list(
        &mut self,
        reader: usize,
        object: Object,
        list: &[u64],
        writers: &HashMap<u64, Writer>,
        records: &[Record],
        judgement: &mut Judgement,
    ) -> bool {
        let mut met = HashSet::new();
        for (at, value) in list.iter().enumerate() {
            let writer = writers.get(value).filter(|w| w.object == object);
            let Some(writer) = writer.filter(|_| met.insert(*value)) else {
                judgement.add(Anomaly::Garbage, || {
                    format!("transaction {reader} found {value} in object {object}: {list:?}")
                });
                return false;
            };
            match records[writer.record].outcome {
                Outcome::Aborted => {
                    judgement.add(Anomaly::AbortedRead, || {
                        let by = writer.record;
                        format!("transaction {reader} read {value} of {by}, which was aborted")
                    });
                    return false;
                }
                Outcome::Unknown => self.happened[writer.record] = true,
                Outcome::Committed => {}
            }
            let foreign_end = at + 1 == list.len() && writer.record != reader;
            if foreign_end && !writer.is_last {
                judgement.add(Anomaly::IntermediateRead, || {
                    let by = writer.record;
                    format!("transaction {reader} read {value}, which {by} had replaced")
                });
            }
        }
        true
    }
}

/// Reports committed appends that are in no list, although a later read exists.
fn lost(
    records: &[Record],
    reads: &Reads,
    longest: &BTreeMap<Object, &[u64]>,
    judgement: &mut Judgement,
) {
    let mut looked: BTreeMap<Object, u64> = BTreeMap::new();
    for seen in &reads.seen {
        let at = looked.entry(seen.object).or_default();
        *at = (*at).max(records[seen.record].begun);
    }
    let present: HashSet<u64> = longest.values().copied().flatten().copied().collect();
    for (number, record) in records.iter().enumerate() {
        if record.outcome != Outcome::Committed {
            continue;
        }
        for action in &record.actions {
            if let Action::Append { object, value } = action
                && !present.contains(value)
                && looked.get(object).is_some_and(|at| *at > record.ended)
            {
                judgement.add(Anomaly::LostUpdate, || {
                    format!("transaction {number} appended {value} to object {object}: it is gone")
                });
            }
        }
    }
}
