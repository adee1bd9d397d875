//! Threads that serve a queue until it is dropped.

use crate::sync::thread::{Builder, JoinHandle};
use crate::sync::{Condvar, Mutex, in_company};
use std::collections::VecDeque;
use std::sync::Arc;

/// A queue of work and the threads that serve it, as many as the host grants.
/// Dropping the value lets the threads finish the queued work, and joins them.
///
/// A caller that waits for these threads may be freeing memory, so the threads
/// never wait for memory to be freed (`PR_SET_IO_FLUSHER`, where permitted).
#[derive(Debug)]
pub struct Workers<T> {
    queue: Arc<Queue<T>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Queue<T> {
    state: Mutex<State<T>>,
    /// Maximum number of pieces of work in the queue.
    most: usize,
    /// Signalled when work was added to the queue, or the queue was closed.
    given: Condvar,
    /// Signalled when work was taken from the queue, or a thread has ended.
    taken: Condvar,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<T>,
    is_closed: bool,
    /// Number of threads that take work.
    threads: usize,
}

/// Counts a thread as one that takes work, until it is dropped.
struct Worker<T>(Arc<Queue<T>>);

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.threads -= 1;
        // The last thread has ended, so the queued work is never done. It is dropped,
        // because callers may wait for it.
        let left = match state.threads {
            0 => std::mem::take(&mut state.waiting),
            _ => VecDeque::new(),
        };
        drop(state);
        self.0.taken.notify_all();
        drop(left);
    }
}

impl<T> Worker<T> {
    /// Waits for a piece of work and returns it, or `None` once the queue is closed and
    /// empty.
    fn next(&self) -> Option<T> {
        let mut state = self.0.state.lock();
        while state.waiting.is_empty() && !state.is_closed {
            self.0.given.wait(&mut state);
        }
        let next = state.waiting.pop_front();
        drop(state);
        self.0.taken.notify_one();
        next
    }
}

impl<T: Send + 'static> Workers<T> {
    /// Starts up to `threads` threads named `name-0`, `name-1` and so on. The queue
    /// takes `waiting` pieces of work, at least one.
    pub fn new(
        name: &str,
        threads: usize,
        waiting: usize,
        serve: impl Fn(T) + Send + Sync + 'static,
    ) -> Self {
        let queue = Arc::new(Queue {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                is_closed: false,
                threads: 0,
            }),
            most: waiting.max(1),
            given: Condvar::default(),
            taken: Condvar::default(),
        });
        let serve = Arc::new(serve);
        let spawn = |number| {
            queue.state.lock().threads += 1;
            let worker = Worker(Arc::clone(&queue));
            let serve = Arc::clone(&serve);
            let work = move || {
                // Of these two, `serve` is dropped first: the thread counts as a worker
                // until it no longer has what it serves with.
                let (worker, serve) = (worker, serve);
                let _ = rustix::process::configure_io_flusher_behavior(true);
                while let Some(next) = worker.next() {
                    serve(next);
                }
            };
            Builder::new()
                .name(format!("{name}-{number}"))
                .spawn(in_company(work))
        };
        let threads: Vec<_> = (0..threads)
            .map_while(|number| spawn(number).ok())
            .collect();
        Workers { queue, threads }
    }

    /// Returns true if there are no threads, so that no work can be given to them.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Appends a piece of work to the queue, and waits while the queue is full.
    ///
    /// # Errors
    /// Returns the work if no thread is left to do it.
    pub fn give(&self, work: T) -> std::result::Result<(), T> {
        let mut state = self.queue.state.lock();
        while state.threads > 0 && state.waiting.len() >= self.queue.most {
            self.queue.taken.wait(&mut state);
        }
        self.put(&mut state, work)
    }

    /// Appends a piece of work to the queue without waiting. If the queue is full,
    /// or no thread is left, drops the work and returns false.
    pub fn offer(&self, work: T) -> bool {
        let mut state = self.queue.state.lock();
        let refused = match state.waiting.len() < self.queue.most {
            true => self.put(&mut state, work).err(),
            false => Some(work),
        };
        drop(state);
        refused.is_none()
    }

    fn put(&self, state: &mut State<T>, work: T) -> std::result::Result<(), T> {
        if state.threads == 0 {
            return Err(work);
        }
        state.waiting.push_back(work);
        self.queue.given.notify_one();
        Ok(())
    }
}

impl<T> Drop for Workers<T> {
    fn drop(&mut self) {
        {
            let mut state = self.queue.state.lock();
            state.is_closed = true;
            self.queue.given.notify_all();
            // In a simulation the threads need to be scheduled before they can end.
            while state.threads > 0 {
                self.queue.taken.wait(&mut state);
            }
        }
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
    use std::sync::mpsc::{Sender, channel, sync_channel};

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
        assert_eq!(begins.recv(), Ok(1)); // the thread is at work, and the queue is empty
        assert!(workers.offer(2) && !workers.offer(3));
        go.send(()).unwrap();
        go.send(()).unwrap();
        assert_eq!(begins.recv(), Ok(2));
    }

    #[test]
    fn what_waits_when_the_last_thread_panics_is_dropped_at_once() {
        let (go, may) = channel::<()>();
        let may = Mutex::new(may);
        let workers = Workers::new("one", 1, 2, move |_: Sender<()>| {
            may.lock().recv().unwrap();
            panic!("as it is told");
        });
        let (held, gone) = channel();
        (0..3).for_each(|_| workers.give(held.clone()).unwrap());
        drop(held);
        go.send(()).unwrap();
        assert!(
            gone.recv().is_err(),
            "nobody sends, and nobody holds it any longer"
        );
        let (more, _) = channel();
        assert!(workers.give(more.clone()).is_err() && !workers.offer(more));
    }
}
