//! Every query against the same question asked of vectors.

use super::execute::{DISTINCT, GROUPS, RESULT};
use super::relation::relations;
use super::tuple::{INTEGERS_BYTES, STRING_BYTES};
use super::*;
use Attribute::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use varve_tp::storage::MemoryStorage;
use varve_tp::{Environment, Options, Result};

const N: u32 = 1000;
const TENTH: u32 = N / 10;

/// What a query leaves, or shows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    tuples: Vec<Tuple>,
    distinct: BTreeSet<Vec<u8>>,
    groups: BTreeMap<u32, u64>,
}

/// `stringu1`, `stringu2` and `string4`.
fn strings(tuple: &Tuple) -> &[u8] {
    &tuple.0[INTEGERS_BYTES..]
}

fn string4(tuple: &Tuple) -> &[u8] {
    &strings(tuple)[2 * STRING_BYTES..]
}

fn answer(tuples: impl IntoIterator<Item = Tuple>) -> Answer {
    let mut tuples: Vec<Tuple> = tuples.into_iter().collect();
    tuples.sort_by_key(|tuple| tuple.get(Unique2));
    Answer {
        tuples,
        ..Answer::default()
    }
}

/// Pairs of the same value, the outer ones below a bound.
fn joined(first: &[Tuple], second: &[Tuple], by: Attribute, below: u32) -> Answer {
    let mut pairs = Vec::new();
    for a in first.iter().filter(|tuple| tuple.get(by) < below) {
        for b in second.iter().filter(|tuple| tuple.get(by) == a.get(by)) {
            pairs.push(Tuple::joined(a, b));
        }
    }
    answer(pairs)
}

fn three(one: &[Tuple], first: &[Tuple], second: &[Tuple], by: Attribute) -> Answer {
    let among = |tuple: &&Tuple| {
        let value = tuple.get(by);
        value < TENTH && first.iter().any(|other| other.get(by) == value)
    };
    let one: Vec<Tuple> = one.iter().filter(among).copied().collect();
    joined(&one, second, by, TENTH)
}

fn grouped(tuples: &[Tuple], add: fn(u64, u64) -> u64) -> Answer {
    let mut answer = Answer::default();
    for tuple in tuples {
        let value = u64::from(tuple.get(Unique1));
        let group = answer.groups.entry(tuple.get(Hundred));
        group.and_modify(|v| *v = add(*v, value)).or_insert(value);
    }
    answer
}

fn between(tuples: &[Tuple], by: Attribute, values: std::ops::Range<u32>) -> Answer {
    let found = tuples
        .iter()
        .filter(|tuple| values.contains(&tuple.get(by)));
    answer(found.copied())
}

fn place(tuples: &[Tuple], by: Attribute, value: u32) -> usize {
    let place = tuples.iter().position(|tuple| tuple.get(by) == value);
    place.expect("it is there")
}

/// The query over vectors, which an update changes.
fn naive(number: u32, all: &mut [Vec<Tuple>; 4]) -> Answer {
    let [one, first, second, prime] = all;
    match number {
        1 | 3 | 8 => between(first, Unique2, 0..N / 100),
        2 | 4 => between(first, Unique2, 79..179),
        5 => between(first, Unique1, 0..N / 100),
        6 => between(first, Unique1, 79..179),
        7 => between(first, Unique2, 200..201),
        9 | 12 => joined(first, second, Unique2, TENTH),
        10 | 13 => joined(first, prime, Unique2, u32::MAX),
        11 | 14 => three(one, first, second, Unique2),
        15 => joined(first, second, Unique1, TENTH),
        16 => joined(first, prime, Unique1, u32::MAX),
        17 => three(one, first, second, Unique1),
        18 => {
            let part = |tuple: &Tuple| {
                let integers = [Two, Four, Ten, Twenty, Hundred];
                let mut bytes: Vec<u8> = Vec::new();
                for attribute in integers {
                    bytes.extend(tuple.get(attribute).to_le_bytes());
                }
                bytes.extend(string4(tuple));
                bytes
            };
            Answer {
                distinct: first.iter().map(part).collect(),
                ..Answer::default()
            }
        }
        19 => {
            let part = |tuple: &Tuple| {
                let mut bytes: Vec<u8> = Vec::new();
                for attribute in &Attribute::ALL[2..] {
                    bytes.extend(tuple.get(*attribute).to_le_bytes());
                }
                bytes.extend(strings(tuple));
                bytes
            };
            Answer {
                distinct: one.iter().map(part).collect(),
                ..Answer::default()
            }
        }
        20 | 23 => {
            let least = first.iter().map(|tuple| tuple.get(Unique2)).min();
            Answer {
                groups: BTreeMap::from([(0, least.unwrap().into())]),
                ..Answer::default()
            }
        }
        21 | 24 => grouped(first, u64::min),
        22 | 25 => grouped(first, |a, b| a + b),
        26 => {
            first.push(Tuple::new(N, N));
            Answer::default()
        }
        27 => {
            first.remove(place(first, Unique1, N));
            Answer::default()
        }
        28 => {
            let at = place(first, Unique2, 190);
            first[at].set(Unique2, N + 1);
            Answer::default()
        }
        29 => {
            first.push(Tuple::new(N + 2, N + 2));
            Answer::default()
        }
        30 => {
            first.remove(place(first, Unique2, N + 2));
            Answer::default()
        }
        31 => {
            let at = place(first, Unique2, 210);
            first[at].set(Unique2, N + 3);
            Answer::default()
        }
        _ => {
            let at = place(first, Unique2, 230);
            first[at].set(Unique1, N + 4);
            Answer::default()
        }
    }
}

/// What the query left in the database.
fn found(database: &Wisconsin, shown: Vec<Tuple>) -> Result<Answer> {
    let transaction = database.environment.begin_write();
    let mut found = answer(shown);
    for row in transaction.open_table(RESULT)?.iter()? {
        let (key, bytes) = row?;
        assert_eq!(key, Tuple(bytes).get(Unique2));
        found.tuples.push(Tuple(bytes));
    }
    for row in transaction.open_table(DISTINCT)?.iter()? {
        found.distinct.insert(row?.0);
    }
    for row in transaction.open_table(GROUPS)?.iter()? {
        found.groups.extend([row?]);
    }
    transaction.abort()?;
    Ok(found)
}

fn options() -> Options {
    let mut options = Options::new();
    options.background(false).page(8192).memory(256 << 10);
    options
}

fn check(database: &Wisconsin, query: &Query, all: &mut [Vec<Tuple>; 4]) {
    let number = query.number;
    let ran = database.run(query).unwrap();
    let wanted = naive(number, all);
    let rows = wanted.tuples.len() + wanted.distinct.len() + wanted.groups.len();
    let rows = if number >= 26 { 1 } else { rows as u64 };
    assert_eq!(ran.rows, rows, "query {number}");
    assert_eq!(query.rows(N), rows, "query {number}: what its table says");
    assert!(ran.work.instructions() > 0);
    let found = found(database, ran.shown).unwrap();
    assert!(found == wanted, "query {number}");
    let mut left = all[1].clone();
    left.sort_by_key(|tuple| tuple.get(Unique2));
    let transaction = database.environment.begin_read();
    let first = transaction
        .open_table(Relation::TenK1.definition())
        .unwrap();
    let first = first.iter().unwrap().map(|row| Tuple(row.unwrap().1));
    assert!(first.eq(left), "tenktup1 behind query {number}");
    drop(transaction);
    database.clear().unwrap();
}

#[test]
fn queries_find_what_vectors_say() {
    let seed = varve_prove::random::announce_seed("wisconsin", 1);
    let storage = Arc::new(MemoryStorage::new());
    let mut all = relations(N, seed);
    assert_eq!(all.each_ref().map(Vec::len), [100, 1000, 1000, 100]);
    let environment: Environment = options().open_storage(storage.clone()).unwrap();
    let database = Wisconsin::load(&environment, N, seed).unwrap();
    for query in QUERIES.iter().filter(|query| !query.indexed) {
        check(&database, query, &mut all);
    }
    drop(database);
    environment.close().unwrap();

    let mut options = options();
    let options = Wisconsin::with_indices(&mut options);
    let environment = options.open_storage(storage).unwrap();
    let database = Wisconsin::open(&environment, N);
    database.index().unwrap();
    for query in QUERIES.iter().filter(|query| query.indexed) {
        check(&database, query, &mut all);
    }
    // Records, indices and what leads to them agree.
    environment.verify().unwrap();
}

#[test]
fn queries_are_numbered_and_attributes_have_their_values() {
    let numbers = QUERIES.map(|query| query.number);
    assert!(numbers.into_iter().eq(1..=32));
    let all = relations(10_000, 3);
    for (attribute, values) in [
        (Two, 2),
        (Four, 4),
        (Hundred, 100),
        (Odd100, 50),
        (TenThous, 10_000),
    ] {
        let of: BTreeSet<u32> = all[1].iter().map(|tuple| tuple.get(attribute)).collect();
        assert_eq!(of.len(), values, "{attribute:?}");
    }
    let strings: BTreeSet<&[u8]> = all[2].iter().map(string4).collect();
    assert_eq!(strings.len(), 4);
    // A permutation of its own for each.
    assert_ne!(all[1][..20], all[2][..20]);
}
