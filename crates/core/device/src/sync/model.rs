//! The model checker's locks with `parking_lot`'s interface. A panic under a lock ends
//! the run, so only destructors meet a poisoned lock.

use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

pub use shuttle::sync::{atomic, mpsc};
pub use shuttle::{thread, thread_local};

/// Returns the work of a new thread unchanged: the model checker sees every thread.
pub fn in_company<W: FnOnce() + Send>(work: W) -> W {
    work
}

fn taken<G>(result: Result<G, TryLockError<G>>) -> Option<G> {
    match result {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poison)) => Some(poison.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A mutex with the interface of `parking_lot::Mutex`.
#[derive(Debug, Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

/// A guard with the interface of `parking_lot::MutexGuard`.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// `None` only while a condition variable has it.
    held: Option<shuttle::sync::MutexGuard<'a, T>>,
}

#[expect(
    missing_docs,
    reason = "each is the method of that name in parking_lot"
)]
impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.guard(held)
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        taken(self.0.try_lock()).map(|held| self.guard(held))
    }

    fn guard<'a>(&'a self, held: shuttle::sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard {
            mutex: self,
            held: Some(held),
        }
    }
}

#[expect(
    missing_docs,
    reason = "each is the method of that name in parking_lot"
)]
impl<T> MutexGuard<'_, T> {
    pub fn unlocked<R>(guard: &mut Self, what: impl FnOnce() -> R) -> R {
        guard.held = None;
        let result = what();
        guard.held = guard.mutex.lock().held;
        result
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("nobody waits with it")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("nobody waits with it")
    }
}

/// A lock with the interface of `parking_lot::RwLock`.
#[derive(Debug, Default)]
pub struct RwLock<T>(shuttle::sync::RwLock<T>);

pub use shuttle::sync::{RwLockReadGuard, RwLockWriteGuard};

#[expect(
    missing_docs,
    reason = "each is the method of that name in parking_lot"
)]
impl<T> RwLock<T> {
    pub fn new(value: T) -> Self {
        RwLock(shuttle::sync::RwLock::new(value))
    }

    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        taken(self.0.try_read())
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A condition variable with the interface of `parking_lot::Condvar`.
#[derive(Debug, Default)]
pub struct Condvar(shuttle::sync::Condvar);

#[expect(
    missing_docs,
    reason = "each is the method of that name in parking_lot"
)]
impl Condvar {
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.held.take().expect("nobody else waits with it");
        let held = self.0.wait(held).unwrap_or_else(PoisonError::into_inner);
        guard.held = Some(held);
    }

    /// Lets other threads run and returns. Time does not pass in the model, so the
    /// time-out is over once another thread has run.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _timeout: Duration) {
        guard.held = None;
        thread::yield_now();
        guard.held = guard.mutex.lock().held;
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
