//! Recently removed files that the kernel still references, and whose space is about to
//! be freed.
//!
//! The kernel drops its reference a moment after a file is removed, and by another path
//! than its requests. A request that is refused in between may be admitted after that. A
//! program may keep a file open indefinitely, so only files removed within the last
//! second are listed.

use crate::types::InodeNo;
use std::collections::{BTreeMap, HashMap};
use varve_device::sync::Mutex;
use varve_device::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Age in nanoseconds up to which a removal is recent.
const RECENT_NS: u64 = 1_000_000_000;

/// Recent removals of one tree whose files are still referenced.
#[derive(Debug, Default)]
pub(crate) struct HeldRemovals {
    /// Number of listed removals; a query while there is none takes no lock.
    count: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// File and time, in nanoseconds, of each removal, by its serial number.
    removals: BTreeMap<u64, (InodeNo, u64)>,
    numbers: HashMap<InodeNo, u64>,
    next: u64,
}

impl State {
    /// Drops the removals that are no longer recent.
    fn expire(&mut self, now_ns: u64) {
        while let Some(first) = self.removals.first_entry()
            && first.get().1.saturating_add(RECENT_NS) < now_ns
        {
            let (ino, _) = first.remove();
            self.numbers.remove(&ino);
        }
    }
}

impl HeldRemovals {
    /// Records that a file lost its last name and is still referenced.
    pub fn removed(&self, ino: InodeNo, now_ns: u64) {
        let state = &mut *self.state.lock();
        state.expire(now_ns);
        state.next += 1;
        state.removals.insert(state.next, (ino, now_ns));
        state.numbers.insert(ino, state.next);
        self.count.store(state.removals.len() as u64, Relaxed);
    }

    /// Records that a file without a name was freed.
    pub fn freed(&self, ino: InodeNo) {
        if self.count.load(Relaxed) == 0 {
            return;
        }
        let state = &mut *self.state.lock();
        if let Some(number) = state.numbers.remove(&ino) {
            state.removals.remove(&number);
            self.count.store(state.removals.len() as u64, Relaxed);
        }
    }

    /// Serial number of the latest recent removal whose file is still referenced.
    pub fn latest(&self, now_ns: u64) -> Option<u64> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        let state = &mut *self.state.lock();
        state.expire(now_ns);
        self.count.store(state.removals.len() as u64, Relaxed);
        state.removals.last_key_value().map(|(number, _)| *number)
    }

    /// True if a file of the recent removal `until`, or of an earlier one, is still
    /// referenced.
    pub fn are_held(&self, until: u64, now_ns: u64) -> bool {
        let state = &mut *self.state.lock();
        state.expire(now_ns);
        self.count.store(state.removals.len() as u64, Relaxed);
        let first = state.removals.first_key_value();
        first.is_some_and(|(number, _)| *number <= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removals_are_known_until_their_files_are_freed() {
        let held = HeldRemovals::default();
        assert_eq!(held.latest(0), None);
        (1..=3).for_each(|n| held.removed(InodeNo(10 + n), n));
        let latest = held.latest(5).unwrap();
        held.removed(InodeNo(20), 5);
        held.freed(InodeNo(12));
        held.freed(InodeNo(12));
        held.freed(InodeNo(11));
        assert!(held.are_held(latest, 5));
        held.freed(InodeNo(13));
        assert!(!held.are_held(latest, 5), "a later one does not count");
        assert!(held.are_held(held.latest(5).unwrap(), 5));
        held.freed(InodeNo(20));
        assert_eq!(held.latest(5), None);
    }

    #[test]
    fn files_that_are_held_for_long_are_not_waited_for() {
        let held = HeldRemovals::default();
        held.removed(InodeNo(1), 0);
        held.removed(InodeNo(2), RECENT_NS);
        let latest = held.latest(RECENT_NS).unwrap();
        assert!(held.are_held(latest - 1, RECENT_NS));
        assert!(!held.are_held(latest - 1, RECENT_NS + 1));
        assert!(held.are_held(latest, RECENT_NS + 1));
        assert_eq!(held.latest(2 * RECENT_NS + 1), None);
        let state = held.state.lock();
        assert!(state.removals.is_empty() && state.numbers.is_empty());
    }
}
