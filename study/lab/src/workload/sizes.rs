//! Sizes of files, in blocks.

use super::log_uniform;
use varve_prove::random::Random;

/// A law by classes: each with its share and its range, drawn evenly in the
/// logarithm.
#[derive(Debug, Clone)]
pub struct SizeLaw {
    /// Share in ten thousandths, first and last size in blocks.
    classes: Vec<(u64, u32, u32)>,
}

impl SizeLaw {
    /// WOLF table 1, uniform and hot-cold: 80 % below 16 KB, 19.95 % up to
    /// 1 MB, 0.05 % above (here up to 4 MB).
    pub fn wolf() -> Self {
        SizeLaw {
            classes: vec![(8000, 1, 3), (1995, 4, 256), (5, 257, 1024)],
        }
    }

    /// WOLF table 1, small files: 95 % below 16 KB, 5 % up to 1 MB.
    pub fn ephemeral() -> Self {
        SizeLaw {
            classes: vec![(9500, 1, 3), (500, 4, 256)],
        }
    }

    /// A mean near 24 KB, as /user6 of the Sprite servers had (Rosenblum &
    /// Ousterhout 1992, table 2): most files small, most bytes in large ones.
    pub fn office() -> Self {
        SizeLaw {
            classes: vec![(8300, 1, 4), (1550, 4, 32), (148, 32, 256), (2, 256, 2048)],
        }
    }

    /// The same mean with a long tail: a fifth of the bytes is in files above
    /// 1 MB, as of a lognormal law with that mean and a median of 3 KB.
    pub fn office_with_large_files() -> Self {
        SizeLaw {
            classes: vec![(8600, 1, 4), (1300, 4, 32), (91, 32, 256), (9, 256, 4096)],
        }
    }

    /// A size, at least one block.
    pub fn draw(&self, random: &mut Random) -> u32 {
        let mut ticket = random.below(10_000);
        for &(share, first, last) in &self.classes {
            if ticket >= share {
                ticket -= share;
                continue;
            }
            let drawn = log_uniform(random, f64::from(first), f64::from(last) + 1.0);
            return (drawn as u32).clamp(first, last);
        }
        unreachable!("shares add up to all")
    }

    /// Every size with its share.
    pub fn shares(&self) -> impl Iterator<Item = (u32, f64)> {
        // A size is drawn as its logarithm, and the fraction is cut off. Some
        // stand in two classes.
        let last = self.classes.iter().map(|(.., last)| *last).max();
        (1..=last.unwrap_or(0)).map(|size| {
            let of_class = |&(share, first, last): &(u64, u32, u32)| {
                let part = (f64::from(size) + 1.0).ln() - f64::from(size).ln();
                let all = (f64::from(last) + 1.0).ln() - f64::from(first).ln();
                match (first..=last).contains(&size) {
                    true => share as f64 / 10_000.0 * part / all,
                    false => 0.0,
                }
            };
            (size, self.classes.iter().map(of_class).sum())
        })
    }

    /// Mean size in blocks.
    pub fn mean(&self) -> f64 {
        let mean = |&(share, first, last): &(u64, u32, u32)| {
            let (a, b) = (f64::from(first), f64::from(last) + 1.0);
            // Of the continuous law, less what rounding down takes.
            share as f64 / 10_000.0 * ((b - a) / (b / a).ln() - 0.5)
        };
        self.classes.iter().map(mean).sum()
    }

    /// Starts of files that fill `blocks`, and the end of the last.
    pub(super) fn fill(&self, blocks: u32, random: &mut Random) -> Vec<u32> {
        let mut starts = vec![0];
        let mut end = 0;
        while end < blocks {
            end = blocks.min(end + self.draw(random));
            starts.push(end);
        }
        starts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_sizes_have_the_mean_that_is_said() {
        for law in [SizeLaw::wolf(), SizeLaw::ephemeral(), SizeLaw::office()] {
            let mut random = Random::new(1);
            let drawn: u64 = (0..200_000).map(|_| u64::from(law.draw(&mut random))).sum();
            let mean = drawn as f64 / 200_000.0;
            assert!(
                (mean / law.mean() - 1.0).abs() < 0.1,
                "{mean} {}",
                law.mean()
            );
        }
        let shares: Vec<(u32, f64)> = SizeLaw::office().shares().collect();
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        let mean: f64 = shares.iter().map(|(s, share)| f64::from(*s) * share).sum();
        assert!(
            (mean / SizeLaw::office().mean() - 1.0).abs() < 0.1,
            "{mean}"
        );
        for law in [SizeLaw::office(), SizeLaw::office_with_large_files()] {
            let kb = law.mean() * 4.0;
            assert!((20.0..27.0).contains(&kb), "{kb}");
        }
    }
}
