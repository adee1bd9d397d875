//! Read-ahead: the number of blocks to read when a block is missing.
//!
//! A window per file starts at a few blocks, doubles whenever a miss continues at the end
//! of the last fetch, up to 256 blocks, and halves when it does not (thesis, section
//! 7.7). For experiments there is the earlier method of the thesis: the largest window as
//! soon as two adjacent blocks are wanted ([`ReadAheadWindow::Maximal`]). A window is
//! also at most a thirty-second of the cache, because blocks would otherwise be evicted
//! before the reader reaches them. Blocks beyond the request are fetched only as far as
//! they follow it on the device. With threads, the next window is fetched while the
//! reader is in the last half of the present one, and of large windows four are being
//! fetched at any time, so that the device is always busy. A reader that reaches a range
//! being fetched waits for that fetch and does not read the same blocks again.

use crate::layout::{BlockPointer, Layout, Mapping};
use crate::memory::store::Store;
use crate::memory::vnode::{State, Vnode};
use crate::options::ReadAheadWindow;
use crate::statistics::count;
use std::ops::Range;
use std::sync::Arc;
use varve_device::Workers;
use varve_device::sync::{Condvar, Mutex};

/// Blocks of the largest window; the next constant is the divisor of the cache size that
/// also bounds it.
pub(crate) const WINDOW_MAX: u64 = 256;
const WINDOW_PART: u64 = 32;
const WINDOW_START: u64 = 4;
/// Blocks of a window from which on several are fetched ahead.
const WINDOW_LARGE: u64 = 64;
/// Number of large windows fetched ahead.
const WINDOWS_AHEAD: u64 = 4;
/// Most fetches that wait for a thread; more are dropped.
const QUEUE_MAX: usize = 64;

/// The expected next position of a file's reader.
#[derive(Debug)]
pub(crate) struct Window {
    /// The block after the last one fetched.
    next: u64,
    blocks: u64,
    /// Ranges that threads are fetching now.
    under_way: Vec<Range<u64>>,
}

impl Default for Window {
    fn default() -> Self {
        Window {
            next: 0,
            blocks: WINDOW_START / 2,
            under_way: Vec::new(),
        }
    }
}

impl Window {
    /// Number of blocks to look up for a miss at `block` by a request of `wanted` blocks.
    /// A window has at most `most` blocks.
    fn on_miss(&mut self, block: u64, wanted: u64, most: u64, window: ReadAheadWindow) -> u64 {
        self.blocks = match window {
            ReadAheadWindow::Maximal if block == self.next || wanted > 1 => most,
            ReadAheadWindow::Maximal => 1,
            ReadAheadWindow::Off => 0,
            ReadAheadWindow::Adaptive if block == self.next => (self.blocks * 2).min(most),
            ReadAheadWindow::Adaptive => (self.blocks / 2).max(1),
        };
        let look = wanted.clamp(1, WINDOW_MAX).max(self.blocks);
        self.next = block + look;
        look
    }

    /// The next window, if a reader at `block` makes its fetch due.
    fn on_progress(&mut self, block: u64, most: u64) -> Option<(u64, u64)> {
        let lead = if self.blocks < WINDOW_LARGE {
            self.blocks / 2
        } else {
            self.blocks * WINDOWS_AHEAD
        };
        let inside = block < self.next && block + lead >= self.next;
        if !inside || self.blocks < WINDOW_START {
            return None;
        }
        self.blocks = (self.blocks * 2).min(most);
        let first = self.next;
        self.next += self.blocks;
        Some((first, self.blocks))
    }
}

/// A file's window, and the signal for waiters that a fetch has ended.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    window: Mutex<Window>,
    arrived: Condvar,
}

impl Ahead {
    /// True if a thread is fetching `block`.
    pub fn is_fetching(&self, block: u64) -> bool {
        let window = self.window.lock();
        window.under_way.iter().any(|range| range.contains(&block))
    }

    /// Waits while a thread is fetching `block`. The caller has no locks.
    pub fn wait_for(&self, block: u64) {
        let mut window = self.window.lock();
        while window.under_way.iter().any(|range| range.contains(&block)) {
            self.arrived.wait(&mut window);
        }
    }

    fn ended(&self, range: &Range<u64>) {
        let mut window = self.window.lock();
        if let Some(at) = window.under_way.iter().position(|r| r == range) {
            window.under_way.swap_remove(at);
        }
        self.arrived.notify_all();
    }
}

impl<L: Layout> Store<L> {
    /// Blocks of the largest window in this cache.
    fn window_max(&self) -> u64 {
        let part = self.cache.capacity_bytes() / WINDOW_PART / self.block_bytes as u64;
        part.clamp(WINDOW_START, WINDOW_MAX)
    }

    /// Plans the fetch for a miss at `block`: those of the `wanted` blocks that are
    /// neither in memory nor holes, and the blocks that closely follow them.
    /// `file_blocks` is the file's length in blocks.
    pub fn plan(
        &self,
        vnode: &Vnode,
        state: &State,
        block: u64,
        wanted: u64,
        file_blocks: u64,
    ) -> crate::Result<Plan<L::Pointer>> {
        let (most, kind) = (self.window_max(), self.read_ahead_window);
        let mut window = vnode.ahead.window.lock();
        let look = window.on_miss(block, wanted, most, kind);
        drop(window);
        let look = look.min(file_blocks - block);
        self.plan_range(vnode, state, block, wanted, look)
    }

    fn plan_range(
        &self,
        vnode: &Vnode,
        state: &State,
        block: u64,
        wanted: u64,
        look: u64,
    ) -> crate::Result<Plan<L::Pointer>> {
        let mapped = self.mapped(vnode, state, block, look)?;
        let mut fetch: Vec<Mapping<L::Pointer>> = Vec::new();
        let stored = mapped.iter().find(|m| m.is_written());
        let mut zeros_to = stored.map_or(block + look, |m| m.block);
        for m in mapped {
            let Some(pointer) = m.pointer() else { continue };
            let behind = fetch
                .last()
                .is_some_and(|last| pointer.follows(&last.pointer));
            if m.block >= block + wanted && !behind {
                break;
            }
            let in_memory = state.dirty.contains_key(&m.block)
                || (m.block != block && self.cache.contains(&state.generation, m.block));
            if !in_memory {
                fetch.push(Mapping {
                    block: m.block,
                    pointer,
                });
            }
        }
        if let Some((&dirty, _)) = state.dirty.range(block..).next() {
            zeros_to = zeros_to.min(dirty);
        }
        let ahead = fetch.iter().filter(|m| m.block >= block + wanted).count();
        count(&self.counters.read_ahead_blocks, ahead as u64);
        Ok(Plan { zeros_to, fetch })
    }

    /// Fetches into the cache, on a thread of the pool.
    fn fetch_ahead(&self, vnode: &Vnode, range: &Range<u64>) {
        let first = range.start;
        let (plan, change) = {
            let state = vnode.read();
            let file_blocks = self.blocks_of(state.inode.size);
            if state.live().is_err() || first >= file_blocks {
                return;
            }
            let look = range.end.min(file_blocks) - first;
            let Ok(plan) = self.plan_range(vnode, &state, first, look, look) else {
                return;
            };
            (plan, state.changes.count())
        };
        if plan.fetch.is_empty() {
            return;
        }
        // A reader that needs the block will meet and report the error.
        let Ok(data) = self.fetch(vnode, &plan.fetch) else {
            return;
        };
        let state = vnode.read();
        if !state.changes.touched(change, &plan.blocks()) {
            for (mapping, data) in plan.fetch.iter().zip(data) {
                self.cache.insert(&state.generation, mapping.block, data);
            }
        }
    }
}

/// The blocks to fetch for a miss, made by [`Store::plan`].
pub(crate) struct Plan<P> {
    /// From the requested block up to this one everything reads as zeros.
    pub zeros_to: u64,
    pub fetch: Vec<Mapping<P>>,
}

impl<P> Plan<P> {
    /// From the first fetched block to the last.
    pub fn blocks(&self) -> Range<u64> {
        match (self.fetch.first(), self.fetch.last()) {
            (Some(first), Some(last)) => first.block..last.block + 1,
            _ => 0..0,
        }
    }
}

/// A range to fetch. When it is dropped, waiters are woken.
struct Order {
    vnode: Arc<Vnode>,
    range: Range<u64>,
}

impl Drop for Order {
    fn drop(&mut self) {
        self.vnode.ahead.ended(&self.range);
    }
}

/// The threads that fetch ahead; without any, only readers that miss fetch.
pub(crate) struct ReadAhead {
    workers: Workers<Order>,
    window_max: u64,
}

impl ReadAhead {
    pub fn new<L: Layout>(store: &Arc<Store<L>>, threads: usize) -> Self {
        let (store, window_max) = (Arc::clone(store), store.window_max());
        let fetch = move |order: Order| store.fetch_ahead(&order.vnode, &order.range);
        ReadAhead {
            workers: Workers::new("varve-ahead", threads, QUEUE_MAX, fetch),
            window_max,
        }
    }

    /// Notes that `vnode` was read up to and including `block`, and starts the fetches
    /// that are due.
    #[inline]
    pub fn progress(&self, vnode: &Arc<Vnode>, block: u64) {
        if self.workers.is_empty() {
            return;
        }
        loop {
            let range = {
                let Some(mut window) = vnode.ahead.window.try_lock() else {
                    return;
                };
                let Some((first, blocks)) = window.on_progress(block, self.window_max) else {
                    return;
                };
                let range = first..first + blocks;
                window.under_way.push(range.clone());
                range
            };
            let order = Order {
                vnode: Arc::clone(vnode),
                range,
            };
            if !self.workers.offer(order) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ReadAheadWindow::{Adaptive, Maximal, Off};
    use super::*;

    #[test]
    fn the_window_doubles_in_sequence_and_halves_out_of_it() {
        let mut window = Window::default();
        let mut at = 0;
        for expected in [4, 8, 16, 32, 64, 128, 256, 256] {
            let look = window.on_miss(at, 1, WINDOW_MAX, Adaptive);
            assert_eq!(look, expected);
            at += look;
        }
        assert_eq!(window.on_miss(5, 1, WINDOW_MAX, Adaptive), 128);
        assert_eq!(window.on_miss(9_999, 1, WINDOW_MAX, Adaptive), 64);
    }

    /// Pages of two blocks at random places: each looks like the beginning of a sequence.
    #[test]
    fn the_maximal_window_is_read_for_two_blocks_in_a_row() {
        let (mut maximal, mut adaptive) = (Window::default(), Window::default());
        for at in [0, 40, 22, 90, 60] {
            assert_eq!(maximal.on_miss(at, 2, 32, Maximal), 32);
            assert!(adaptive.on_miss(at, 2, 32, Adaptive) <= 4);
        }
        assert_eq!(maximal.on_miss(500, 1, 32, Maximal), 1, "one block alone");
        assert_eq!(maximal.on_miss(501, 1, 32, Maximal), 32);
    }

    #[test]
    fn without_a_window_nothing_is_read_ahead() {
        let mut window = Window::default();
        for at in 0..20 {
            assert_eq!(window.on_miss(at, 1, WINDOW_MAX, Off), 1);
            assert_eq!(window.on_progress(at, WINDOW_MAX), None);
        }
        assert_eq!(window.on_miss(40, 8, WINDOW_MAX, Off), 8, "what is wanted");
        assert_eq!(window.on_progress(47, WINDOW_MAX), None);
    }

    #[test]
    fn the_next_window_is_due_in_the_last_half() {
        let mut window = Window::default();
        window.on_miss(0, 8, WINDOW_MAX, Adaptive);
        assert_eq!(window.on_progress(5, WINDOW_MAX), None);
        assert_eq!(window.on_progress(6, WINDOW_MAX), Some((8, 8)));
        assert_eq!(window.on_progress(7, WINDOW_MAX), None);
        assert_eq!(window.on_progress(12, WINDOW_MAX), Some((16, 16)));
    }

    #[test]
    fn several_large_windows_are_on_their_way() {
        let mut window = Window::default();
        window.on_miss(0, 256, WINDOW_MAX, Adaptive);
        window.blocks = 256;
        for first in [256, 512, 768, 1024] {
            assert_eq!(window.on_progress(255, WINDOW_MAX), Some((first, 256)));
        }
        assert_eq!(window.on_progress(255, WINDOW_MAX), None);
        assert_eq!(window.on_progress(511, WINDOW_MAX), Some((1280, 256)));
        assert_eq!(window.on_progress(511, WINDOW_MAX), None);
    }
}
