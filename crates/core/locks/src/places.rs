//! The order in which the table's own mutexes are taken.

use std::cell::RefCell;
use varve_device::sync;

/// The content of a mutex; earlier ones are taken first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Owners and their chains.
    Owners,
    /// Objects; the mutexes of several shards are taken in the order of the shards.
    Objects,
    /// All waiting requests.
    Waits,
    /// The nesting of transactions.
    Families,
}

varve_device::sync::thread_local! {
    static HELD: RefCell<Vec<Place>> = const { RefCell::new(Vec::new()) };
}

impl sync::Rank for Place {
    fn nests(self) -> bool {
        self == Place::Objects
    }

    fn with_held<T>(look: impl FnOnce(&RefCell<Vec<Self>>) -> T) -> T {
        HELD.with(look)
    }
}

pub(crate) type Mutex<T> = sync::RankedMutex<T, Place>;
pub(crate) type RwLock<T> = sync::RankedRwLock<T, Place>;
pub(crate) type Guard<'a, T> = sync::Ranked<sync::MutexGuard<'a, T>, Place>;
