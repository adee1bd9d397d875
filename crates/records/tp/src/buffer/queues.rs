//! Replacement: S3-FIFO. New pages enter a small queue; those that are used again move
//! to the main one, others leave, and are remembered for a while: if they come back
//! they go to the main queue at once. So a scan passes through the small queue only.
//!
//! A hit counts in the frame and takes nothing here.

use foldhash::HashSet;
use std::collections::VecDeque;
use varve_device::sync::atomic::{AtomicU8, Ordering::Relaxed};

#[derive(Debug)]
pub(super) struct Queues {
    pub free: Vec<u32>,
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    /// Pages that left the small queue lately.
    ghosts: VecDeque<u32>,
    remembered: HashSet<u32>,
    small_target: usize,
    frames: usize,
}

/// A frame that is to leave, out of its queue.
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

    /// A frame has a page now; or has none, if it could not be read.
    pub(super) fn enter(&mut self, page: u32, frame: u32, lost: bool) {
        match !lost && self.remembered.remove(&page) {
            true => self.main.push_back(frame),
            false => self.small.push_back(frame),
        }
    }

    /// The next that is to leave. Whoever cannot let it go says so to [`keep`](Self::keep);
    /// who has been through the main queue in vain drains the small one.
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
                // Used again: it belongs to the main queue.
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

    /// The frames behind one that is to leave, in its queue.
    pub(super) fn behind(&self, leaving: Leaving, most: usize) -> Vec<u32> {
        let queue = match leaving.from_small {
            true => &self.small,
            false => &self.main,
        };
        queue.iter().take(most).copied().collect()
    }

    /// It is pinned, that is, used again. (Were it kept in the small queue, a few that are
    /// pinned there would be looked at for ever, and what is free in the main one never.)
    pub(super) fn keep(&mut self, leaving: Leaving) {
        self.main.push_back(leaving.frame);
    }

    /// It has left, with this page.
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

    /// What a cache of `frames` would hit, of these pages in this order.
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

    /// Least recently used, as it is defined.
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

    /// Whichever frame is the only one that is not pinned is found.
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
        // Skewed draws, where the recent are the likely.
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
