//! Many threads on one environment: the sums agree, trees stay whole, nobody hangs.

use crate::common::{Random, TABLE, seed, small, wherever_pages_lie};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use varve_tp::storage::MemoryStorage;
use varve_tp::{Durability, Environment, RecordsDefinition, TableDefinition};

const SUMS: TableDefinition<u32, i64> = TableDefinition::new("sums");
const HISTORY: RecordsDefinition<'static, i64> = RecordsDefinition::new("history");

fn open() -> Environment {
    let mut options = small();
    options.background(true).memory(40 * 4096).log(64 << 20);
    options
        .open_storage(Arc::new(MemoryStorage::new()))
        .unwrap()
}

/// Until it works: others may be in the way.
fn again<T>(mut what: impl FnMut() -> varve_tp::Result<T>) -> T {
    loop {
        match what() {
            Ok(value) => return value,
            Err(error) if error.is_conflict() => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn money_is_neither_made_nor_lost() {
    wherever_pages_lie(|| {
        let seed = seed("money_is_neither_made_nor_lost");
        let environment = open();
        let accounts = 40;
        let transaction = environment.begin_write();
        let table = transaction.open_table(SUMS).unwrap();
        (0..accounts).for_each(|account| _ = table.insert(account, 0).unwrap());
        transaction.open_records(HISTORY).unwrap();
        transaction.commit().unwrap();
        let conflicts = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (environment, conflicts) = (&environment, &conflicts);
                scope.spawn(move || {
                    let mut random = Random::new(seed + thread);
                    for round in 0..150 {
                        let (from, to) = (random.below(40) as u32, random.below(40) as u32);
                        let amount = random.below(100) as i64;
                        again(|| {
                            let transaction = environment.begin_write();
                            let table = transaction.open_table(SUMS)?;
                            let upgrade = round % 3 == 0;
                            let read = |key| match upgrade {
                                true => table.get(key),
                                false => table.get_for_update(key),
                            };
                            let result = (|| {
                                let before = read(from)?.unwrap();
                                table.insert(from, before - amount)?;
                                let before = read(to)?.unwrap();
                                table.insert(to, before + amount)?;
                                transaction.open_records(HISTORY)?.append(amount)
                            })();
                            conflicts.fetch_add(u64::from(result.is_err()), Relaxed);
                            result?;
                            match round % 7 {
                                0 => transaction.abort(),
                                1 => transaction.commit(),
                                _ => transaction.commit_with(Durability::Buffered),
                            }
                        });
                        if round % 20 == 0 {
                            let sum: i64 = again(|| {
                                let transaction = environment.begin_read();
                                let table = transaction.open_table(SUMS)?;
                                table.iter()?.map(|row| row.map(|(_, sum)| sum)).sum()
                            });
                            assert_eq!(sum, 0);
                        }
                    }
                });
            }
        });
        eprintln!("{} conflicts", conflicts.load(Relaxed));
        environment.verify().unwrap();
    });
}

#[test]
fn trees_stay_whole_under_splits_and_merges() {
    wherever_pages_lie(|| {
        let seed = seed("trees_stay_whole_under_splits_and_merges");
        let environment = open();
        environment
            .begin_write()
            .open_table(TABLE)
            .map(|_| ())
            .unwrap();
        let models: Vec<BTreeMap<Vec<u8>, Vec<u8>>> = std::thread::scope(|scope| {
            let work = |thread: u64| {
                let environment = &environment;
                move || {
                    let mut random = Random::new(seed * 100 + thread);
                    let mut model = BTreeMap::new();
                    for round in 0..250 {
                        let mut changed = model.clone();
                        let grows = round % 100 < 60;
                        let committed = again(|| {
                            changed = model.clone();
                            let transaction = environment.begin_write();
                            let table = transaction.open_table(TABLE)?;
                            for _ in 0..8 {
                                // Keys of all threads lie between each other.
                                let mut key = random.key();
                                key.push(b'0' + thread as u8);
                                match grows || random.one_in(4) {
                                    true => {
                                        let value = random.value();
                                        table.insert(&key, &value)?;
                                        changed.insert(key, value);
                                    }
                                    false => {
                                        let some = changed.keys().next().cloned();
                                        let key = some.unwrap_or(key);
                                        table.remove(&key)?;
                                        changed.remove(&key);
                                    }
                                }
                            }
                            match random.one_in(6) {
                                true => transaction.abort().map(|()| false),
                                false => {
                                    transaction.commit_with(Durability::Buffered).map(|()| true)
                                }
                            }
                        });
                        if committed {
                            model = changed;
                        }
                        if round % 10 == 0
                            && let Some((key, value)) = model.iter().next_back()
                        {
                            let transaction = environment.begin_write();
                            let table = transaction.open_table(TABLE).unwrap();
                            assert_eq!(again(|| table.get(key)).as_ref(), Some(value));
                        }
                    }
                    model
                }
            };
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(work(thread))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let verified = environment.verify().unwrap();
        assert_eq!(verified.lost_pages, 0, "{verified:?}");
        let all: BTreeMap<_, _> = models.into_iter().flatten().collect();
        assert_eq!(crate::common::content(&environment), all);
    });
}
