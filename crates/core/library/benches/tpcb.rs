//! TPC-B with transactions of the library, for comparison with Berkeley DB
//! (`scripts/bench-tpcb.sh`). Each transaction changes an account, a teller and a branch,
//! and appends to a history; at the end the sums must agree.
//!
//! `cargo bench -p varve --bench tpcb -- IMAGE [--threads N] [--seconds S] [--no-sync]
//! [--optimistic] [--written]`; one JSON line. With `--written` the space of the image is
//! written once before the run, so that the host's file system has no metadata of its own
//! to make durable.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use varve::{
    File, Isolation, OpenOptions, Preallocation, TransactionOptions, Volume, VolumeOptions,
};

const RECORD: u64 = 100;
const ACCOUNTS: u64 = 100_000;
const TELLERS: u64 = 100;
const BRANCHES: u64 = 10;

struct Bank {
    volume: Volume,
    /// Accounts, tellers, branches, history.
    files: [File; 4],
    options: TransactionOptions,
    sync: bool,
}

impl Bank {
    fn one(&self, random: &mut u64) -> varve::Result<()> {
        let account = next(random) % ACCOUNTS;
        let teller = next(random) % TELLERS;
        let delta = (next(random) % 1_999_999) as i64 - 999_999;
        let transaction = self.volume.begin_with(&self.options)?;
        for (file, key) in self.files.iter().zip([account, teller, teller % BRANCHES]) {
            let file = transaction.file(file)?;
            let mut record = [0; RECORD as usize];
            let at = key * RECORD;
            let read = file.read_at_for_update(&mut record, at)?;
            assert_eq!(read as u64, RECORD, "the files have their full size");
            let balance = i64::from_le_bytes(record[..8].try_into().expect("8 bytes")) + delta;
            record[..8].copy_from_slice(&balance.to_le_bytes());
            file.write_all_at(&record, at).map_err(lost)?;
        }
        let mut history = [0; 50];
        history[..8].copy_from_slice(&delta.to_le_bytes());
        history[8..16].copy_from_slice(&account.to_le_bytes());
        let mut file = transaction.file(&self.files[3])?;
        file.write_all(&history).map_err(lost)?;
        let ticket = transaction.commit_async()?;
        match self.sync {
            true => ticket.wait(),
            false => {
                drop(ticket);
                Ok(())
            }
        }
    }

    fn sum(&self, at: usize, bytes: u64) -> i64 {
        let mut all = vec![0; self.files[at].metadata().unwrap().len() as usize];
        self.files[at].read_exact_at(&mut all, 0).unwrap();
        let records = all.chunks_exact(bytes as usize);
        records
            .map(|record| i64::from_le_bytes(record[..8].try_into().expect("8 bytes")))
            .sum()
    }
}

/// Converts an `io` error of a transaction back into the library's error.
fn lost(error: std::io::Error) -> varve::Error {
    let inner = error.into_inner().expect("made by the library");
    *inner.downcast().expect("made by the library")
}

/// The random number generator xorshift64*.
fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
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
    let has = |name: &str| arguments.iter().any(|a| a == name);
    let image = arguments.first().expect("the path of an image");
    let (threads, seconds) = (
        value("--threads").unwrap_or(1),
        value("--seconds").unwrap_or(10),
    );
    let _ = std::fs::remove_file(image);
    let preallocation = match has("--written") {
        true => Preallocation::Written,
        false => Preallocation::Sparse,
    };
    let mut made = VolumeOptions::new();
    made.size(2 << 30).preallocate(preallocation);
    let volume = made.create(image).unwrap();
    let open = |name| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        options.append(name == "/history");
        options.open(&volume, name).unwrap()
    };
    let files = ["/accounts", "/tellers", "/branches", "/history"].map(open);
    for (file, records) in files.iter().zip([ACCOUNTS, TELLERS, BRANCHES]) {
        file.write_all_at(&vec![0; (records * RECORD) as usize], 0)
            .unwrap();
    }
    volume.sync().unwrap();
    let isolation = match has("--optimistic") {
        true => Isolation::Serializable,
        false => Isolation::Locking,
    };
    let bank = Bank {
        options: TransactionOptions::new().isolation(isolation).subpage(true),
        volume,
        files,
        sync: !has("--no-sync"),
    };
    let (stop, again) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    let mut times: Vec<u64> = std::thread::scope(|scope| {
        let work = |thread: u64| {
            let (bank, stop, again) = (&bank, &stop, &again);
            move || {
                let (mut random, mut times) = (thread * 7919 + 1, Vec::new());
                while !stop.load(Relaxed) {
                    let begun = Instant::now();
                    loop {
                        match bank.one(&mut random) {
                            Ok(()) => break,
                            Err(error) if error.is_conflict() => again.fetch_add(1, Relaxed),
                            Err(error) => panic!("{error}"),
                        };
                    }
                    times.push(begun.elapsed().as_nanos() as u64);
                }
                times
            }
        };
        let workers: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(work(thread)))
            .collect();
        std::thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Relaxed);
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    let elapsed = begun.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize] / 1000;
    let sums = [
        bank.sum(0, RECORD),
        bank.sum(1, RECORD),
        bank.sum(2, RECORD),
        bank.sum(3, 50),
    ];
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    println!(
        "{{\"system\":\"varve\",\"isolation\":\"{isolation:?}\",\"threads\":{threads},\"sync\":{},\
         \"tps\":{:.0},\"again\":{},\"p50_us\":{},\"p99_us\":{},\"longest_us\":{}}}",
        bank.sync,
        times.len() as f64 / elapsed,
        again.load(Relaxed),
        at(0.5),
        at(0.99),
        at(1.0),
    );
    bank.volume.clone().close().unwrap();
}
