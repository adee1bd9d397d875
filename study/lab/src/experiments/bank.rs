//! TPC-B on the record store, one user, on a file system beside others: what L2, B7, X1
//! and X3 measure.
//!
//! A bank and its store's cache are as large a share of the papers' as the drive is,
//! from which surfaces are taken, so that the arm goes as far. The processor is charged
//! for a transaction what table 4-1 of Seltzer 1992 says: three updates, an insertion
//! and seven locks, and for a record of a scan a retrieval.

use super::rivals::{MIB, Machine};
use super::{Context, LabError, Row};
use crate::database::scan::{PLACEMENT, scan};
use crate::database::{INSERT, LOCK, RETRIEVE, UPDATE};
use crate::platform::records::Habits;
use crate::platform::store::{Spent, Store};
use crate::platform::{BLOCK, Built, Cleaning, Layout, Platform, System};
use std::sync::Arc;
use varve_disk::Access;
use varve_lfs::Statistics;
use varve_tp::storage::{MemoryStorage, Storage};
use varve_tp::tpcb::{self, Store as _, Transfer};
use varve_tp::{Environment, Options};

/// Instructions of a transaction.
pub(super) const TRANSFER: u64 = 3 * UPDATE + INSERT + 7 * LOCK;
/// Accounts of a page: it is full, as they are loaded in order.
pub(super) const IN_PAGE: u32 = 36;
/// Bytes that an account takes in the file system, with what leads to its page. The
/// papers' B-trees take 160 to 248.
const ACCOUNT_BYTES: f64 = BLOCK as f64 / IN_PAGE as f64 * 1.006;
/// Of a bank without accounts.
const BESIDE_BYTES: f64 = 128e3;
/// The cache while a bank is loaded, with many records in a transaction.
const LOADING_BYTES: usize = 256 << 20;
/// The log's room beside the pages, and after how much of it a checkpoint is taken.
const LOG_BYTES: u64 = 8 * MIB;
const LOG_SEGMENT_BYTES: u32 = 512 << 10;
const CHECKPOINT_BYTES: u64 = MIB;
/// Time for a log to tidy up after loading, more than it takes.
const TIDYING_NS: u64 = 3_600_000_000_000;
/// Transactions between two looks at what is due.
const LOOK: u64 = 100;

/// Who is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Skew {
    /// Any account as likely as any other.
    Uniform,
    /// Four in five are among the first fifth.
    Eighty,
}

/// How a bank is run.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub machine: Machine,
    pub layout: Layout,
    pub segment_bytes: u32,
    pub cleaning: Cleaning,
    pub habits: Habits,
    pub accounts: u32,
    /// Of the store's own memory.
    pub cache_bytes: u64,
    /// Pages that it puts out together.
    pub together: usize,
    pub skew: Skew,
}

/// What transactions do, one after the other.
pub(super) struct Drawn {
    random: u64,
    accounts: u32,
    skew: Skew,
}

impl Drawn {
    /// Of a bank with so many accounts.
    pub fn new(accounts: u32, skew: Skew, seed: u64) -> Self {
        Drawn {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            accounts,
            skew,
        }
    }

    /// The next.
    pub fn next(&mut self) -> Transfer {
        let mut below = |limit: u32| (tpcb::next(&mut self.random) % u64::from(limit)) as u32;
        let fifth = self.accounts / 5;
        let account = match self.skew {
            Skew::Uniform => below(self.accounts),
            Skew::Eighty if below(5) > 0 => below(fifth),
            Skew::Eighty => fifth + below(self.accounts - fifth),
        };
        Transfer::of(account, &mut self.random)
    }
}

/// A bank that runs.
pub(super) struct Running {
    bank: Environment,
    pub system: Built,
    setting: Setting,
    drawn: Drawn,
    /// Bytes of its pages when it had been loaded.
    pub bytes: u64,
}

/// What there was before some transactions ran.
pub(super) struct Before {
    spent: Spent,
    log: Option<Statistics>,
}

impl Before {
    /// Now.
    pub fn of(store: &Store, log: Option<Statistics>) -> Self {
        let spent = store.spent();
        Before { spent, log }
    }

    /// So many have run since.
    pub fn until(self, transactions: u64, store: &Store, log: Option<Statistics>) -> Found {
        let spent = store.spent() - self.spent;
        Found {
            tps: transactions as f64 / (spent.total_ns as f64 / 1e9),
            transactions,
            spent,
            log: self.log.zip(log),
        }
    }
}

/// What was found while transactions ran.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub tps: f64,
    transactions: u64,
    spent: Spent,
    /// What a log counted, before and after.
    log: Option<(Statistics, Statistics)>,
}

impl Found {
    /// Segments that a log has cleaned meanwhile.
    fn cleaned(&self) -> u64 {
        let log = self.log.as_ref();
        log.map_or(0, |(from, to)| to.segments_cleaned - from.segments_cleaned)
    }

    /// A row with all of it.
    pub fn row(&self, series: &str, x: f64, seed: u64) -> Row {
        let each_ms = |ns: u64| ns as f64 / 1e6 / self.transactions as f64;
        let drive = self.spent.drive;
        let row = Row::new(series, x, seed)
            .with("tps", self.tps)
            .with("transactions", self.transactions as f64)
            .with("host_ms", each_ms(self.spent.host_ns))
            .with("seek_ms", each_ms(drive.seek_ns + drive.head_switch_ns))
            .with("rotation_ms", each_ms(drive.rotation_ns))
            .with("transfer_ms", each_ms(drive.transfer_ns));
        let Some((before, after)) = &self.log else {
            return row;
        };
        let since = |value: fn(&Statistics) -> u64| (value(after) - value(before)) as f64;
        let written = since(|s| s.bytes_written);
        row.with(
            "log_bytes",
            since(|s| s.user_log_bytes) / self.transactions as f64,
        )
        .with("cleaner_share", since(|s| s.cleaner_log_bytes) / written)
        .with("cleaned", since(|s| s.segments_cleaned))
        .with("emptied", since(|s| s.segments_emptied))
        .with("moved_bytes", since(|s| s.cleaner_bytes))
        .with(
            "reads",
            since(|s| s.device_reads) / self.transactions as f64,
        )
        .with(
            "read_bytes",
            since(|s| s.bytes_read) / self.transactions as f64,
        )
        .with(
            "writes",
            since(|s| s.device_writes) / self.transactions as f64,
        )
        .with("read_by_cleaner", since(|s| s.cleaner_read_bytes))
        .with("checkpoints", since(|s| s.checkpoints))
    }
}

/// How full segments are when they are cleaned, if all blocks are as likely to be
/// written over and each segment is cleaned when it has waited as long as any other: the
/// `u` of which (1 - u) / -ln u is the utilisation of all.
pub(super) fn cleaned_at(utilisation: f64) -> f64 {
    let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
    for _ in 0..100 {
        let middle: f64 = f64::midpoint(low, high);
        match (1.0 - middle) / -middle.ln() < utilisation {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

impl Machine {
    /// Seconds in which a segment is read or written whole: mean seek, half a revolution
    /// and the transfer.
    fn segment_s(self, segment_bytes: u32) -> f64 {
        let drive = self.drive();
        let seek = drive.seek.average_ms(drive.geometry.cylinders()) / 1e3;
        let turn = drive.rotation.revolution_ns() as f64 / 2e9;
        let overhead = drive.overhead_ns(Access::Read) as f64 / 1e9;
        let rate = drive
            .sustained_bytes_per_s()
            .min(drive.bus_bytes_per_s as f64);
        seek + turn + overhead + f64::from(segment_bytes) / rate
    }

    /// Transactions a second that are left of `tps` if each takes so many bytes of the log,
    /// and for what it takes segments are read whole, and written as far as they live.
    pub fn beside_cleaning(
        self,
        (tps, log_bytes): (f64, f64),
        segment_bytes: u32,
        utilisation: f64,
    ) -> f64 {
        let u = cleaned_at(utilisation);
        let cleaning_s = self.segment_s(segment_bytes) * (1.0 + u) / (1.0 - u);
        1.0 / (1.0 / tps + log_bytes / f64::from(segment_bytes) * cleaning_s)
    }
}

/// Accounts of a bank that takes a share of a drive, with its log if that lies beside.
pub(super) fn accounts(machine: Machine, share: f64, log_apart: bool) -> u32 {
    let log = if log_apart { 0 } else { LOG_BYTES };
    let bytes = machine.drive_bytes() as f64 * share - log as f64;
    (bytes / ACCOUNT_BYTES) as u32
}

impl Setting {
    fn open(
        &self,
        records: &Arc<dyn Storage>,
        cache_bytes: usize,
    ) -> Result<Environment, LabError> {
        let mut options = Options::new();
        options
            .background(false)
            .memory(cache_bytes)
            .placement(PLACEMENT)
            .written_together(self.together);
        match self.habits.log_apart {
            // Its room is no part of this.
            true => options.log(8 << 30).checkpoint_after(1 << 40),
            false => options
                .log(LOG_BYTES)
                .segment(LOG_SEGMENT_BYTES)
                .checkpoint_after(CHECKPOINT_BYTES),
        };
        options
            .open_storage(Arc::clone(records))
            .map_err(LabError::system)
    }

    /// Makes the bank.
    pub fn load(mut self, context: &Context, seed: u64) -> Result<Running, LabError> {
        self.accounts = context.size(self.accounts, 4000);
        let machine = self.machine.with(self.layout);
        let platform = Platform {
            segment_bytes: self.segment_bytes,
            cleaning: self.cleaning,
            overlap: self.habits.overlap(machine.overlap),
            ..machine
        };
        let system = context.platform(platform).build(seed)?;
        let loading = Habits {
            at_once: false,
            ..self.habits
        };
        let apart = MemoryStorage::new();
        let records = system.records(loading, &apart);
        let bank = self.open(&records, LOADING_BYTES)?;
        bank.load(self.accounts).map_err(LabError::system)?;
        bank.close().map_err(LabError::system)?;
        let bytes = records.open("pages", false).and_then(|pages| pages.size());
        let bytes = bytes.map_err(LabError::system)?;
        let accounts_bytes = f64::from(self.accounts) * ACCOUNT_BYTES;
        if (bytes as f64 - accounts_bytes).abs() > 0.01 * accounts_bytes + BESIDE_BYTES {
            let text = format!("{} accounts take {bytes} bytes", self.accounts);
            return Err(LabError::System(text));
        }
        drop(records);
        let records = system.records(self.habits, &apart);
        let mut running = Running {
            bank: self.open(&records, self.cache_bytes as usize)?,
            system,
            setting: self,
            drawn: Drawn::new(self.accounts, self.skew, seed),
            bytes,
        };
        running.system.sync()?;
        running.system.forget();
        Ok(running)
    }
}

impl Running {
    fn transfer(&mut self) -> Result<(), LabError> {
        let transfer = self.drawn.next();
        let cpu = self.system.store().cpu();
        cpu.work(self.setting.machine.cycles_of(TRANSFER));
        self.bank.transfer(&transfer).map_err(LabError::system)
    }

    /// Runs so many transactions.
    pub fn run(&mut self, transactions: u64) -> Result<Found, LabError> {
        let before = Before::of(self.system.store(), self.system.log());
        for nth in 1..=transactions {
            self.transfer()?;
            if nth % LOOK == 0 && !self.setting.habits.log_apart {
                self.bank.maintain().map_err(LabError::system)?;
            }
        }
        let system = &self.system;
        Ok(before.until(transactions, system.store(), system.log()))
    }

    /// Runs until the log has taken so many bytes more of users; at once where there is
    /// none.
    pub fn run_for_bytes(&mut self, bytes: u64) -> Result<(), LabError> {
        let logged = |system: &dyn System| system.log().map_or(u64::MAX, |s| s.user_log_bytes);
        let end = logged(&*self.system).saturating_add(bytes);
        while logged(&*self.system) < end {
            self.run(LOOK)?;
        }
        Ok(())
    }

    /// Runs until the log has gone through all that was free so many times.
    pub fn turn(&mut self, times: f64) -> Result<(), LabError> {
        let taken = match self.setting.habits.log_apart {
            true => self.bytes,
            false => self.bytes + LOG_BYTES,
        };
        let free = self.setting.machine.drive_bytes().saturating_sub(taken);
        self.run_for_bytes((free as f64 * times) as u64)
    }

    /// A log makes room of what loading has left behind.
    pub fn tidy_up(&mut self) -> Result<(), LabError> {
        let until_ns = self.system.now_ns() + TIDYING_NS;
        self.system.idle(until_ns)
    }

    /// Everything is on the medium, and nothing in memory.
    pub fn rest(&mut self) -> Result<(), LabError> {
        self.bank.checkpoint().map_err(LabError::system)?;
        self.system.sync()?;
        self.system.forget();
        Ok(())
    }

    /// Reads all accounts in the order of their numbers. Returns seconds.
    pub fn scan(&mut self) -> Result<f64, LabError> {
        let before = self.system.now_ns();
        let cpu = self.system.store().cpu();
        let cycles = self.setting.machine.cycles_of(RETRIEVE);
        let accounts = scan(&self.bank, &mut |_| cpu.work(cycles)).map_err(LabError::system)?;
        if accounts != self.setting.accounts {
            return Err(LabError::System(format!("{accounts} accounts")));
        }
        Ok((self.system.now_ns() - before) as f64 / 1e9)
    }
}

/// When transactions are measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct When {
    /// After so many.
    pub warm: u64,
    /// After the log has gone round so often.
    pub turns: f64,
    /// So many.
    pub measured: u64,
}

impl When {
    /// Before a log has to clean, the store's cache being full.
    pub const FRESH: When = When {
        warm: 500,
        turns: 0.0,
        measured: 1000,
    };
    /// Where nothing is cleaned, or after much has been.
    pub const STEADY: When = When {
        warm: 1000,
        turns: 2.0,
        measured: 3000,
    };

    /// Before a log has to clean.
    pub fn is_fresh(self) -> bool {
        self.turns == 0.0
    }

    /// What was found then, if the log has not cleaned where it should not.
    pub fn checked(self, found: Found) -> Result<Found, LabError> {
        match found.cleaned() {
            some if some > 0 && self.is_fresh() => {
                Err(LabError::System(format!("{some} segments were cleaned")))
            }
            _ => Ok(found),
        }
    }
}

impl Setting {
    /// Makes the bank, and runs it.
    pub fn measure(self, context: &Context, when: When, seed: u64) -> Result<Found, LabError> {
        let mut running = self.load(context, seed)?;
        if when.is_fresh() {
            running.tidy_up()?;
        }
        // The store's cache must be full: until then no page is put out.
        let filling = self.cache_bytes / BLOCK * 3 / 2;
        running.run(some(context, when.warm.max(filling)))?;
        if !context.small {
            running.turn(when.turns)?;
        }
        let found = running.run(some(context, when.measured))?;
        when.checked(found)
    }
}

/// So many of the full size, or few of the tiny one.
pub(super) fn some(context: &Context, transactions: u64) -> u64 {
    context.size(transactions, 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cleaned_is_not_before_any_cleaning() {
        let after = Statistics {
            segments_cleaned: 1,
            ..Statistics::default()
        };
        let found = Found {
            tps: 1.0,
            transactions: 1,
            spent: Spent::default(),
            log: Some((Statistics::default(), after)),
        };
        assert!(When::FRESH.checked(found.clone()).is_err());
        assert!(When::STEADY.checked(found).is_ok());
    }
}
