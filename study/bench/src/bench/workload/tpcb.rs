//! Transactions shaped like TPC-B's: three records changed and one appended,
//! in four files, each synced.
//!
//! One branch per 100 000 accounts, ten tellers per branch, records of 100
//! bytes with the balance first, history records of 50.

use crate::bench::pattern::Random;
use crate::bench::record::Record;
use crate::bench::target::{Fault, How, Outcome, Target, TargetFile};
use crate::bench::{Bench, MIB};
use std::time::{Duration, Instant};

const RECORD: usize = 100;
const HISTORY: usize = 50;
const FILES: [&str; 4] = ["accounts", "tellers", "branches", "history"];

pub fn run<T: Target>(bench: &Bench<'_, T>) -> Outcome<()> {
    let accounts = bench.settings.n.unwrap_or(1_000_000);
    let branches = (accounts / 100_000).max(1);
    let mut counts = [accounts, branches * 10, branches, 0];
    let files = load(bench, &counts)?;

    let mut random = Random::new(bench.settings.seed);
    let limit = Duration::from_secs_f64(bench.settings.seconds.unwrap_or(10.0));
    let mut record = bench.begin("txn");
    let deadline = Instant::now() + limit;
    loop {
        let account = random.below(accounts);
        let teller = random.below(counts[1]);
        let delta = random.below(1_999_999) as i64 - 999_999;
        let keys = [account, teller, teller / 10];
        let history = history_record(delta, keys);
        let begun = Instant::now();
        for (file, key) in files.iter().zip(keys) {
            bump(file, key, delta)?;
        }
        files[3].write_at(counts[3] * HISTORY as u64, &history)?;
        counts[3] += 1;
        if !bench.settings.no_sync {
            files.iter().try_for_each(TargetFile::sync_data)?;
        }
        record.add(begun, (3 * RECORD + HISTORY) as u64);
        if Instant::now() >= deadline {
            break;
        }
    }
    let extra = format!(
        ",\"tps\":{:.1},\"sync\":{}",
        record.ops as f64 / record.busy.as_secs_f64(),
        !bench.settings.no_sync
    );
    bench.emit_busy(&record, &extra);
    files.into_iter().try_for_each(TargetFile::close)?;

    bench.cold()?;
    let mut record = bench.begin("check");
    let mut sums = [0; 4];
    for i in 0..4 {
        let file = bench
            .target
            .open(&bench.path(format_args!("{}", FILES[i])), How::Read)?;
        let bytes = if i == 3 { HISTORY } else { RECORD };
        sums[i] = balance_sum(&mut record, &file, counts[i], bytes)?;
        file.close()?;
        if sums[i] != sums[0] {
            return Err(Fault::data("tpcb balance sum", i as u64, counts[i]));
        }
    }
    bench.emit_busy(&record, "");
    Ok(())
}

fn load<T: Target>(bench: &Bench<'_, T>, counts: &[u64; 4]) -> Outcome<Vec<T::File>> {
    let mut record = bench.begin("load");
    let mut files = Vec::new();
    let per_write = MIB / RECORD as u64;
    let mut buffer = vec![0; MIB as usize];
    for (id, (name, &count)) in FILES.iter().zip(counts).enumerate() {
        let path = bench.path(format_args!("{name}"));
        let file = bench.target.open(&path, How::New)?;
        for first in (0..count).step_by(per_write as usize) {
            let records = (count - first).min(per_write);
            let part = &mut buffer[..records as usize * RECORD];
            for (key, bytes) in (first..).zip(part.chunks_exact_mut(RECORD)) {
                bench.pattern().fill(bytes, id as u64, 0, key * 104);
                bytes[..8].fill(0);
                bytes[8..16].copy_from_slice(&key.to_le_bytes());
            }
            let begun = Instant::now();
            file.write_at(first * RECORD as u64, part)?;
            record.add(begun, records * RECORD as u64);
        }
        files.push(file);
    }
    let sync = bench.sync_point()?;
    let extra = format!(",\"sync_s\":{:.6}", sync.as_secs_f64());
    bench.emit(&record, (record.busy + sync).as_secs_f64(), &extra);
    Ok(files)
}

fn history_record(delta: i64, keys: [u64; 3]) -> [u8; HISTORY] {
    let mut bytes = [0; HISTORY];
    bytes[..8].copy_from_slice(&delta.to_le_bytes());
    for (to, key) in bytes[8..32].chunks_exact_mut(8).zip(keys) {
        to.copy_from_slice(&key.to_le_bytes());
    }
    bytes
}

fn word(bytes: &[u8]) -> [u8; 8] {
    bytes[..8].try_into().expect("8 bytes")
}

/// Adds to the balance of one record.
fn bump(file: &impl TargetFile, key: u64, delta: i64) -> Outcome<()> {
    let mut bytes = [0; RECORD];
    file.read_at(key * RECORD as u64, &mut bytes)?;
    let found = u64::from_le_bytes(word(&bytes[8..]));
    if found != key {
        return Err(Fault::data("tpcb record key", key, found));
    }
    let balance = i64::from_le_bytes(word(&bytes)) + delta;
    bytes[..8].copy_from_slice(&balance.to_le_bytes());
    file.write_at(key * RECORD as u64, &bytes)
}

fn balance_sum(
    record: &mut Record,
    file: &impl TargetFile,
    count: u64,
    bytes: usize,
) -> Outcome<i64> {
    let per_read = MIB / bytes as u64;
    let mut buffer = vec![0; MIB as usize];
    let mut sum = 0;
    for first in (0..count).step_by(per_read as usize) {
        let records = (count - first).min(per_read);
        let part = &mut buffer[..records as usize * bytes];
        let begun = Instant::now();
        file.read_at(first * bytes as u64, part)?;
        record.add(begun, part.len() as u64);
        sum += part
            .chunks_exact(bytes)
            .map(|one| i64::from_le_bytes(word(one)))
            .sum::<i64>();
    }
    Ok(sum)
}
