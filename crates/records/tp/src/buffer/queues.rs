//! Replacement: S3-FIFO. New pages enter a small queue. Pages that are used again move to
//! the main queue; the others are evicted and remembered for a while, and enter the main
//! queue directly if they are read again. So a scan passes through the small queue only.
//!
//! A hit is counted in the frame and does not lock the queues.

use foldhash::HashSet;
use std::collections::VecDeque;
use varve_device::sync::atomic::{AtomicU8, Ordering::Relaxed};

#[derive(Debug)]
pub(super) struct Queues {
    pub free: Vec<u32>,
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    /// Pages recently evicted from the small queue.
    ghosts: VecDeque<u32>,
    remembered: HashSet<u32>,
    small_target: usize,
    frames: usize,
}

/// A frame chosen for eviction, removed from its queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub frame: u32,
    from_small: bool,
}

impl Queues {
    pub(super) fn new(frames: usize) -> Self {
        Queues {
            free: (0..frames as u32).rev().collect(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: VecDeque::new(),
            remembered: HashSet::default(),
            small_target: (frames / 10).max(1),
            frames,
        }
    }

    /// Adds a frame with a page, or without one (`lost`) if the page could not be read.
    pub(super) fn enter(&mut self, page: u32, frame: u32, lost: bool) {
        match !lost && self.remembered.remove(&page) {
            true => self.main.push_back(frame),
            false => self.small.push_back(frame),
        }
    }

    /// Returns the next frame to evict. A caller that cannot evict it calls
    /// [`keep`](Self::keep). With `drains`, used after the main queue was searched in
    /// vain, the small queue is emptied.
    pub(super) fn next<'a>(
        &mut self,
        uses: impl Fn(u32) -> &'a AtomicU8,
        drains: bool,
    ) -> Option<Leaving> {
        let target = if drains { 0 } else { self.small_target };
        loop {
            let small = self.small.len() > target || self.main.is_empty();
            let queue = if small {
                &mut self.small
            } else {
                &mut self.main
            };
            let frame = queue.pop_front()?;
            let counted = uses(frame);
            match counted.load(Relaxed) {
                0 => {
                    return Some(Leaving {
                        frame,
                        from_small: small,
                    });
                }
                // A page that was used again belongs to the main queue.
                _ if small => {
                    counted.store(0, Relaxed);
                    self.main.push_back(frame);
                }
                more => {
                    counted.store(more - 1, Relaxed);
                    self.main.push_back(frame);
                }
            }
        }
    }

    /// Returns the frames behind one that is to be evicted, in its queue.
    pub(super) fn behind(&self, leaving: Leaving, most: usize) -> Vec<u32> {
        let queue = match leaving.from_small {
            true => &self.small,
            false => &self.main,
        };
        queue.iter().take(most).copied().collect()
    }

    /// Returns a pinned frame to the main queue, because a pin is a use. If it stayed in
    /// the small queue, a few pinned frames there would be examined forever, and free
    /// ones in the main queue never.
    pub(super) fn keep(&mut self, leaving: Leaving) {
        self.main.push_back(leaving.frame);
    }

    /// Records the eviction of a page.
    pub(super) fn left(&mut self, leaving: Leaving, page: u32) {
        if !leaving.from_small || !self.remembered.insert(page) {
            return;
        }
        self.ghosts.push_back(page);
        while self.ghosts.len() > self.frames {
            let oldest = self.ghosts.pop_front().expect("not empty");
            self.remembered.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the hits of a cache of `frames` on these pages in this order.
    fn hits(frames: usize, pages: impl Iterator<Item = u32>) -> usize {
        let mut queues = Queues::new(frames);
        let uses: Vec<AtomicU8> = (0..frames).map(|_| AtomicU8::new(0)).collect();
        let mut held = vec![u32::MAX; frames];
        let mut hits = 0;
        for page in pages {
            if let Some(frame) = held.iter().position(|held| *held == page) {
                let counted = uses[frame].load(Relaxed);
                uses[frame].store((counted + 1).min(3), Relaxed);
                hits += 1;
                continue;
            }
            let frame = queues.free.pop().unwrap_or_else(|| {
                let leaving = queues.next(|frame| &uses[frame as usize], false).unwrap();
                queues.left(leaving, held[leaving.frame as usize]);
                leaving.frame
            });
            held[frame as usize] = page;
            uses[frame as usize].store(0, Relaxed);
            queues.enter(page, frame, false);
        }
        hits
    }

    /// Returns the hits of an exact least-recently-used cache.
    fn hits_lru(frames: usize, pages: impl Iterator<Item = u32>) -> usize {
        let mut held: Vec<u32> = Vec::new();
        let mut hits = 0;
        for page in pages {
            match held.iter().position(|held| *held == page) {
                Some(at) => {
                    hits += 1;
                    held.remove(at);
                }
                None if held.len() == frames => {
                    held.remove(0);
                }
                None => {}
            }
            held.push(page);
        }
        hits
    }

    /// The only frame that is not pinned is found, wherever it is.
    #[test]
    fn what_is_pinned_does_not_hide_what_is_free() {
        for (frames, free) in (0..16).flat_map(|free| [(16, free), (40, free)]) {
            let uses: Vec<AtomicU8> = (0..frames).map(|_| AtomicU8::new(0)).collect();
            let mut queues = Queues::new(frames as usize);
            for frame in 0..frames {
                queues.free.pop();
                // Half of them are in the main queue.
                match frame % 2 {
                    0 => queues.small.push_back(frame),
                    _ => queues.main.push_back(frame),
                }
            }
            let rounds = 4 * frames + 8;
            let found = (0..rounds).any(|round| {
                let drains = round >= rounds / 2;
                let leaving = queues.next(|frame| &uses[frame as usize], drains).unwrap();
                queues.keep(leaving);
                leaving.frame == free
            });
            assert!(found, "{free} of {frames}");
        }
    }

    #[test]
    fn a_scan_leaves_what_is_hot() {
        let pages = || (0..20_000u32).map(|n| if n % 2 == 0 { n / 2 % 50 } else { 1000 + n });
        let (ours, lru) = (hits(100, pages()), hits_lru(100, pages()));
        assert!(ours > 9_000, "{ours}");
        assert!(lru < 1_000 || ours >= lru, "{ours} {lru}");
    }

    #[test]
    fn it_hits_as_often_as_the_least_recently_used() {
        // Skewed draws, in which recent pages are likely.
        let mut state = 1u64;
        let mut draw = || {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40) as u32
        };
        let pages: Vec<u32> = (0..20_000).map(|_| draw() % (1 + draw() % 500)).collect();
        let (ours, lru) = (
            hits(100, pages.iter().copied()),
            hits_lru(100, pages.iter().copied()),
        );
        assert!(ours * 100 >= lru * 97, "{ours} {lru}");
    }
}
