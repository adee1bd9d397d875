//! Independent tasks on several threads.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Does the tasks in order on so many threads. After one that returns false
/// none is begun.
pub(crate) fn on_threads<T: Sync>(jobs: usize, tasks: &[T], run: impl Fn(&T) -> bool + Sync) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(task) = tasks.get(next.fetch_add(1, Relaxed)) {
            if !run(task) {
                next.store(tasks.len(), Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, tasks.len().max(1)) {
            scope.spawn(work);
        }
    });
}
