//! What is in memory: attributes and content of files that stay in the cache,
//! each thread in directories of its own. Two runs with different numbers of
//! threads show what these share.

use crate::bench::Bench;
use crate::bench::record::Record;
use crate::bench::target::{Fault, How, Outcome, Target, TargetFile};
use crate::bench::workers::run_workers;
use std::time::Instant;

/// Directories of each thread, and files in each.
const DIRECTORIES: usize = 10;
const FILES: usize = 100;
const FILE_BYTES: usize = 4096;
/// One read in so many is compared with what was written.
const CHECK_EVERY: usize = 64;

pub fn run<T: Target>(bench: &Bench<'_, T>) -> Outcome<()> {
    let threads = bench.settings.threads();
    let share = bench.settings.n.unwrap_or(400_000) as usize / threads;
    // Made beforehand: it is not the benchmark that is to be measured.
    let mut paths = vec![Vec::new(); threads];
    for (t, paths) in paths.iter_mut().enumerate() {
        for d in 0..DIRECTORIES {
            let directory = bench.path(format_args!("t{t}d{d}"));
            bench.target.make_dir(&directory)?;
            paths.extend((0..FILES).map(|f| format!("{directory}/f{f:03}")));
        }
        for (f, path) in paths.iter().enumerate() {
            let (id, size) = ((t * paths.len() + f) as u64, FILE_BYTES as u64);
            bench.write_file(&mut Record::default(), path, How::New, (id, 0), size)?;
        }
    }
    bench.sync_point()?;
    let (target, pattern) = (bench.target, bench.pattern());
    let (all, extra) = (&paths, format!(",\"threads\":{threads}"));

    let stat = |t: usize, record: &mut Record| {
        all[t].iter().cycle().take(share).try_for_each(|path| {
            let begun = Instant::now();
            let (size, _) = target.stat(path)?;
            record.add(begun, 0);
            match size {
                _ if size == FILE_BYTES as u64 => Ok(()),
                _ => Err(Fault::data("st_size", t as u64, size)),
            }
        })
    };
    bench.begin("stat");
    timed(bench, threads, &extra, stat)?;

    let read = |t: usize, record: &mut Record| {
        let mut buffer = vec![0; FILE_BYTES];
        let turns = all[t].iter().enumerate().cycle().take(share);
        turns.enumerate().try_for_each(|(turn, (f, path))| {
            let begun = Instant::now();
            let file = target.open(path, How::Read)?;
            file.read_at(0, &mut buffer)?;
            file.close()?;
            record.add(begun, FILE_BYTES as u64);
            match turn % CHECK_EVERY {
                0 => pattern.check(&buffer, (t * all[t].len() + f) as u64, 0, 0, path),
                _ => Ok(()),
            }
        })
    };
    bench.begin("read");
    timed(bench, threads, &extra, read)
}

/// Wall time, also of a single thread, so that numbers of threads compare.
fn timed<T: Target>(
    bench: &Bench<'_, T>,
    threads: usize,
    extra: &str,
    work: impl Fn(usize, &mut Record) -> Outcome<()> + Sync,
) -> Outcome<()> {
    let begun = Instant::now();
    let (record, _) = run_workers(threads, work)?;
    bench.emit(&record, begun.elapsed().as_secs_f64(), extra);
    Ok(())
}
