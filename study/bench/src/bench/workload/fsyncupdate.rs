//! Random 4 KiB writes in one file, each made durable before the next.

use crate::bench::pattern::Random;
use crate::bench::record::Record;
use crate::bench::target::{How, Outcome, Target, TargetFile};
use crate::bench::workers::run_workers;
use crate::bench::{Bench, MIB};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use varve_device::AlignedBuffer;

const BLOCK: u64 = 4096;

pub fn run<T: Target>(bench: &Bench<'_, T>) -> Outcome<()> {
    let settings = bench.settings;
    let size = settings.file_bytes.unwrap_or(64 * MIB);
    let n = size / BLOCK;
    let threads = settings.threads();
    let path = bench.path(format_args!("update"));
    let file = fill(bench, &path, n * BLOCK)?;

    let generations: Vec<AtomicU32> = (0..n).map(|_| AtomicU32::new(0)).collect();
    let limit = Duration::from_secs_f64(settings.seconds.unwrap_or(10.0));
    let pattern = bench.pattern();
    let share = n / threads as u64;
    bench.begin("update");
    let work = |number: usize, record: &mut Record| -> Outcome<()> {
        let mut buffer = AlignedBuffer::zeroed(BLOCK as usize);
        let mut random = Random::new(settings.seed * 1000 + number as u64);
        let deadline = Instant::now() + limit;
        loop {
            let block = share * number as u64 + random.below(share);
            let generation = generations[block as usize].fetch_add(1, Relaxed) + 1;
            pattern.fill(&mut buffer, 9, generation.into(), block * BLOCK);
            let begun = Instant::now();
            file.write_at(block * BLOCK, &buffer)?;
            if !settings.no_sync {
                file.sync_data()?;
            }
            record.add(begun, BLOCK);
            if Instant::now() >= deadline {
                return Ok(());
            }
        }
    };
    let (record, seconds) = run_workers(threads, work)?;
    let extra = format!(
        ",\"threads\":{threads},\"p999_us\":{:.2},\"file_size\":{size}",
        record.percentile_us(0.999)
    );
    bench.emit(&record, seconds, &extra);
    file.close()?;

    bench.cold()?;
    let mut record = bench.begin("verify");
    let mut buffer = AlignedBuffer::zeroed(BLOCK as usize);
    let file = bench.target.open(&path, How::Read)?;
    for (block, generation) in generations.iter().enumerate() {
        let offset = block as u64 * BLOCK;
        let begun = Instant::now();
        file.read_at(offset, &mut buffer)?;
        record.add(begun, BLOCK);
        pattern.check(&buffer, 9, generation.load(Relaxed).into(), offset, &path)?;
    }
    file.close()?;
    bench.emit_busy(&record, "");
    Ok(())
}

fn fill<T: Target>(bench: &Bench<'_, T>, path: &str, size: u64) -> Outcome<T::File> {
    let mut record = bench.begin("fill");
    let mut buffer = AlignedBuffer::zeroed(MIB as usize);
    let file = bench.target.open(path, How::New)?;
    let mut offset = 0;
    while offset < size {
        let piece = (size - offset).min(MIB);
        let part = &mut buffer[..piece as usize];
        bench.pattern().fill(part, 9, 0, offset);
        let begun = Instant::now();
        file.write_at(offset, part)?;
        record.add(begun, piece);
        offset += piece;
    }
    let sync = bench.sync_point()?;
    let seconds = (record.busy + sync).as_secs_f64();
    let extra = format!(",\"sync_s\":{:.6}", sync.as_secs_f64());
    bench.emit(&record, seconds, &extra);
    Ok(file)
}
