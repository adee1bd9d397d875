//! A policy on a device of sequential zones: nothing is written into holes, and
//! only so many segments are open.
//!
//! With fewer heads than the policy has classes, neighbouring classes share one,
//! as on the real log (`docs/design/heads.md`).

use super::Simulated;
use varve_lfs::policy::{Candidate, Cleaned, Measures, Policy, Survivor, Watermarks, Write};

/// See the module's head.
#[derive(Debug)]
pub struct Limited {
    policy: Box<dyn Simulated>,
    most: usize,
    classes: usize,
    heads: usize,
}

impl Limited {
    /// With so many heads at most; at least one.
    pub fn new(policy: Box<dyn Simulated>, most: usize) -> Self {
        Limited {
            policy,
            most: most.max(1),
            classes: 1,
            heads: 1,
        }
    }

    fn head_of(&self, class: usize) -> usize {
        class.min(self.classes - 1) * self.heads / self.classes
    }

    /// The first class that a head takes.
    fn class_of(&self, head: usize) -> usize {
        (head * self.classes).div_ceil(self.heads)
    }
}

impl Policy for Limited {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn choose(&self, candidates: &[Candidate], now_ns: i64, limit: usize) -> Vec<Candidate> {
        self.policy.choose(candidates, now_ns, limit)
    }

    fn wanted(&self, space: &Watermarks) -> u32 {
        self.policy.wanted(space)
    }

    fn sorted_segments(&self) -> u64 {
        self.policy.sorted_segments()
    }

    fn heads(&mut self, measures: &Measures) -> usize {
        self.classes = self.policy.heads(measures).max(1);
        self.heads = self.classes.min(self.most);
        self.heads
    }

    fn place(&mut self, write: &Write) -> usize {
        let class = self.policy.place(write);
        self.head_of(class)
    }

    fn place_survivor(&mut self, survivor: &Survivor) -> usize {
        let class = self.policy.place_survivor(&Survivor {
            head: self.class_of(survivor.head),
            ..*survivor
        });
        self.head_of(class)
    }

    fn learn(&mut self, cleaned: &Cleaned) {
        let head = self.class_of(cleaned.head);
        self.policy.learn(&Cleaned { head, ..*cleaned });
    }
}

impl Simulated for Limited {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{HolePlugging, SepBit};

    #[test]
    fn neighbouring_classes_share_a_head() {
        let measures = Measures {
            spare_segments: 100,
            segment_blocks: 64,
        };
        for (most, shared) in [
            (9, vec![0, 1, 2, 3, 4, 5]),
            (4, vec![0, 0, 1, 2, 2, 3]),
            (2, vec![0, 0, 0, 1, 1, 1]),
            (0, vec![0; 6]),
        ] {
            let mut policy = Limited::new(Box::<SepBit>::default(), most);
            assert_eq!(policy.heads(&measures), most.clamp(1, 6));
            let heads: Vec<usize> = (0..6).map(|class| policy.head_of(class)).collect();
            assert_eq!(heads, shared);
            for head in 0..most.clamp(1, 6) {
                let class = policy.class_of(head);
                assert_eq!(policy.head_of(class), head);
                assert!(class == 0 || policy.head_of(class - 1) < head, "the first");
            }
        }
    }

    #[test]
    fn nothing_goes_into_holes() {
        let candidate = |segment| Candidate {
            segment,
            live_bytes: 500,
            segment_bytes: 1000,
            newest_ns: 0,
        };
        let candidates = [candidate(1), candidate(2)];
        let chosen = HolePlugging.choose(&candidates, 1, 1);
        assert!(HolePlugging.plugged(&candidates, &chosen, 1).is_some());
        let limited = Limited::new(Box::new(HolePlugging), 1);
        assert_eq!(limited.choose(&candidates, 1, 1), chosen);
        assert!(limited.plugged(&candidates, &chosen, 1).is_none());
    }
}
