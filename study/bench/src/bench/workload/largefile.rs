//! One large file: written and read in sequence and at random.
//!
//! Source: the large-file test of Rosenblum & Ousterhout 1992, §5.1.

use crate::bench::pattern::permutation;
use crate::bench::record::Record;
use crate::bench::target::{How, Outcome, Target, TargetFile};
use crate::bench::workers::run_workers;
use crate::bench::{Bench, KIB, MIB};
use std::time::{Duration, Instant};
use varve_device::AlignedBuffer;

/// Threads that read at random together.
const TOGETHER: usize = 16;

pub fn run<T: Target>(bench: &Bench<'_, T>) -> Outcome<()> {
    let size = bench.settings.file_bytes.unwrap_or(100 * MIB);
    let units = match bench.settings.unit {
        Some(unit) => vec![unit],
        None => vec![8 * KIB, MIB],
    };
    for unit in units {
        let n = size / unit;
        let order = permutation(n, bench.settings.seed + 1);
        let other_order = permutation(n, bench.settings.seed + 2);
        let sequence: Vec<u32> = (0..n as u32).collect();
        let mut pass = Pass {
            path: bench.path(format_args!("large{unit}")),
            unit,
            generations: vec![0; n as usize],
        };
        pass.write(bench, "write_seq", &sequence)?;
        bench.cold()?;
        pass.read(bench, "read_seq", &sequence)?;
        bench.cold()?;
        pass.write(bench, "write_rand", &order)?;
        bench.cold()?;
        pass.read(bench, "read_rand", &other_order)?;
        bench.cold()?;
        pass.read_together(bench, "read_rand_together", &other_order)?;
        bench.cold()?;
        pass.read(bench, "reread_seq", &sequence)?;
        pass.read(bench, "reread_warm", &sequence)?;
        bench.target.remove(&pass.path)?;
        bench.sync_point()?;
    }
    Ok(())
}

struct Pass {
    path: String,
    unit: u64,
    generations: Vec<u64>,
}

impl Pass {
    /// Writes every unit in this order and syncs the file.
    fn write<T: Target>(
        &mut self,
        bench: &Bench<'_, T>,
        phase: &str,
        order: &[u32],
    ) -> Outcome<()> {
        let mut buffer = AlignedBuffer::zeroed(self.unit as usize);
        let mut record = bench.begin(phase);
        let file = bench.target.open(&self.path, How::ReadWrite)?;
        for &k in order {
            let generation = &mut self.generations[k as usize];
            *generation += 1;
            let offset = u64::from(k) * self.unit;
            bench.pattern().fill(&mut buffer, 7, *generation, offset);
            let begun = Instant::now();
            file.write_at(offset, &buffer)?;
            record.add(begun, self.unit);
        }
        let begun = Instant::now();
        file.sync_all()?;
        let sync = begun.elapsed();
        file.close()?;
        let seconds = (record.busy + sync).as_secs_f64();
        bench.emit(&record, seconds, &self.extra(sync));
        Ok(())
    }

    /// Reads every unit in this order.
    fn read<T: Target>(&self, bench: &Bench<'_, T>, phase: &str, order: &[u32]) -> Outcome<()> {
        let mut buffer = AlignedBuffer::zeroed(self.unit as usize);
        let mut record = bench.begin(phase);
        let file = bench.target.open(&self.path, How::Read)?;
        for &k in order {
            let offset = u64::from(k) * self.unit;
            let begun = Instant::now();
            file.read_at(offset, &mut buffer)?;
            record.add(begun, self.unit);
            let generation = self.generations[k as usize];
            bench
                .pattern()
                .check(&buffer, 7, generation, offset, &self.path)?;
        }
        file.close()?;
        bench.emit_busy(&record, &self.extra(Duration::ZERO));
        Ok(())
    }

    /// The same by [`TOGETHER`] threads, each every so manyth. What checking takes counts.
    fn read_together<T: Target>(
        &self,
        bench: &Bench<'_, T>,
        phase: &str,
        order: &[u32],
    ) -> Outcome<()> {
        bench.begin(phase);
        let file = bench.target.open(&self.path, How::Read)?;
        let pattern = bench.pattern();
        let work = |number: usize, record: &mut Record| -> Outcome<()> {
            let mut buffer = AlignedBuffer::zeroed(self.unit as usize);
            for &k in order.iter().skip(number).step_by(TOGETHER) {
                let offset = u64::from(k) * self.unit;
                let begun = Instant::now();
                file.read_at(offset, &mut buffer)?;
                record.add(begun, self.unit);
                let generation = self.generations[k as usize];
                pattern.check(&buffer, 7, generation, offset, &self.path)?;
            }
            Ok(())
        };
        let (record, seconds) = run_workers(TOGETHER, work)?;
        file.close()?;
        let extra = format!("{},\"threads\":{TOGETHER}", self.extra(Duration::ZERO));
        bench.emit(&record, seconds, &extra);
        Ok(())
    }

    fn extra(&self, sync: Duration) -> String {
        format!(
            ",\"unit\":{},\"sync_s\":{:.6}",
            self.unit,
            sync.as_secs_f64()
        )
    }
}
