//! SCAN on the record store: all accounts of a bank are read in the order of their numbers,
//! cold, before and after transactions at random. The scan is that of the laboratory's X3,
//! the transactions are TPC-B as Seltzer 1992 modifies it: one user, one log.

use super::database::{environment, failed, folder};
use crate::bench::Bench;
use crate::bench::target::{Fault, Outcome, Target};
use std::time::{Duration, Instant};
use varve_lab::database::scan::{ACCOUNTS_BYTES, PLACEMENT, TRANSACTIONS, scan};
use varve_tp::tpcb::{Store, Transfer, balance};
use varve_tp::{Durability, Environment};

const ACCOUNTS: u64 = 100_000;
/// Bytes of an account with its share of a page, about.
const ACCOUNT_BYTES: f64 = 4096.0 / 36.0;
const PAGE_BYTES: u32 = 4096;
/// The store's memory while it is loaded, with many records in a transaction.
const LOADING_BYTES: usize = 64 << 20;
/// Transactions between two looks at what is due.
const LOOK: u64 = 100;

pub fn run<T: Target>(bench: &Bench<'_, T>) -> Outcome<()> {
    let accounts = bench.settings.n.unwrap_or(ACCOUNTS);
    let accounts = u32::try_from(accounts)
        .ok()
        .filter(|&accounts| accounts > 0);
    let accounts = accounts.ok_or_else(|| Fault::System("--n is no number of accounts".into()))?;
    let store = folder(bench)?;

    let mut record = bench.begin("load");
    let begun = Instant::now();
    let bank = environment(bench, &store, PAGE_BYTES, |options| {
        options.placement(PLACEMENT).memory(LOADING_BYTES)
    })?;
    bank.load(accounts).map_err(failed)?;
    bank.close().map_err(failed)?;
    record.add(begun, 0);
    bench.emit_busy(&record, &format!(",\"accounts\":{accounts}"));

    scanned(bench, &store, "scan_before", accounts)?;
    transactions(bench, &store, accounts)?;
    scanned(bench, &store, "scan_after", accounts)
}

fn open<T: Target>(bench: &Bench<'_, T>, store: &str) -> Outcome<Environment> {
    let durability = match bench.settings.no_sync {
        true => Durability::Buffered,
        false => Durability::Durable,
    };
    environment(bench, store, PAGE_BYTES, |options| {
        options.placement(PLACEMENT).durability(durability)
    })
}

/// A scan, and whether it found every account.
fn scanned<T: Target>(
    bench: &Bench<'_, T>,
    store: &str,
    phase: &str,
    accounts: u32,
) -> Outcome<()> {
    bench.cold()?;
    let bank = open(bench, store)?;
    let mut record = bench.begin(phase);
    let (begun, mut sum) = (Instant::now(), 0);
    let found = scan(&bank, &mut |account| sum += balance(account)).map_err(failed)?;
    let took = begun.elapsed();
    record.add_time(took, u64::from(found) * 100);
    let sums = bank.sums().map_err(failed)?;
    if found != accounts || sums != [sum; 4] {
        return Err(Fault::data("scan", found.into(), accounts.into()));
    }
    let rate = f64::from(found) / took.as_secs_f64();
    let extra = format!(",\"accounts\":{accounts},\"accounts_per_s\":{rate:.0}");
    bench.emit_busy(&record, &extra);
    bank.close().map_err(failed)
}

/// As many for each page as in the paper, or for so many seconds if those are said.
fn transactions<T: Target>(bench: &Bench<'_, T>, store: &str, accounts: u32) -> Outcome<()> {
    let bytes = f64::from(accounts) * ACCOUNT_BYTES;
    let wanted = (TRANSACTIONS * bytes / ACCOUNTS_BYTES).ceil() as u64;
    let limit = bench.settings.seconds.map(Duration::from_secs_f64);
    let bank = open(bench, store)?;
    let mut random = bench.settings.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut record = bench.begin("transactions");
    for nth in 1..=wanted {
        let transfer = Transfer::draw(&mut random, accounts);
        let begun = Instant::now();
        bank.transfer(&transfer).map_err(failed)?;
        if nth % LOOK == 0 {
            bank.maintain().map_err(failed)?;
        }
        record.add(begun, 0);
        if limit.is_some_and(|limit| record.busy >= limit) {
            break;
        }
    }
    let tps = record.ops as f64 / record.busy.as_secs_f64();
    let extra = format!(",\"accounts\":{accounts},\"wanted\":{wanted},\"tps\":{tps:.1}");
    bench.emit_busy(&record, &extra);
    bank.close().map_err(failed)
}
