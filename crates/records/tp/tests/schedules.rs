//! The store under a model checker: log, buffer, locks and versions, two or three threads
//! with a few operations each, under schedules that a host would produce once in years.
//!
//! ```sh
//! cargo test --release -p varve-tp --features shuttle --test schedules
//! ```

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_device::sync::thread::{self, JoinHandle};
use varve_tp::storage::{MemoryStorage, Survival};
use varve_tp::{
    Durability, Environment, Error, Options, Placement, Result, TableDefinition, TornPages,
};

/// Number of schedules per test.
const SCHEDULES: usize = 160;
/// Largest number of steps of one schedule; more are an endless loop.
const STEPS_MAX: usize = 1_000_000;

const TABLE: TableDefinition<u32, i64> = TableDefinition::new("table");
const LARGE: TableDefinition<u32, &[u8]> = TableDefinition::new("large");

fn explore(test: &str, story: impl Fn() + Clone + Send + Sync + 'static) {
    let seed = std::env::var("VARVE_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    eprintln!(
        "reproduce: VARVE_SEED={seed} cargo test -p varve-tp --features shuttle \
         --test schedules {test}"
    );
    let half = SCHEDULES / 2;
    run_with(PctScheduler::new_from_seed(seed, 4, half), story.clone());
    run_with(RandomScheduler::new_from_seed(seed, half), story);
}

fn run_with(scheduler: impl Scheduler + 'static, story: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.failure_persistence = FailurePersistence::None; // the seed repeats it
    config.silence_warnings = true; // warnings about weaker orderings, which are not modelled
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    Runner::new(scheduler, config).run(story);
}

/// Opens an environment with the fewest frames, and accounts of 100 each.
fn open(accounts: u32) -> (Environment, MemoryStorage) {
    open_with(accounts, Placement::Shadow)
}

fn open_with(accounts: u32, placement: Placement) -> (Environment, MemoryStorage) {
    let storage = MemoryStorage::new();
    let mut options = Options::new();
    options
        .memory(16 * 4096)
        .placement(placement)
        .segment(64 << 10)
        .log(1 << 20)
        .background(false);
    let environment = options.open_storage(Arc::new(storage.clone())).unwrap();
    let transaction = environment.begin_write();
    let table = transaction.open_table(TABLE).unwrap();
    (0..accounts).for_each(|account| _ = table.insert(account, 100).unwrap());
    transaction.commit().unwrap();
    (environment, storage)
}

fn spawn<T: Send + 'static>(
    environment: &Environment,
    work: impl FnOnce(&Environment) -> T + Send + 'static,
) -> JoinHandle<T> {
    let environment = environment.clone();
    thread::spawn(move || work(&environment))
}

fn join<T>(handle: JoinHandle<T>) -> T {
    handle.join().expect("no panic")
}

fn transfer(environment: &Environment, from: u32, to: u32, durability: Durability) -> Result<()> {
    let transaction = environment.begin_write();
    let table = transaction.open_table(TABLE)?;
    for (account, amount) in [(from, -5), (to, 5)] {
        let before = table.get_for_update(account)?.expect("it is there");
        table.insert(account, before + amount)?;
    }
    transaction.commit_with(durability)
}

fn sum(environment: &Environment) -> i64 {
    let snapshot = environment.begin_read();
    let table = snapshot.open_table(TABLE).unwrap();
    let rows = table.iter().unwrap();
    rows.map(|row| row.unwrap().1).sum()
}

/// In any group, a commit that has returned survives the loss of all unsynced writes.
#[test]
fn what_is_acknowledged_is_durable() {
    explore("what_is_acknowledged_is_durable", || {
        let (environment, storage) = open(0);
        let before: BTreeMap<_, _> = storage.files();
        storage.record();
        let writers = [1u32, 2, 3].map(|account| {
            spawn(&environment, move |environment| {
                let transaction = environment.begin_write();
                let table = transaction.open_table(TABLE).unwrap();
                table.insert(account, 1).unwrap();
                transaction.commit().unwrap();
            })
        });
        writers.into_iter().for_each(join);
        let mut crashes = storage.crashes(before);
        while crashes.step() {}
        let left = MemoryStorage::with_files(crashes.image(Survival::None));
        let again = Options::new()
            .background(false)
            .open_storage(Arc::new(left))
            .unwrap();
        assert_eq!(sum(&again), 3);
    });
}

/// Transfers in opposite directions, which may deadlock, run in parallel with snapshots:
/// no thread hangs, every sum is right, and no versions remain.
#[test]
fn snapshots_show_whole_transactions() {
    explore("snapshots_show_whole_transactions", || {
        let (environment, _) = open(2);
        let mut all: Vec<JoinHandle<()>> = Vec::new();
        for (from, to) in [(0, 1), (1, 0)] {
            all.push(spawn(&environment, move |environment| {
                match transfer(environment, from, to, Durability::Buffered) {
                    Ok(()) | Err(Error::Deadlock) => {}
                    Err(error) => panic!("{error}"),
                }
            }));
        }
        all.push(spawn(&environment, |environment| {
            let snapshot = environment.begin_read();
            let table = snapshot.open_table(TABLE).unwrap();
            let get = |account| table.get(account).unwrap().unwrap();
            let first = [get(0), get(1)];
            assert_eq!(first[0] + first[1], 200);
            assert_eq!([get(0), get(1)], first);
            assert_eq!(sum(environment), 200);
        }));
        all.into_iter().for_each(join);
        environment.maintain().unwrap();
        assert_eq!(environment.statistics().version_bytes, 0);
        assert_eq!(sum(&environment), 200);
    });
}

/// There are more pages than frames, a checkpoint in between, and a replaced value whose
/// pages a snapshot reads: no page is mixed up or lost.
#[test]
fn pages_are_neither_mixed_up_nor_lost() {
    mixed_up_or_lost("pages_are_neither_mixed_up_nor_lost", Placement::Shadow);
}

/// The same in place, where a thread that needs a frame waits for the log.
#[test]
fn pages_in_place_are_neither_mixed_up_nor_lost() {
    let placement = Placement::InPlace(TornPages::LogImages);
    mixed_up_or_lost("pages_in_place_are_neither_mixed_up_nor_lost", placement);
}

fn mixed_up_or_lost(test: &str, placement: Placement) {
    explore(test, move || {
        let (environment, _) = open_with(2, placement);
        let value = |byte: u8| vec![byte; 20_000];
        let put = |environment: &Environment, key: u32, byte: u8| {
            let transaction = environment.begin_write();
            let table = transaction.open_table(LARGE).unwrap();
            table.insert(key, &vec![byte; 20_000]).unwrap();
            transaction.commit_with(Durability::Buffered).unwrap();
        };
        (0..4).for_each(|key| put(&environment, key, key as u8));
        let writer = spawn(&environment, move |environment| {
            put(environment, 0, 10);
            put(environment, 1, 11);
        });
        let reader = spawn(&environment, move |environment| {
            let snapshot = environment.begin_read();
            let table = snapshot.open_table(LARGE).unwrap();
            let both = [0, 1].map(|key| table.get(key).unwrap().unwrap());
            let known = [[0, 1], [10, 1], [10, 11]];
            assert!(known.iter().any(|bytes| both == bytes.map(value)));
            assert_eq!(table.get(3).unwrap().unwrap(), value(3));
        });
        let checkpoint = spawn(&environment, |environment| {
            environment.checkpoint().unwrap();
            environment.maintain().unwrap();
        });
        [writer, reader, checkpoint].into_iter().for_each(join);
        let verified = environment.verify().unwrap();
        assert_eq!((verified.lost_pages, verified.kept_pages), (0, 0));
    });
}

/// A table is dropped while other threads read and write it.
#[test]
fn a_drop_meets_readers_and_writers() {
    explore("a_drop_meets_readers_and_writers", || {
        let (environment, _) = open(3);
        let dropper = spawn(&environment, |environment| {
            let transaction = environment.begin_write();
            transaction.drop_table(TABLE.name()).unwrap();
            transaction.commit_with(Durability::Buffered).unwrap();
        });
        let writer = spawn(&environment, |environment| {
            let transaction = environment.begin_write();
            // The table is created again if it was dropped.
            let table = transaction.open_table(TABLE).unwrap();
            match table.remove(7).and_then(|_| transaction.commit()) {
                Ok(()) | Err(Error::TableDropped) => {}
                Err(error) => panic!("{error}"),
            }
        });
        let reader = spawn(&environment, |environment| {
            let snapshot = environment.begin_read();
            match snapshot.open_table(TABLE) {
                Ok(table) => {
                    let rows = table.iter().unwrap();
                    let sum: i64 = rows.map(|row| row.unwrap().1).sum();
                    let whole = (sum, table.get(2).unwrap());
                    assert!(matches!(whole, (300, Some(100)) | (0, None)), "{whole:?}");
                }
                Err(Error::NoTable(_)) => {}
                Err(error) => panic!("{error}"),
            }
        });
        [dropper, writer, reader].into_iter().for_each(join);
        let verified = environment.verify().unwrap();
        assert_eq!((verified.lost_pages, verified.kept_pages), (0, 0));
    });
}
