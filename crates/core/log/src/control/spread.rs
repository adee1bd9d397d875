//! Measured cost of reading only the live data of a segment.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes that could be read in the time that one more request costs: typical of today's
/// disks and flash, 50 to 200 KiB.
pub const REQUEST_BYTES: u64 = 64 << 10;
/// Divisor of the decaying sums at each new segment.
const FRESH: u64 = 8;

/// Decaying sums of the cost and the live bytes of judged segments, so that segments with
/// much live data count for more.
#[derive(Debug, Default)]
pub(crate) struct Spread {
    price: AtomicU64,
    live_bytes: AtomicU64,
}

impl Spread {
    /// Records a segment with `live_bytes` in these runs.
    pub(crate) fn learn(&self, live_bytes: u64, runs: &[(u64, u64)]) {
        let price = runs.iter().map(|(from, to)| REQUEST_BYTES + to - from);
        // Of two concurrent updates one may be lost, which a mean tolerates.
        let add = |sum: &AtomicU64, now: u64| {
            let before = sum.load(Relaxed);
            sum.store(before - before / FRESH + now, Relaxed);
        };
        add(&self.price, price.sum());
        add(&self.live_bytes, live_bytes);
    }

    /// Expected cost of reading `live_bytes` of a segment: a request at least.
    pub(crate) fn price(&self, live_bytes: u64) -> u64 {
        let (price, of) = (self.price.load(Relaxed), self.live_bytes.load(Relaxed));
        let spread = u128::from(live_bytes) * u128::from(price) / u128::from(of.max(1));
        u64::try_from(spread)
            .unwrap_or(u64::MAX)
            .max(live_bytes + REQUEST_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVE: u64 = 32 << 10;

    #[test]
    fn what_lives_in_many_runs_is_dear_to_read() {
        let spread = Spread::default();
        assert_eq!(spread.price(LIVE), LIVE + REQUEST_BYTES);
        spread.learn(LIVE, &[(0, LIVE)]);
        assert_eq!(spread.price(LIVE), LIVE + REQUEST_BYTES);
        // Eight runs, again and again, with nothing between.
        let runs: Vec<_> = (0..8).map(|at| (at << 20, (at << 20) + LIVE / 8)).collect();
        (0..100).for_each(|_| spread.learn(LIVE, &runs));
        let about = |price: u64| price * 98 / 100..=price;
        let dear = LIVE + 8 * REQUEST_BYTES;
        assert!(about(dear).contains(&spread.price(LIVE)));
        assert!(about(2 * dear).contains(&spread.price(2 * LIVE)));
        assert_eq!(spread.price(0), REQUEST_BYTES);
        // And in one run again.
        (0..100).for_each(|_| spread.learn(LIVE, &[(0, LIVE)]));
        assert!(about(LIVE + REQUEST_BYTES).contains(&(spread.price(LIVE) * 99 / 100)));
    }

    #[test]
    fn a_segment_in_which_hardly_anything_lives_does_not_make_others_dear() {
        let spread = Spread::default();
        let full = [(0, 1 << 20)];
        (0..100).for_each(|_| spread.learn(1 << 20, &full));
        spread.learn(512, &[(0, 512)]);
        spread.learn(0, &[]);
        assert!(spread.price(1 << 20) < (1 << 20) + 2 * REQUEST_BYTES);
    }
}
