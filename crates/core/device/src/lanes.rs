//! A set of values, one for every few threads, so that threads do not contend.
//!
//! A cache line that two CPUs write to moves between them, and each CPU waits for
//! it. Values written often and read seldom (counters, reference counts) are
//! therefore kept once for every few threads.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of lanes. Up to this many threads, no two share a lane.
const LANES: usize = 16;

/// One value for each lane; dereferences to the value of the calling thread's lane.
#[derive(Debug, Default)]
pub struct Lanes<T>([Lane<T>; LANES]);

/// The value of one lane, aligned to 128 bytes because CPUs fetch lines of 64 in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Lane<T>(T);

impl<T> Lanes<T> {
    /// Creates one value for each lane.
    pub fn new(mut make: impl FnMut() -> T) -> Self {
        Lanes(std::array::from_fn(|_| Lane(make())))
    }

    /// Returns the values of all lanes.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|lane| &lane.0)
    }
}

impl<T> Deref for Lanes<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static LANE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % LANES;
        }
        // A thread that is ending has no lane any more and uses the first.
        let lane = LANE.try_with(|lane| *lane).unwrap_or(0);
        &self.0[lane].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn threads_count_apart_and_nothing_is_lost() {
        let lanes: Lanes<AtomicU64> = Lanes::default();
        std::thread::scope(|scope| {
            for _ in 0..LANES {
                scope.spawn(|| (0..1000).for_each(|_| _ = lanes.fetch_add(1, Ordering::Relaxed)));
            }
        });
        let counts: Vec<u64> = lanes.iter().map(|n| n.load(Ordering::Relaxed)).collect();
        assert_eq!(counts.iter().sum::<u64>(), 1000 * LANES as u64);
        let used = counts.iter().filter(|count| **count > 0).count();
        assert!(used > 1, "{counts:?}");
    }
}
