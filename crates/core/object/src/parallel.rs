//! Several requests at once.

use crate::error::{Error, Result};

/// Runs `work` on each task, in several threads, and returns the first error.
pub(crate) fn in_parallel<T: Sync>(
    threads: usize,
    tasks: &[T],
    work: impl Fn(&T) -> Result<()> + Sync,
) -> Result<()> {
    if threads < 2 || tasks.len() < 2 {
        return tasks.iter().try_for_each(work);
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    let run = || {
        while let Some(task) = tasks.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
            work(task)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.min(tasks.len()))
            .map(|_| scope.spawn(run))
            .collect();
        let ended = threads.into_iter().map(|thread| {
            let stopped = |_| Err(Error::Stopped("a thread panicked".to_owned()));
            thread.join().unwrap_or_else(stopped)
        });
        ended.fold(Ok(()), Result::and)
    })
}
