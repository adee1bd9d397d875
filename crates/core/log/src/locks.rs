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
//! | `Snapshots` | which are held |
//! | `Spills` | blocks of open transactions |
//! | `Committed` | the three layers |
//! | `Segments` | the usage table |
//! | `Claims` | who cleans which segment, and how |
//!
//! Nobody holds a lower one while asking for a higher, and nobody asks for one
//! he holds. The locks inside the reader, the durability tracker and the
//! buffer pools lie below all these and hold nothing else. The device is
//! asked under the first five only.

use std::cell::RefCell;
use varve_device::sync;

/// See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Verifying,
    Cleaning,
    Moving,
    Checkpointing,
    Allocator,
    Log,
    Snapshots,
    Spills,
    Committed,
    Segments,
    Claims,
}

varve_device::sync::thread_local! {
    static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
}

impl sync::Rank for Rank {
    fn with_held<T>(look: impl FnOnce(&RefCell<Vec<Self>>) -> T) -> T {
        HELD.with(look)
    }
}

pub(crate) type Ranked<G> = sync::Ranked<G, Rank>;
pub(crate) type RankedMutex<T> = sync::RankedMutex<T, Rank>;
pub(crate) type RankedRwLock<T> = sync::RankedRwLock<T, Rank>;

/// Asserts that this thread may wait for the device.
#[inline]
pub(crate) fn assert_may_wait() {
    sync::assert_held_only(|rank: Rank| rank <= Rank::Allocator);
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
    #[should_panic(expected = "held across a wait")]
    fn the_device_is_not_asked_under_the_log() {
        let log = RankedMutex::new(Rank::Log, ());
        let _log = log.lock();
        assert_may_wait();
    }
}
