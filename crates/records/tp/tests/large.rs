//! Large values: 16 MiB, or the number of MiB in `VARVE_LARGE_MIB`, of which 1,024 is the
//! most allowed. To measure the memory, run it alone:
//!
//! ```sh
//! VARVE_LARGE_MIB=1024 cargo test -p varve-tp --test store -- large:: --nocapture
//! ```

use crate::common::{TABLE as BYTES, small, wherever_pages_lie};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use varve_tp::storage::MemoryStorage;
use varve_tp::{
    Durability, Environment, Error, IndexDefinition, Isolation, Options, Table, TableDefinition,
};

const TABLE: TableDefinition<u32, &[u8]> = TableDefinition::new("table");
/// Bytes of a value in a page of 4,096 bytes.
const ROOM: usize = 4096 - 40;

fn given() -> Option<usize> {
    let mib = std::env::var("VARVE_LARGE_MIB").ok()?;
    Some(mib.parse::<usize>().expect("a number of MiB") << 20)
}

/// Returns a value of `bytes` bytes in which all pages differ.
fn value(bytes: usize, salt: u8) -> Vec<u8> {
    let block: Vec<u8> = (0..1021u32).map(|at| (at % 251) as u8 ^ salt).collect();
    let mut value = Vec::with_capacity(bytes);
    while value.len() < bytes {
        let left = bytes - value.len();
        value.extend_from_slice(&(value.len() as u64).to_le_bytes()[..left.min(8)]);
        let left = bytes - value.len();
        value.extend_from_slice(&block[..left.min(block.len())]);
    }
    value
}

/// Opens an environment that takes checkpoints only when the test requests them. `log` is
/// the limit of the log, which must be raised for several changes of a large record in
/// one transaction.
fn open(path: &Path, log: u64) -> Environment {
    let mut options = Options::new();
    options.memory(16 << 20).checkpoint_after(1 << 40).log(log);
    options.open(path).unwrap()
}

fn has(environment: &Environment, expected: Option<(usize, u8)>) {
    let transaction = environment.begin_read();
    let found = transaction.open_table(TABLE).unwrap().get(1).unwrap();
    match expected {
        Some((bytes, salt)) => assert!(found.is_some_and(|found| found == value(bytes, salt))),
        None => assert_eq!(found, None),
    }
}

fn put(environment: &Environment, bytes: usize, salt: u8) {
    let transaction = environment.begin_write();
    let table = transaction.open_table(TABLE).unwrap();
    table.insert(1, &value(bytes, salt)).unwrap();
    transaction.commit().unwrap();
}

/// Returns the peak memory of this process in bytes.
fn most_memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? << 10)
}

#[test]
fn a_large_value_is_put_read_overwritten_aborted_recovered_and_deleted() {
    let bytes = given().unwrap_or(16 << 20);
    let pages = bytes.div_ceil(ROOM) as u32;
    let directory = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let done = |what: &str| eprintln!("{:6.1} s: {what}", began.elapsed().as_secs_f64());
    let environment = open(directory.path(), 2 << 30);
    put(&environment, bytes, 1);
    done("put");
    has(&environment, Some((bytes, 1)));
    done("read");
    let transaction = environment.begin_write();
    let table = transaction.open_table(TABLE).unwrap();
    table.insert(1, &value(bytes, 2)).unwrap();
    transaction.abort().unwrap();
    done("overwritten and aborted");
    has(&environment, Some((bytes, 1)));
    environment.checkpoint().unwrap();
    put(&environment, bytes, 3);
    done("overwritten");
    drop(environment);
    let environment = open(directory.path(), 2 << 30);
    assert!(environment.recovery().redone >= u64::from(pages));
    done("recovered, redone");
    has(&environment, Some((bytes, 3)));
    let verified = environment.verify().unwrap();
    assert_eq!((verified.overflow_pages, verified.lost_pages), (pages, 0));
    // One transaction does not end: the commit of another makes its log durable.
    let transaction = environment.begin_write();
    let table = transaction.open_table(TABLE).unwrap();
    table.insert(1, &value(bytes, 4)).unwrap();
    let other = environment.begin_write();
    other
        .open_table(TABLE)
        .unwrap()
        .insert(2, b"small")
        .unwrap();
    other.commit_with(Durability::Durable).unwrap();
    std::mem::forget(transaction);
    drop(environment);
    let environment = open(directory.path(), 2 << 30);
    assert_eq!(environment.recovery().undone, 1);
    done("recovered, undone");
    has(&environment, Some((bytes, 3)));
    let transaction = environment.begin_write();
    let table = transaction.open_table(TABLE).unwrap();
    assert!(table.remove(1).unwrap());
    transaction.commit().unwrap();
    done("deleted");
    has(&environment, None);
    let verified = environment.verify().unwrap();
    assert_eq!((verified.overflow_pages, verified.lost_pages), (0, 0));
    assert!(verified.free_pages >= 2 * pages, "{verified:?}");
    environment.close().unwrap();
    done("closed");
    if let (Some(bytes), Some(most)) = (given(), most_memory()) {
        eprintln!("{} MiB of memory", most >> 20);
        // There are three copies: the caller's, the encoded one or the one read, and the
        // expected one.
        assert!(most < 3 * bytes + (256 << 20), "{most} bytes of memory");
    }
}

/// The log stores a value once, and a thirtieth of it for the undo: not twice.
#[test]
fn a_value_as_large_as_the_log_allows() {
    const LOG: usize = 16 << 20;
    let storage = Arc::new(MemoryStorage::new());
    let mut options = small();
    options.segment(1 << 20).memory(4 << 20).log(LOG as u64);
    let environment = options.open_storage(storage.clone()).unwrap();
    let transaction = environment.begin_write();
    let table = transaction.open_table(TABLE).unwrap();
    let too_large = table.insert(1, &value(LOG, 1));
    assert!(matches!(too_large, Err(Error::LogFull { .. })));
    assert_eq!(table.get(1).unwrap(), None);
    table.insert(1, &value(LOG / 100 * 85, 2)).unwrap();
    transaction.abort().unwrap();
    let verified = environment.verify().unwrap();
    assert_eq!((verified.overflow_pages, verified.lost_pages), (0, 0));
    let root = 1;
    let pages = (LOG / 100 * 85).div_ceil(ROOM) as u32;
    assert_eq!(verified.free_pages, pages + root);
    // After the undo nothing of it remains, and all reservations are released.
    environment.checkpoint().unwrap();
    put(&environment, LOG / 100 * 85, 3);
    has(&environment, Some((LOG / 100 * 85, 3)));
    let names = storage.files().into_keys();
    let segments = names.filter(|name| name.starts_with("wal-")).count();
    assert!(segments <= LOG >> 20, "{segments} segments");
}

/// A key as long as the longest value, one that differs in its last byte, and one that
/// ends before it.
#[test]
fn long_keys_are_put_read_overwritten_aborted_recovered_and_deleted() {
    let bytes = given().unwrap_or(8 << 20);
    let directory = tempfile::tempdir().unwrap();
    let key = |last: &[u8]| {
        let mut key = value(bytes - 1, 1);
        key.extend_from_slice(last);
        key
    };
    let began = Instant::now();
    let done = |what: &str| eprintln!("{:6.1} s: {what}", began.elapsed().as_secs_f64());
    let environment = open(directory.path(), 8 << 30);
    let transaction = environment.begin_write();
    let table = transaction.open_table(BYTES).unwrap();
    assert!(!table.insert(&key(b"a"), b"first").unwrap());
    transaction.commit().unwrap();
    done("one");
    let transaction = environment.begin_write();
    let table = transaction.open_table(BYTES).unwrap();
    assert!(!table.insert(&key(b"b"), b"second").unwrap());
    assert!(!table.insert(&key(b""), b"before").unwrap());
    assert!(table.insert(&key(b"a"), b"again").unwrap());
    transaction.abort().unwrap();
    done("two more and another value, aborted");
    let reader = environment.begin_read();
    let table = reader.open_table(BYTES).unwrap();
    assert_eq!(table.get(&key(b"a")).unwrap().unwrap(), b"first");
    assert_eq!(table.get(&key(b"b")).unwrap(), None);
    assert_eq!(table.iter().unwrap().count(), 1);
    drop(reader);
    let transaction = environment.begin_write();
    let table = transaction.open_table(BYTES).unwrap();
    table.insert(&key(b""), b"before").unwrap();
    transaction.commit().unwrap();
    done("one more");
    drop(environment);
    let environment = open(directory.path(), 8 << 30);
    assert!(environment.recovery().redone > 0);
    done("recovered");
    let reader = environment.begin_read();
    let table = reader.open_table(BYTES).unwrap();
    let from = key(b"");
    let mut range = table.range(&from[..]..).unwrap();
    let (found, before) = range.next().unwrap().unwrap();
    assert!(found == from && before == b"before");
    let (found, first) = range.next_back().unwrap().unwrap();
    assert!(found == key(b"a") && first == b"first");
    assert!(range.next().is_none() && range.next_back().is_none());
    drop(range);
    drop(reader);
    done("read, in order");
    assert_eq!(environment.verify().unwrap().lost_pages, 0);
    let transaction = environment.begin_write();
    let table = transaction.open_table(BYTES).unwrap();
    assert!(table.remove(&from).unwrap());
    assert!(!table.remove(&from).unwrap());
    assert!(table.remove(&key(b"a")).unwrap());
    transaction.commit().unwrap();
    let verified = environment.verify().unwrap();
    assert_eq!((verified.overflow_pages, verified.lost_pages), (0, 0));
    environment.close().unwrap();
    done("deleted");
    if given().is_some() {
        eprintln!("{:?} MiB of memory", most_memory().map(|most| most >> 20));
    }
}

fn long(last: &str) -> Vec<u8> {
    [&[b'k'; 700][..], last.as_bytes()].concat()
}

#[test]
fn what_lies_in_one_bundle_is_changed_by_one_at_a_time() {
    wherever_pages_lie(|| {
        let mut options = small();
        options.lock_timeout(Some(Duration::from_millis(20)));
        let storage = Arc::new(MemoryStorage::new());
        let environment = options.open_storage(storage).unwrap();
        let one = environment.begin_write();
        one.open_table(BYTES)
            .unwrap()
            .insert(&long("a"), b"1")
            .unwrap();
        one.commit().unwrap();
        let one = environment.begin_write();
        let other = environment.begin_write();
        let snapshot = environment.begin_write_at(Isolation::Snapshot);
        let table = one.open_table(BYTES).unwrap();
        table.insert(&long("b"), b"2").unwrap();
        table.remove(&long("a")).unwrap();
        let beside = other.open_table(BYTES).unwrap();
        assert!(matches!(beside.get(&long("c")), Err(Error::LockTimeout)));
        other.abort().unwrap();
        let seen = snapshot.open_table(BYTES).unwrap();
        assert_eq!(seen.get(&long("a")).unwrap().unwrap(), b"1");
        one.commit().unwrap();
        assert_eq!(seen.get(&long("a")).unwrap().unwrap(), b"1");
        assert_eq!(seen.get(&long("b")).unwrap(), None);
        assert_eq!(seen.iter().unwrap().count(), 1);
        let late = seen.insert(&long("c"), b"3");
        assert!(matches!(late, Err(Error::WriteConflict)));
        snapshot.abort().unwrap();
        let reader = environment.begin_read();
        let all = reader.open_table(BYTES).unwrap().iter().unwrap();
        let all: Vec<_> = all.map(Result::unwrap).collect();
        assert_eq!(all, [(long("b"), b"2".to_vec())]);
    });
}

#[test]
fn an_index_of_long_keys() {
    const BY_VALUE: IndexDefinition<&[u8], &[u8], &[u8]> = IndexDefinition::new(BYTES, "by value");
    let mut options = small();
    options.index(BY_VALUE, |_, value, keys| keys.add(value));
    let storage = Arc::new(MemoryStorage::new());
    let environment = options.open_storage(storage).unwrap();
    let transaction = environment.begin_write();
    let table = transaction.open_table(BYTES).unwrap();
    let key = |number: u32| long(&format!("{}", number % 7));
    for number in 0..20 {
        let value = vec![number as u8 % 3; 200 * number as usize];
        table.insert(&key(number), &value).unwrap();
        table.insert(&key(number)[699..], &value).unwrap();
    }
    transaction.commit().unwrap();
    assert_eq!(environment.verify().unwrap().index_entries, 14);
    let transaction = environment.begin_write();
    transaction.rebuild_index(BY_VALUE).unwrap();
    transaction.commit().unwrap();
    let verified = environment.verify().unwrap();
    // Two records are in the catalog.
    assert_eq!((verified.index_entries, verified.records), (14, 30));
    let reader = environment.begin_read();
    let index = reader.open_index(BY_VALUE).unwrap();
    let found = index.get(&[19 % 3; 3800][..]).unwrap();
    let found: Vec<_> = found.map(|row| row.unwrap().0).collect();
    assert_eq!(found, [key(19)[699..].to_vec(), key(19)]);
    assert_eq!(index.iter().unwrap().count(), 14);
    assert_eq!(index.iter().unwrap().rev().count(), 14);
}

#[test]
fn keys_and_names_have_limits() {
    let environment = small()
        .open_storage(Arc::new(MemoryStorage::new()))
        .unwrap();
    let transaction = environment.begin_write();
    let name = "n".repeat(513);
    let table = TableDefinition::<u32, u32>::new(&name);
    let too_long = transaction.open_table(table).map(|_| ());
    assert!(matches!(
        too_long,
        Err(Error::KeyTooLong { limit: 512, .. })
    ));
}

type Open<'t, 'e> = Table<'t, 'e, &'static [u8], &'static [u8]>;

/// A large value of a long key has its own pages: a neighbour's change leaves them in
/// place, and each of its own changes frees them.
#[test]
fn large_values_of_long_keys_are_not_rewritten_with_their_neighbours() {
    wherever_pages_lie(|| {
        let storage = Arc::new(MemoryStorage::new());
        let environment = small().open_storage(storage).unwrap();
        let change = |what: &dyn Fn(&Open<'_, '_>)| {
            let transaction = environment.begin_write();
            what(&transaction.open_table(BYTES).unwrap());
            transaction.commit().unwrap();
            let verified = environment.verify().unwrap();
            assert_eq!((verified.lost_pages, verified.kept_pages), (0, 0));
            verified.overflow_pages
        };
        let large = |salt| value(100_000, salt);
        let pages = 100_000usize.div_ceil(ROOM) as u32;
        let put = |last: &'static str, salt| {
            change(&|table| _ = table.insert(&long(last), &large(salt)).unwrap())
        };
        assert_eq!(put("a", 1), pages);
        assert_eq!(put("b", 2), 2 * pages);
        assert_eq!(put("a", 3), 2 * pages);
        let before = environment.statistics().log_bytes;
        assert_eq!(
            change(&|table| _ = table.insert(&long("c"), b"small").unwrap()),
            2 * pages
        );
        let logged = environment.statistics().log_bytes - before;
        assert!(logged < 16 << 10, "{logged} bytes");
        // The changes are undone, in part and completely.
        let transaction = environment.begin_write();
        let table = transaction.open_table(BYTES).unwrap();
        let savepoint = transaction.savepoint();
        table.insert(&long("b"), &large(4)).unwrap();
        table.remove(&long("a")).unwrap();
        assert_eq!(table.get(&long("b")).unwrap().unwrap(), large(4));
        transaction.rollback_to(savepoint).unwrap();
        table.remove(&long("b")).unwrap();
        transaction.abort().unwrap();
        let reader = environment.begin_read();
        let rows = reader.open_table(BYTES).unwrap().iter().unwrap();
        let values: Vec<_> = rows.map(|row| row.unwrap().1).collect();
        assert_eq!(values, [large(3), large(2), b"small".to_vec()]);
        drop(reader);
        assert_eq!(
            change(&|table| _ = table.remove(&long("a")).unwrap()),
            pages
        );
        let transaction = environment.begin_write();
        transaction.drop_table(BYTES.name()).unwrap();
        transaction.commit().unwrap();
        let verified = environment.verify().unwrap();
        assert_eq!((verified.overflow_pages, verified.lost_pages), (0, 0));
    });
}

/// The log has space for a large value, but not for its long key as well: the value's
/// pages are freed, and the transaction continues.
#[test]
fn a_put_that_fails_leaves_no_pages() {
    let mut options = small();
    options.segment(1 << 20).memory(4 << 20);
    let storage = Arc::new(MemoryStorage::new());
    let environment = options.open_storage(storage).unwrap();
    let (mut done, mut refused) = (0, 0);
    for mib in [1, 4, 10] {
        let key = [long("key"), value(mib << 20, 5)].concat();
        let transaction = environment.begin_write();
        let table = transaction.open_table(BYTES).unwrap();
        match table.insert(&key, &value(6 << 20, 6)) {
            Ok(_) => {
                done += 1;
                assert!(table.remove(&key).unwrap());
            }
            Err(Error::LogFull { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        table.insert(&long("other"), b"small").unwrap();
        transaction.commit().unwrap();
        let verified = environment.verify().unwrap();
        assert_eq!((verified.lost_pages, verified.overflow_pages), (0, 0));
        environment.checkpoint().unwrap();
    }
    assert!(done > 0 && refused > 0, "{done} done, {refused} refused");
}
