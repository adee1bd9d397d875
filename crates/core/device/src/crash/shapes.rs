//! The choice of subsets of the unflushed writes, and of variants of tearing a write.
//!
//! Invariant: the choice does not depend on the content of writes. The same counts,
//! limits and draws give the same shapes.

use std::ops::ControlFlow;

use super::{CrashShape, Limits, Missing};
use crate::random::Random;

/// Calls `visit` with each subset of `count` writes to try. The positions in
/// [`CrashShape::DropOne`] and [`CrashShape::KeepOne`] are indices among these writes.
pub(super) fn subsets<B>(
    count: usize,
    limits: &Limits,
    random: &mut Random,
    visit: &mut impl FnMut(CrashShape, &[bool]) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let mut chosen = vec![false; count];
    if count <= limits.exhaustive_writes as usize {
        for bits in 0..1u32 << count {
            for (at, chosen) in chosen.iter_mut().enumerate() {
                *chosen = bits >> at & 1 == 1;
            }
            visit(CrashShape::Subset(bits), &chosen)?;
        }
        return ControlFlow::Continue(());
    }
    for length in spread(count + 1, limits.each_shape) {
        chosen.fill(false);
        chosen[..length].fill(true);
        visit(CrashShape::Prefix(length), &chosen)?;
    }
    for at in spread(count, limits.each_shape) {
        chosen.fill(true);
        chosen[at] = false;
        visit(CrashShape::DropOne(at), &chosen)?;
        chosen.fill(false);
        chosen[at] = true;
        visit(CrashShape::KeepOne(at), &chosen)?;
    }
    for number in 0..limits.random_subsets {
        chosen.fill_with(|| random.coin());
        visit(CrashShape::Random(number), &chosen)?;
    }
    ControlFlow::Continue(())
}

/// Returns at most `most` numbers below `count`, evenly spread, the first and the last
/// among them.
fn spread(count: usize, most: u32) -> impl Iterator<Item = usize> {
    let steps = count.min(most as usize);
    (0..steps).map(move |step| {
        if steps == 1 {
            count - 1
        } else {
            step * (count - 1) / (steps - 1)
        }
    })
}

/// Returns at most `most` of the positions: the last, then randomly drawn ones.
pub(super) fn pick(positions: &[usize], most: u32, random: &mut Random) -> Vec<usize> {
    let mut left = positions.to_vec();
    let mut picked = Vec::new();
    while picked.len() < most as usize && !left.is_empty() {
        let at = match picked.is_empty() {
            true => left.len() - 1,
            false => random.below(left.len() as u64) as usize,
        };
        picked.push(left.remove(at));
    }
    picked
}

const MISSING: [Missing; 3] = [Missing::Old, Missing::Zero, Missing::Garbage];

/// Returns at most `variants` variants of tearing a write of `units` units: which units
/// landed, never all, and the content of the others. Returns all variants if they are
/// few enough, else prefixes, suffixes and random sets alternately.
pub(super) fn tears(units: usize, variants: u32, random: &mut Random) -> Vec<(Vec<bool>, Missing)> {
    let every = 3u64 * ((1u64 << units.min(32)) - 1);
    if every <= u64::from(variants) {
        let sets =
            (0..(1u32 << units) - 1).map(|bits| (0..units).map(move |at| bits >> at & 1 == 1));
        return sets
            .flat_map(|set| MISSING.map(|missing| (set.clone().collect(), missing)))
            .collect();
    }
    let draw = |number: u32| {
        let cut = random.below(units as u64) as usize;
        let mut landed: Vec<bool> = match number / 3 % 3 {
            0 => (0..units).map(|at| at < cut).collect(),
            1 => (0..units).map(|at| at > cut).collect(),
            _ => (0..units).map(|_| random.coin()).collect(),
        };
        landed[cut] = false;
        (landed, MISSING[number as usize % 3])
    };
    (0..variants).map(draw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_subsets(count: usize, limits: &Limits, seed: u64) -> Vec<(CrashShape, Vec<bool>)> {
        let mut found = Vec::new();
        let mut random = Random::new(seed);
        let flow = subsets::<()>(count, limits, &mut random, &mut |shape, chosen| {
            found.push((shape, chosen.to_vec()));
            ControlFlow::Continue(())
        });
        assert!(flow.is_continue());
        found
    }

    #[test]
    fn few_writes_give_every_subset() {
        for count in 0..=8 {
            let found = all_subsets(count, &Limits::default(), 1);
            let distinct: std::collections::HashSet<_> =
                found.iter().map(|(_, chosen)| chosen.clone()).collect();
            assert_eq!((found.len(), distinct.len()), (1 << count, 1 << count));
        }
    }

    #[test]
    fn many_writes_give_each_shape() {
        let limits = Limits::default();
        let found = all_subsets(9, &limits, 1);
        assert_eq!(found.len(), 10 + 2 * 9 + 256);
        assert_eq!(found, all_subsets(9, &limits, 1));
        assert_ne!(found, all_subsets(9, &limits, 2));
        let few = Limits {
            each_shape: 3,
            random_subsets: 1,
            ..limits
        };
        let prefixes: Vec<_> = all_subsets(1000, &few, 1);
        assert_eq!(prefixes.len(), 3 + 2 * 3 + 1);
        assert_eq!(prefixes[2].0, CrashShape::Prefix(1000));
    }

    #[test]
    fn tears_never_land_whole() {
        let mut random = Random::new(3);
        for units in 1..70 {
            let tears = tears(units, 21, &mut random);
            assert!(tears.len() <= 21);
            for (landed, _) in &tears {
                assert_eq!(landed.len(), units);
                assert!(landed.contains(&false));
            }
        }
        assert_eq!(tears(1, 21, &mut random).len(), 3);
        assert_eq!(tears(2, 21, &mut random).len(), 9);
        assert_eq!(tears(3, 21, &mut random).len(), 21);
    }

    #[test]
    fn the_newest_write_is_torn_first() {
        let mut random = Random::new(3);
        let picked = pick(&[1, 4, 6, 9], 3, &mut random);
        assert_eq!((picked.len(), picked[0]), (3, 9));
        assert_eq!(pick(&[], 3, &mut random), []);
    }
}
