//! The anomalies of Berenson and others (1995) and Adya and others (2000), by name, with
//! the levels that admit them. `docs/guide/records.md` has the table.

use std::sync::Arc;
use std::time::Duration;
use varve_tp::storage::MemoryStorage;
use varve_tp::{Environment, Error, Isolation, Options, TableDefinition};

const TABLE: TableDefinition<&str, i64> = TableDefinition::new("table");
const LEVELS: [Isolation; 3] = [
    Isolation::Serializable,
    Isolation::Snapshot,
    Isolation::ReadCommitted,
];

/// Opens an environment with two records and a short lock timeout, so that an endless
/// wait becomes an error.
fn open() -> Environment {
    let mut options = Options::new();
    options
        .memory(64 * 4096)
        .background(false)
        .lock_timeout(Some(Duration::from_millis(20)));
    let storage = Arc::new(MemoryStorage::new());
    let environment = options.open_storage(storage).unwrap();
    put(&environment, "x", 50).unwrap();
    put(&environment, "y", 50).unwrap();
    environment
}

/// Runs another transaction from begin to commit.
fn put(environment: &Environment, key: &str, value: i64) -> Result<(), Error> {
    let transaction = environment.begin_write();
    transaction.open_table(TABLE)?.insert(key, value)?;
    transaction.commit()
}

fn committed(environment: &Environment, key: &str) -> Option<i64> {
    let transaction = environment.begin_read();
    transaction.open_table(TABLE).unwrap().get(key).unwrap()
}

/// Checks for each level whether it admits the anomaly.
fn each(expected: [bool; 3], anomaly: impl Fn(Isolation) -> bool) {
    for (level, expected) in LEVELS.into_iter().zip(expected) {
        assert_eq!(anomaly(level), expected, "{level:?}");
    }
}

/// P0, G0: two transactions overwrite each other's uncommitted changes.
#[test]
fn no_level_admits_dirty_writes() {
    each([false; 3], |level| {
        let environment = open();
        let first = environment.begin_write_at(level);
        first.open_table(TABLE).unwrap().insert("x", 1).unwrap();
        let second = environment.begin_write_at(level);
        second.open_table(TABLE).unwrap().insert("x", 2).is_ok()
    });
}

/// P1, G1a, G1b: a value that was read is never committed, or not in that form.
#[test]
fn no_level_admits_dirty_reads() {
    each([false; 3], |level| {
        let environment = open();
        let writer = environment.begin_write();
        writer.open_table(TABLE).unwrap().insert("x", 1).unwrap();
        let reader = environment.begin_read_at(level);
        let table = reader.open_table(TABLE).unwrap();
        let read = table.get("x");
        let sum = table
            .iter()
            .and_then(|mut all| all.try_fold(0, |sum, row| row.map(|(_, value)| sum + value)));
        writer.abort().unwrap();
        match level {
            Isolation::Serializable => {
                assert!(matches!(read, Err(Error::LockTimeout)), "it waits");
                assert!(matches!(sum, Err(Error::LockTimeout)), "it waits");
                false
            }
            _ => read.unwrap() == Some(1) || sum.unwrap() != 100,
        }
    });
}

/// P2, G-single: the same record, read twice, differs.
#[test]
fn read_committed_admits_fuzzy_reads() {
    each([false, false, true], |level| {
        let environment = open();
        let reader = environment.begin_read_at(level);
        let table = reader.open_table(TABLE).unwrap();
        let before = table.get("x").unwrap();
        let _ = put(&environment, "x", 60);
        table.get("x").unwrap() != before
    });
}

/// A5A: two records, of which one is read before and one after a transfer.
#[test]
fn read_committed_admits_read_skew() {
    each([false, false, true], |level| {
        let environment = open();
        let reader = environment.begin_read_at(level);
        let table = reader.open_table(TABLE).unwrap();
        let x = table.get("x").unwrap().unwrap();
        let transfer = environment.begin_write();
        let both = transfer.open_table(TABLE).unwrap();
        let moved = both.insert("y", 90).and_then(|_| both.insert("x", 10));
        let _ = moved.and_then(|_| transfer.commit());
        x + table.get("y").unwrap().unwrap() != 100
    });
}

/// P3: a range, read twice, has another record.
#[test]
fn read_committed_admits_phantoms() {
    each([false, false, true], |level| {
        let environment = open();
        let reader = environment.begin_read_at(level);
        let table = reader.open_table(TABLE).unwrap();
        let before = table.range("w".."z").unwrap().count();
        let _ = put(&environment, "xx", 1);
        table.range("w".."z").unwrap().count() != before
    });
}

/// P4: a change is overwritten by one that was computed from the value before it.
#[test]
fn read_committed_admits_lost_updates() {
    each([false, false, true], |level| {
        let environment = open();
        let transaction = environment.begin_write_at(level);
        let table = transaction.open_table(TABLE).unwrap();
        let x = table.get("x").unwrap().unwrap();
        let other = put(&environment, "x", 51);
        let written = table.insert("x", x + 1);
        match level {
            Isolation::Serializable => assert!(matches!(other, Err(Error::LockTimeout))),
            Isolation::Snapshot => assert!(matches!(written, Err(Error::WriteConflict))),
            _ => {}
        }
        let done = written.and_then(|_| transaction.commit());
        // Both changes were acknowledged, and one is lost.
        other.is_ok() && done.is_ok() && committed(&environment, "x") == Some(51)
    });
}

/// A5B, G2-item: each transaction reads the record that the other writes, and their
/// constraint, that the sum is positive, is violated.
#[test]
fn snapshots_and_read_committed_admit_write_skew() {
    each([false, true, true], |level| {
        let environment = open();
        let (one, two) = (
            environment.begin_write_at(level),
            environment.begin_write_at(level),
        );
        let take = |transaction: &varve_tp::WriteTransaction<'_>, key: &str| {
            let table = transaction.open_table(TABLE)?;
            let sum = table.get("x")?.unwrap() + table.get("y")?.unwrap();
            assert!(sum >= 100);
            table.insert(key, -50)
        };
        let first = take(&one, "x");
        let second = take(&two, "y");
        let first = first.and_then(|_| one.commit());
        let second = second.and_then(|_| two.commit());
        first.is_ok() && second.is_ok()
    });
}

/// Adya's G2: the same with a predicate, whose records neither transaction has locked
/// singly.
#[test]
fn a_range_that_was_read_is_written_into_below_serializable_only() {
    each([false, true, true], |level| {
        let environment = open();
        let (one, two) = (
            environment.begin_write_at(level),
            environment.begin_write_at(level),
        );
        let add = |transaction: &varve_tp::WriteTransaction<'_>, key: &str| {
            let table = transaction.open_table(TABLE)?;
            let count = table.iter()?.count() as i64;
            table.insert(key, count)
        };
        let (first, second) = (add(&one, "a"), add(&two, "b"));
        let first = first.and_then(|_| one.commit());
        let second = second.and_then(|_| two.commit());
        first.is_ok() && second.is_ok()
    });
}

/// A read-only anomaly (Fekete, O'Neil, O'Neil 2004) needs writers at the snapshot level;
/// with writers that lock, a snapshot is a state of their serial order.
#[test]
fn readers_at_the_level_of_snapshots_wait_for_nobody() {
    let environment = open();
    let writer = environment.begin_write();
    let table = writer.open_table(TABLE).unwrap();
    table.insert("x", 1).unwrap();
    table.remove("y").unwrap();
    table.insert("z", 3).unwrap();
    let reader = environment.begin_read();
    let read = reader.open_table(TABLE).unwrap();
    let expected = [("x".to_owned(), 50), ("y".to_owned(), 50)];
    let all = || read.iter().unwrap().map(Result::unwrap).collect::<Vec<_>>();
    let backward = || read.iter().unwrap().rev().map(Result::unwrap);
    assert_eq!(all(), expected);
    writer.commit().unwrap();
    assert_eq!(all(), expected);
    assert!(backward().eq(expected.iter().rev().cloned()));
    assert_eq!(read.get("z").unwrap(), None);
    assert_eq!(read.last().unwrap(), Some(("y".to_owned(), 50)));
    // A transaction that begins now sees it.
    assert_eq!(committed(&environment, "y"), None);
    drop(reader);
    environment.maintain().unwrap();
    assert_eq!(environment.statistics().version_bytes, 0);
}
