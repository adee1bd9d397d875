//! Threads that serve a queue until it is dropped.

use crate::sync::Mutex;
use crate::sync::mpsc::{SyncSender, sync_channel};
use crate::sync::thread::{Builder, JoinHandle};
use std::sync::Arc;

/// A queue of work and the threads that serve it, as many as the host grants.
/// Dropping it lets them finish what waits, and joins them.
///
/// Whoever waits for what these threads do may be freeing memory, so they never
/// wait for memory to be freed (`PR_SET_IO_FLUSHER`, where they may have it).
#[derive(Debug)]
pub struct Workers<T> {
    queue: Option<SyncSender<T>>,
    threads: Vec<JoinHandle<()>>,
}

impl<T: Send + 'static> Workers<T> {
    /// Up to `threads` threads named `name-0`, `name-1` and so on; `waiting`
    /// pieces of work may wait for one.
    pub fn new(
        name: &str,
        threads: usize,
        waiting: usize,
        serve: impl Fn(T) + Send + Sync + 'static,
    ) -> Self {
        let (queue, receiver) = sync_channel(waiting);
        let (serve, receiver) = (Arc::new(serve), Arc::new(Mutex::new(receiver)));
        let spawn = |number| {
            let (serve, receiver) = (Arc::clone(&serve), Arc::clone(&receiver));
            let work = move || {
                let _ = rustix::process::configure_io_flusher_behavior(true);
                loop {
                    let next = receiver.lock().recv();
                    let Ok(next) = next else { return };
                    serve(next);
                }
            };
            Builder::new().name(format!("{name}-{number}")).spawn(work)
        };
        let threads: Vec<_> = (0..threads)
            .map_while(|number| spawn(number).ok())
            .collect();
        Workers {
            queue: (!threads.is_empty()).then_some(queue),
            threads,
        }
    }

    /// True if there are no threads, and nothing can be given to them.
    pub fn is_empty(&self) -> bool {
        self.queue.is_none()
    }

    /// Hands over a piece of work, and waits while too much waits already.
    ///
    /// # Errors
    /// The work, if there is nobody to do it.
    pub fn give(&self, work: T) -> std::result::Result<(), T> {
        match &self.queue {
            Some(queue) => queue.send(work).map_err(|refused| refused.0),
            None => Err(work),
        }
    }

    /// Hands over a piece of work if a place in the queue is free. If not, or
    /// if there is nobody to do it, it is dropped and the answer is false.
    pub fn offer(&self, work: T) -> bool {
        let queue = self.queue.as_ref();
        queue.is_some_and(|queue| queue.try_send(work).is_ok())
    }
}

impl<T> Drop for Workers<T> {
    fn drop(&mut self) {
        self.queue = None;
        for thread in self.threads.drain(..) {
            let name = thread.thread().name().unwrap_or("unnamed").to_owned();
            if thread.join().is_err() {
                tracing::error!(thread = name, "a working thread panicked");
            }
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::sync::mpsc::{channel, sync_channel};

    #[test]
    fn all_that_waits_is_done_before_they_are_gone() {
        let sum = Arc::new(AtomicU64::new(0));
        let adds = Arc::clone(&sum);
        let workers = Workers::new("adder", 2, 4, move |n| {
            adds.fetch_add(n, Relaxed);
        });
        assert!(!workers.is_empty());
        (1..=100).for_each(|n| workers.give(n).unwrap());
        drop(workers);
        assert_eq!(sum.load(Relaxed), 5050);
    }

    #[test]
    fn without_threads_work_comes_back_or_is_dropped() {
        let workers = Workers::new("nobody", 0, 4, |_: u64| {});
        assert!(workers.is_empty() && !workers.offer(1));
        assert_eq!(workers.give(2), Err(2));
    }

    #[test]
    fn what_finds_no_place_in_the_queue_is_dropped() {
        let (begun, begins) = channel();
        let (go, may) = sync_channel(0);
        let may = Mutex::new(may);
        let workers = Workers::new("one", 1, 1, move |n: u64| {
            begun.send(n).unwrap();
            may.lock().recv().unwrap();
        });
        assert!(workers.offer(1));
        assert_eq!(begins.recv(), Ok(1)); // it is at work, and the queue empty
        assert!(workers.offer(2) && !workers.offer(3));
        go.send(()).unwrap();
        go.send(()).unwrap();
        assert_eq!(begins.recv(), Ok(2));
    }
}
