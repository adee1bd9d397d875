//! Count of the running operations, and a ticket to run alone.
//!
//! Operations are admitted in parallel, each by its worst case. A request that is refused
//! while other operations run may fit once they have ended. It therefore waits until they
//! have ended, while new operations queue behind it, and asks again alone. A refusal that
//! the caller sees is about the volume and never about concurrent operations.
//!
//! No thread waits here while it has a lock or an admitted operation (`space.rs`), and a
//! thread that has one is never delayed here. So the wait ends.

use varve_device::sync::atomic::{AtomicU64, Ordering::SeqCst};
use varve_device::sync::{Condvar, Mutex, MutexGuard};

/// The operations of one tree that run or ask for admission.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// Operations that ask for admission, or were admitted and have not ended.
    under_way: AtomicU64,
    /// Number of operations that have ever entered.
    came: AtomicU64,
    /// Operations that run alone, or wait to.
    alone: AtomicU64,
    /// Ticket of the operation that runs alone, or waits to.
    turn: Mutex<()>,
    ended: Mutex<()>,
    all_ended: Condvar,
}

/// The two counters at one moment, for [`Crowd::was_alone`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    under_way: u64,
    came: u64,
}

/// Proof that no other operation ran when it was issued. Dropping it admits new
/// operations.
pub(crate) struct Turn<'a> {
    crowd: &'a Crowd,
    _turn: MutexGuard<'a, ()>,
}

impl Crowd {
    /// Counts an operation that asks for admission, or that begins without asking.
    #[inline]
    pub fn enter(&self) {
        self.under_way.fetch_add(1, SeqCst);
        self.came.fetch_add(1, SeqCst);
    }

    /// Removes an operation that was refused or has ended.
    #[inline]
    pub fn leave(&self) {
        let last = self.under_way.fetch_sub(1, SeqCst) == 1;
        if last && self.alone.load(SeqCst) > 0 {
            // Taken because the waiter may have read the counter and not be asleep yet.
            let _ended = self.ended.lock();
            self.all_ended.notify_all();
        }
    }

    /// Number of operations that ask, or were admitted and have not ended.
    #[inline]
    pub fn under_way(&self) -> u64 {
        self.under_way.load(SeqCst)
    }

    /// Waits for operations that run alone or wait to. The caller has no lock.
    #[inline]
    pub fn give_way(&self) {
        if self.alone.load(SeqCst) > 0 {
            drop(self.turn.lock());
        }
    }

    /// Reads the counters, for [`Crowd::was_alone`].
    #[inline]
    pub fn look(&self) -> Seen {
        Seen {
            under_way: self.under_way.load(SeqCst),
            came: self.came.load(SeqCst),
        }
    }

    /// True if, from `since` on, no operation ran except those that entered `own` times
    /// and left again.
    pub fn was_alone(&self, since: Seen, own: u64) -> bool {
        let now = self.look();
        since.under_way == 0 && now.under_way == 0 && now.came == since.came + own
    }

    /// Waits until no operation runs. New operations wait until the ticket is dropped.
    pub fn turn(&self) -> Turn<'_> {
        self.alone.fetch_add(1, SeqCst);
        let turn = self.turn.lock();
        let mut ended = self.ended.lock();
        while self.under_way.load(SeqCst) > 0 {
            self.all_ended.wait(&mut ended);
        }
        Turn {
            crowd: self,
            _turn: turn,
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.crowd.alone.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_alone_is_told_so_and_who_was_not_is_not() {
        let crowd = Crowd::default();
        let seen = crowd.look();
        crowd.enter();
        crowd.leave();
        assert!(crowd.was_alone(seen, 1));
        assert!(!crowd.was_alone(seen, 0));
        crowd.enter();
        assert!(!crowd.was_alone(seen, 2));
        let seen = crowd.look();
        crowd.leave();
        assert!(!crowd.was_alone(seen, 0));
    }

    #[test]
    fn a_turn_waits_for_those_under_way_and_newcomers_for_the_turn() {
        let crowd = Crowd::default();
        let order = Mutex::new(Vec::new());
        crowd.enter();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _turn = crowd.turn();
                order.lock().push("turn");
            });
            while crowd.alone.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            scope.spawn(|| {
                crowd.give_way();
                order.lock().push("newcomer");
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            order.lock().push("ended");
            crowd.leave();
        });
        assert_eq!(*order.lock(), ["ended", "turn", "newcomer"]);
    }
}
