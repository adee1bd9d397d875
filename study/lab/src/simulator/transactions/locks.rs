//! Locks: shared or exclusive, held by transactions, with a queue each.
//!
//! Invariants: an exclusive lock has one holder; who waits could not be granted
//! when he asked, and is granted in turn, so nobody is overtaken. A holder who
//! wants a shared lock exclusively is first in the queue.

use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::collections::VecDeque;

/// Number of a transaction, below [`super::Parameters::USERS_MAX`].
pub(super) type Txn = usize;

/// What is locked: a page, or a part of one.
pub(super) type Key = u64;

/// The key of a part of a page; all of a page is its part 0 where no parts are
/// locked.
pub(super) fn key(page: u32, part: u64) -> Key {
    (u64::from(page) << 8) | part
}

#[derive(Debug, Default)]
struct Lock {
    holders: u128,
    exclusive: bool,
    queue: VecDeque<(Txn, bool)>,
}

impl Lock {
    /// Whether nothing that is held forbids it.
    fn admits(&self, txn: Txn, exclusive: bool) -> bool {
        let others = self.holders & !(1 << txn);
        others == 0 || !(exclusive || self.exclusive)
    }

    fn grant(&mut self, txn: Txn, exclusive: bool) {
        self.exclusive |= exclusive;
        self.holders |= 1 << txn;
    }

    /// Grants from the front of the queue what can be granted.
    fn advance(&mut self, granted: &mut Vec<Txn>) {
        while let Some(&(txn, exclusive)) = self.queue.front() {
            if !self.admits(txn, exclusive) {
                return;
            }
            self.grant(txn, exclusive);
            self.queue.pop_front();
            granted.push(txn);
        }
    }
}

/// All locks that are held or waited for.
#[derive(Debug, Default)]
pub(super) struct Locks {
    locks: HashMap<Key, Lock, FixedState>,
    /// What each transaction holds.
    held: Vec<Vec<Key>>,
    /// What each transaction waits for.
    awaited: Vec<Option<Key>>,
}

impl Locks {
    pub(super) fn new(users: usize) -> Self {
        assert!((1..=super::Parameters::USERS_MAX).contains(&users));
        Locks {
            locks: HashMap::default(),
            held: vec![Vec::new(); users],
            awaited: vec![None; users],
        }
    }

    /// Asks for a lock; false if the transaction must wait for it.
    pub(super) fn ask(&mut self, txn: Txn, key: Key, exclusive: bool) -> bool {
        let lock = self.locks.entry(key).or_default();
        let holds = lock.holders >> txn & 1 == 1;
        if holds && (lock.exclusive || !exclusive) {
            return true;
        }
        if lock.admits(txn, exclusive) && (holds || lock.queue.is_empty()) {
            lock.grant(txn, exclusive);
            if !holds {
                self.held[txn].push(key);
            }
            return true;
        }
        match holds {
            true => lock.queue.push_front((txn, exclusive)),
            false => lock.queue.push_back((txn, exclusive)),
        }
        self.awaited[txn] = Some(key);
        false
    }

    /// What a transaction waits for.
    pub(super) fn awaited(&self, txn: Txn) -> Option<Key> {
        self.awaited[txn]
    }

    /// Gives one lock back; who is granted one by that is added.
    pub(super) fn release(&mut self, txn: Txn, key: Key, granted: &mut Vec<Txn>) {
        let place = self.held[txn].iter().rposition(|held| *held == key);
        if let Some(place) = place {
            self.held[txn].swap_remove(place);
            self.free(txn, key, granted);
        }
    }

    /// Ends a transaction: it holds and waits for nothing any more.
    pub(super) fn end(&mut self, txn: Txn, granted: &mut Vec<Txn>) {
        if let Some(key) = self.awaited[txn].take() {
            let lock = self.locks.get_mut(&key).expect("somebody waits for it");
            lock.queue.retain(|(waiter, _)| *waiter != txn);
            let from = granted.len();
            lock.advance(granted);
            self.note_granted(key, granted, from);
        }
        let mut held = std::mem::take(&mut self.held[txn]);
        for key in held.drain(..) {
            self.free(txn, key, granted);
        }
        self.held[txn] = held;
    }

    fn free(&mut self, txn: Txn, key: Key, granted: &mut Vec<Txn>) {
        let lock = self.locks.get_mut(&key).expect("it is held");
        lock.holders &= !(1 << txn);
        lock.exclusive &= lock.holders != 0;
        let from = granted.len();
        lock.advance(granted);
        if lock.holders == 0 {
            self.locks.remove(&key);
        }
        self.note_granted(key, granted, from);
    }

    fn note_granted(&mut self, key: Key, granted: &[Txn], from: usize) {
        for txn in &granted[from..] {
            self.awaited[*txn] = None;
            // A shared lock that became exclusive is in the list already.
            if !self.held[*txn].contains(&key) {
                self.held[*txn].push(key);
            }
        }
    }

    /// A transaction that waits, by whatever chain, for itself.
    pub(super) fn in_circle(&self) -> Option<Txn> {
        let users = self.held.len();
        let waits_for: Vec<u128> = (0..users).map(|txn| self.blockers(txn)).collect();
        let reaches_itself = |txn: &Txn| {
            let mut reached = waits_for[*txn];
            let mut fresh = reached;
            while fresh != 0 {
                let next = fresh.trailing_zeros() as usize;
                fresh &= fresh - 1;
                let more = waits_for[next] & !reached;
                reached |= more;
                fresh |= more;
            }
            reached >> txn & 1 == 1
        };
        (0..users).find(reaches_itself)
    }

    /// Those who must let go before a transaction goes on.
    fn blockers(&self, txn: Txn) -> u128 {
        let Some(key) = self.awaited[txn] else {
            return 0;
        };
        let lock = &self.locks[&key];
        let before = lock.queue.iter().take_while(|(waiter, _)| *waiter != txn);
        let before = before.fold(0u128, |all, (waiter, _)| all | 1 << waiter);
        (lock.holders | before) & !(1 << txn)
    }

    /// Whether nobody holds a lock or waits for one.
    pub(super) fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_nobody_is_overtaken() {
        let mut locks = Locks::new(4);
        let mut granted = Vec::new();
        assert!(locks.ask(0, 7, false) && locks.ask(1, 7, false));
        assert!(!locks.ask(2, 7, true), "readers hold it");
        assert!(!locks.ask(3, 7, false), "a writer is before it");
        locks.end(0, &mut granted);
        assert!(granted.is_empty());
        locks.end(1, &mut granted);
        assert_eq!(granted, [2]);
        locks.release(2, 7, &mut granted);
        assert_eq!(granted, [2, 3]);
        locks.end(3, &mut granted);
        assert!(locks.is_empty());
    }

    #[test]
    fn a_reader_who_wants_to_write_goes_first() {
        let mut locks = Locks::new(3);
        let mut granted = Vec::new();
        assert!(locks.ask(0, 1, false) && locks.ask(0, 1, true), "alone");
        assert!(locks.ask(0, 1, false), "it holds more than that");
        locks.end(0, &mut granted);
        assert!(locks.ask(0, 1, false) && locks.ask(1, 1, false));
        assert!(!locks.ask(2, 1, true) && !locks.ask(0, 1, true));
        locks.end(1, &mut granted);
        assert_eq!(granted, [0], "before who came first");
        locks.end(0, &mut granted);
        assert_eq!(granted, [0, 2]);
        locks.end(2, &mut granted);
        assert!(locks.is_empty());
    }

    /// Random requests beside a list of who holds what: two who exclude each other
    /// never hold a lock together, and whoever can be granted one is.
    #[test]
    fn no_two_hold_what_excludes_them() {
        let seed = varve_prove::random::announce_seed("no_two_hold_what_excludes_them", 5);
        let mut random = varve_prove::random::Random::new(seed);
        let users = 6;
        let mut locks = Locks::new(users);
        let mut granted = Vec::new();
        // By transaction: what it holds, and what it waits for.
        let mut held = vec![HashMap::<Key, bool>::new(); users];
        let mut awaited: Vec<Option<(Key, bool)>> = vec![None; users];
        for _ in 0..20_000 {
            let txn = random.below(users as u64) as usize;
            let ends = random.once_in(6);
            if ends {
                locks.end(txn, &mut granted);
                held[txn].clear();
                awaited[txn] = None;
            } else if awaited[txn].is_none() {
                let (key, exclusive) = (random.below(4), random.once_in(3));
                match locks.ask(txn, key, exclusive) {
                    true => *held[txn].entry(key).or_default() |= exclusive,
                    false => awaited[txn] = Some((key, exclusive)),
                }
            }
            for txn in granted.drain(..) {
                let (key, exclusive) = awaited[txn].take().expect("it waited");
                *held[txn].entry(key).or_default() |= exclusive;
            }
            for key in 0..4 {
                let holders = held.iter().filter_map(|held| held.get(&key));
                let (all, writers) = holders.fold((0, 0), |(all, writers), exclusive| {
                    (all + 1, writers + usize::from(*exclusive))
                });
                assert!(writers == 0 || all == 1, "{all} hold {key}");
                let waiters = awaited.iter().flatten().filter(|(at, _)| *at == key);
                assert!(all > 0 || waiters.count() == 0, "{key} is free");
            }
            for (txn, awaited) in awaited.iter().enumerate() {
                assert_eq!(locks.awaited(txn), awaited.map(|(key, _)| key));
            }
        }
        (0..users).for_each(|txn| locks.end(txn, &mut granted));
        assert!(locks.is_empty());
    }

    #[test]
    fn circles_are_found_and_broken() {
        let mut locks = Locks::new(4);
        let mut granted = Vec::new();
        for txn in 0..3 {
            assert!(locks.ask(txn, txn as u64, true));
        }
        assert!(!locks.ask(3, 0, false) && !locks.ask(0, 1, true) && !locks.ask(1, 2, true));
        assert_eq!(locks.in_circle(), None);
        assert!(!locks.ask(2, 0, true));
        // 3 waits for the circle, but is not in it.
        assert_eq!(locks.in_circle(), Some(0));
        locks.end(0, &mut granted);
        assert_eq!(granted, [3]);
        assert_eq!(locks.in_circle(), None);
    }
}
