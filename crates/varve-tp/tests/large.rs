//! Large values: 64 MiB, or as many MiB as `VARVE_LARGE_MIB` says; 1,024 is the most that is
//! allowed. Run alone, for the memory it takes:
//!
//! ```sh
//! VARVE_LARGE_MIB=1024 cargo test -p varve-tp --test store -- large:: --nocapture
//! ```

use crate::common::small;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use varve_tp::storage::MemoryStorage;
use varve_tp::{Durability, Environment, Error, Options, TableDefinition};

const TABLE: TableDefinition<u32, &[u8]> = TableDefinition::new("table");
/// Bytes of a value that a page of 4,096 bytes holds.
const ROOM: usize = 4096 - 40;

fn given() -> Option<usize> {
    let mib = std::env::var("VARVE_LARGE_MIB").ok()?;
    Some(mib.parse::<usize>().expect("a number of MiB") << 20)
}

/// A value of so many bytes: no two of its pages are alike.
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

/// Checkpoints are taken where the test says so.
fn open(path: &Path) -> Environment {
    let mut options = Options::new();
    options.memory(16 << 20).checkpoint_after(1 << 40);
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

/// Most bytes of memory that this process has had.
fn most_memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? << 10)
}

#[test]
fn a_large_value_is_put_read_overwritten_aborted_recovered_and_deleted() {
    let bytes = given().unwrap_or(64 << 20);
    let pages = bytes.div_ceil(ROOM) as u32;
    let directory = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let done = |what: &str| eprintln!("{:6.1} s: {what}", began.elapsed().as_secs_f64());
    let environment = open(directory.path());
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
    let environment = open(directory.path());
    assert!(environment.recovery().redone >= u64::from(pages));
    done("recovered, redone");
    has(&environment, Some((bytes, 3)));
    let verified = environment.verify().unwrap();
    assert_eq!((verified.overflow_pages, verified.lost_pages), (pages, 0));
    // One that does not end: the other's commit makes its log durable.
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
    let environment = open(directory.path());
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
        // The caller's, the encoded one or the one that was read, and what it is compared with.
        assert!(most < 3 * bytes + (256 << 20), "{most} bytes of memory");
    }
}

/// The log has to hold a value once, and a thirtieth for undoing it: not twice.
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
    // Undone, it holds nothing: all that was promised is given back.
    environment.checkpoint().unwrap();
    put(&environment, LOG / 100 * 85, 3);
    has(&environment, Some((LOG / 100 * 85, 3)));
    let names = storage.files().into_keys();
    let segments = names.filter(|name| name.starts_with("wal-")).count();
    assert!(segments <= LOG >> 20, "{segments} segments");
}
