//! Who is under way, and who must be alone.
//!
//! Operations are admitted beside what all others were promised, each at its
//! worst. So whoever is refused in a crowd may fit once the others have ended:
//! it waits for them, while newcomers wait behind it, and asks again alone. A
//! refusal that is told is about the volume and never about the neighbours.
//!
//! Nobody waits here who holds a lock or has been admitted (`space.rs`), and
//! whoever has is never kept here, so that the wait ends.

use varve_device::sync::atomic::{AtomicU64, Ordering::SeqCst};
use varve_device::sync::{Condvar, Mutex, MutexGuard};

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// Those who ask, and those who were admitted and have not ended.
    under_way: AtomicU64,
    /// How many have asked.
    came: AtomicU64,
    /// Those who wait to be alone, or are.
    alone: AtomicU64,
    /// Held by whoever is alone, or waits to be.
    turn: Mutex<()>,
    ended: Mutex<()>,
    all_ended: Condvar,
}

/// What was there at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    under_way: u64,
    came: u64,
}

/// Nobody else was under way when it began; drop it to let others go on.
pub(crate) struct Turn<'a> {
    crowd: &'a Crowd,
    _turn: MutexGuard<'a, ()>,
}

impl Crowd {
    /// Somebody asks, or begins without asking.
    #[inline]
    pub fn enter(&self) {
        self.under_way.fetch_add(1, SeqCst);
        self.came.fetch_add(1, SeqCst);
    }

    /// It was refused, or has ended.
    #[inline]
    pub fn leave(&self) {
        let last = self.under_way.fetch_sub(1, SeqCst) == 1;
        if last && self.alone.load(SeqCst) > 0 {
            // Under the lock, lest the one who waits has looked and not slept.
            let _ended = self.ended.lock();
            self.all_ended.notify_all();
        }
    }

    /// How many ask, or were admitted and have not ended.
    #[inline]
    pub fn under_way(&self) -> u64 {
        self.under_way.load(SeqCst)
    }

    /// Who wants to be alone goes first. No lock is held.
    #[inline]
    pub fn give_way(&self) {
        if self.alone.load(SeqCst) > 0 {
            drop(self.turn.lock());
        }
    }

    /// For [`Crowd::was_alone`].
    #[inline]
    pub fn look(&self) -> Seen {
        Seen {
            under_way: self.under_way.load(SeqCst),
            came: self.came.load(SeqCst),
        }
    }

    /// True if from then on nobody was under way but those who entered `own`
    /// times and left again.
    pub fn was_alone(&self, since: Seen, own: u64) -> bool {
        let now = self.look();
        since.under_way == 0 && now.under_way == 0 && now.came == since.came + own
    }

    /// Waits until nobody is under way. Newcomers wait until the turn is over.
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
