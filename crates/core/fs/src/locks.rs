//! The order in which locks are taken, checked in debug builds.
//!
//! | rank | lock |
//! |---|---|
//! | — | [`crate::Layout::admit`] is asked before any lock |
//! | `Writer` | one capture and append at a time |
//! | `Gate` | shared by operations that change the tree, exclusive for a capture |
//! | `Rename` | cross-directory renames, so that the tree above them does not change |
//! | `Directory` | directories whose entries change or are searched: an ancestor before its descendants, else by number |
//! | `Child` | vnodes to which entries refer, by number |
//! | `Load` | one load of an inode per shard |
//! | `Queue` | epoch, dirty queue and similar queues |
//!
//! Shards of the vnode table, the cache and a vnode's read-ahead state rank below all
//! these, and no lock is taken under them; the layout's locks rank below those. Reads and
//! look-ups take only `Directory` and `Child`, shared, and no gate.
//!
//! A private tree's locks rank before those of the tree below it.

use std::cell::RefCell;
use varve_device::sync;

/// Rank of a lock within one tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lock {
    Writer,
    Gate,
    Rename,
    Directory,
    Child,
    Load,
    Queue,
}

/// Level of a tree in the stack of trees: a tree is directly or indirectly above every
/// tree of a greater level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Level(pub u8);

impl Level {
    /// Level of the mounted tree, which is stored in the layout.
    pub const MOUNTED: Level = Level(u8::MAX);

    /// Level of a private tree above this one, or `None` at the greatest depth.
    pub fn upon(self) -> Option<Level> {
        self.0.checked_sub(1).map(Level)
    }

    pub fn rank(self, lock: Lock) -> Rank {
        Rank { level: self, lock }
    }
}

/// Rank of a lock among those of all trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    level: Level,
    lock: Lock,
}

varve_device::sync::thread_local! {
    static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
}

impl sync::Rank for Rank {
    fn nests(self) -> bool {
        matches!(self.lock, Lock::Directory | Lock::Child)
    }

    fn with_held<T>(look: impl FnOnce(&RefCell<Vec<Self>>) -> T) -> T {
        HELD.with(look)
    }
}

pub(crate) type Ranked<G> = sync::Ranked<G, Rank>;

/// Asserts that this thread has no lock.
#[inline]
pub(crate) fn assert_none() {
    sync::assert_held_only::<Rank>(|_| false);
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    fn take(lock: Lock) -> Ranked<()> {
        Ranked::take(Level::MOUNTED.rank(lock), || ())
    }

    #[test]
    fn equal_vnode_ranks_nest() {
        let (a, b, c) = (
            take(Lock::Directory),
            take(Lock::Directory),
            take(Lock::Child),
        );
        drop(a);
        drop(c);
        drop(b);
        assert_none();
    }

    #[test]
    #[should_panic(expected = "taken while")]
    fn the_gate_after_a_vnode_is_refused() {
        let _child = take(Lock::Child);
        let _gate = take(Lock::Gate);
    }

    #[test]
    fn what_is_below_may_be_asked_from_above() {
        let above = Level::MOUNTED.upon().expect("there are many");
        let _child = Ranked::take(above.rank(Lock::Child), || ());
        let _directory = take(Lock::Directory);
    }

    #[test]
    #[should_panic(expected = "taken while")]
    fn what_is_above_may_not_be_asked_from_below() {
        let _child = take(Lock::Child);
        let above = Level::MOUNTED.upon().expect("there are many");
        let _directory = Ranked::take(above.rank(Lock::Directory), || ());
    }
}
