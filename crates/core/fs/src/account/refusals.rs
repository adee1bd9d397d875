//! Refused growth, remembered until space is freed.
//!
//! Before growth is refused, dirty data is written back, deleted files are freed, and the
//! layout cleans and takes checkpoints. While no space is freed, a second attempt ends
//! the same, so an operation that asks for as much is refused at once.
//!
//! Invariant: a remembered request was refused while no other operation ran and no change
//! waited in memory, and the same [`Moment`] was read before and after it. So the refusal
//! is about the volume as it is at that moment.

use super::Coming;
use crate::layout::Usage;
use varve_device::sync::Mutex;
use varve_device::sync::atomic::AtomicU64;
use varve_device::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Most refusals that are remembered; some are for inodes, others for blocks.
const KNOWN_MAX: usize = 8;

/// State of the volume on which a refusal depends. Both numbers only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Number of times that the tree became smaller.
    pub freed: u64,
    /// Value of [`crate::Layout::gains`].
    pub gained: u64,
}

/// Growth that was refused, with the space that had to remain free in addition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    pub growth: Usage,
    pub coming: Coming,
}

impl Refused {
    /// True if no measure of this request exceeds that of `other`.
    fn is_within(&self, other: &Refused) -> bool {
        self.growth.inodes <= other.growth.inodes
            && self.growth.blocks <= other.growth.blocks
            && self.growth.sectors <= other.growth.sectors
            && self.coming.bytes <= other.coming.bytes
            && self.coming.attributes <= other.coming.attributes
            && self.coming.reserved <= other.coming.reserved
    }
}

/// The remembered refusals of a volume.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    freed: AtomicU64,
    /// Number of remembered refusals, perhaps of an earlier moment.
    count: AtomicU64,
    known: Mutex<(Moment, Vec<Refused>)>,
}

impl Refusals {
    /// Counts that the tree became smaller, or may have.
    pub fn freed(&self) {
        self.freed.fetch_add(1, AcqRel);
    }

    /// Number of times that the tree became smaller.
    pub fn times_freed(&self) -> u64 {
        self.freed.load(Acquire)
    }

    /// True if no refusal is remembered. No [`Moment`] need be read then.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Acquire) == 0
    }

    /// True if as much was refused at this moment.
    pub fn knows(&self, moment: Moment, asked: &Refused) -> bool {
        let mut known = self.known.lock();
        if known.0 != moment {
            known.1.clear();
            self.count.store(0, Release);
        }
        known.1.iter().any(|refused| refused.is_within(asked))
    }

    /// Remembers that `refused` was refused at `moment`.
    pub fn note(&self, moment: Moment, refused: Refused) {
        let mut known = self.known.lock();
        if known.0 != moment {
            known.1.clear();
            known.0 = moment;
        }
        known.1.retain(|other| !refused.is_within(other));
        if known.1.len() == KNOWN_MAX {
            known.1.remove(0);
        }
        known.1.push(refused);
        self.count.store(known.1.len() as u64, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(inodes: u64, blocks: u64) -> Refused {
        Refused {
            growth: Usage {
                inodes,
                blocks,
                sectors: 8 * blocks,
            },
            coming: (4096 * blocks).into(),
        }
    }

    #[test]
    fn what_asks_for_no_less_is_known_and_nothing_else() {
        let refusals = Refusals::default();
        let now = Moment::default();
        assert!(refusals.is_empty() && !refusals.knows(now, &asked(9, 9)));
        refusals.note(now, asked(1, 4));
        refusals.note(now, asked(0, 8));
        assert!(refusals.knows(now, &asked(1, 4)) && refusals.knows(now, &asked(2, 5)));
        assert!(refusals.knows(now, &asked(0, 9)));
        assert!(!refusals.knows(now, &asked(1, 3)) && !refusals.knows(now, &asked(0, 7)));
        // A smaller request replaces larger ones.
        refusals.note(now, asked(0, 2));
        assert_eq!(refusals.known.lock().1.len(), 1);
        assert!(refusals.knows(now, &asked(0, 2)));
    }

    #[test]
    fn nothing_is_known_once_something_was_freed_or_gained() {
        let refusals = Refusals::default();
        let mut moment = Moment::default();
        for _ in 0..2 {
            refusals.note(moment, asked(1, 1));
            assert!(refusals.knows(moment, &asked(1, 1)));
            refusals.freed();
            moment.freed = refusals.times_freed();
            assert!(!refusals.knows(moment, &asked(1, 1)) && refusals.is_empty());
            refusals.note(moment, asked(1, 1));
            moment.gained += 1;
            assert!(!refusals.knows(moment, &asked(1, 1)));
        }
    }

    #[test]
    fn so_many_are_known_apart() {
        let refusals = Refusals::default();
        for n in 0..20 {
            refusals.note(Moment::default(), asked(n, 100 - n));
        }
        assert_eq!(refusals.known.lock().1.len(), KNOWN_MAX);
    }
}
