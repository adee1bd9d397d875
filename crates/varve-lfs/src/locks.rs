//! The order in which the layout's locks are taken, checked in debug builds.
//!
//! | rank | lock |
//! |---|---|
//! | `Verifying` | one verification |
//! | `Cleaning` | one cleaner pass |
//! | `Moving` | one move of live blocks, of whichever cleaner |
//! | `Checkpointing` | one checkpoint |
//! | `Allocator` | inode numbers |
//! | `Log` | the head of the log, one append at a time |
//! | `Committed` | the three layers |
//! | `Segments` | the usage table |
//! | `Claims` | who cleans which segment, and how |
//!
//! Nobody holds a lower one while asking for a higher, and nobody asks for one
//! he holds. The locks inside the reader, the durability tracker and the
//! buffer pools lie below all these and hold nothing else. The device is
//! asked under the first five only.

use std::ops::{Deref, DerefMut};
use varve_device::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Verifying,
    Cleaning,
    Moving,
    Checkpointing,
    Allocator,
    Log,
    Committed,
    Segments,
    Claims,
}

#[cfg(debug_assertions)]
mod held {
    use super::Rank;
    use std::cell::RefCell;

    varve_device::sync::thread_local! {
        static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
    }

    /// A rank on this thread's list, for as long as the lock is held.
    pub(super) struct Held(Rank);

    impl Held {
        pub fn enter(rank: Rank) -> Self {
            HELD.with(|held| {
                let mut held = held.borrow_mut();
                let fits = held.iter().all(|h| *h < rank);
                assert!(fits, "{rank:?} taken while {held:?} are held");
                held.push(rank);
            });
            Held(rank)
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            HELD.with(|held| {
                let mut held = held.borrow_mut();
                let at = held.iter().rposition(|rank| *rank == self.0);
                held.remove(at.expect("entered and not yet left"));
            });
        }
    }

    /// Asserts that this thread may wait for the device.
    pub(crate) fn assert_may_wait() {
        HELD.with(|held| {
            let held = held.borrow();
            let may = held.iter().all(|rank| *rank <= Rank::Allocator);
            assert!(may, "{held:?} held while the device is asked");
        });
    }
}

#[cfg(not(debug_assertions))]
mod held {
    use super::Rank;

    pub(super) struct Held;

    impl Held {
        #[inline(always)]
        pub fn enter(_rank: Rank) -> Self {
            Held
        }
    }

    #[inline(always)]
    pub(crate) fn assert_may_wait() {}
}

use held::Held;
pub(crate) use held::assert_may_wait;

/// A guard and the rank it stands for.
pub(crate) struct Ranked<G> {
    // Released before its rank.
    guard: G,
    _held: Held,
}

impl<G: Deref> Deref for Ranked<G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Ranked<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// A mutex with a rank.
pub(crate) struct RankedMutex<T> {
    rank: Rank,
    inner: Mutex<T>,
}

impl<T> RankedMutex<T> {
    pub fn new(rank: Rank, value: T) -> Self {
        let inner = Mutex::new(value);
        RankedMutex { rank, inner }
    }

    #[inline]
    pub fn lock(&self) -> Ranked<MutexGuard<'_, T>> {
        let held = Held::enter(self.rank);
        let guard = self.inner.lock();
        Ranked { guard, _held: held }
    }

    /// The lock, if nobody holds it.
    pub fn try_lock(&self) -> Option<Ranked<MutexGuard<'_, T>>> {
        let held = Held::enter(self.rank);
        let guard = self.inner.try_lock()?;
        Some(Ranked { guard, _held: held })
    }
}

/// A lock for readers and writers, with a rank.
pub(crate) struct RankedRwLock<T> {
    rank: Rank,
    inner: RwLock<T>,
}

impl<T> RankedRwLock<T> {
    pub fn new(rank: Rank, value: T) -> Self {
        let inner = RwLock::new(value);
        RankedRwLock { rank, inner }
    }

    #[inline]
    pub fn read(&self) -> Ranked<RwLockReadGuard<'_, T>> {
        let held = Held::enter(self.rank);
        let guard = self.inner.read();
        Ranked { guard, _held: held }
    }

    #[inline]
    pub fn write(&self) -> Ranked<RwLockWriteGuard<'_, T>> {
        let held = Held::enter(self.rank);
        let guard = self.inner.write();
        Ranked { guard, _held: held }
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn the_order_holds_and_nothing_else() {
        let log = RankedMutex::new(Rank::Log, ());
        let committed = RankedRwLock::new(Rank::Committed, ());
        let both = (log.lock(), committed.read());
        drop(both.0);
        drop(both.1);
        assert_may_wait();
    }

    #[test]
    #[should_panic(expected = "Log taken while [Committed] are held")]
    fn going_up_is_refused() {
        let log = RankedMutex::new(Rank::Log, ());
        let committed = RankedRwLock::new(Rank::Committed, ());
        let _below = committed.read();
        let _above = log.lock();
    }

    #[test]
    #[should_panic(expected = "Committed taken while [Committed] are held")]
    fn a_second_reader_on_one_thread_is_refused() {
        let committed = RankedRwLock::new(Rank::Committed, ());
        let _one = committed.read();
        let _two = committed.read();
    }

    #[test]
    #[should_panic(expected = "held while the device is asked")]
    fn the_device_is_not_asked_under_the_log() {
        let log = RankedMutex::new(Rank::Log, ());
        let _log = log.lock();
        assert_may_wait();
    }
}
