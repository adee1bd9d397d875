//! Secondary indices are compared with a map of sets.

use crate::common::{Model, Random, TABLE, change, seed, small};
use std::collections::BTreeSet;
use std::sync::Arc;
use varve_tp::storage::MemoryStorage;
use varve_tp::{Environment, Error, IndexDefinition, Isolation, Options, TableDefinition};

type Bytes = &'static [u8];

/// Index by the beginning of the value: one entry per record.
const BY_VALUE: IndexDefinition<Bytes, Bytes, Bytes> = IndexDefinition::new(TABLE, "by value");
/// Index by up to eight bytes of the value: no entry or several.
const BY_BYTE: IndexDefinition<u8, Bytes, Bytes> = IndexDefinition::new(TABLE, "by byte");

fn beginning(value: &[u8]) -> &[u8] {
    &value[..value.len().min(2)]
}

fn indexed() -> Options {
    let mut options = small();
    options
        .index(BY_VALUE, |_, value, keys| keys.add(beginning(value)))
        .index(BY_BYTE, |_, value, keys| {
            value.iter().take(8).for_each(|byte| keys.add(*byte));
        });
    options
}

fn by_value(model: &Model) -> BTreeSet<(Vec<u8>, Vec<u8>)> {
    let pair = |(key, value): (&Vec<u8>, &Vec<u8>)| (beginning(value).to_vec(), key.clone());
    model.iter().map(pair).collect()
}

fn look(random: &mut Random, environment: &Environment, model: &Model) {
    let level = [
        Isolation::Snapshot,
        Isolation::Serializable,
        Isolation::ReadCommitted,
    ][random.below(3) as usize];
    let transaction = environment.begin_read_at(level);
    let index = transaction.open_index(BY_VALUE).unwrap();
    let expected = by_value(model);
    let all = index.iter().unwrap().map(Result::unwrap);
    let all: Vec<_> = all.collect();
    assert!(all.iter().all(|(_, (key, value))| model[key] == *value));
    let pairs =
        |(index_key, (key, _)): &(Vec<u8>, (Vec<u8>, Vec<u8>))| (index_key.clone(), key.clone());
    assert!(all.iter().map(pairs).eq(expected.iter().cloned()));
    let some = [random.below(256) as u8, random.below(256) as u8];
    let from = some[..random.below(3) as usize].to_vec();
    let range = index.range(&from[..]..).unwrap().rev().map(Result::unwrap);
    let expected_range = expected.iter().filter(|(key, _)| *key >= from).rev();
    assert!(range.map(|row| pairs(&row)).eq(expected_range.cloned()));
    if let Some((index_key, _)) = expected.iter().next() {
        let found = index.get(index_key).unwrap().map(|row| row.unwrap().0);
        let expected = expected.iter().filter(|(key, _)| key == index_key);
        assert!(found.eq(expected.map(|(_, key)| key.clone())));
    }
    let index = transaction.open_index(BY_BYTE).unwrap();
    let byte = random.below(256) as u8;
    let found = index.get(byte).unwrap().map(|row| row.unwrap().0);
    let has = |value: &Vec<u8>| value.iter().take(8).any(|other| *other == byte);
    let expected = model.iter().filter(|(_, value)| has(value));
    assert!(found.eq(expected.map(|(key, _)| key.clone())));
}

#[test]
fn indices_agree_with_their_table() {
    let seed = seed("indices_agree_with_their_table");
    for round in 0..4 {
        let mut random = Random::new(seed + round);
        let storage = Arc::new(MemoryStorage::new());
        let mut environment = indexed().open_storage(storage.clone()).unwrap();
        let mut model = Model::new();
        environment.begin_write().open_table(TABLE).unwrap();
        let made = environment.begin_write();
        made.open_table(TABLE).unwrap();
        made.commit().unwrap();
        for step in 0..80 {
            let transaction = environment.begin_write();
            let mut changed = model.clone();
            for _ in 0..random.below(25) {
                change(&mut random, &transaction, &mut changed);
            }
            if random.one_in(25) {
                transaction.drop_table(TABLE.name()).unwrap();
                transaction.open_table(TABLE).unwrap();
                changed = Model::new();
            }
            match random.one_in(4) {
                true => transaction.abort().unwrap(),
                false => {
                    transaction.commit().unwrap();
                    model = changed;
                }
            }
            environment.maintain().unwrap();
            look(&mut random, &environment, &model);
            if step % 10 == 9 {
                let verified = environment.verify().unwrap();
                assert_eq!(verified.lost_pages, 0);
                assert!(verified.index_entries >= model.len() as u64);
            }
            if random.one_in(20) {
                drop(environment);
                environment = indexed().open_storage(storage.clone()).unwrap();
            }
        }
    }
}

const PEOPLE: TableDefinition<u32, &str> = TableDefinition::new("people");
const BY_NAME: IndexDefinition<&str, u32, &str> = IndexDefinition::new(PEOPLE, "by name");

#[test]
fn an_index_is_made_of_what_is_there_and_its_function_is_asked_for() {
    let storage = Arc::new(MemoryStorage::new());
    let environment = small().open_storage(storage.clone()).unwrap();
    let transaction = environment.begin_write();
    let people = transaction.open_table(PEOPLE).unwrap();
    for number in 0..2_000 {
        people
            .insert(number, ["Gray", "Moss", "Bayer"][number as usize % 3])
            .unwrap();
    }
    transaction.commit().unwrap();
    let reader = environment.begin_read();
    assert!(matches!(reader.open_index(BY_NAME), Err(Error::NoTable(_))));
    drop(reader);
    drop(environment);

    let mut options = small();
    options.index(BY_NAME, |_, name, keys| keys.add(name.as_str()));
    let environment = options.open_storage(storage.clone()).unwrap();
    let transaction = environment.begin_write();
    let people = transaction.open_table(PEOPLE).unwrap();
    people.insert(1, "Gray").unwrap();
    let by_name = transaction.open_index(BY_NAME).unwrap();
    assert_eq!(by_name.get("Gray").unwrap().count(), 668);
    transaction.commit().unwrap();
    assert_eq!(environment.verify().unwrap().index_entries, 2_000);
    let rename = environment.begin_write();
    for name in ["people", "by name"] {
        let renamed = rename.rename_table(name, "others");
        assert!(matches!(renamed, Err(Error::Indexed(_))));
    }
    drop(rename);
    drop(environment);

    // Without the function the table is read-only.
    let environment = small().open_storage(storage.clone()).unwrap();
    let transaction = environment.begin_write();
    let refused = transaction.open_table(PEOPLE).map(|_| ());
    assert!(matches!(refused, Err(Error::IndexNotGiven { .. })));
    let reader = environment.begin_read();
    assert_eq!(
        reader.open_table(PEOPLE).unwrap().get(1).unwrap().unwrap(),
        "Gray"
    );
    let by_name = reader.open_index(BY_NAME).unwrap();
    assert_eq!(by_name.get("Moss").unwrap().count(), 666);
    drop(transaction);
    drop(reader);
    drop(environment);

    // With another function, verification reports the difference, and a rebuild corrects
    // it.
    let mut options = small();
    options.index(BY_NAME, |_, name, keys| keys.add(&name[..1]));
    let environment = options.open_storage(storage).unwrap();
    assert!(matches!(environment.verify(), Err(Error::Damaged { .. })));
    let transaction = environment.begin_write();
    assert_eq!(transaction.rebuild_index(BY_NAME).unwrap(), 2_000);
    transaction.commit().unwrap();
    let verified = environment.verify().unwrap();
    assert_eq!((verified.index_entries, verified.lost_pages), (2_000, 0));
    let reader = environment.begin_read();
    let by_name = reader.open_index(BY_NAME).unwrap();
    assert_eq!(by_name.get("B").unwrap().count(), 666);
    assert_eq!(by_name.get("Gray").unwrap().count(), 0);
}

/// An index and its records are read from the same snapshot, also when the table is read
/// in between.
#[test]
fn an_index_and_its_table_are_read_as_of_one_moment() {
    let mut options = small();
    options.index(BY_NAME, |_, name, keys| keys.add(name.as_str()));
    let storage = Arc::new(MemoryStorage::new());
    let environment = options.open_storage(storage).unwrap();
    let put = |names: [&str; 2]| {
        let transaction = environment.begin_write();
        let people = transaction.open_table(PEOPLE).unwrap();
        for (number, name) in names.into_iter().enumerate() {
            people.insert(number as u32, name).unwrap();
        }
        transaction.commit().unwrap();
    };
    put(["Gray", "Gray"]);
    for level in [Isolation::Snapshot, Isolation::ReadCommitted] {
        let reader = environment.begin_read_at(level);
        let by_name = reader.open_index(BY_NAME).unwrap();
        let mut grays = by_name.get("Gray").unwrap();
        assert_eq!(grays.next().unwrap().unwrap(), (0, "Gray".to_owned()));
        put(["Moss", "Bayer"]);
        assert_eq!(grays.next().unwrap().unwrap(), (1, "Gray".to_owned()));
        assert!(grays.next().is_none());
        put(["Gray", "Gray"]);
    }
}

fn named() -> Environment {
    let mut options = small();
    options.index(BY_NAME, |_, name, keys| keys.add(name.as_str()));
    let storage = Arc::new(MemoryStorage::new());
    let environment = options.open_storage(storage).unwrap();
    let transaction = environment.begin_write();
    let people = transaction.open_table(PEOPLE).unwrap();
    for number in 0..500 {
        people.insert(number, "Gray").unwrap();
    }
    transaction.commit().unwrap();
    environment
}

/// A writer with an older snapshot finds dropped tables there; no other transaction does.
#[test]
fn a_dropped_index_that_a_snapshot_finds_stays_dropped() {
    let environment = named();
    let late = environment.begin_write_at(Isolation::Snapshot);
    let transaction = environment.begin_write();
    transaction.drop_table("people").unwrap();
    transaction.commit().unwrap();
    let by_name = late.open_index(BY_NAME).unwrap();
    assert_eq!(by_name.get("Gray").unwrap().count(), 500);
    late.open_table(TABLE).unwrap().insert(b"a", b"b").unwrap();
    late.commit().unwrap();
    assert_eq!(environment.tables(), ["table"]);
    let again = environment.begin_write();
    again.open_table(PEOPLE).unwrap().insert(1, "Moss").unwrap();
    again.commit().unwrap();
    assert_eq!(environment.verify().unwrap().index_entries, 1);
}

#[test]
fn an_index_that_another_rebuilds_meanwhile_is_freed_once() {
    let environment = named();
    let first = environment.begin_write();
    first.rebuild_index(BY_NAME).unwrap();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let second = environment.begin_write();
            second.rebuild_index(BY_NAME).unwrap();
            second.commit().unwrap();
        });
        while environment.statistics().waiting == 0 {
            std::thread::yield_now();
        }
        first.commit().unwrap();
        second.join().unwrap();
    });
    environment.maintain().unwrap();
    let verified = environment.verify().unwrap();
    assert_eq!((verified.index_entries, verified.lost_pages), (500, 0));
}

/// One of two indices without functions is dropped: the other one still prevents writing.
#[test]
fn each_index_without_a_function_is_asked_for() {
    const BY_LETTER: IndexDefinition<&str, u32, &str> = IndexDefinition::new(PEOPLE, "by letter");
    let storage = Arc::new(MemoryStorage::new());
    let mut options = small();
    options
        .index(BY_NAME, |_, name, keys| keys.add(name.as_str()))
        .index(BY_LETTER, |_, name, keys| keys.add(&name[..1]));
    let environment = options.open_storage(storage.clone()).unwrap();
    let transaction = environment.begin_write();
    transaction
        .open_table(PEOPLE)
        .unwrap()
        .insert(1, "Gray")
        .unwrap();
    transaction.commit().unwrap();
    drop(environment);
    let environment = small().open_storage(storage).unwrap();
    let refused = || {
        let transaction = environment.begin_write();
        let refused = transaction.open_table(PEOPLE).map(|_| ());
        matches!(refused, Err(Error::IndexNotGiven { .. }))
    };
    for name in ["by name", "by letter"] {
        assert!(refused(), "{name}");
        let transaction = environment.begin_write();
        transaction.drop_table(name).unwrap();
        // The table that now has the name is not an index.
        let other: TableDefinition<u8, u8> = TableDefinition::new(name);
        transaction.open_table(other).unwrap();
        transaction.commit().unwrap();
    }
    assert!(!refused());
}

/// As with a range of a table, removals during the iteration may be visible or not.
#[test]
fn records_are_taken_away_while_their_index_is_read() {
    for level in [
        Isolation::Serializable,
        Isolation::Snapshot,
        Isolation::ReadCommitted,
    ] {
        let environment = named();
        let transaction = environment.begin_write_at(level);
        let people = transaction.open_table(PEOPLE).unwrap();
        let by_name = transaction.open_index(BY_NAME).unwrap();
        let (mut grays, mut seen) = (by_name.get("Gray").unwrap(), Vec::new());
        while let Some(row) = grays.next() {
            let (number, name) = row.unwrap();
            assert_eq!(name, "Gray");
            people.remove(number + 1).unwrap();
            seen.push(number);
            if let Some(row) = grays.next_back() {
                seen.push(row.unwrap().0);
            }
        }
        assert!(seen.contains(&0) && seen.contains(&499), "{seen:?}");
        transaction.commit().unwrap();
        let left = environment.verify().unwrap().index_entries;
        assert!((200..500).contains(&left), "{left}");
    }
}
