//! The cost of locks: the best of several rounds, on one thread and on two.
//!
//! `cargo run --release -p varve-locks --example lock_cost`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use varve_device::HostClock;
use varve_locks::{LockTable, Mode, OwnerId};

/// The numbers of a file and of a block in it.
type Block = (u64, u64);

const ROUNDS: usize = 12;
const OWNERS: u64 = 2_000;
const LOCKS: u64 = 10;
const REPEATS: u64 = 20_000;
/// Number of transactions of each thread that has to wait.
const CONTENDED: u64 = 100;

/// The best time of each measurement, in the order of first measurement.
#[derive(Default)]
struct Times(Vec<(&'static str, f64)>);

impl Times {
    fn timed<T>(&mut self, what: &'static str, count: u64, run: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = run();
        let each_ns = start.elapsed().as_nanos() as f64 / count as f64;
        match self.0.iter_mut().find(|(known, _)| *known == what) {
            Some((_, best)) => *best = best.min(each_ns),
            None => self.0.push((what, each_ns)),
        }
        result
    }
}

fn table() -> LockTable<Block> {
    LockTable::new(Arc::new(HostClock::default()))
}

fn lock(table: &LockTable<Block>, owner: OwnerId, block: Block, mode: Mode) {
    table.lock(owner, &block, mode, None).expect("nobody else");
}

/// Measures `OWNERS` transactions of `LOCKS` locks each, all open at once.
fn new_objects(times: &mut Times) {
    let table = table();
    let owners = times.timed("begin", OWNERS, || -> Vec<OwnerId> {
        (0..OWNERS).map(|_| table.begin(None)).collect()
    });
    times.timed("lock of a new object", OWNERS * LOCKS, || {
        for owner in &owners {
            for block in 0..LOCKS {
                lock(&table, *owner, (owner.0, block), Mode::Write);
            }
        }
    });
    times.timed("release_all of 10 locks", OWNERS, || {
        owners.iter().for_each(|owner| table.release_all(*owner));
    });
    times.timed("end", OWNERS, || {
        owners.iter().for_each(|owner| table.end(*owner));
    });
}

/// Measures one transaction after the other, in a table that stays small.
fn small_transactions(times: &mut Times, what: &'static str, table: &LockTable<Block>, file: u64) {
    times.timed(what, OWNERS, || {
        for _ in 0..OWNERS {
            let owner = table.begin(None);
            for block in 0..LOCKS {
                lock(table, owner, (file, block), Mode::Write);
            }
            table.end(owner);
        }
    });
}

fn held_already(times: &mut Times) {
    let table = table();
    let [owner, other] = [(); 2].map(|()| table.begin(None));
    lock(&table, owner, (1, 1), Mode::Write);
    times.timed("lock of what is held", REPEATS, || {
        for _ in 0..REPEATS {
            lock(black_box(&table), owner, (1, 1), Mode::Read);
        }
    });
    times.timed("refused", REPEATS, || {
        for _ in 0..REPEATS {
            assert!(!black_box(&table).try_lock(other, &(1, 1), Mode::Read));
        }
    });
    times.timed("upgrade and downgrade", REPEATS, || {
        for _ in 0..REPEATS {
            table.downgrade(owner, &(1, 1), Mode::Read);
            lock(black_box(&table), owner, (1, 1), Mode::Write);
        }
    });
    for reader in 0..8 {
        let reader = (reader, table.begin(None)).1;
        lock(&table, reader, (2, 2), Mode::Read);
    }
    times.timed("lock of what 8 others read, released", REPEATS, || {
        for _ in 0..REPEATS {
            lock(black_box(&table), owner, (2, 2), Mode::Read);
            table.release(owner, &(2, 2));
        }
    });
    times.timed("1,000 neighbouring spans, each", 1_000, || {
        for unit in 0..1_000 {
            let span = unit..unit + 1;
            let given = table.lock_span(owner, &(3, 3), span, Mode::Write, None);
            given.expect("nobody else");
        }
    });
}

/// Measures threads that all lock one object, with a wait for each lock. With
/// `another`, each transaction has locked a second object before, and therefore
/// searches for deadlocks among all waiting requests.
fn contended(times: &mut Times, what: &'static str, threads: u64, another: bool) {
    let table = table();
    times.timed(what, CONTENDED * threads, || {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..CONTENDED {
                        let owner = table.begin(None);
                        if another {
                            lock(&table, owner, (2, owner.0), Mode::Write);
                        }
                        lock(&table, owner, (1, 1), Mode::Write);
                        // The pause is long enough for other threads to make their
                        // requests.
                        std::thread::yield_now();
                        table.end(owner);
                    }
                });
            }
        });
    });
}

fn main() {
    let mut times = Times::default();
    for _ in 0..ROUNDS {
        new_objects(&mut times);
        small_transactions(&mut times, "transaction of 10 locks", &table(), 1);
        let shared = table();
        times.timed("the same, 2 threads, each", 2 * OWNERS, || {
            std::thread::scope(|scope| {
                for file in 0..2 {
                    let shared = &shared;
                    let one = move || small_transactions(&mut Times::default(), "", shared, file);
                    scope.spawn(one);
                }
            });
        });
        held_already(&mut times);
        contended(&mut times, "2 threads, one object", 2, false);
        contended(&mut times, "16 threads, one object", 16, false);
        contended(&mut times, "16 threads, another first", 16, true);
        contended(&mut times, "64 threads, another first", 64, true);
    }
    for (what, ns) in &times.0 {
        println!("{what:<40} {ns:>9.1} ns");
    }
}
