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

use std::cell::RefCell;
use varve_device::sync;

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

varve_device::sync::thread_local! {
    static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
}

impl sync::Rank for Rank {
    fn nests(self) -> bool {
        matches!(self, Rank::Directory | Rank::Child)
    }

    fn with_held<T>(look: impl FnOnce(&RefCell<Vec<Self>>) -> T) -> T {
        HELD.with(look)
    }
}

pub(crate) type Ranked<G> = sync::Ranked<G, Rank>;

/// Asserts that this thread holds no lock.
#[inline]
pub(crate) fn assert_none() {
    sync::assert_held_only::<Rank>(|_| false);
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn equal_vnode_ranks_nest() {
        let take = |rank| Ranked::take(rank, || ());
        let (a, b, c) = (
            take(Rank::Directory),
            take(Rank::Directory),
            take(Rank::Child),
        );
        drop(a);
        drop(c);
        drop(b);
        assert_none();
    }

    #[test]
    #[should_panic(expected = "taken while")]
    fn the_gate_after_a_vnode_is_refused() {
        let _child = Ranked::take(Rank::Child, || ());
        let _gate = Ranked::take(Rank::Gate, || ());
    }
}
