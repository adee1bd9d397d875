//! Fill to a share of the capacity, then overwrite at random until it is old.
//!
//! A sync point every 4 MiB: what the cleaner makes users wait is in there.

use crate::bench::pattern::Random;
use crate::bench::record::Record;
use crate::bench::target::{Fault, How, Outcome, Target, TargetFile};
use crate::bench::{Bench, MIB};
use std::time::{Duration, Instant};
use varve_device::AlignedBuffer;

const BLOCK: u64 = 4096;
/// Overwrites between two sync points.
const PER_SYNC: u64 = 1024;
/// The overwriting is reported in tenths.
const BUCKETS: u64 = 10;

struct Aging<F> {
    file_bytes: u64,
    files: Vec<F>,
    generations: Vec<u16>,
}

pub fn run<T: Target>(bench: &Bench<'_, T>) -> Outcome<()> {
    let capacity = bench.target.room()?.capacity;
    let file_bytes = bench
        .settings
        .file_bytes
        .unwrap_or((capacity / 1000).div_ceil(MIB) * MIB);
    let mut aging = Aging {
        file_bytes,
        files: Vec::new(),
        generations: Vec::new(),
    };
    aging.fill(bench, capacity)?;
    if aging.files.is_empty() {
        return Err(Fault::System("nothing could be written".into()));
    }
    aging.overwrite(bench, capacity)?;
    let count = aging.files.len();
    aging.files.drain(..).try_for_each(TargetFile::close)?;
    aging.read_back(bench, count)
}

fn path<T: Target>(bench: &Bench<'_, T>, number: usize) -> String {
    bench.path(format_args!("fill{number:06}"))
}

impl<F: TargetFile> Aging<F> {
    /// Estimates, writes, syncs and looks again until enough is in use.
    fn fill<T: Target<File = F>>(&mut self, bench: &Bench<'_, T>, capacity: u64) -> Outcome<()> {
        let percent = bench.settings.fill_percent;
        let most = capacity / self.file_bytes + 1;
        let mut record = bench.begin("fill");
        let mut syncs = Duration::ZERO;
        let mut full = false;
        while !full && (self.files.len() as u64) < most {
            let missing = percent as f64 / 100.0 - bench.target.room()?.used;
            let wanted = (missing * capacity as f64 / self.file_bytes as f64) as u64;
            if missing <= 0.0 || wanted == 0 {
                break;
            }
            for _ in 0..wanted.min(most - self.files.len() as u64) {
                let name = path(bench, self.files.len());
                match self.fill_one(bench, &name, &mut record) {
                    Ok(file) => self.files.push(file),
                    Err(Fault::NoSpace(_)) => {
                        full = true;
                        bench.target.remove(&name)?;
                        break;
                    }
                    Err(other) => return Err(other),
                }
            }
            syncs += bench.sync_point()?;
        }
        let blocks = self.files.len() as u64 * self.file_bytes / BLOCK;
        self.generations = vec![0; blocks as usize];
        let extra = format!(
            ",\"util\":{percent},\"used_pct\":{:.1},\"files\":{},\"capacity\":{capacity},\
             \"sync_s\":{:.3}",
            bench.target.room()?.used * 100.0,
            self.files.len(),
            syncs.as_secs_f64()
        );
        bench.emit(&record, (record.busy + syncs).as_secs_f64(), &extra);
        Ok(())
    }

    fn fill_one<T: Target<File = F>>(
        &self,
        bench: &Bench<'_, T>,
        name: &str,
        record: &mut Record,
    ) -> Outcome<F> {
        let mut buffer = bench.buffer.borrow_mut();
        let file = bench.target.open(name, How::New)?;
        let mut offset = 0;
        while offset < self.file_bytes {
            let piece = (self.file_bytes - offset).min(MIB);
            let part = &mut buffer[..piece as usize];
            let id = self.files.len() as u64;
            bench.pattern().fill(part, id, 0, offset);
            let begun = Instant::now();
            file.write_at(offset, part)?;
            record.add(begun, piece);
            offset += piece;
        }
        Ok(file)
    }

    fn overwrite<T: Target<File = F>>(
        &mut self,
        bench: &Bench<'_, T>,
        capacity: u64,
    ) -> Outcome<()> {
        let percent = bench.settings.fill_percent;
        let limit = Duration::from_secs_f64(bench.settings.seconds.unwrap_or(60.0));
        let todo = (bench.settings.volume * capacity as f64) as u64 / BLOCK;
        let mut random = Random::new(bench.settings.seed);
        let mut total = bench.begin("age_total");
        let mut sync_record = Record::default();
        let (mut done, mut cut, mut no_space) = (0, false, false);
        for bucket in 0..BUCKETS {
            let mut record = bench.begin(&format!("age_{bucket}"));
            let syncs_before = sync_record.busy;
            while !cut && done < todo * (bucket + 1) / BUCKETS {
                match self.overwrite_one(bench, &mut random, &mut record) {
                    Ok(()) => done += 1,
                    Err(Fault::NoSpace(_)) => {
                        (cut, no_space) = (true, true);
                        break;
                    }
                    Err(other) => return Err(other),
                }
                if done % PER_SYNC == 0 {
                    sync_record.add_time(bench.sync_point()?, 0);
                    cut = total.begun.elapsed() > limit;
                }
            }
            let syncs = sync_record.busy - syncs_before;
            let extra = format!(
                ",\"util\":{percent},\"bucket\":{bucket},\"sync_s\":{:.3},\"used_pct\":{:.1},\
                 \"cut\":{cut}",
                syncs.as_secs_f64(),
                bench.target.room()?.used * 100.0
            );
            bench.emit(&record, (record.busy + syncs).as_secs_f64(), &extra);
            total.merge(&record);
            if cut {
                break;
            }
        }
        "age_total".clone_into(&mut bench.phase.borrow_mut());
        let extra = format!(
            ",\"util\":{percent},\"sync_s\":{:.3},\"sync_p50_us\":{:.0},\"sync_p99_us\":{:.0},\
             \"sync_max_us\":{:.0},\"volume_done\":{:.3},\"enospc\":{no_space}",
            sync_record.busy.as_secs_f64(),
            sync_record.percentile_us(0.5),
            sync_record.percentile_us(0.99),
            sync_record.max_ns as f64 / 1e3,
            (done * BLOCK) as f64 / capacity as f64
        );
        let seconds = (total.busy + sync_record.busy).as_secs_f64();
        bench.emit(&total, seconds, &extra);
        Ok(())
    }

    fn overwrite_one<T: Target<File = F>>(
        &mut self,
        bench: &Bench<'_, T>,
        random: &mut Random,
        record: &mut Record,
    ) -> Outcome<()> {
        let mut buffer = bench.buffer.borrow_mut();
        let buffer = &mut buffer[..BLOCK as usize];
        let block = random.below(self.generations.len() as u64);
        let per_file = self.file_bytes / BLOCK;
        let (file, offset) = (block / per_file, block % per_file * BLOCK);
        let generation = self.generations[block as usize].wrapping_add(1);
        let content = bench.pattern();
        content.fill(buffer, file, generation.into(), offset);
        let begun = Instant::now();
        self.files[file as usize].write_at(offset, buffer)?;
        record.add(begun, BLOCK);
        self.generations[block as usize] = generation;
        Ok(())
    }

    /// Reads everything, file by file: checks content, shows scatter.
    fn read_back<T: Target<File = F>>(&self, bench: &Bench<'_, T>, count: usize) -> Outcome<()> {
        bench.cold()?;
        let mut record = bench.begin("aged_read");
        let mut generations = self.generations.iter();
        let mut buffer = AlignedBuffer::zeroed(MIB as usize);
        for number in 0..count {
            let name = path(bench, number);
            let file = bench.target.open(&name, How::Read)?;
            let mut offset = 0;
            while offset < self.file_bytes {
                let piece = (self.file_bytes - offset).min(MIB);
                let part = &mut buffer[..piece as usize];
                let begun = Instant::now();
                file.read_at(offset, part)?;
                record.add(begun, piece);
                for block in part.chunks_exact(BLOCK as usize) {
                    let generation = generations.next().map_or(0, |&g| g);
                    let id = number as u64;
                    bench
                        .pattern()
                        .check(block, id, generation.into(), offset, &name)?;
                    offset += BLOCK;
                }
            }
            file.close()?;
        }
        let extra = format!(",\"util\":{}", bench.settings.fill_percent);
        bench.emit_busy(&record, &extra);
        Ok(())
    }
}
