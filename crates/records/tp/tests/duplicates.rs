//! Several values per key, both of any length, are compared with a set of pairs.

use crate::common::{Random, seed, small, wherever_pages_lie};
use std::collections::BTreeSet;
use std::sync::Arc;
use varve_tp::storage::MemoryStorage;
use varve_tp::{Environment, Options, TableDefinition};

const PAIRS: TableDefinition<(&[u8], &[u8]), ()> = TableDefinition::new("pairs");

type Set = BTreeSet<(Vec<u8>, Vec<u8>)>;

/// Draws a key or value of few different bytes, including zero and the highest; some are
/// long.
fn word(random: &mut Random) -> Vec<u8> {
    let length = match random.below(12) {
        0 => 480 + random.below(60),
        1 => random.below(3000),
        _ => random.below(4),
    };
    let letter = |random: &mut Random| [0, 0, 1, 254, 255][random.below(5) as usize];
    match random.one_in(3) {
        true => vec![letter(random); length as usize],
        false => (0..length).map(|_| letter(random)).collect(),
    }
}

fn look(environment: &Environment, model: &Set, key: &[u8]) {
    let transaction = environment.begin_read();
    let table = transaction.open_table(PAIRS).unwrap();
    let values = table.with_first(key).unwrap();
    let values: Vec<_> = values.map(|row| row.unwrap().0).collect();
    let expected = model.iter().filter(|(first, _)| first == key);
    assert!(values.iter().eq(expected.clone()), "{key:?}");
    let back = table.with_first(key).unwrap().rev();
    let back: Vec<_> = back.map(|row| row.unwrap().0).collect();
    assert!(back.iter().eq(expected.rev()));
    let all = table.iter().unwrap();
    let all: Vec<_> = all.map(|row| row.unwrap().0).collect();
    assert!(all.iter().eq(model));
}

#[test]
fn values_of_a_key_beside_a_set_of_pairs() {
    wherever_pages_lie(|| {
        let seed = seed("values_of_a_key_beside_a_set_of_pairs");
        let mut random = Random::new(seed);
        let storage = Arc::new(MemoryStorage::new());
        let mut environment = small().open_storage(storage.clone()).unwrap();
        let mut model = Set::new();
        let keys: Vec<_> = (0..30).map(|_| word(&mut random)).collect();
        for round in 0..60 {
            let transaction = environment.begin_write();
            let table = transaction.open_table(PAIRS).unwrap();
            let mut changed = model.clone();
            for _ in 0..random.below(30) {
                let key = keys[random.below(30) as usize].clone();
                let value = match random.one_in(2) {
                    true => keys[random.below(30) as usize].clone(),
                    false => word(&mut random),
                };
                let pair = (&key[..], &value[..]);
                match random.one_in(3) {
                    true => {
                        let was = table.remove(pair).unwrap();
                        assert_eq!(was, changed.remove(&(key, value)));
                    }
                    false => {
                        let was = table.insert(pair, ()).unwrap();
                        assert_eq!(was, !changed.insert((key, value)));
                    }
                }
            }
            match round > 0 && random.one_in(4) {
                true => transaction.abort().unwrap(),
                false => {
                    transaction.commit().unwrap();
                    model = changed;
                }
            }
            environment.maintain().unwrap();
            look(&environment, &model, &keys[random.below(30) as usize]);
            if round % 20 == 19 {
                assert_eq!(environment.verify().unwrap().lost_pages, 0);
                drop(environment);
                environment = small().open_storage(storage.clone()).unwrap();
            }
        }
    });
}

/// For keys of a fixed length, nothing sorts behind the last one.
#[test]
fn values_of_numbers() {
    const NUMBERED: TableDefinition<(u8, &str), u32> = TableDefinition::new("numbered");
    let environment = small()
        .open_storage(Arc::new(MemoryStorage::new()))
        .unwrap();
    let transaction = environment.begin_write();
    let table = transaction.open_table(NUMBERED).unwrap();
    for (at, pair) in [(0, "a"), (7, ""), (7, "b"), (255, "c"), (255, "d")]
        .iter()
        .enumerate()
    {
        table.insert(*pair, at as u32).unwrap();
    }
    let values = |first| {
        let found = table.with_first(first).unwrap();
        found.map(|row| row.unwrap().1).collect::<Vec<_>>()
    };
    assert_eq!(values(7), [1, 2]);
    assert_eq!(values(255), [3, 4]);
    assert_eq!(values(8), []);
}

/// The second process reads through the socket.
#[test]
fn another_process_reads_the_values_of_a_key() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = Options::new();
    options.memory(1 << 20).segment(256 << 10);
    let here = options.share(directory.path()).unwrap();
    let there = options.share(directory.path()).unwrap();
    let transaction = there.begin_write().unwrap();
    let table = transaction.open_table(PAIRS).unwrap();
    let key = vec![0; 700];
    for number in 0..2_000u32 {
        let value = number.to_be_bytes();
        let other = [&[0, 1][..], &value].concat();
        table.insert_later((&[0], &value), ()).unwrap();
        table.insert_later((&other, &value), ()).unwrap();
        if number < 50 {
            table.insert((&key, &value), ()).unwrap();
        }
    }
    transaction.commit().unwrap();
    for environment in [&here, &there] {
        let transaction = environment.begin_read().unwrap();
        let table = transaction.open_table(PAIRS).unwrap();
        let found = |key: &[u8]| {
            let values = table.with_first(key).map(|row| row.unwrap().0.1);
            values.collect::<Vec<_>>()
        };
        let numbers = |count: u32| (0..count).map(|number| number.to_be_bytes().to_vec());
        assert!(found(&[0]).into_iter().eq(numbers(2_000)));
        assert!(found(&key).into_iter().eq(numbers(50)));
        assert!(found(&[0, 1]).is_empty());
        let last = table.with_first(&key[..]).next_back().unwrap().unwrap();
        assert_eq!(last.0.1, 49u32.to_be_bytes());
    }
}
