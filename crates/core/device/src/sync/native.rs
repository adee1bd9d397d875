//! The host's locks: `parking_lot`'s, which ask [`super::turns`] before they would
//! block. In a process without a simulation the only addition is one read of a flag
//! that is never written.

use super::turns;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use parking_lot::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
pub use std::sync::{atomic, mpsc};
pub use std::thread_local;

/// The standard library's threads. A thread that yields notifies the simulation, if it
/// is part of one.
pub mod thread {
    pub use std::thread::*;

    /// Yields as [`std::thread::yield_now`], or as the simulation requires.
    pub fn yield_now() {
        if !super::turns::let_others_run() {
            std::thread::yield_now();
        }
    }
}

/// Returns the work of a new thread. If the calling thread takes part in a simulation,
/// the new one takes part as well.
pub fn in_company(work: impl FnOnce() + Send) -> impl FnOnce() + Send {
    let seat = turns::here().map(|turns| turns.seat());
    move || {
        let _part = seat.map(|begin| begin());
        work();
    }
}

/// A mutex with the interface of [`parking_lot::Mutex`].
#[derive(Debug, Default)]
pub struct Mutex<T>(parking_lot::Mutex<T>);

/// A lock with the interface of [`parking_lot::RwLock`].
#[derive(Debug, Default)]
pub struct RwLock<T>(parking_lot::RwLock<T>);

/// A condition variable with the interface of [`parking_lot::Condvar`].
#[derive(Debug, Default)]
pub struct Condvar {
    inner: parking_lot::Condvar,
    /// Number of notifications, counted only in a simulation.
    told: AtomicU64,
}

#[expect(
    missing_docs,
    reason = "each is the method of that name in parking_lot"
)]
impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Mutex(parking_lot::Mutex::new(value))
    }

    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if turns::are_taken() {
            turns::wait_until(&|| !self.0.is_locked());
        }
        self.0.lock()
    }

    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock()
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

#[expect(
    missing_docs,
    reason = "each is the method of that name in parking_lot"
)]
impl<T> RwLock<T> {
    pub const fn new(value: T) -> Self {
        RwLock(parking_lot::RwLock::new(value))
    }

    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        if turns::are_taken() {
            turns::wait_until(&|| !self.0.is_locked_exclusive());
        }
        self.0.read()
    }

    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        if turns::are_taken() {
            turns::wait_until(&|| !self.0.is_locked());
        }
        self.0.write()
    }

    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.0.try_read()
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

#[expect(
    missing_docs,
    reason = "each is the method of that name in parking_lot"
)]
impl Condvar {
    pub const fn new() -> Self {
        Condvar {
            inner: parking_lot::Condvar::new(),
            told: AtomicU64::new(0),
        }
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if !self.wait_in_turn(guard, None) {
            self.inner.wait(guard);
        }
    }

    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) {
        if !self.wait_in_turn(guard, Some(timeout)) {
            self.inner.wait_for(guard, timeout);
        }
    }

    /// Waits as the simulation requires. Returns false if this thread is not part of
    /// one.
    fn wait_in_turn<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Option<Duration>) -> bool {
        let Some(turns) = turns::here() else {
            return false;
        };
        let mutex = MutexGuard::mutex(guard);
        let told = self.told.load(Ordering::Relaxed);
        MutexGuard::unlocked(guard, || {
            turns.wait(timeout, &|| self.told.load(Ordering::Relaxed) != told);
            if mutex.is_locked() {
                turns.wait(None, &|| !mutex.is_locked());
            }
        });
        true
    }

    #[inline]
    fn count(&self) {
        if turns::are_taken() {
            self.told.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[inline]
    pub fn notify_one(&self) {
        self.count();
        self.inner.notify_one();
    }

    #[inline]
    pub fn notify_all(&self) {
        self.count();
        self.inner.notify_all();
    }
}
