//! Several threads that begin together.

use super::record::Record;
use super::target::{Fault, Outcome};
use std::sync::Barrier;

/// Runs `work` in `threads` threads, each with its number and a record.
/// Answers everything they measured and the seconds it took: wall time, or,
/// for one thread, the time inside its calls.
///
/// # Errors
/// What stopped the first thread that failed.
pub fn run_workers(
    threads: usize,
    work: impl Fn(usize, &mut Record) -> Outcome<()> + Sync,
) -> Outcome<(Record, f64)> {
    let barrier = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|number| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    let mut record = Record::default();
                    barrier.wait();
                    work(number, &mut record).map(|()| record)
                })
            })
            .collect();
        barrier.wait();
        let mut all = Record::default();
        for worker in workers {
            let record = worker
                .join()
                .map_err(|_| Fault::System("a worker panicked".into()))??;
            all.merge(&record);
        }
        let seconds = match threads {
            1 => all.busy,
            _ => all.begun.elapsed(),
        };
        Ok((all, seconds.as_secs_f64()))
    })
}
