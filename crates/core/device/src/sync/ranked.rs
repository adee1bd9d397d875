//! The order in which locks are taken, checked in debug builds.
//!
//! Each crate defines its ranks in the order in which they are taken. Each thread has a
//! list of the ranks of its locks, and taking a lock compares its rank with that list.
//! A wrong order therefore fails in any test that takes it, and not only in the one run
//! of a thousand in which two threads wait for each other.

use super::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::cell::RefCell;
use std::fmt::Debug;
use std::ops::{Deref, DerefMut};

/// A position in an order of locks: the lower rank is taken first.
pub trait Rank: Copy + Debug + Ord + 'static {
    /// Returns true if a thread that has a lock of this rank may take another one of
    /// it. The crate then defines another order among them.
    fn nests(self) -> bool {
        false
    }

    /// Calls `look` with this thread's list of ranks.
    fn with_held<T>(look: impl FnOnce(&RefCell<Vec<Self>>) -> T) -> T;
}

/// A rank in this thread's list, for as long as the lock is taken.
struct Held<R: Rank>(R);

impl<R: Rank> Held<R> {
    #[inline]
    fn enter(rank: R) -> Self {
        if cfg!(debug_assertions) {
            R::with_held(|held| {
                let mut held = held.borrow_mut();
                let highest = held.iter().max();
                let fits = highest.is_none_or(|h| *h < rank || (*h == rank && rank.nests()));
                assert!(fits, "{rank:?} taken while {held:?} are held");
                held.push(rank);
            });
        }
        Held(rank)
    }
}

impl<R: Rank> Drop for Held<R> {
    #[inline]
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            R::with_held(|held| {
                let mut held = held.borrow_mut();
                let at = held.iter().rposition(|rank| *rank == self.0);
                held.remove(at.expect("entered and not yet left"));
            });
        }
    }
}

/// Asserts, in debug builds, that `may` is true for the rank of every lock of this
/// thread.
#[inline]
pub fn assert_held_only<R: Rank>(may: impl Fn(R) -> bool) {
    if cfg!(debug_assertions) {
        R::with_held(|held| {
            let held = held.borrow();
            assert!(
                held.iter().all(|rank| may(*rank)),
                "{held:?} held across a wait"
            );
        });
    }
}

/// A guard and the rank of its lock.
pub struct Ranked<G, R: Rank> {
    // The lock is released before its rank.
    guard: G,
    _held: Held<R>,
}

impl<G, R: Rank> Ranked<G, R> {
    /// Checks the rank, then calls `lock` to take the lock.
    #[inline]
    pub fn take(rank: R, lock: impl FnOnce() -> G) -> Self {
        let held = Held::enter(rank);
        Ranked {
            guard: lock(),
            _held: held,
        }
    }

    /// Checks the rank, then calls `lock` to take the lock if it is free.
    #[inline]
    pub fn try_take(rank: R, lock: impl FnOnce() -> Option<G>) -> Option<Self> {
        let held = Held::enter(rank);
        let guard = lock()?;
        Some(Ranked { guard, _held: held })
    }
}

impl<G: Deref, R: Rank> Deref for Ranked<G, R> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut, R: Rank> DerefMut for Ranked<G, R> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// A mutex with a rank.
pub struct RankedMutex<T, R: Rank> {
    rank: R,
    inner: Mutex<T>,
}

impl<T, R: Rank> RankedMutex<T, R> {
    /// Creates an unlocked mutex.
    pub fn new(rank: R, value: T) -> Self {
        let inner = Mutex::new(value);
        RankedMutex { rank, inner }
    }

    /// Takes the lock.
    #[inline]
    pub fn lock(&self) -> Ranked<MutexGuard<'_, T>, R> {
        Ranked::take(self.rank, || self.inner.lock())
    }

    /// Takes the lock if it is free; returns `None` otherwise.
    pub fn try_lock(&self) -> Option<Ranked<MutexGuard<'_, T>, R>> {
        Ranked::try_take(self.rank, || self.inner.try_lock())
    }
}

/// A read-write lock with a rank.
pub struct RankedRwLock<T, R: Rank> {
    rank: R,
    inner: RwLock<T>,
}

impl<T, R: Rank> RankedRwLock<T, R> {
    /// Creates an unlocked lock.
    pub fn new(rank: R, value: T) -> Self {
        let inner = RwLock::new(value);
        RankedRwLock { rank, inner }
    }

    /// Takes the lock shared.
    #[inline]
    pub fn read(&self) -> Ranked<RwLockReadGuard<'_, T>, R> {
        Ranked::take(self.rank, || self.inner.read())
    }

    /// Takes the lock exclusively.
    #[inline]
    pub fn write(&self) -> Ranked<RwLockWriteGuard<'_, T>, R> {
        Ranked::take(self.rank, || self.inner.write())
    }

    /// Returns the value without locking: `&mut self` excludes other users.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

#[cfg(all(test, debug_assertions, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Place {
        Gate,
        Row,
        Leaf,
    }

    crate::sync::thread_local! {
        static HELD: RefCell<Vec<Place>> = const { RefCell::new(Vec::new()) };
    }

    impl Rank for Place {
        fn nests(self) -> bool {
            self == Place::Row
        }

        fn with_held<T>(look: impl FnOnce(&RefCell<Vec<Self>>) -> T) -> T {
            HELD.with(look)
        }
    }

    #[test]
    fn the_order_holds_and_equal_ranks_nest_where_they_may() {
        let gate = RankedMutex::new(Place::Gate, ());
        let row = RankedRwLock::new(Place::Row, ());
        let (a, b, c) = (gate.lock(), row.read(), row.read());
        drop(b);
        drop((c, a));
        assert_held_only::<Place>(|_| false);
        let _leaf = Ranked::take(Place::Leaf, || Box::new(()));
        assert_held_only(|place: Place| place == Place::Leaf);
    }

    #[test]
    #[should_panic(expected = "Gate taken while [Row] are held")]
    fn going_up_is_refused() {
        let _row = Ranked::take(Place::Row, || Box::new(()));
        let _gate = Ranked::take(Place::Gate, || Box::new(()));
    }

    #[test]
    #[should_panic(expected = "Leaf taken while [Leaf] are held")]
    fn the_same_twice_is_refused() {
        let leaf = Place::Leaf;
        let _both = [leaf, leaf].map(|leaf| Ranked::take(leaf, || Box::new(())));
    }

    #[test]
    #[should_panic(expected = "[Leaf] held across a wait")]
    fn what_may_not_be_held_is_refused() {
        let _leaf = Ranked::take(Place::Leaf, || Box::new(()));
        assert_held_only(|place: Place| place < Place::Leaf);
    }
}
