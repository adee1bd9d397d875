//! Separation by inferred block invalidation time (Wang et al., FAST 2022).
//!
//! A block that was overwritten after a short life will soon be overwritten
//! again, and a block that has lived long will live longer still. Six classes,
//! a head each: user writes whose predecessor lived shorter than `short`, the
//! average life of the last sixteen cleaned segments of that class (0), and
//! the others (1); survivors of class 0 (2), and other survivors by age: below
//! 4, below 16 times `short`, and older (3 to 5). Victims by cost-benefit.

use super::Simulated;
use varve_lfs::policy::{Candidate, Cleaned, Measures, Policy, Survivor, Write, most_beneficial};

/// Cleaned segments that are averaged.
const WINDOW: u64 = 16;

/// See the module's head.
#[derive(Debug, Clone)]
pub struct SepBit {
    /// Average life of short-lived segments, in user blocks.
    short: u64,
    cleaned: u64,
    lives: u64,
}

impl Default for SepBit {
    fn default() -> Self {
        SepBit {
            short: u64::MAX,
            cleaned: 0,
            lives: 0,
        }
    }
}

impl Policy for SepBit {
    fn name(&self) -> &'static str {
        "sepbit"
    }

    fn choose(&self, candidates: &[Candidate], now_ns: i64, limit: usize) -> Vec<Candidate> {
        most_beneficial(candidates, now_ns, limit)
    }

    fn heads(&mut self, _measures: &Measures) -> usize {
        6
    }

    fn place(&mut self, write: &Write) -> usize {
        usize::from(write.life.is_none_or(|life| life >= self.short))
    }

    fn place_survivor(&mut self, survivor: &Survivor) -> usize {
        let short = self.short;
        match survivor.age {
            _ if survivor.head == 0 => 2,
            age if age < short.saturating_mul(4) => 3,
            age if age < short.saturating_mul(16) => 4,
            _ => 5,
        }
    }

    fn learn(&mut self, cleaned: &Cleaned) {
        if cleaned.head != 0 {
            return;
        }
        self.cleaned += 1;
        self.lives += cleaned.life;
        if self.cleaned == WINDOW {
            self.short = self.lives / WINDOW;
            (self.cleaned, self.lives) = (0, 0);
        }
    }
}

impl Simulated for SepBit {}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(life: Option<u64>) -> Write {
        Write {
            block: 1,
            arrival: 9,
            life,
            buffer: 0,
        }
    }

    fn survivor(head: usize, age: u64) -> Survivor {
        Survivor {
            block: 1,
            now: 10_000,
            age,
            head,
        }
    }

    #[test]
    fn classes_follow_the_life_of_short_lived_segments() {
        let mut policy = SepBit::default();
        assert_eq!(policy.place(&write(Some(1_000_000))), 0);
        assert_eq!(policy.place(&write(None)), 1, "new blocks count as cold");
        for life in 92..108 {
            policy.learn(&Cleaned { head: 0, life });
            policy.learn(&Cleaned { head: 1, life: 9 });
        }
        assert_eq!(policy.short, 99);
        assert_eq!(policy.place(&write(Some(98))), 0);
        assert_eq!(policy.place(&write(Some(99))), 1);
        assert_eq!(policy.place_survivor(&survivor(0, 5000)), 2);
        for (age, head) in [(395, 3), (396, 4), (1583, 4), (1584, 5)] {
            assert_eq!(policy.place_survivor(&survivor(1, age)), head);
        }
    }
}
