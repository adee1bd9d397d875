//! How long the arm takes over a number of cylinders.
//!
//! `a + b sqrt(d)` while it accelerates all the way, `c + e d` where it coasts
//! (Ruemmler & Wilkes 1994); settling is included, as in published curves.

/// A seek curve. Milliseconds, as published.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeekCurve {
    /// `a` of `a + b sqrt(d)`, for distances below `bound`.
    pub short_base_ms: f64,
    /// `b`.
    pub short_root_ms: f64,
    /// Cylinders from which the line holds; 0 or 1 makes the curve all line.
    pub bound: u32,
    /// `c` of `c + e d`.
    pub long_base_ms: f64,
    /// `e`.
    pub long_slope_ms: f64,
}

impl SeekCurve {
    /// A straight line: `base + slope d` (Seltzer 1992, table 3-1).
    pub const fn line(base_ms: f64, slope_ms: f64) -> Self {
        SeekCurve {
            short_base_ms: 0.0,
            short_root_ms: 0.0,
            bound: 0,
            long_base_ms: base_ms,
            long_slope_ms: slope_ms,
        }
    }

    /// The curve of a drive of which only three numbers are published: one
    /// cylinder, the mean over all pairs of different cylinders, and all of
    /// them. The root ends, and the line continues it, at a fifth of the
    /// cylinders, where the HP 97560's measured curve has its knee.
    ///
    /// # Panics
    /// If there are fewer than 10 cylinders, or if no rising curve has those
    /// three values.
    pub fn fitted(cylinders: u32, single_ms: f64, average_ms: f64, full_ms: f64) -> Self {
        assert!(cylinders >= 10, "{cylinders} cylinders");
        let bound = cylinders / 5;
        let curve = |root: f64| {
            let knee = single_ms + root * (f64::from(bound).sqrt() - 1.0);
            let slope = (full_ms - knee) / f64::from(cylinders - 1 - bound);
            SeekCurve {
                short_base_ms: single_ms - root,
                short_root_ms: root,
                bound,
                long_base_ms: knee - slope * f64::from(bound),
                long_slope_ms: slope,
            }
        };
        // The mean is affine in the root's factor: two points give it.
        let (flat, steep) = (
            curve(0.0).average_ms(cylinders),
            curve(1.0).average_ms(cylinders),
        );
        let fitted = curve((average_ms - flat) / (steep - flat));
        assert!(
            fitted.short_root_ms >= 0.0 && fitted.long_slope_ms >= 0.0,
            "no rising seek curve has {single_ms}, {average_ms} and {full_ms} ms"
        );
        fitted
    }

    fn seek_ms(&self, distance: u32) -> f64 {
        let cylinders = f64::from(distance);
        if distance < self.bound {
            self.short_base_ms + self.short_root_ms * cylinders.sqrt()
        } else {
            self.long_base_ms + self.long_slope_ms * cylinders
        }
    }

    /// Nanoseconds for `distance` cylinders, rounded to the nearest; none for none.
    pub fn seek_ns(&self, distance: u32) -> u64 {
        if distance == 0 {
            return 0;
        }
        (self.seek_ms(distance) * 1e6).round() as u64
    }

    /// The mean over all pairs of different cylinders.
    pub fn average_ms(&self, cylinders: u32) -> f64 {
        let mut sum = 0.0;
        for distance in 1..cylinders {
            sum += f64::from(cylinders - distance) * self.seek_ms(distance);
        }
        let cylinders = f64::from(cylinders);
        sum / (cylinders * (cylinders - 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fitted_curve_has_the_three_published_values() {
        for (cylinders, single, average, full) in [
            (6526, 0.98, 8.0, 19.0),
            (10_042, 0.8, 5.0, 10.8),
            (1546, 5.5, 17.5, 35.0),
        ] {
            let curve = SeekCurve::fitted(cylinders, single, average, full);
            let ms = |distance| curve.seek_ns(distance) as f64 / 1e6;
            assert!((ms(1) - single).abs() < 1e-6);
            assert!((ms(cylinders - 1) - full).abs() < 1e-6);
            assert!((curve.average_ms(cylinders) - average).abs() < 1e-9);
            let rising = (1..cylinders).all(|d| curve.seek_ns(d) >= curve.seek_ns(d - 1));
            assert!(rising, "{curve:?}");
        }
    }

    #[test]
    #[should_panic(expected = "no rising seek curve")]
    fn impossible_values_have_no_curve() {
        SeekCurve::fitted(1000, 10.0, 5.0, 20.0);
    }

    #[test]
    fn a_line_is_a_line() {
        let curve = SeekCurve::line(5.5, 0.032);
        assert_eq!(curve.seek_ns(0), 0);
        assert_eq!(curve.seek_ns(1), 5_532_000);
        assert_eq!(curve.seek_ns(1000), 37_500_000);
    }
}
