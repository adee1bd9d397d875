//! Placement by the life that is left (our own).
//!
//! What dies together belongs together. The life that a block has before it is
//! inferred as in SepBIT: a user write will live as long as its predecessor
//! did, a survivor as long again as it has lived. Three differences:
//!
//! - The unit of life is the room: the user blocks that fit into what is not
//!   live. What dies within one unit dies before its segment need be cleaned,
//!   so it is the first class; each further class is four times as long. The
//!   unit is known from the beginning, nothing has to be learned.
//! - User writes and survivors have three classes each. A survivor was judged
//!   wrongly once, and would spoil the segments of those judged rightly.
//! - Victims by (1 - u) / u · √age. Cleaning costs what is moved, u, and not
//!   the reading; so all but empty segments go first at any age. Age counts
//!   with its root: segments of one class grow empty together and soon, so
//!   there is less to wait for than in a log where everything is mixed.
//!
//! `docs/cleaning.md` has the variants that were tried.

use super::{Candidate, Choice, Measures, Policy, Survivor, Write, best};

/// Classes of user writes, and as many of survivors.
const CLASSES: usize = 3;

/// See the module's head.
#[derive(Debug, Clone)]
pub struct LifeClasses {
    /// User blocks that fit into what is not live.
    room: u64,
}

impl Default for LifeClasses {
    fn default() -> Self {
        LifeClasses { room: 1 }
    }
}

impl LifeClasses {
    /// The class of what lives that much longer.
    fn class(&self, life: u64) -> usize {
        match life / self.room {
            0 => 0,
            1..4 => 1,
            _ => CLASSES - 1,
        }
    }
}

impl Policy for LifeClasses {
    fn name(&self) -> &'static str {
        "life-classes"
    }

    fn choose(&self, candidates: &[Candidate], now_ns: i64, limit: usize) -> Choice {
        Choice::copy(best(candidates, limit, |c| {
            let u = c.utilisation();
            // Of empty ones, the oldest.
            let gain = (1.0 - u) / u.max(1e-3);
            c.is_worth_it().then(|| gain * c.age_ns(now_ns).sqrt())
        }))
    }

    fn heads(&mut self, measures: &Measures) -> usize {
        let spare = u64::from(measures.spare_segments);
        self.room = (spare * u64::from(measures.segment_blocks)).max(1);
        2 * CLASSES
    }

    fn place(&mut self, write: &Write) -> usize {
        write.life.map_or(CLASSES - 1, |life| self.class(life))
    }

    fn place_survivor(&mut self, survivor: &Survivor) -> usize {
        CLASSES + self.class(survivor.age)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{candidate, numbers};
    use super::*;

    #[test]
    fn classes_are_measured_by_the_room() {
        let mut policy = LifeClasses::default();
        let measures = Measures {
            spare_segments: 10,
            segment_blocks: 100,
        };
        assert_eq!(policy.heads(&measures), 6);
        let mut write = Write {
            block: 1,
            arrival: 50_000,
            life: None,
            buffer: 0,
        };
        assert_eq!(policy.place(&write), 2, "new blocks count as cold");
        for (age, class) in [(999, 0), (1000, 1), (3999, 1), (4000, 2)] {
            write.life = Some(age);
            assert_eq!(policy.place(&write), class);
            let survivor = Survivor {
                block: 1,
                now: 50_000,
                age,
                head: 0,
            };
            assert_eq!(policy.place_survivor(&survivor), 3 + class);
        }
    }

    #[test]
    fn all_but_empty_segments_go_first_and_age_counts_less() {
        // Worth 99 · 10, 1 · 31, 1/3 · 31 and 1 · 10.
        let candidates = [
            candidate(1, 10, 900),
            candidate(2, 500, 0),
            candidate(3, 750, 0),
            candidate(4, 500, 900),
            candidate(5, 990, 0),
        ];
        let choice = LifeClasses::default().choose(&candidates, 1000, 9);
        assert_eq!(numbers(&choice), [1, 2, 3, 4]);
    }
}
