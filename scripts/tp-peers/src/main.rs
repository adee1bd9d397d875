//! The bank of TPC-B, and hot reads of one account, on embedded stores.
//!
//! `tp-peers SYSTEM DIRECTORY [--seconds S] [--accounts N] [--no-sync]` loads a bank, then
//! reads with one thread and with two, and transfers with one and with eight: a line of
//! JSON for each. What was written is what the disk below the
//! directory was given, by whomever, from after the load to after the last checkpoint,
//! for all systems alike. What the kernel counts for a process (`write_bytes` of
//! /proc/self/io) is of no use for that: a byte written to a page cache of large folios
//! counts as a whole folio, up to 1 MiB.

mod fjall_bank;
mod lmdb;
mod redb_bank;
mod rocksdb;
mod sqlite;
mod varve;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use varve_tp::Result;
use varve_tp::tpcb::{self, Store, Transfer};

/// Bytes of memory that each may have for pages.
pub const MEMORY: usize = 256 << 20;

/// A bank on some store. What goes wrong ends the program.
pub trait Peer: Sync {
    fn load(&self, accounts: u32);
    fn transfer(&self, transfer: &Transfer);
    fn sums(&self) -> [i64; 4];
    /// Reads one of the accounts, `count` times, in transactions of one read.
    fn reads(&self, random: &mut u64, accounts: u32, count: u64) -> i64;
    /// What is to be written sooner or later is written.
    fn settle(&self) {}
}

struct Bank<'p>(&'p dyn Peer);

impl Store for Bank<'_> {
    fn load(&self, accounts: u32) -> Result<()> {
        self.0.load(accounts);
        Ok(())
    }

    fn transfer(&self, transfer: &Transfer) -> Result<()> {
        self.0.transfer(transfer);
        Ok(())
    }

    fn sums(&self) -> Result<[i64; 4]> {
        Ok(self.0.sums())
    }
}

/// Bytes that the disk below a directory has been given. None where there is no disk.
fn written(directory: &Path) -> Option<u64> {
    assert!(Command::new("sync").status().unwrap().success());
    let device = directory.metadata().unwrap().dev();
    let major = (device >> 8) & 0xfff | (device >> 32) & !0xfff;
    let minor = device & 0xff | (device >> 12) & !0xff;
    let counters = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    let sectors = counters.split_whitespace().nth(6)?;
    Some(sectors.parse::<u64>().ok()? * 512)
}

fn reads(peer: &dyn Peer, accounts: u32, threads: u64, length: Duration) -> f64 {
    const TOGETHER: u64 = 256;
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let count: u64 = std::thread::scope(|scope| {
        let work = |thread: u64| {
            let (mut random, mut count) = (thread * 7919 + 1, 0);
            while !stop.load(Relaxed) {
                std::hint::black_box(peer.reads(&mut random, accounts, TOGETHER));
                count += TOGETHER;
            }
            count
        };
        let workers: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        std::thread::sleep(length);
        stop.store(true, Relaxed);
        let joined = workers.into_iter().map(|worker| worker.join().unwrap());
        joined.sum()
    });
    count as f64 / begun.elapsed().as_secs_f64()
}

fn open(system: &str, directory: &Path, sync: bool) -> Box<dyn Peer> {
    match system {
        "varve-tp" => Box::new(varve::Local::open(directory, sync)),
        "varve-tp-client" => Box::new(varve::Client::open(directory, sync)),
        "sqlite" => Box::new(sqlite::Sqlite::open(directory, sync)),
        "lmdb" => Box::new(lmdb::Lmdb::open(directory, sync)),
        "redb" => Box::new(redb_bank::Redb::open(directory, sync)),
        "rocksdb" => Box::new(rocksdb::RocksDb::open(directory, sync)),
        "fjall" => Box::new(fjall_bank::Fjall::open(directory, sync)),
        _ => panic!("no system is called {system}"),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [system, directory, ..] = &arguments[..] else {
        panic!("tp-peers SYSTEM DIRECTORY [options]");
    };
    let value = |name: &str, default: u64| {
        let at = arguments.iter().position(|a| a == name);
        let given = at.and_then(|at| arguments.get(at + 1)?.parse().ok());
        given.unwrap_or(default)
    };
    let accounts = value("--accounts", 100_000) as u32;
    let length = Duration::from_secs(value("--seconds", 5));
    let sync = !arguments.iter().any(|a| a == "--no-sync");
    let directory = Path::new(directory);
    std::fs::create_dir_all(directory).unwrap();
    let peer = open(system, directory, sync);
    peer.load(accounts);
    peer.settle();
    let head = format!("{{\"system\":\"{system}\",\"accounts\":{accounts},\"sync\":{sync}");
    for threads in [1, 2] {
        let rate = reads(&*peer, accounts, threads, length);
        println!("{head},\"what\":\"reads\",\"threads\":{threads},\"reads\":{rate:.0}}}");
    }
    for threads in [1, 8] {
        let before = written(directory);
        let run = tpcb::run(&Bank(&*peer), accounts, threads, length).unwrap();
        peer.settle();
        let bytes = written(directory).zip(before).map(|(now, then)| now - then);
        let sums = peer.sums();
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
        let count = run.times_ns.len().max(1) as u64;
        println!(
            "{head},\"what\":\"tpcb\",\"threads\":{threads},\"tps\":{:.0},\"p50_us\":{},\
             \"p99_us\":{},\"longest_us\":{},\"written\":{}}}",
            run.per_second(),
            run.quantile_us(0.5),
            run.quantile_us(0.99),
            run.quantile_us(1.0),
            bytes.map_or("null".into(), |bytes| (bytes / count).to_string())
        );
    }
}
