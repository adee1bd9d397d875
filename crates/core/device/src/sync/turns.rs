//! Simulated scheduling: threads that run one at a time, on a simulated clock.
//!
//! A laboratory that examines how a writer and the cleaner interact needs both on their
//! threads, as on a mount, and the same outcome in every run. The threads of such a
//! simulation are real, but only one of them runs at a time. It lets another one run
//! where it would block on a lock or a condition that another thread must change, or
//! where time must pass. No other part of the product depends on this, and threads that
//! take no part are not affected.
//!
//! Invariants:
//! - The running thread never blocks outside of [`Turns::wait`]: a lock that it finds
//!   free stays free until it takes it.
//! - A thread may let another one run while it has a lock; a thread that wants the lock
//!   is asked again after other threads have run.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The scheduler, which decides which thread runs.
pub trait Turns: Send + Sync {
    /// Lets other threads run until `ready` returns true, which is called after other
    /// threads have run, or until `timeout` has passed on the simulation's clock.
    fn wait(&self, timeout: Option<Duration>, ready: &dyn Fn() -> bool);

    /// Registers a thread that the calling one is going to start. The new thread calls
    /// the returned function first, and drops its result last. In the default
    /// implementation the new thread takes no part.
    fn seat(&self) -> Box<dyn FnOnce() -> Box<dyn Any> + Send> {
        Box::new(|| Box::new(()))
    }
}

thread_local! {
    static HERE: RefCell<Option<Arc<dyn Turns>>> = const { RefCell::new(None) };
}

/// True once any thread has taken part. Only [`take_part`] writes it, so that a mount
/// reads no more than this flag.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Keeps the calling thread in the simulation until it is dropped.
#[must_use]
pub struct TakesPart(());

impl Drop for TakesPart {
    fn drop(&mut self) {
        HERE.with(|here| here.borrow_mut().take());
    }
}

/// Makes the calling thread take part in a simulation.
pub fn take_part(turns: Arc<dyn Turns>) -> TakesPart {
    TAKEN.store(true, Relaxed);
    HERE.with(|here| *here.borrow_mut() = Some(turns));
    TakesPart(())
}

/// Returns false in a process without a simulation. A thread that takes part sees its
/// own write of the flag.
#[inline]
pub(super) fn are_taken() -> bool {
    TAKEN.load(Relaxed)
}

/// Returns the scheduler of the calling thread, if it takes part in a simulation.
pub(super) fn here() -> Option<Arc<dyn Turns>> {
    if !are_taken() {
        return None;
    }
    HERE.with(|here| here.borrow().clone())
}

/// In a simulation, waits as [`Turns::wait`] and returns true; otherwise returns false.
pub fn wait(timeout: Option<Duration>, ready: &dyn Fn() -> bool) -> bool {
    let here = here();
    if let Some(turns) = &here {
        turns.wait(timeout, ready);
    }
    here.is_some()
}

/// In a simulation, waits until `free` returns true.
#[cold]
pub(super) fn wait_until(free: &dyn Fn() -> bool) {
    if !free() {
        wait(None, free);
    }
}

/// Simulated time that passes when a thread yields in a loop of its own.
const YIELD: Duration = Duration::from_micros(10);

/// In a simulation, lets other threads run while [`YIELD`] passes, and returns true;
/// otherwise returns false.
pub(super) fn let_others_run() -> bool {
    wait(Some(YIELD), &|| false)
}
