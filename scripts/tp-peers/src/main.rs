//! The bank of TPC-B, and hot reads of one account, on embedded stores.
//!
//! `tp-peers SYSTEM DIRECTORY tpcb|reads [--threads N] [--seconds S] [--accounts N]
//! [--no-sync]` prints one line of JSON. What was written is what the kernel counts for
//! this process (`write_bytes` of /proc/self/io), from after the load to after the last
//! checkpoint, for all systems alike.

mod fjall_bank;
mod lmdb;
mod redb_bank;
mod sqlite;
mod varve;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use varve_tp::Result;
use varve_tp::tpcb::{self, Store, Transfer};

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

fn written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").expect("Linux");
    let line = io
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|bytes| bytes.parse().ok())
        .expect("write_bytes")
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

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [system, directory, what, ..] = &arguments[..] else {
        panic!("tp-peers SYSTEM DIRECTORY tpcb|reads [options]");
    };
    let value = |name: &str, default: u64| {
        let at = arguments.iter().position(|a| a == name);
        let given = at.and_then(|at| arguments.get(at + 1)?.parse().ok());
        given.unwrap_or(default)
    };
    let threads = value("--threads", 1);
    let accounts = value("--accounts", 100_000) as u32;
    let length = Duration::from_millis((value("--seconds", 5)) * 1000);
    let sync = !arguments.iter().any(|a| a == "--no-sync");
    let directory = Path::new(directory);
    std::fs::create_dir_all(directory).unwrap();
    let peer: Box<dyn Peer> = match system.as_str() {
        "varve-tp" => Box::new(varve::Local::open(directory, sync)),
        "varve-tp-client" => Box::new(varve::Client::open(directory, sync)),
        "sqlite" => Box::new(sqlite::Sqlite::open(directory, sync)),
        "lmdb" => Box::new(lmdb::Lmdb::open(directory, sync)),
        "redb" => Box::new(redb_bank::Redb::open(directory, sync)),
        "fjall" => Box::new(fjall_bank::Fjall::open(directory, sync)),
        _ => panic!("no system is called {system}"),
    };
    peer.load(accounts);
    peer.settle();
    if what == "reads" {
        let rate = reads(&*peer, accounts, threads, length);
        println!(
            "{{\"system\":\"{system}\",\"what\":\"reads\",\"threads\":{threads},\"reads\":{rate:.0}}}"
        );
        return;
    }
    let before = written();
    let run = tpcb::run(&Bank(&*peer), accounts, threads, length).unwrap();
    peer.settle();
    let bytes = written() - before;
    let sums = peer.sums();
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    println!(
        "{{\"system\":\"{system}\",\"what\":\"tpcb\",\"threads\":{threads},\"sync\":{sync},\
         \"tps\":{:.0},\"p50_us\":{},\"p99_us\":{},\"longest_us\":{},\"written\":{}}}",
        run.per_second(),
        run.quantile_us(0.5),
        run.quantile_us(0.99),
        run.quantile_us(1.0),
        bytes / run.times_ns.len().max(1) as u64
    );
}
