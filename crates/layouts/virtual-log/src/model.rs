//! The analytic models of eager writing.
//!
//! Source of all: Wang, Anderson & Patterson 1999, §2 and §4.2; the numbers in
//! parentheses and the symbols are those of the paper:
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | `n` | sectors in a track | sectors |
//! | `t` | tracks in a cylinder | |
//! | `p` | share of the disk that is free, in `[0, 1]` | |
//! | `k` | free sectors in the track; of a switch, those kept free | sectors |
//! | `s` | a head or track switch | sectors in (4) to (6), time in (8) to (10) |
//! | `r` | the passing of one sector | time |
//! | `b`, `B` | physical and logical block | sectors |
//!
//! A latency is the time before the first free sector, without the writing of it. Free
//! space is assumed to be distributed at random, except in (9) and (10).

/// (1): number of sectors skipped before a free one, on one track with a share `p`
/// free.
///
/// At 80 % utilisation it is about four: `skipped_on_track(1000.0, 0.2)` is 3.98. With
/// one free sector in the track it is half a revolution.
///
/// # Panics
/// If `p` is outside `[0, 1]`.
pub fn skipped_on_track(n: f64, p: f64) -> f64 {
    assert_share(p);
    (1.0 - p) * n / (1.0 + p * n)
}

/// (2): the same number with exactly `k` free sectors of `n`, by the recurrence that
/// (3) solves. It takes `n` steps.
///
/// # Panics
/// If more sectors are free than there are, or none.
pub fn skipped_by_recurrence(n: u32, k: u32) -> f64 {
    assert!(k > 0 && k <= n, "{k} of {n} sectors free");
    // E(k, k) = 0, and E(n, k) from E(n - 1, k).
    (k + 1..=n).fold(0.0, |fewer, n| {
        f64::from(n - k) / f64::from(n) * (1.0 + fewer)
    })
}

/// (3): number of sectors skipped with exactly `k` of `n` free. `k` may be 0, where the
/// result is `n`: the whole track.
pub fn skipped_exactly(n: f64, k: f64) -> f64 {
    (n - k) / (1.0 + k)
}

/// (5): the probability that exactly `x` used sectors precede a free one.
///
/// # Panics
/// If `p` is outside `[0, 1]`.
pub fn probability_on_track(p: f64, x: u32) -> f64 {
    assert_share(p);
    p * (1.0 - p).powi(x as i32)
}

/// (6): probability that `y` sectors pass, including the `s` sectors of a head switch,
/// before a free one on any of the other `t - 1` tracks.
///
/// # Panics
/// If `p` is outside `[0, 1]` or there is no track.
pub fn probability_on_others(p: f64, y: u32, s: u32, t: u32) -> f64 {
    assert!(t > 0, "a cylinder of no tracks");
    if y < s {
        return 0.0;
    }
    let none_there = (1.0 - p).powi(t as i32 - 1);
    probability_on_track(1.0 - none_there, y - s)
}

/// (4): number of sectors skipped before a free one on the current track or, after a
/// head switch, on another track of the cylinder, whichever is first. The paper finds
/// it good for a whole zone. At `p` = 0 it is infinite.
///
/// It is summed as `P(x >= m) P(y >= m)` over `m`, which is the mean of the lesser,
/// until the remaining terms are zero.
///
/// # Panics
/// If `p` is outside `[0, 1]` or there is no track.
pub fn skipped_in_cylinder(p: f64, s: u32, t: u32) -> f64 {
    assert_share(p);
    assert!(t > 0, "a cylinder of no tracks");
    if p == 0.0 {
        return f64::INFINITY;
    }
    let used = 1.0 - p;
    let used_on_others = used.powi(t as i32 - 1);
    let (mut here, mut there, mut sum) = (1.0, 1.0, 0.0);
    for m in 1u32.. {
        here *= used;
        if m > s {
            there *= used_on_others;
        }
        let both = here * there;
        sum += both;
        if both < 1e-15 * sum || both == 0.0 {
            break;
        }
    }
    sum
}

/// (7): number of sectors skipped by all writes that fill an empty track until `k`
/// sectors are free.
pub fn skipped_between_switches(n: u32, k: u32) -> f64 {
    let free = k + 1..=n;
    free.map(|i| skipped_exactly(f64::from(n), f64::from(i)))
        .sum()
}

/// (8): mean latency of the writes of (7), each switch taking `s`, in the unit of `s`
/// and `r`.
///
/// # Panics
/// If no sector is filled (`k >= n`).
pub fn latency_between_switches(n: u32, k: u32, s: f64, r: f64) -> f64 {
    assert!(k < n, "no sector of {n} is filled, {k} are kept free");
    (s + r * skipped_between_switches(n, k)) / f64::from(n - k)
}

/// (9): the correction of (7) for space that was filled in order and is therefore not
/// free at random. It was found empirically, for `n` well below 768, where its
/// denominator is positive.
pub fn correction(n: f64, k: f64) -> f64 {
    let p = 1.0 + n / 36.0;
    // The power of the ratio is computed, so that large tracks do not overflow.
    let ratio = (n - k - 0.5) / n;
    ratio.powf(p) * (n - k - 0.5).powi(2) / ((8.0 - n / 96.0) * (p + 2.0))
}

/// (10): mean latency with a compactor that provides empty tracks: (8), its sum as an
/// integral, corrected by (9). The unit is that of `s` and `r`.
///
/// # Panics
/// If no sector is filled (`k >= n`).
pub fn latency_with_compactor(n: f64, k: f64, s: f64, r: f64) -> f64 {
    assert!(k < n, "no sector of {n} is filled, {k} are kept free");
    let skipped = (n + 1.0) * ((n + 2.0) / (k + 2.0)).ln() - (n - k) + correction(n, k);
    (s + r * skipped) / (n - k)
}

/// (11): number of sectors skipped to find space for a logical block of `B` sectors in
/// physical blocks of `b`, `b <= B`. It is least where they are equal.
///
/// # Panics
/// If `p` is outside `[0, 1]`.
pub fn skipped_for_block(n: f64, p: f64, b: f64, logical: f64) -> f64 {
    assert_share(p);
    (1.0 - p) * n / (b + p * n) * logical
}

fn assert_share(p: f64) {
    assert!((0.0..=1.0).contains(&p), "a share of {p}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() <= 1e-9 * right.abs().max(1.0)
    }

    #[test]
    fn about_four_sectors_at_eighty_per_cent() {
        for n in [72.0, 256.0, 1000.0] {
            let skipped = skipped_on_track(n, 0.2);
            assert!((3.7..4.0).contains(&skipped), "{skipped} of {n}");
        }
        // On the Seagate, less than 100 us; half a revolution at the end.
        assert!(skipped_on_track(256.0, 0.2) * 6000.0 / 256.0 < 100.0);
        assert!(close(skipped_on_track(256.0, 1.0 / 256.0), 255.0 / 2.0));
        assert_eq!(skipped_on_track(72.0, 1.0), 0.0);
    }

    #[test]
    fn the_closed_form_solves_the_recurrence() {
        for n in [1, 2, 9, 72, 256] {
            for k in 1..=n {
                let solved = skipped_exactly(f64::from(n), f64::from(k));
                assert!(close(skipped_by_recurrence(n, k), solved), "{n} {k}");
            }
        }
    }

    #[test]
    fn the_lesser_of_two_waits_is_the_double_sum() {
        for (p, s, t) in [(0.3, 12, 19), (0.1, 22, 16), (0.5, 3, 2), (0.2, 5, 1)] {
            let mut sum = 0.0;
            let end = 600;
            for x in 0..end {
                for y in s..end {
                    let both = probability_on_track(p, x) * probability_on_others(p, y, s, t);
                    sum += f64::from(x.min(y)) * both;
                }
                if t == 1 {
                    sum += f64::from(x) * probability_on_track(p, x);
                }
            }
            let short = skipped_in_cylinder(p, s, t);
            assert!((short - sum).abs() < 1e-6, "{short} {sum}");
        }
        // One track: the geometric mean alone.
        assert!(close(skipped_in_cylinder(0.2, 9, 1), 4.0));
        assert!(skipped_in_cylinder(0.0, 1, 2).is_infinite());
    }

    #[test]
    fn probabilities_add_up_to_one() {
        let on_track: f64 = (0..4000).map(|x| probability_on_track(0.05, x)).sum();
        let others: f64 = (0..4000)
            .map(|y| probability_on_others(0.05, y, 22, 16))
            .sum();
        assert!(close(on_track, 1.0) && close(others, 1.0));
    }

    #[test]
    fn other_tracks_help_most_on_a_full_disk() {
        // Table 1: 2.5 ms are 12 sectors of the HP, 0.5 ms 21 of the Seagate.
        for (n, s, t) in [(72.0, 12, 19), (256.0, 21, 16)] {
            let gain = |p: f64| skipped_on_track(n, p) / skipped_in_cylinder(p, s, t);
            assert!(
                gain(0.5) < 1.05 && gain(0.02) > 1.3,
                "{} {}",
                gain(0.5),
                gain(0.02)
            );
        }
    }

    #[test]
    fn the_integral_follows_the_sum() {
        for n in [72, 256] {
            for k in [n / 8, n / 4, n / 2] {
                let (wide, kept) = (f64::from(n), f64::from(k));
                let integral = latency_with_compactor(wide, kept, 0.5, 0.0234)
                    - 0.0234 * correction(wide, kept) / (wide - kept);
                let sum = latency_between_switches(n, k, 0.5, 0.0234);
                assert!(
                    (integral / sum - 1.0).abs() < 0.05,
                    "{n} {k}: {integral} {sum}"
                );
            }
        }
    }

    #[test]
    fn an_interior_threshold_is_best() {
        for (n, s, r) in [(72.0, 2.5, 14.99 / 72.0), (256.0, 0.5, 6.0 / 256.0)] {
            let latency = |kept: f64| latency_with_compactor(n, (n * kept).floor(), s, r);
            let best = (1..99).map(|percent| latency(f64::from(percent) / 100.0));
            let best = best.fold(f64::INFINITY, f64::min);
            assert!(
                best < 0.9 * latency(0.01) && best < 0.9 * latency(0.98),
                "{n}"
            );
        }
    }

    #[test]
    fn equal_blocks_are_best() {
        for p in [0.05, 0.2, 0.6] {
            let skipped = |b: f64| skipped_for_block(256.0, p, b, 8.0);
            assert!(skipped(8.0) < skipped(4.0) && skipped(4.0) < skipped(1.0));
            assert!(close(
                skipped_for_block(256.0, p, 1.0, 1.0),
                skipped_on_track(256.0, p)
            ));
        }
    }
}
