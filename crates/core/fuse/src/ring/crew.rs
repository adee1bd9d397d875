//! The threads that serve one CPU's queue.
//!
//! A request keeps its entry until it is answered. A seek is answered after
//! the kernel has written pages back, for which it needs entries of its own.
//! So before a thread waits for that, it makes sure that another one serves,
//! and then makes the kernel go through what has queued up: a new entry takes
//! only requests that come after it.
//!
//! Why this cannot lock up: take the last thread to nudge the kernel. Another
//! entry was serving at that time. Either it was idle and got the nudge, and
//! by answering fetched what was queued; or it was busy with a request that
//! waits for nothing, and will do the same; or with another seek, whose thread
//! would have nudged later.
//!
//! So a thread counts as serving from when its entry is registered, and not
//! from when it was started: on a busy host a client's first seek is faster.

use super::{Hops, Queue};
use crate::transport::{DevFuse, retrieve_nothing};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads of a CPU that do not wait for the kernel, at least; so many start.
pub(super) const SERVING_MIN: usize = 2;
/// Threads of a CPU, at most. Beyond it a seek in a file with dirty pages is
/// told to try again.
const THREADS_MAX: usize = 128;

/// The threads of one CPU, counted.
pub(crate) struct Crew {
    device: Arc<DevFuse>,
    hops: Arc<Hops>,
    cpu: u16,
    count: Mutex<Count>,
    /// Nudges so far.
    nudges: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    threads: usize,
    /// Those whose entry is registered and that do not wait for the kernel.
    serving: usize,
}

impl Crew {
    /// The crew of `cpu`, which begins with `threads` threads.
    pub(super) fn new(device: &Arc<DevFuse>, hops: &Arc<Hops>, cpu: u16, threads: usize) -> Self {
        let count = Count {
            threads,
            serving: 0,
        };
        Crew {
            device: Arc::clone(device),
            hops: Arc::clone(hops),
            cpu,
            count: Mutex::new(count),
            nudges: AtomicU64::new(0),
        }
    }

    /// The CPU whose requests it serves.
    pub(crate) fn cpu(&self) -> u16 {
        self.cpu
    }

    /// Queues for the threads it begins with.
    ///
    /// # Errors
    /// If the host has no rings for us.
    pub(super) fn first_queues(&self) -> io::Result<Vec<Queue>> {
        let threads = self.count.lock().threads;
        (0..threads).map(|_| self.queue()).collect()
    }

    /// A queue for one more thread.
    ///
    /// # Errors
    /// If the host has no ring for us.
    pub(crate) fn queue(&self) -> io::Result<Queue> {
        Queue::new(&self.device, &self.hops, self.cpu)
    }

    /// Binds the calling thread to the CPU.
    ///
    /// # Errors
    /// If it may not run there, or the CPU is not there.
    pub(crate) fn bind(&self) -> io::Result<()> {
        let mut cpus = rustix::thread::CpuSet::new();
        cpus.set(self.cpu.into());
        Ok(rustix::thread::sched_setaffinity(None, &cpus)?)
    }

    /// The calling thread is going to wait for the kernel. True if too few
    /// serve without it.
    pub(crate) fn leave(&self) -> bool {
        let mut count = self.count.lock();
        count.serving -= 1;
        count.serving < SERVING_MIN
    }

    /// True if nobody serves.
    pub(crate) fn is_deserted(&self) -> bool {
        self.count.lock().serving == 0
    }

    /// Sends a request to one of the crew's idle threads, if there is one; by
    /// answering it, that thread fetches what waits. `nodeid` is any inode the
    /// kernel holds.
    ///
    /// # Errors
    /// If the calling thread cannot run on the CPU.
    pub(crate) fn nudge(&self, nodeid: u64) -> io::Result<()> {
        self.bind()?;
        let number = self.nudges.fetch_add(1, Ordering::Relaxed) & 0xff_ffff_ffff;
        // Requests are told apart by their numbers. The kernel's own do not
        // get this high, and an odd one would stand for an interrupt.
        let unique = 1 << 63 | number << 17 | u64::from(self.cpu) << 1;
        retrieve_nothing(&*self.device, unique, nodeid)
    }

    /// The calling thread serves: its entry is registered, or it left and is
    /// back.
    pub(crate) fn join(&self) {
        self.count.lock().serving += 1;
    }

    /// Counts one more thread, which is about to register.
    ///
    /// # Errors
    /// EAGAIN if there are too many.
    pub(crate) fn enlist(&self) -> io::Result<()> {
        let mut count = self.count.lock();
        if count.threads >= THREADS_MAX {
            return Err(rustix::io::Errno::AGAIN.into());
        }
        count.threads += 1;
        Ok(())
    }

    /// Takes [`Crew::enlist`] back: the thread could not start.
    pub(crate) fn discharge(&self) {
        self.count.lock().threads -= 1;
    }
}
