//! A law of sizes and lives that keeps a volume as full as it is.
//!
//! What is published of a volume of home directories ties its files down: the
//! sizes of those that live, what lives, what is written an hour (so the mean
//! life of a byte is the first over the second, by Little's law), and how much
//! of what is written is gone after ten minutes. The logarithm of a life is
//! taken as normal, `ln L = m + k ln s + d N`, for a file of `s` blocks. For a
//! given `k`, by which lives grow with sizes, `m` and `d` follow from the mean
//! life and the share that dies early; and a file of `s` blocks is made as
//! much more often than it is found alive as its mean life is shorter.

use super::{SizeLaw, normal, unit};
use varve_prove::random::Random;

/// When a byte is counted as having died early.
const EARLY_S: f64 = 600.0;
/// Spreads that are considered: factors of `e`.
const SPREADS: (f64, f64) = (0.01, 12.0);

/// What is known of a volume's files.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Sizes of the files that live.
    pub living: SizeLaw,
    /// Mean life of a byte, seconds.
    pub mean_life_s: f64,
    /// Share of the bytes written that is gone after ten minutes, in `(0, 1)`.
    pub early_share: f64,
    /// Lives grow with sizes to this power; 0 is not at all.
    pub size_power: f64,
    /// Files that are made one behind the other and share their luck, at least
    /// one: all live long for their sizes, or all short.
    pub together: u32,
}

/// What the files being made share.
#[derive(Debug, Clone, Copy, Default)]
pub struct Session {
    left: u32,
    luck: f64,
}

/// See the module's head.
#[derive(Debug, Clone)]
pub struct Balance {
    /// Sizes of files that are made, with the shares up to each.
    made: Vec<(u32, f64)>,
    /// The same of files that live.
    living: Vec<(u32, f64)>,
    /// `m`, `k` and `d` of the module's head.
    median_ln_s: f64,
    size_power: f64,
    spread: f64,
    together: u32,
}

/// A file that lives already.
#[derive(Debug, Clone, Copy)]
pub struct Living {
    /// Blocks.
    pub size: u32,
    /// How long ago it was written, seconds.
    pub age_s: f64,
    /// How long it has to live, seconds.
    pub left_s: f64,
}

impl Balance {
    /// The law that the facts leave.
    ///
    /// # Panics
    /// If the mean life is no longer than ten minutes, or the share that dies
    /// early not in `(0, 1)`.
    pub fn of(facts: &Facts) -> Self {
        assert!(facts.mean_life_s > EARLY_S && facts.early_share > 0.0 && facts.early_share < 1.0);
        let power = |size: u32| f64::from(size).powf(facts.size_power);
        let living: Vec<(u32, f64)> = facts.living.shares().collect();
        let made: Vec<(u32, f64)> = living.iter().map(|(s, p)| (*s, p / power(*s))).collect();
        // Shares of what is written, not of files.
        let all: f64 = made.iter().map(|(s, p)| f64::from(*s) * p).sum();
        let written: Vec<(u32, f64)> = made
            .iter()
            .map(|(s, p)| (*s, f64::from(*s) * p / all))
            .collect();
        let longer: f64 = written.iter().map(|(s, share)| share * power(*s)).sum();
        let median = |spread: f64| (facts.mean_life_s / longer).ln() - spread * spread / 2.0;
        let early = |spread: f64| -> f64 {
            let shares = written.iter().map(|(s, share)| {
                let ln_life = median(spread) + power(*s).ln();
                share * normal_below((EARLY_S.ln() - ln_life) / spread)
            });
            shares.sum()
        };
        // The wider lives are spread about a given mean, the more die early.
        let (mut low, mut high) = SPREADS;
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            match early(middle) < facts.early_share {
                true => low = middle,
                false => high = middle,
            }
        }
        Balance {
            made: cumulated(&made),
            living: cumulated(&living),
            median_ln_s: median(low),
            size_power: facts.size_power,
            spread: low,
            together: facts.together.max(1),
        }
    }

    /// Mean size of the files that are made, blocks.
    pub fn mean_made(&self) -> f64 {
        let mut before = 0.0;
        let parts = self.made.iter().map(|(size, below)| {
            let share = below - before;
            before = *below;
            f64::from(*size) * share
        });
        parts.sum()
    }

    /// Size in blocks and life in seconds of a file that is made.
    pub fn make(&self, session: &mut Session, random: &mut Random) -> (u32, f64) {
        if session.left == 0 {
            *session = Session {
                left: self.together,
                luck: normal(random),
            };
        }
        session.left -= 1;
        let size = pick(&self.made, random);
        (size, self.life_s(size, self.spread * session.luck))
    }

    /// A file out of those that live: long lives are met more often, in
    /// proportion to their length, and at any moment of them.
    pub fn meet(&self, random: &mut Random) -> Living {
        let size = pick(&self.living, random);
        let life_s = self.life_s(size, self.spread * (self.spread + normal(random)));
        let left_s = life_s * unit(random);
        Living {
            size,
            age_s: life_s - left_s,
            left_s,
        }
    }

    fn life_s(&self, size: u32, longer_ln: f64) -> f64 {
        (self.median_ln_s + self.size_power * f64::from(size).ln() + longer_ln).exp()
    }
}

/// Sums of shares, the last of which is one.
fn cumulated(shares: &[(u32, f64)]) -> Vec<(u32, f64)> {
    let all: f64 = shares.iter().map(|(_, share)| share).sum();
    let mut below = 0.0;
    let sums = shares.iter().map(|(size, share)| {
        below += share / all;
        (*size, below)
    });
    sums.collect()
}

fn pick(cumulated: &[(u32, f64)], random: &mut Random) -> u32 {
    let unit = unit(random);
    let at = cumulated.partition_point(|(_, below)| *below < unit);
    // The last sum may be less than one by rounding.
    cumulated[at.min(cumulated.len() - 1)].0
}

/// Share of a normal distribution below `x`, within 1e-7 (Abramowitz & Stegun
/// 1964, 7.1.26).
fn normal_below(x: f64) -> f64 {
    let z = x.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let coefficients = [
        1.061_405_429,
        -1.453_152_027,
        1.421_413_741,
        -0.284_496_736,
        0.254_829_592,
    ];
    let sum = coefficients.iter().fold(0.0, |sum, c| (sum + c) * t);
    let above = sum * (-z * z).exp() / 2.0;
    if x < 0.0 { above } else { 1.0 - above }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(early_share: f64, size_power: f64) -> Facts {
        Facts {
            living: SizeLaw::office(),
            mean_life_s: 300.0 * 3600.0,
            early_share,
            size_power,
            together: 1,
        }
    }

    #[test]
    fn the_normal_distribution_is_right() {
        for (x, below) in [
            (0.0, 0.5),
            (1.0, 0.841_345),
            (-1.96, 0.024_998),
            (3.0, 0.998_650),
        ] {
            assert!((normal_below(x) - below).abs() < 1e-6, "{x}");
        }
    }

    #[test]
    fn a_third_of_the_bytes_made_dies_early_whatever_lives_depend_on() {
        for (early_share, power) in [(0.35, 0.0), (0.35, 0.5), (0.35, 1.0), (0.7, 0.5)] {
            let balance = Balance::of(&facts(early_share, power));
            let mut random = Random::new(1);
            let mut session = Session::default();
            let (mut all, mut early) = (0.0, 0.0);
            for _ in 0..200_000 {
                let (size, life_s) = balance.make(&mut session, &mut random);
                all += f64::from(size);
                early += f64::from(size) * f64::from(u8::from(life_s < EARLY_S));
            }
            let share = early / all;
            assert!((share - early_share).abs() < 0.03, "{power}: {share}");
            assert!((all / 200_000.0 / balance.mean_made() - 1.0).abs() < 0.1);
        }
    }

    /// Little's law, by the files themselves: those made in a span and alive
    /// at its end are as large together as those that are met then.
    #[test]
    fn what_is_met_is_what_was_made_and_lives() {
        let of = |power: f64| {
            let balance = Balance::of(&Facts {
                mean_life_s: 7200.0,
                ..facts(0.35, power)
            });
            let mut random = Random::new(2);
            let mut session = Session::default();
            // A file a second, over a hundred mean lives.
            let span_s = 720_000;
            let mut alive = (0.0, 0.0);
            for second in 0..span_s {
                let (size, life_s) = balance.make(&mut session, &mut random);
                if life_s > f64::from(span_s - second) {
                    alive = (alive.0 + 1.0, alive.1 + f64::from(size));
                }
            }
            let expected = 7200.0 * balance.mean_made();
            assert!((alive.1 / expected - 1.0).abs() < 0.2, "{power}: {alive:?}");
            alive.1 / alive.0
        };
        let mean = SizeLaw::office().mean();
        for power in [0.0, 0.5, 1.0] {
            let lives = of(power);
            assert!((lives / mean - 1.0).abs() < 0.25, "{power}: {lives} {mean}");
        }
    }

    #[test]
    fn files_made_together_live_equally_long() {
        let balance = Balance::of(&Facts {
            together: 3,
            ..facts(0.35, 0.0)
        });
        let mut random = Random::new(1);
        let mut session = Session::default();
        let mut life_s = || balance.make(&mut session, &mut random).1;
        let lives: Vec<f64> = (0..6).map(|_| life_s()).collect();
        assert!(lives[..3].iter().all(|l| *l == lives[0]), "{lives:?}");
        assert!(lives[3..].iter().all(|l| *l == lives[3]), "{lives:?}");
        assert!(lives[0] != lives[3]);
    }
}
