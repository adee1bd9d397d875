//! TPC-B on the record store, to be set beside Berkeley DB (`scripts/bench-tpcb.sh`): the
//! same workload, the same line of JSON. Each transaction changes an account, a teller and
//! a branch, and appends to a history; the sums must agree at the end.
//!
//! `cargo bench -p varve-tp --bench tpcb -- DIRECTORY [--threads N] [--seconds S]
//! [--no-sync] [--accounts N] [--memory MIB]`

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use varve_tp::{Durability, Environment, Options, RecordsDefinition, Result, TableDefinition};

type Accounts<'n> = TableDefinition<'n, u32, [u8; 100]>;

const FILES: [Accounts<'static>; 3] = [
    TableDefinition::new("accounts"),
    TableDefinition::new("tellers"),
    TableDefinition::new("branches"),
];
const HISTORY: RecordsDefinition<'static, [u8; 50]> = RecordsDefinition::new("history");
const TELLERS: u32 = 100;
const BRANCHES: u32 = 10;

struct Bank {
    environment: Environment,
    accounts: u32,
}

impl Bank {
    fn load(environment: Environment, accounts: u32) -> Self {
        for (file, count) in FILES.into_iter().zip([accounts, TELLERS, BRANCHES]) {
            let mut from = 0;
            while from < count {
                let transaction = environment.begin_write();
                let table = transaction.open_table(file).unwrap();
                let to = count.min(from + 10_000);
                for number in from..to {
                    table.insert(number, &[0; 100]).unwrap();
                }
                transaction.commit_with(Durability::Buffered).unwrap();
                from = to;
            }
        }
        let transaction = environment.begin_write();
        transaction.open_records(HISTORY).unwrap();
        transaction.commit().unwrap();
        environment.checkpoint().unwrap();
        Bank {
            environment,
            accounts,
        }
    }

    fn one(&self, random: &mut u64) -> Result<()> {
        let account = (next(random) % u64::from(self.accounts)) as u32;
        let teller = (next(random) % u64::from(TELLERS)) as u32;
        let delta = (next(random) % 1_999_999) as i64 - 999_999;
        let transaction = self.environment.begin_write();
        for (file, key) in FILES.into_iter().zip([account, teller, teller % BRANCHES]) {
            let table = transaction.open_table(file)?;
            let mut record = table.get_for_update(key)?.expect("was loaded");
            let balance = i64::from_le_bytes(record[..8].try_into().expect("8 bytes")) + delta;
            record[..8].copy_from_slice(&balance.to_le_bytes());
            table.insert(key, &record)?;
        }
        let mut history = [0; 50];
        history[..8].copy_from_slice(&delta.to_le_bytes());
        history[8..12].copy_from_slice(&account.to_le_bytes());
        transaction.open_records(HISTORY)?.append(&history)?;
        transaction.commit()
    }

    fn sums(&self) -> [i64; 4] {
        let transaction = self.environment.begin_read();
        let balance = |record: &[u8]| i64::from_le_bytes(record[..8].try_into().expect("8"));
        let mut sums = [0; 4];
        for (file, sum) in FILES.into_iter().zip(&mut sums) {
            let table = transaction.open_table(file).unwrap();
            *sum = table
                .iter()
                .unwrap()
                .map(|row| balance(&row.unwrap().1))
                .sum();
        }
        let history = transaction.open_records(HISTORY).unwrap();
        sums[3] = history
            .iter()
            .unwrap()
            .map(|row| balance(&row.unwrap().1))
            .sum();
        sums
    }
}

/// xorshift64*.
fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
}

/// Transactions until told to stop, and how long each took, in nanoseconds.
fn work(bank: &Bank, thread: u64, stop: &AtomicBool, again: &AtomicU64) -> Vec<u64> {
    let (mut random, mut times) = (thread * 7919 + 1, Vec::new());
    while !stop.load(Relaxed) {
        let begun = Instant::now();
        loop {
            match bank.one(&mut random) {
                Ok(()) => break,
                Err(error) if error.is_conflict() => _ = again.fetch_add(1, Relaxed),
                Err(error) => panic!("{error}"),
            }
        }
        times.push(begun.elapsed().as_nanos() as u64);
    }
    times
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|a| a == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let directory = arguments.first().expect("a directory");
    let threads = value("--threads").unwrap_or(1);
    let seconds = value("--seconds").unwrap_or(10);
    let sync = !arguments.iter().any(|a| a == "--no-sync");
    let mut options = Options::new();
    options.memory((value("--memory").unwrap_or(256) as usize) << 20);
    if !sync {
        options.durability(Durability::Buffered);
    }
    let environment = options.open(directory).unwrap();
    let bank = Bank::load(environment, value("--accounts").unwrap_or(100_000) as u32);
    let before = bank.environment.statistics();
    let (stop, again) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    let mut times: Vec<u64> = std::thread::scope(|scope| {
        let (bank, stop, again) = (&bank, &stop, &again);
        let spawn = |thread| scope.spawn(move || work(bank, thread, stop, again));
        let workers: Vec<_> = (0..threads).map(spawn).collect();
        std::thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Relaxed);
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    let elapsed = begun.elapsed().as_secs_f64();
    // What is dirty has to be written once, too.
    bank.environment.checkpoint().unwrap();
    let after = bank.environment.statistics();
    let pages = (after.page_writes - before.page_writes) * after.page_bytes;
    let log = after.log_bytes - before.log_bytes;
    let sums = bank.sums();
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    times.sort_unstable();
    let count = times.len();
    let at = |part: f64| times[((count - 1) as f64 * part) as usize] / 1000;
    println!(
        "{{\"system\":\"varve-tp\",\"threads\":{threads},\"sync\":{sync},\"tps\":{:.0},\"again\":{},\
         \"p50_us\":{},\"p99_us\":{},\"longest_us\":{},\"log_bytes\":{},\"page_bytes\":{}}}",
        count as f64 / elapsed,
        again.load(Relaxed),
        at(0.5),
        at(0.99),
        at(1.0),
        log / count as u64,
        pages / count as u64,
    );
    bank.environment.close().unwrap();
}
