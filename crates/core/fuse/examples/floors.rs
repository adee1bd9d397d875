//! What a pipeline costs at least on this machine: `floors [DIR]`.
//!
//! Prints the rates of a copy, of a checksum, and of a checksum right behind a copy, over
//! blocks of 4 KiB in 256 MiB that no cache holds; and, for a FUSE mount DIR, how long a
//! request takes that asks for next to nothing (the attributes of DIR, past all caches).
//! The least of several rounds, as whatever disturbs only adds.

use rustix::fs::{AtFlags, CWD, StatxFlags};
use std::hint::black_box;
use std::time::{Duration, Instant};
use varve_device::crc32c;

const BLOCK: usize = 4096;
const BYTES: usize = 256 << 20;
const ROUNDS: usize = 7;
const REQUESTS: usize = 20_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let from: Vec<u8> = (0..BYTES).map(|at| (at / 7) as u8).collect();
    let mut to = vec![1; BYTES];
    let mut sum = 0;
    let pairs = |from: &[u8], to: &mut [u8], each: &mut dyn FnMut(&[u8], &mut [u8])| {
        for (from, to) in from.chunks(BLOCK).zip(to.chunks_mut(BLOCK)) {
            each(from, to);
        }
    };
    let copy = least(|| pairs(&from, &mut to, &mut |from, to| to.copy_from_slice(from)));
    rate("copy", copy);
    let check = least(|| from.chunks(BLOCK).for_each(|from| sum ^= crc32c(from)));
    rate("checksum", check);
    let both = least(|| {
        pairs(&from, &mut to, &mut |from, to| {
            to.copy_from_slice(from);
            sum ^= crc32c(to);
        });
    });
    rate("copy, then checksum", both);
    black_box((&to, sum));
    if let Some(directory) = std::env::args_os().nth(1) {
        let mut times = Vec::with_capacity(REQUESTS);
        for _ in 0..REQUESTS {
            let begun = Instant::now();
            let flags = AtFlags::STATX_FORCE_SYNC;
            rustix::fs::statx(CWD, &directory, flags, StatxFlags::BASIC_STATS)?;
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        let all: Duration = times.iter().sum();
        println!(
            "a request: {:.1} us at the median, {:.1} on average",
            times[REQUESTS / 2].as_secs_f64() * 1e6,
            all.as_secs_f64() * 1e6 / REQUESTS as f64
        );
    }
    Ok(())
}

fn least(mut work: impl FnMut()) -> Duration {
    let round = |_| {
        let begun = Instant::now();
        work();
        begun.elapsed()
    };
    (0..ROUNDS).map(round).min().unwrap_or_default()
}

fn rate(what: &str, time: Duration) {
    let gb = BYTES as f64 / time.as_secs_f64() / 1e9;
    let us = time.as_secs_f64() * 1e6 / (BYTES >> 20) as f64;
    println!("{what}: {gb:.1} GB/s, {us:.0} us for each MiB");
}
