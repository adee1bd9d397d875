//! Throughput by periods of ten seconds, and when it is stable.
//!
//! Stable (§3.1.2): three successive periods are the same, and the same as the
//! whole so far. "The same" is within a thousandth.

/// Nanoseconds of a period.
const PERIOD_NS: u64 = 10_000_000_000;

/// What may lie between two that are the same.
const SAME: f64 = 0.001;

/// Bytes moved in each period.
#[derive(Debug, Default)]
pub(super) struct Windows {
    bytes: Vec<f64>,
    /// Of all whole periods that were looked at.
    sum: f64,
    looked: usize,
}

impl Windows {
    /// Bytes were moved at an even rate from `begin_ns` to `end_ns`.
    pub(super) fn add(&mut self, begin_ns: u64, end_ns: u64, bytes: u64) {
        let (first, last) = (begin_ns / PERIOD_NS, end_ns / PERIOD_NS);
        if self.bytes.len() <= last as usize {
            self.bytes.resize(last as usize + 1, 0.0);
        }
        if first == last {
            self.bytes[first as usize] += bytes as f64;
            return;
        }
        let rate = bytes as f64 / (end_ns - begin_ns) as f64;
        for period in first..=last {
            let from = begin_ns.max(period * PERIOD_NS);
            let to = end_ns.min((period + 1) * PERIOD_NS);
            self.bytes[period as usize] += rate * (to - from) as f64;
        }
    }

    /// Looks at the periods that ended by `now_ns`, one after the other: true
    /// at the first that is stable. Nothing may be added to them any more.
    pub(super) fn is_stable(&mut self, now_ns: u64) -> bool {
        while self.looked < (now_ns / PERIOD_NS) as usize {
            let at = |period: usize| self.bytes.get(period).copied().unwrap_or(0.0);
            let this = at(self.looked);
            self.sum += this;
            self.looked += 1;
            let mean = self.sum / self.looked as f64;
            let same = |other: f64| (other - this).abs() <= SAME * this;
            let before = self.looked.saturating_sub(3);
            if self.looked >= 3
                && this > 0.0
                && same(mean)
                && (before..self.looked).all(|p| same(at(p)))
            {
                return true;
            }
        }
        false
    }

    /// Bytes a second over the periods that were looked at; over all that was
    /// added, if none was.
    pub(super) fn bytes_per_s(&self, end_ns: u64) -> f64 {
        match self.looked {
            0 => self.bytes.iter().sum::<f64>() * 1e9 / end_ns.max(1) as f64,
            looked => self.sum * 1e9 / (looked as f64 * PERIOD_NS as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn bytes_are_dealt_to_the_periods_they_were_moved_in() {
        let mut windows = Windows::default();
        windows.add(5 * S, 25 * S, 2000);
        assert_eq!(windows.bytes, [500.0, 1000.0, 500.0]);
        assert!(!windows.is_stable(29 * S));
        assert_eq!((windows.looked, windows.bytes_per_s(0)), (2, 75.0));
    }

    #[test]
    fn three_alike_are_stable_if_the_whole_is_like_them() {
        let mut windows = Windows::default();
        for (period, bytes) in [1000, 1000, 1000].into_iter().enumerate() {
            let begin = period as u64 * 10 * S;
            windows.add(begin, begin + S, bytes);
            assert_eq!(windows.is_stable(begin + 10 * S), period == 2);
        }
        // Three alike, but unlike the whole, until that has come near.
        let mut windows = Windows::default();
        windows.add(0, S, 500);
        for period in 1..2000u64 {
            windows.add(period * 10 * S, period * 10 * S + S, 1000);
            if windows.is_stable((period + 1) * 10 * S) {
                assert!((499..=501).contains(&(period + 1)), "{period}");
                return;
            }
        }
        panic!("never stable");
    }

    #[test]
    fn nothing_moving_is_not_stable() {
        assert!(!Windows::default().is_stable(1000 * S));
    }
}
