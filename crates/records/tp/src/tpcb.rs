//! The bank of TPC-B, for measurements: accounts, tellers, branches and a history.
//!
//! Each transaction changes one account, one teller and one branch by the same amount,
//! and appends it to the history, so the four sums are always equal. There are a hundred
//! tellers and ten branches for any number of accounts.
//!
//! Source: Seltzer 1992, §5.3 (records of 100 bytes, history of 50).

use crate::{
    Durability, Environment, Error, RecordsDefinition, Result, SharedEnvironment, TableDefinition,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

type Accounts = TableDefinition<'static, u32, [u8; 100]>;

const FILES: [Accounts; 3] = [
    TableDefinition::new("accounts"),
    TableDefinition::new("tellers"),
    TableDefinition::new("branches"),
];
const HISTORY: RecordsDefinition<'static, [u8; 50]> = RecordsDefinition::new("history");
/// Number of tellers.
pub const TELLERS: u32 = 100;
/// Number of branches.
pub const BRANCHES: u32 = 10;
/// Number of records loaded in one transaction.
const TOGETHER: u32 = 10_000;

/// The content of one transaction.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    keys: [u32; 3],
    delta: i64,
}

impl Transfer {
    /// Draws a transaction of a bank with `accounts` accounts; advances `random`.
    pub fn draw(random: &mut u64, accounts: u32) -> Self {
        let account = (next(random) % u64::from(accounts)) as u32;
        Transfer::of(account, random)
    }

    /// Draws a transaction of this account; advances `random`.
    pub fn of(account: u32, random: &mut u64) -> Self {
        let teller = (next(random) % u64::from(TELLERS)) as u32;
        Transfer {
            keys: [account, teller, teller % BRANCHES],
            delta: (next(random) % 1_999_999) as i64 - 999_999,
        }
    }

    /// Returns the account, the teller and the branch that it changes.
    pub fn keys(&self) -> [u32; 3] {
        self.keys
    }

    /// Returns a record with the change applied.
    pub fn changed(&self, mut record: [u8; 100]) -> [u8; 100] {
        let balance = balance(&record) + self.delta;
        record[..8].copy_from_slice(&balance.to_le_bytes());
        record
    }

    /// Returns the record that it appends to the history.
    pub fn history(&self) -> [u8; 50] {
        let mut history = [0; 50];
        history[..8].copy_from_slice(&self.delta.to_le_bytes());
        history[8..12].copy_from_slice(&self.keys[0].to_le_bytes());
        history
    }
}

/// Returns the balance in a record of any of the tables.
pub fn balance(record: &[u8]) -> i64 {
    i64::from_le_bytes(record[..8].try_into().expect("8 bytes"))
}

/// Returns a random number, by xorshift64*.
pub fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
}

/// A store that can contain a bank.
pub trait Store: Sync {
    /// Creates the records with zero balances.
    ///
    /// # Errors
    /// Errors of writes.
    fn load(&self, accounts: u32) -> Result<()>;

    /// Runs a transaction, and waits as the store's options demand.
    ///
    /// # Errors
    /// Errors of writes.
    fn transfer(&self, transfer: &Transfer) -> Result<()>;

    /// Returns the sums of all accounts, tellers and branches, and of the history.
    ///
    /// # Errors
    /// Errors of reads.
    fn sums(&self) -> Result<[i64; 4]>;
}

impl Store for Environment {
    fn load(&self, accounts: u32) -> Result<()> {
        for (file, count) in FILES.into_iter().zip([accounts, TELLERS, BRANCHES]) {
            let mut from = 0;
            while from < count {
                let transaction = self.begin_write();
                let table = transaction.open_table(file)?;
                let to = count.min(from + TOGETHER);
                for number in from..to {
                    table.insert(number, &[0; 100])?;
                }
                transaction.commit_with(Durability::Buffered)?;
                from = to;
            }
        }
        let transaction = self.begin_write();
        transaction.open_records(HISTORY)?;
        transaction.commit()?;
        self.checkpoint()
    }

    fn transfer(&self, transfer: &Transfer) -> Result<()> {
        let transaction = self.begin_write();
        for (file, key) in FILES.into_iter().zip(transfer.keys) {
            let table = transaction.open_table(file)?;
            let record = table.get_for_update(key)?.ok_or(lost(key))?;
            table.insert(key, &transfer.changed(record))?;
        }
        let history = transaction.open_records(HISTORY)?;
        history.append(&transfer.history())?;
        transaction.commit()
    }

    fn sums(&self) -> Result<[i64; 4]> {
        let transaction = self.begin_read();
        let mut sums = [0; 4];
        for (file, sum) in FILES.into_iter().zip(&mut sums) {
            for row in transaction.open_table(file)?.iter()? {
                *sum += balance(&row?.1);
            }
        }
        for row in transaction.open_records(HISTORY)?.iter()? {
            sums[3] += balance(&row?.1);
        }
        Ok(sums)
    }
}

fn lost(key: u32) -> Error {
    Error::NoRecord(key.into())
}

impl Store for SharedEnvironment {
    fn load(&self, accounts: u32) -> Result<()> {
        for (file, count) in FILES.into_iter().zip([accounts, TELLERS, BRANCHES]) {
            let mut from = 0;
            while from < count {
                let transaction = self.begin_write()?;
                let table = transaction.open_table(file)?;
                let to = count.min(from + TOGETHER);
                for number in from..to {
                    table.insert_later(number, &[0; 100])?;
                }
                transaction.commit_with(Durability::Buffered)?;
                from = to;
            }
        }
        let transaction = self.begin_write()?;
        transaction.open_records(HISTORY)?;
        transaction.commit()
    }

    fn transfer(&self, transfer: &Transfer) -> Result<()> {
        let transaction = self.begin_write()?;
        for (file, key) in FILES.into_iter().zip(transfer.keys) {
            let table = transaction.open_table(file)?;
            let record = table.get_for_update(key)?.ok_or(lost(key))?;
            table.insert_later(key, &transfer.changed(record))?;
        }
        let history = transaction.open_records(HISTORY)?;
        history.append_later(&transfer.history())?;
        transaction.commit()
    }

    fn sums(&self) -> Result<[i64; 4]> {
        let transaction = self.begin_read()?;
        let mut sums = [0; 4];
        for (file, sum) in FILES.into_iter().zip(&mut sums) {
            for row in transaction.open_table(file)?.iter() {
                *sum += balance(&row?.1);
            }
        }
        for row in transaction.open_records(HISTORY)?.iter() {
            sums[3] += balance(&row?.1);
        }
        Ok(sums)
    }
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Duration of each transaction in ns, including its repetitions, sorted.
    pub times_ns: Vec<u64>,
    /// Duration of the run.
    pub elapsed: Duration,
    /// Number of transactions that were repeated.
    pub again: u64,
}

impl Run {
    /// Returns transactions per second.
    pub fn per_second(&self) -> f64 {
        self.times_ns.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// Returns the largest duration in µs within this fraction of the transactions: 0.5
    /// for the median, 1.0 for the longest. Zero if there were none.
    pub fn quantile_us(&self, part: f64) -> u64 {
        let last = self.times_ns.len().saturating_sub(1);
        let at = (last as f64 * part.clamp(0.0, 1.0)) as usize;
        self.times_ns.get(at).map_or(0, |time| time / 1000)
    }
}

/// Runs transactions on `threads` threads for `length`.
///
/// # Errors
/// The first error that is not a conflict.
pub fn run(store: &impl Store, accounts: u32, threads: u64, length: Duration) -> Result<Run> {
    let (stop, again) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    let work = |thread: u64| -> Result<Vec<u64>> {
        let (mut random, mut times) = (thread * 7919 + 1, Vec::new());
        while !stop.load(Relaxed) {
            let begun = Instant::now();
            let transfer = Transfer::draw(&mut random, accounts);
            loop {
                match store.transfer(&transfer) {
                    Ok(()) => break,
                    Err(error) if error.is_conflict() => _ = again.fetch_add(1, Relaxed),
                    Err(error) => {
                        stop.store(true, Relaxed);
                        return Err(error);
                    }
                }
            }
            times.push(begun.elapsed().as_nanos() as u64);
        }
        Ok(times)
    };
    let parts: Vec<Result<Vec<u64>>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        let until = begun + length;
        while !stop.load(Relaxed) && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        stop.store(true, Relaxed);
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let elapsed = begun.elapsed();
    let mut times_ns = Vec::new();
    for part in parts {
        times_ns.extend(part?);
    }
    times_ns.sort_unstable();
    Ok(Run {
        times_ns,
        elapsed,
        again: again.into_inner(),
    })
}
