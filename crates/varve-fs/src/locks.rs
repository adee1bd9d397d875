//! The order in which locks are taken, checked in debug builds.
//!
//! | rank | lock |
//! |---|---|
//! | — | [`crate::Layout::admit`] is asked before any lock |
//! | `Writer` | one capture and append at a time |
//! | `Gate` | shared by operations that change the tree, exclusive for a capture |
//! | `Rename` | cross-directory renames, so that the tree above them stands still |
//! | `Directory` | directories whose entries change or are searched: an ancestor before its descendants, else by number |
//! | `Child` | vnodes that entries lead to, by number |
//! | `Load` | one load of an inode per shard |
//! | `Queue` | epoch, dirty queue and their like |
//!
//! Shards of the vnode table, the cache and a vnode's read-ahead state lie
//! below all these and hold nothing else; the layout's locks are below those.
//! Reads and look-ups take only `Directory` and `Child`, shared, and no gate.

use std::ops::{Deref, DerefMut};

/// See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Writer,
    Gate,
    Rename,
    Directory,
    Child,
    Load,
    Queue,
}

#[cfg(debug_assertions)]
mod held {
    use super::Rank;
    use std::cell::RefCell;

    varve_device::sync::thread_local! {
        static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
    }

    /// A rank on this thread's list, for as long as the lock is held.
    pub(crate) struct Held(Rank);

    impl Held {
        pub fn enter(rank: Rank) -> Self {
            HELD.with(|held| {
                let mut held = held.borrow_mut();
                let highest = held.iter().max().copied();
                let shared = matches!(rank, Rank::Directory | Rank::Child);
                let fits = highest.is_none_or(|h| h < rank || (h == rank && shared));
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

    /// Asserts that this thread holds no lock.
    pub(crate) fn assert_none() {
        HELD.with(|held| {
            let held = held.borrow();
            assert!(held.is_empty(), "{held:?} held across a wait");
        });
    }
}

#[cfg(not(debug_assertions))]
mod held {
    use super::Rank;

    pub(crate) struct Held;

    impl Held {
        #[inline(always)]
        pub fn enter(_rank: Rank) -> Self {
            Held
        }
    }

    #[inline(always)]
    pub(crate) fn assert_none() {}
}

pub(crate) use held::{Held, assert_none};

/// A guard and the rank it stands for.
pub(crate) struct Ranked<G> {
    guard: G,
    _held: Held,
}

impl<G> Ranked<G> {
    /// Checks the rank, then takes the lock.
    #[inline]
    pub fn take(rank: Rank, lock: impl FnOnce() -> G) -> Self {
        let held = Held::enter(rank);
        Ranked {
            guard: lock(),
            _held: held,
        }
    }
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

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn equal_vnode_ranks_nest_and_others_do_not() {
        let a = Held::enter(Rank::Directory);
        let b = Held::enter(Rank::Directory);
        let c = Held::enter(Rank::Child);
        drop(a);
        drop(c);
        drop(b);
        assert_none();
    }

    #[test]
    #[should_panic(expected = "taken while")]
    fn the_gate_after_a_vnode_is_refused() {
        let _child = Held::enter(Rank::Child);
        let _gate = Held::enter(Rank::Gate);
    }
}
