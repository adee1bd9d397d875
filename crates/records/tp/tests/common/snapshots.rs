//! Snapshots are compared with copies of a map: whatever is changed, committed, aborted,
//! dropped or freed meanwhile, each shows the state committed at its beginning.

use super::{Model, Random, TABLE, change, small};
use std::sync::Arc;
use varve_tp::storage::MemoryStorage;
use varve_tp::{Environment, Error, Isolation, ReadTransaction, TableDefinition, WriteTransaction};

/// Table of a transaction that is active for long.
const OTHER: TableDefinition<&[u8], &[u8]> = TableDefinition::new("other");

type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

struct Seen<'e> {
    transaction: ReadTransaction<'e>,
    models: [(Definition, Model); 2],
}

fn told(what: &str, error: Error) -> String {
    format!("{what}: {error}")
}

impl Seen<'_> {
    /// Reads by one of several methods.
    fn look(&self, random: &mut Random) -> Result<(), String> {
        for (definition, model) in &self.models {
            let table = match self.transaction.open_table(*definition) {
                Ok(table) => table,
                Err(Error::NoTable(_)) if model.is_empty() => continue,
                Err(error) => return Err(told("opening", error)),
            };
            for _ in 0..4 {
                let key = match random.one_in(2) {
                    true if !model.is_empty() => {
                        let at = random.below(model.len() as u64) as usize;
                        model.keys().nth(at).unwrap().clone()
                    }
                    _ => random.key(),
                };
                let read = table.get(&key).map_err(|error| told("get", error))?;
                if read.as_ref() != model.get(&key) {
                    return Err("a get that is not of the snapshot".into());
                }
            }
            let (a, b) = (random.key(), random.key());
            let (low, high) = (a.clone().min(b.clone()), a.max(b));
            let rows = table.range(&low[..]..&high[..]);
            let rows = rows.map_err(|error| told("range", error))?;
            let rows: Result<Vec<_>, _> = match random.one_in(2) {
                true => rows.collect(),
                false => rows.rev().collect(),
            };
            let mut rows = rows.map_err(|error| told("range", error))?;
            rows.sort();
            if !rows.iter().map(|(k, v)| (k, v)).eq(model.range(low..high)) {
                return Err("a range that is not of the snapshot".into());
            }
        }
        Ok(())
    }
}

/// Two transactions change the same record: the later commit must not be lost.
fn conflict(
    random: &mut Random,
    environment: &Environment,
    models: &mut [(Definition, Model); 2],
) -> Result<(), String> {
    let model = &mut models[0].1;
    // Otherwise the first one would create the table, and the other would wait for it.
    let made = environment.begin_write();
    made.open_table(TABLE).unwrap();
    made.commit().unwrap();
    let transaction = environment.begin_write_at(Isolation::Snapshot);
    let table = transaction.open_table(TABLE).unwrap();
    let (ours, theirs) = (random.key(), random.key());
    table.insert(&ours, b"ours").unwrap();
    model.insert(ours.clone(), b"ours".to_vec());
    if ours == theirs {
        return transaction.commit().map_err(|error| told("commit", error));
    }
    let before = model.get(&theirs).cloned();
    let other = environment.begin_write();
    other
        .open_table(TABLE)
        .unwrap()
        .insert(&theirs, b"theirs")
        .unwrap();
    other.commit().unwrap();
    if table.get(&theirs).unwrap() != before || table.get(&ours).unwrap() != Some(b"ours".into()) {
        return Err("a snapshot that does not see what it should".into());
    }
    match table.insert(&theirs, b"lost") {
        Err(Error::WriteConflict) => {}
        _ => return Err("a later commit was overwritten".into()),
    }
    model.insert(theirs, b"theirs".to_vec());
    transaction.commit().map_err(|error| told("commit", error))
}

/// Works with up to five open snapshots.
pub fn run(seed: u64, steps: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let storage = Arc::new(MemoryStorage::new());
    let environment = small().open_storage(storage).unwrap();
    let mut models = [(TABLE, Model::new()), (OTHER, Model::new())];
    let mut seen: Vec<Seen<'_>> = Vec::new();
    let mut long: Option<(WriteTransaction<'_>, Model)> = None;
    environment
        .begin_write()
        .open_table(OTHER)
        .map(|_| ())
        .unwrap();
    for _ in 0..steps {
        match random.below(8) {
            0 if seen.len() < 5 => seen.push(Seen {
                transaction: environment.begin_read(),
                models: models.clone(),
            }),
            1 if !seen.is_empty() => {
                let at = random.below(seen.len() as u64) as usize;
                seen.swap_remove(at);
            }
            2 => conflict(&mut random, &environment, &mut models)?,
            _ => {}
        }
        let transaction = environment.begin_write();
        let mut changed = models[0].1.clone();
        for _ in 0..random.below(30) {
            change(&mut random, &transaction, &mut changed);
        }
        if random.one_in(20) {
            transaction.open_table(TABLE).unwrap();
            transaction.drop_table(TABLE.name()).unwrap();
            changed = Model::new();
        }
        match random.one_in(4) {
            true => transaction.abort().unwrap(),
            false => {
                transaction.commit().unwrap();
                models[0].1 = changed;
            }
        }
        let (transaction, mut other) = long
            .take()
            .unwrap_or_else(|| (environment.begin_write(), models[1].1.clone()));
        let table = transaction.open_table(OTHER).unwrap();
        for _ in 0..random.below(4) {
            let (key, value) = (random.key(), random.value());
            table.insert(&key, &value).unwrap();
            other.insert(key, value);
        }
        match random.below(6) {
            0 => transaction.abort().unwrap(),
            1 => {
                transaction.commit().unwrap();
                models[1].1 = other;
            }
            _ => long = Some((transaction, other)),
        }
        environment.maintain().unwrap();
        for one in &seen {
            one.look(&mut random)?;
        }
        // Pages that an active transaction has replaced belong to nothing yet.
        if long.is_none() && random.one_in(2) {
            let verified = environment
                .verify()
                .map_err(|error| told("verify", error))?;
            if verified.lost_pages > 0 {
                return Err(format!("pages are lost: {verified:?}"));
            }
        }
    }
    drop((seen, long));
    environment.maintain().unwrap();
    let verified = environment
        .verify()
        .map_err(|error| told("verify", error))?;
    let bytes = environment.statistics().version_bytes;
    match (verified.lost_pages, verified.kept_pages, bytes) {
        (0, 0, 0) => Ok(()),
        _ => Err(format!("{verified:?}, and {bytes} bytes of versions")),
    }
}
