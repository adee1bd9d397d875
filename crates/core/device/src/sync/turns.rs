//! Threads that run one at a time, on a clock of their own.
//!
//! A laboratory that wants to know how a writer and the cleaner meet needs both
//! on their threads, as they run on a mount, and the same outcome every time.
//! Threads that take part in such a simulation are real ones, of which one at a
//! time runs: it gives its turn up where it would block on a lock or a condition
//! that another has to change, or where time has to pass. Nothing else of the
//! product knows of it, and threads that take no part are not concerned.
//!
//! Invariants:
//! - A thread that has the turn never blocks outside of [`Turns::wait`]: what it
//!   finds free stays free until it takes it.
//! - Who holds a lock may give up the turn; who wants it is asked again when
//!   others have run.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Decides which thread runs.
pub trait Turns: Send + Sync {
    /// Gives up the turn until `ready`, which is asked after others have run,
    /// or until so much time has passed on the simulation's clock.
    fn wait(&self, timeout: Option<Duration>, ready: &dyn Fn() -> bool);

    /// A place for a thread that the calling one is going to start. That thread calls
    /// the answer first, and drops what it is given last. The default is none: the
    /// thread takes no part.
    fn seat(&self) -> Box<dyn FnOnce() -> Box<dyn Any> + Send> {
        Box::new(|| Box::new(()))
    }
}

thread_local! {
    static HERE: RefCell<Option<Arc<dyn Turns>>> = const { RefCell::new(None) };
}

/// Whether any thread ever took part. Written by [`take_part`] alone, so that a
/// mount never goes beyond this flag.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The calling thread takes part until this is dropped.
#[must_use]
pub struct TakesPart(());

impl Drop for TakesPart {
    fn drop(&mut self) {
        HERE.with(|here| here.borrow_mut().take());
    }
}

/// The calling thread takes part from now on.
pub fn take_part(turns: Arc<dyn Turns>) -> TakesPart {
    TAKEN.store(true, Relaxed);
    HERE.with(|here| *here.borrow_mut() = Some(turns));
    TakesPart(())
}

/// False in a process without a simulation. A thread that takes part sees what
/// it wrote itself.
#[inline]
pub(super) fn are_taken() -> bool {
    TAKEN.load(Relaxed)
}

/// What the calling thread takes part in.
pub(super) fn here() -> Option<Arc<dyn Turns>> {
    if !are_taken() {
        return None;
    }
    HERE.with(|here| here.borrow().clone())
}

/// In a simulation, gives up the turn as [`Turns::wait`]; false anywhere else.
pub fn wait(timeout: Option<Duration>, ready: &dyn Fn() -> bool) -> bool {
    let here = here();
    if let Some(turns) = &here {
        turns.wait(timeout, ready);
    }
    here.is_some()
}

/// In a simulation, gives up the turn until `free`, unless that is so already.
#[cold]
pub(super) fn wait_until(free: &dyn Fn() -> bool) {
    if !free() {
        wait(None, free);
    }
}

/// Time that passes where a thread waits in a loop of its own.
const YIELD: Duration = Duration::from_micros(10);

/// In a simulation, lets others run while some time passes; false anywhere
/// else.
pub(super) fn let_others_run() -> bool {
    wait(Some(YIELD), &|| false)
}
