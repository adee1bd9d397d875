//! Snapshots: compared with copies of a map, among threads, and when too many versions
//! would be kept.

use crate::common::{TABLE, seed, small, snapshots};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use varve_tp::storage::MemoryStorage;
use varve_tp::{Durability, Environment, Error, TableDefinition};

#[test]
fn each_shows_what_was_committed_when_it_began() {
    let seed = seed("each_shows_what_was_committed_when_it_began");
    for round in 0..6 {
        let result = snapshots::run(seed + round, 120);
        result.unwrap_or_else(|what| panic!("seed {}: {what}", seed + round));
    }
}

const SUMS: TableDefinition<u32, i64> = TableDefinition::new("sums");

/// Transfers run, some of them aborted. Every snapshot has the same sum, by either method
/// of reading, and never waits for a lock: with the timeout of a deadlock it would fail.
#[test]
fn sums_of_snapshots_agree_among_threads() {
    let seed = seed("sums_of_snapshots_agree_among_threads");
    let mut options = small();
    options.background(true).memory(40 * 4096).log(64 << 20);
    let storage = Arc::new(MemoryStorage::new());
    let environment = options.open_storage(storage).unwrap();
    let accounts = 500;
    let transaction = environment.begin_write();
    let table = transaction.open_table(SUMS).unwrap();
    (0..accounts).for_each(|account| _ = table.insert(account, 100).unwrap());
    transaction.commit().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = |thread: u64| {
            let environment = &environment;
            move || {
                let mut random = crate::common::Random::new(seed + thread);
                for round in 0..400 {
                    let mut transfer = || -> Result<(), Error> {
                        let transaction = environment.begin_write();
                        let table = transaction.open_table(SUMS)?;
                        let (from, to) = (random.below(500) as u32, random.below(500) as u32);
                        let before = table.get_for_update(from)?.unwrap();
                        table.insert(from, before - 5)?;
                        let before = table.get_for_update(to)?.unwrap();
                        table.insert(to, before + 5)?;
                        match round % 5 {
                            0 => transaction.abort(),
                            _ => transaction.commit_with(Durability::Buffered),
                        }
                    };
                    match transfer() {
                        Ok(()) => {}
                        Err(error) => assert!(error.is_conflict(), "{error}"),
                    }
                }
            }
        };
        let writers: Vec<_> = (0..2).map(|thread| scope.spawn(writer(thread))).collect();
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    let snapshot = environment.begin_read();
                    let table = snapshot.open_table(SUMS).unwrap();
                    let rows = table.iter().unwrap();
                    let sum: i64 = rows.map(|row| row.unwrap().1).sum();
                    assert_eq!(sum, 50_000);
                    let one = |account| table.get(account).unwrap().unwrap();
                    let sum: i64 = (0..accounts).map(one).sum();
                    assert_eq!(sum, 50_000);
                }
            });
        }
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        stop.store(true, Relaxed);
    });
    environment.maintain().unwrap();
    assert_eq!(environment.statistics().version_bytes, 0);
}

/// Returns an environment with little memory for versions.
fn tight() -> Environment {
    let mut options = small();
    options.versions(20_000);
    let storage = Arc::new(MemoryStorage::new());
    let environment = options.open_storage(storage).unwrap();
    let transaction = environment.begin_write();
    let table = transaction.open_table(TABLE).unwrap();
    for number in 0..500u32 {
        table.insert(&number.to_be_bytes(), b"before").unwrap();
    }
    transaction.commit().unwrap();
    environment
}

fn put(environment: &Environment, number: u32, value: &[u8]) {
    let transaction = environment.begin_write();
    let table = transaction.open_table(TABLE).unwrap();
    table.insert(&number.to_be_bytes(), value).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn a_snapshot_that_holds_too_much_is_told_that_it_is_too_old() {
    let environment = tight();
    let snapshot = environment.begin_read();
    let table = snapshot.open_table(TABLE).unwrap();
    let mut young = None;
    for number in 0..400 {
        put(&environment, number, &[1; 50]);
        assert!(environment.statistics().version_bytes <= 20_400);
        if number == 390 {
            young = Some(environment.begin_read());
        }
    }
    let get = |number: u32| table.get(&number.to_be_bytes());
    for number in [0, 390, 450] {
        assert!(matches!(
            get(number),
            Err(Error::SnapshotTooOld { limit: 20_000 })
        ));
    }
    let rows = table.iter().unwrap().find_map(Result::err);
    assert!(rows.is_some_and(|error| error.is_conflict()));
    // Another snapshot, younger than the dropped versions, continues.
    let young = young.unwrap();
    let table = young.open_table(TABLE).unwrap();
    assert_eq!(
        table.get(&395u32.to_be_bytes()).unwrap().unwrap(),
        b"before"
    );
    assert_eq!(table.get(&100u32.to_be_bytes()).unwrap().unwrap(), [1; 50]);
    assert_eq!(table.iter().unwrap().count(), 500);
}

/// A transaction that changes more than the limit hides its changed pages until it ends;
/// other pages can be read, and the hidden ones are readable again after its end.
#[test]
fn a_transaction_that_changes_too_much_leaves_no_versions() {
    let environment = tight();
    let early = environment.begin_read();
    let writer = environment.begin_write();
    let table = writer.open_table(TABLE).unwrap();
    for number in 0..300u32 {
        table.insert(&number.to_be_bytes(), &[7; 50]).unwrap();
    }
    assert!(environment.statistics().version_bytes <= 20_000);
    let get = |snapshot: &varve_tp::ReadTransaction<'_>, number: u32| {
        let table = snapshot.open_table(TABLE).unwrap();
        table.get(&number.to_be_bytes())
    };
    let late = environment.begin_read();
    for snapshot in [&early, &late] {
        let hidden = get(snapshot, 7);
        assert!(matches!(hidden, Err(Error::SnapshotTooOld { .. })));
        // The page of this record was not changed.
        assert_eq!(get(snapshot, 499).unwrap().unwrap(), b"before");
    }
    writer.abort().unwrap();
    for snapshot in [&early, &late] {
        assert_eq!(get(snapshot, 7).unwrap().unwrap(), b"before");
    }
    let writer = environment.begin_write();
    let table = writer.open_table(TABLE).unwrap();
    for number in 0..300u32 {
        table.insert(&number.to_be_bytes(), &[8; 50]).unwrap();
    }
    writer.commit().unwrap();
    assert!(matches!(get(&early, 7), Err(Error::SnapshotTooOld { .. })));
    assert_eq!(get(&environment.begin_read(), 7).unwrap().unwrap(), [8; 50]);
    drop((early, late));
    put(&environment, 7, b"after");
    assert_eq!(
        get(&environment.begin_read(), 7).unwrap().unwrap(),
        b"after"
    );
}
