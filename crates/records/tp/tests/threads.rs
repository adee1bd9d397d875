//! Many threads use one environment: the sums agree, trees are valid, no thread hangs.

use crate::common::{Random, TABLE, seed, small, wherever_pages_lie};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use varve_tp::storage::{MemoryStorage, Storage, StoredFile};
use varve_tp::{
    Durability, Environment, GroupCommit, Placement, RecordsDefinition, TableDefinition, TornPages,
};

const SUMS: TableDefinition<u32, i64> = TableDefinition::new("sums");
const HISTORY: RecordsDefinition<'static, i64> = RecordsDefinition::new("history");

fn open() -> Environment {
    let mut options = small();
    options.background(true).memory(40 * 4096).log(64 << 20);
    options
        .open_storage(Arc::new(MemoryStorage::new()))
        .unwrap()
}

/// Repeats an operation until it succeeds, because other transactions may conflict.
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
                                // Keys of all threads are interleaved.
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

/// A storage in which syncs of the log wait while it is blocked.
#[derive(Clone, Debug, Default)]
struct HeldLog {
    storage: MemoryStorage,
    held: Arc<(Mutex<bool>, Condvar)>,
}

#[derive(Debug)]
struct HeldFile(Arc<dyn StoredFile>, Arc<(Mutex<bool>, Condvar)>);

impl HeldLog {
    fn hold(&self, held: bool) {
        *self.held.0.lock().unwrap() = held;
        self.held.1.notify_all();
    }
}

impl Storage for HeldLog {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn StoredFile>> {
        let file = self.storage.open(name, create)?;
        Ok(match name.starts_with("wal-") {
            true => Arc::new(HeldFile(file, self.held.clone())),
            false => file,
        })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.storage.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.storage.rename(from, to)
    }

    fn lock(&self) -> io::Result<()> {
        self.storage.lock()
    }
}

impl StoredFile for HeldFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        let held = self.1.0.lock().unwrap();
        drop(self.1.1.wait_while(held, |held| *held).unwrap());
        self.0.sync()
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.0.truncate(bytes)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
}

/// Every frame is pinned by a thread that waits for the log: another thread that needs a
/// frame waits as long.
#[test]
fn who_needs_a_frame_waits_for_those_who_wait_for_the_log() {
    let storage = HeldLog::default();
    let mut options = small();
    // Pages are written one at a time, so that all others stay dirty, and only the thread
    // that writes a page waits.
    options
        .placement(Placement::InPlace(TornPages::LogImages))
        .written_together(1)
        .durability(Durability::Buffered);
    let environment = options.open_storage(Arc::new(storage.clone())).unwrap();
    let change = |byte: u8| {
        let transaction = environment.begin_write();
        let table = transaction.open_table(TABLE).unwrap();
        for number in 0..600u32 {
            table.insert(&number.to_be_bytes(), &[byte; 400]).unwrap();
        }
        transaction.commit().unwrap();
    };
    change(1);
    environment.checkpoint().unwrap();
    change(2);
    storage.hold(true);
    std::thread::scope(|scope| {
        // Each key is in a page of its own.
        let write = |thread: u32| {
            let environment = &environment;
            move || {
                let transaction = environment.begin_write();
                let table = transaction.open_table(TABLE).unwrap();
                let key = (thread * 10).to_be_bytes();
                table.insert(&key, &[3; 400]).unwrap();
                transaction.commit().unwrap();
            }
        };
        let writers: Vec<_> = (0..60).map(|thread| scope.spawn(write(thread))).collect();
        // Long enough for many attempts to find a frame, and much shorter than a second.
        std::thread::sleep(Duration::from_millis(200));
        storage.hold(false);
        for writer in writers {
            writer.join().expect("it has got a frame");
        }
    });
}

/// An eviction is not a commit that waits for a group; it would wait forever.
#[test]
fn a_page_that_leaves_does_not_wait_for_a_group() {
    let mut options = small();
    options
        .placement(Placement::InPlace(TornPages::LogImages))
        .group_commit(GroupCommit {
            group: 1,
            waiting_percent: 100,
            log_bytes: 0,
            patience: Duration::from_secs(1 << 20),
        });
    let environment = options
        .open_storage(Arc::new(MemoryStorage::new()))
        .unwrap();
    let transaction = environment.begin_write();
    transaction.open_table(TABLE).unwrap();
    transaction.commit().unwrap();
    let other = environment.begin_write();
    other.open_table(TABLE).unwrap().insert(b"a", b"").unwrap();
    let transaction = environment.begin_write();
    let table = transaction.open_table(TABLE).unwrap();
    for number in 0..200u32 {
        table.insert(&number.to_be_bytes(), &[1; 1000]).unwrap();
    }
    assert!(environment.statistics().page_writes > 20);
    transaction.abort().unwrap();
    other.abort().unwrap();
}
