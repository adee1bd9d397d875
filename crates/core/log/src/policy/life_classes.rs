//! Placement by remaining life (our own).
//!
//! Blocks that die together should be stored together. The life that a block has before
//! it is inferred as in SepBIT: a user write will live as long as its predecessor did, a
//! survivor as long again as it has lived. There are three differences:
//!
//! - The unit of life is the spare space: the number of user blocks that fit into the
//!   space that is not live. Blocks that die within one unit die before their segment
//!   need be cleaned. But lives scatter, and of blocks that die within a unit on average,
//!   some live for several. So the first class is that of lives of less than four units,
//!   and the second is the rest. The unit is known from the beginning, so nothing has to
//!   be learned.
//! - User writes and survivors have two classes each. A survivor was misjudged once, and
//!   would spoil the segments of those judged rightly. If there are fewer heads, those of
//!   one length of life share one: their classes are neighbours.
//! - Victims by (1 - u) / u · √age. Cleaning costs the moved data, u, and not the
//!   reading; so almost empty segments are first at any age. Age counts with its root:
//!   segments of one class become empty together and soon, so waiting gains less than in
//!   a log where everything is mixed.
//!
//! `study/cleaning.md` has the variants that were tried.

use super::{Candidate, Measures, Policy, Survivor, Write, best};

/// Number of classes: short-lived user writes and survivors, long-lived ones.
const CLASSES: usize = 4;
/// Least life of long-lived blocks, in units of the spare space. Up to eight it makes
/// little difference; with one, the longer of the short lives spoil cold segments.
const LONG: u64 = 4;

/// The policy of life classes.
#[derive(Debug, Clone)]
pub struct LifeClasses {
    /// User blocks that fit into the space that is not live.
    room: u64,
}

impl Default for LifeClasses {
    fn default() -> Self {
        LifeClasses { room: 1 }
    }
}

impl LifeClasses {
    /// The class of a user write with this remaining life; that of a survivor is the
    /// next.
    fn class(&self, life: u64) -> usize {
        2 * usize::from(life / self.room >= LONG)
    }
}

impl Policy for LifeClasses {
    fn name(&self) -> &'static str {
        "life-classes"
    }

    fn choose(&self, candidates: &[Candidate], now_ns: i64, limit: usize) -> Vec<Candidate> {
        best(candidates, limit, |c| {
            let u = c.utilisation();
            // Of empty ones, the oldest.
            let gain = (1.0 - u) / u.max(1e-3);
            c.is_worth_it().then(|| gain * c.age_ns(now_ns).sqrt())
        })
    }

    fn heads(&mut self, measures: &Measures) -> usize {
        let spare = u64::from(measures.spare_segments);
        self.room = (spare * u64::from(measures.segment_blocks)).max(1);
        CLASSES
    }

    fn place(&mut self, write: &Write) -> usize {
        self.class(write.life.unwrap_or(u64::MAX))
    }

    fn place_survivor(&mut self, survivor: &Survivor) -> usize {
        self.class(survivor.age) + 1
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
        assert_eq!(policy.heads(&measures), 4);
        let mut write = Write {
            block: 1,
            arrival: 50_000,
            life: None,
            buffer: 0,
        };
        assert_eq!(policy.place(&write), 2, "new blocks count as cold");
        for (age, class) in [(0, 0), (3999, 0), (4000, 2), (u64::MAX, 2)] {
            write.life = Some(age);
            assert_eq!(policy.place(&write), class);
            let survivor = Survivor {
                block: 1,
                now: 50_000,
                age,
                head: 0,
            };
            assert_eq!(policy.place_survivor(&survivor), class + 1);
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
