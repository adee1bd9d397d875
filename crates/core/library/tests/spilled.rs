//! Transactions of five times the cache commit and abort within the memory that a volume
//! promises to use. The time is printed next to that of the same writes without a
//! transaction.
//!
//! The test has its own process because it measures the memory of the process.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use varve::{Isolation, TransactionOptions, Volume, VolumeOptions};
use varve_device::{FileDevice, HostClock, IoMode, OpenMode};
use varve_fsck::check::{CheckOptions, check};

const MIB: u64 = 1 << 20;
const CACHE: u64 = 24 * MIB;
const CHUNK: usize = 256 << 10;
/// Memory that a process may use in addition to the cache (DESIGN.md, "Memory").
const BESIDE: u64 = 64 * MIB;

/// Returns the peak memory of the process in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap() * 1024
}

fn chunk(number: u64, seed: u64) -> Vec<u8> {
    let mut word = (number << 20 | seed) | 1;
    let next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word.to_le_bytes()
    };
    std::iter::repeat_with(next)
        .take(CHUNK / 8)
        .flatten()
        .collect()
}

/// Writes a whole file in an order with few long runs.
fn fill(volume: &Volume, path: &str, chunks: u64, seed: u64) {
    let file = volume.create_file(path).unwrap();
    for number in 0..chunks {
        let at = number * 7 % chunks;
        let written = file.write_all_at(&chunk(at, seed), at * CHUNK as u64);
        written.unwrap_or_else(|error| panic!("{path}, chunk {number}: {error}"));
    }
}

fn assert_holds(volume: &Volume, path: &str, chunks: u64, seed: u64) {
    let file = volume.open_file(path).unwrap();
    assert_eq!(file.metadata().unwrap().len(), chunks * CHUNK as u64);
    let mut bytes = vec![0; CHUNK];
    for number in 0..chunks {
        file.read_exact_at(&mut bytes, number * CHUNK as u64)
            .unwrap();
        assert!(bytes == chunk(number, seed), "{path}: chunk {number}");
    }
}

fn open(path: &Path) -> Volume {
    VolumeOptions::new().cache(CACHE).open(path).unwrap()
}

#[test]
fn five_times_the_cache_commits_and_aborts_in_the_promised_memory() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("volume");
    drop(Volume::create(&path, 900 * MIB).unwrap());
    let chunks = 5 * CACHE / CHUNK as u64;
    let volume = open(&path);
    let start = Instant::now();
    fill(&volume, "/plain", chunks, 1);
    volume.sync().unwrap();
    let plain = start.elapsed();
    for isolation in [Isolation::Snapshot, Isolation::Locking] {
        let options = TransactionOptions::new().isolation(isolation);
        // A new file, and every block of an existing file.
        for (path, seed) in [("/new", 2), ("/plain", 3)] {
            let before = volume.statfs().free;
            let dropped = volume.begin_with(&options).unwrap();
            fill(&dropped, path, chunks, seed);
            assert_holds(&dropped, path, chunks, seed);
            dropped.abort();
            let after = volume.statfs().free; // metadata is estimated
            assert!(
                after + before / 100 > before,
                "{before} blocks, then {after}"
            );

            let start = Instant::now();
            let kept = volume.begin_with(&options).unwrap();
            fill(&kept, path, chunks, seed);
            kept.commit().unwrap();
            let took = start.elapsed();
            let ratio = took.as_secs_f64() / plain.as_secs_f64();
            eprintln!(
                "{isolation:?} {path}: {ratio:.2} of {plain:.2?} without; peak {} MiB",
                peak() / MIB
            );
            assert_holds(&volume, path, chunks, seed);
        }
        volume.remove_file("/new").unwrap();
    }
    assert!(peak() < CACHE + BESIDE, "{} MiB", peak() / MIB);
    volume.close().unwrap();
    let volume = open(&path);
    assert_holds(&volume, "/plain", chunks, 3);
    drop(volume);
    let device = FileDevice::open(&path, OpenMode::ReadOnly, IoMode::Buffered).unwrap();
    let clock = HostClock::default();
    let options = CheckOptions {
        data: true,
        ..CheckOptions::default()
    };
    let report = check(Arc::new(device), Arc::new(clock), &options).unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
}
