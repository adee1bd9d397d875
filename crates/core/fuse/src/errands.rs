//! What must not be done by a thread that serves requests, and the two threads
//! that do it.
//!
//! One runs errands as they come: they make the kernel wait for requests of its
//! own, or may have to wait for it. The other, the timer, keeps what is to be
//! done in a moment, one thing beside the other; it waits for nothing else but
//! the first. Both end after the last thread that serves.

use crate::adapter::Later;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// What makes the kernel wait, or waits for it.
pub(crate) enum Errand {
    /// Finish this; it makes the kernel give up pages.
    Later(Later),
    /// Have the kernel forget this node's attributes.
    /// Say when that is done.
    Invalidate(u64, Sender<()>),
    /// Have it forget the attributes of files whose room has changed.
    BlockCounts,
}

/// What is to be done in a moment.
pub(crate) enum Wait {
    /// Try a request again that found no room, or another lock in its way.
    Again(Later),
    /// [`Errand::BlockCounts`].
    BlockCounts,
}

/// How long the answer to a write waits for the kernel to have forgotten
/// attributes. Not for ever: an inode that is being evicted is waited for, and
/// that waits for its writes.
const INVALIDATE_MAX: Duration = Duration::from_millis(500);

/// When, and what then.
pub(crate) type Due = (Instant, Wait);

/// Where errands and waits are handed in. Clones mean the same threads.
#[derive(Clone)]
pub(crate) struct Errands {
    errands: Sender<Errand>,
    waits: Weak<Sender<Due>>,
    /// What keeps the timer alive; it has none itself.
    _timer: Option<Arc<Sender<Due>>>,
}

/// The other ends, one for each thread.
pub(crate) struct Ends {
    pub(crate) errands: Receiver<Errand>,
    pub(crate) waits: Receiver<Due>,
}

impl Errands {
    pub(crate) fn new() -> (Self, Ends) {
        let (errands, errand_queue) = channel();
        let (waits, wait_queue) = channel();
        let ends = Ends {
            errands: errand_queue,
            waits: wait_queue,
        };
        let timer = Arc::new(waits);
        let errands = Errands {
            errands,
            waits: Arc::downgrade(&timer),
            _timer: Some(timer),
        };
        (errands, ends)
    }

    /// For the timer, which ends although it can hand in more.
    pub(crate) fn of_timer(&self) -> Self {
        Errands {
            _timer: None,
            ..self.clone()
        }
    }

    /// Hands an errand in.
    pub(crate) fn run(&self, errand: Errand) {
        let queued = self.errands.send(errand);
        queued.expect("the errands outlive the serving threads");
    }

    /// Hands in what is to be done `after` so long.
    pub(crate) fn wait(&self, after: Duration, wait: Wait) {
        // Without a timer the session is over.
        if let Some(waits) = self.waits.upgrade() {
            let _ = waits.send((Instant::now() + after, wait));
        }
    }

    /// Has the kernel forget a node's attributes, and waits for that as long as
    /// it may.
    pub(crate) fn invalidate(&self, nodeid: u64) {
        let (done, is_done) = channel();
        self.run(Errand::Invalidate(nodeid, done));
        let _ = is_done.recv_timeout(INVALIDATE_MAX);
    }
}

/// Does what is due, until nobody can hand in more. What is still waiting then
/// is dropped: the session is over.
pub(crate) fn keep_time(queue: &Receiver<Due>, mut act: impl FnMut(Wait)) {
    let mut waiting: Vec<Due> = Vec::new();
    loop {
        let next = waiting.iter().map(|(due, _)| *due).min();
        let received = match next {
            None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => queue.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        match received {
            Ok(wait) => waiting.push(wait),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        let due = waiting.extract_if(.., |(due, _)| *due <= now);
        due.map(|(_, wait)| wait).for_each(&mut act);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn what_is_due_first_is_done_first() {
        let (waits, queue) = channel();
        let now = Instant::now();
        let at = |ms| now + Duration::from_millis(ms);
        let timer = thread::spawn(move || {
            let mut done = Vec::new();
            keep_time(&queue, |wait| {
                let what = matches!(wait, Wait::BlockCounts);
                done.push((what, Instant::now()));
            });
            done
        });
        // A wait of an hour holds up none of the others.
        waits.send((at(3_600_000), Wait::BlockCounts)).unwrap();
        waits.send((at(60), Wait::BlockCounts)).unwrap();
        waits.send((at(20), Wait::BlockCounts)).unwrap();
        thread::sleep(Duration::from_millis(300));
        drop(waits);
        let done = timer.join().unwrap();
        assert_eq!(done.len(), 2);
        assert!(done[0].1 >= at(20) && done[1].1 >= at(60));
    }
}
