//! The oracle: placement that knows when every block will die.
//!
//! Blocks that die about the same time share segments, whether a user writes
//! them or the cleaner moves them: classes of the life that is left, each
//! twice as long as the one before. What dies before a segment could be
//! cleaned shares the first. Victims are the emptiest: where everything in a
//! segment dies together, age says nothing. An oracle that weighed age
//! (cost-benefit) was beaten by real policies on small volumes.
//!
//! How many classes pay depends on the room there is: each has a segment open.
//! No rule for that is exact, so the oracle is run with several numbers of
//! heads, one of them 1, and the best run counts.

use crate::policy::Simulated;
use crate::workload::Op;
use std::sync::Arc;
use varve_lfs::policy::{Candidate, Measures, Policy, Survivor, Write, emptiest};

/// For each user write of a pass, how many user writes later the block dies.
#[derive(Debug, Clone)]
pub struct Future {
    lives: Arc<[u32]>,
}

impl Future {
    /// Looks at one pass of a workload that is replayed for ever.
    pub fn of(ops: &[Op], blocks: u32) -> Self {
        const NEVER: u64 = u64::MAX;
        let writes = ops.iter().filter(|op| matches!(op, Op::Write { .. }));
        let writes = writes.count();
        let mut lives = vec![u32::MAX; writes];
        let mut next = vec![NEVER; blocks as usize];
        // Backwards, twice: the second time the next pass is known.
        for pass in [1, 0] {
            let mut at = writes as u64;
            for op in ops.iter().rev() {
                match *op {
                    Op::Write { block } => {
                        at -= 1;
                        let now = pass * writes as u64 + at;
                        let death = std::mem::replace(&mut next[block as usize], now);
                        if death != NEVER {
                            lives[at as usize] = (death - now).min(u64::from(u32::MAX)) as u32;
                        }
                    }
                    Op::Trim { block } => next[block as usize] = pass * writes as u64 + at,
                    _ => {}
                }
            }
        }
        Future {
            lives: lives.into(),
        }
    }
}

/// See the module's head.
#[derive(Debug, Clone)]
pub struct Oracle {
    future: Future,
    deaths: Vec<u64>,
    heads: usize,
    unit: u64,
}

impl Oracle {
    /// With so many heads.
    pub fn new(future: Future, blocks: u32, heads: usize) -> Self {
        Oracle {
            future,
            deaths: vec![0; blocks as usize],
            heads: heads.max(1),
            unit: 1,
        }
    }

    fn class(&self, left: u64) -> usize {
        let units = left / self.unit;
        ((64 - units.leading_zeros()) as usize).min(self.heads - 1)
    }
}

impl Simulated for Oracle {}

impl Policy for Oracle {
    fn name(&self) -> &'static str {
        "oracle"
    }

    fn choose(&self, candidates: &[Candidate], _now_ns: i64, limit: usize) -> Vec<Candidate> {
        emptiest(candidates, limit)
    }

    fn heads(&mut self, measures: &Measures) -> usize {
        let spare = u64::from(measures.spare_segments.max(2));
        self.unit = (spare * u64::from(measures.segment_blocks) / 4).max(1);
        self.heads
    }

    fn place(&mut self, write: &Write) -> usize {
        let lives = &self.future.lives;
        let life = u64::from(lives[(write.arrival % lives.len() as u64) as usize]);
        self.deaths[write.block as usize] = write.arrival + life;
        self.class(life)
    }

    fn place_survivor(&mut self, survivor: &Survivor) -> usize {
        let death = self.deaths[survivor.block as usize];
        self.class(death.saturating_sub(survivor.now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_are_the_next_write_or_removal_and_passes_repeat() {
        let write = |block| Op::Write { block };
        let trim = Op::Trim { block: 1 };
        let ops = [write(0), write(1), write(0), trim, write(2), write(3)];
        let future = Future::of(&ops, 4);
        // Block 0 at 0, 2 and 5 later; 1 is removed before the fourth write;
        // 2 and 3 live for a pass.
        assert_eq!(*future.lives, [2, 2, 3, 5, 5]);
    }
}
