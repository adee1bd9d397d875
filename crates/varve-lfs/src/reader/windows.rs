//! Read-ahead that crosses files: when misses are neighbours in the log, as
//! when files are read in the order they were written, a whole window is
//! fetched, and later misses are served from it. Where windows follow each
//! other, threads fetch the next ones ([`super::ahead`]), and who arrives where
//! one is on its way waits for it.
//!
//! A window takes a drive of 1992 eight times as long as a page, and in a database of
//! a few megabytes that is read at random most misses are neighbours. So there is the
//! thesis's rule, too (section 7.7): a window only for a miss right behind the last one,
//! small at first, and larger for each that follows on ([`LogWindows::Growing`]).
//!
//! Invariant: a window is kept only if its segment has not been entered anew,
//! and the caches not been dropped, since its fetch began.

use super::ahead::Fetch;
use super::{ReadCause, Reader};
use crate::error::Result;
use crate::format::SECTOR;
use crate::locks::assert_may_wait;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::PooledBuffer;
use varve_device::sync::{Condvar, Mutex};

/// Bytes fetched at once when misses are neighbours in the log.
pub(super) const WINDOW_BYTES: u64 = 256 << 10;
const WINDOW_SECTORS: u64 = WINDOW_BYTES / SECTOR;
/// Bytes of the first window, where they grow; the next has four times as many.
const FIRST_BYTES: u64 = 16 << 10;
/// Windows of a stream before one of the largest.
const GROWING: u32 = (WINDOW_BYTES / FIRST_BYTES).ilog2() / 2;
/// Windows kept.
const WINDOWS: usize = 16;
/// Windows fetched ahead of a stream.
const AHEAD: u64 = 2;
/// Streams of misses told apart: a file's inode and its data may lie in
/// different places of the log, each read in order.
const STREAMS: usize = 8;

/// Which misses bring a window of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogWindows {
    /// Every miss near another one, and 256 KiB: where seeks cost more than bytes.
    #[default]
    Near,
    /// One right behind another, and 16 KiB at first, up to 256 KiB where windows follow
    /// each other.
    Growing,
}

struct Window {
    sectors: Range<u64>,
    bytes: Arc<PooledBuffer>,
    /// Nobody has read from it; whoever does is going to want the next ones.
    untouched: bool,
}

#[derive(Clone, Copy)]
struct Stream {
    /// The sector behind the last miss or window.
    end: u64,
    /// Windows fetched for it, each behind the one before.
    windows: u32,
}

impl Stream {
    /// Whether a miss goes on with it.
    fn continues(self, sector: u64, rule: LogWindows) -> bool {
        match rule {
            LogWindows::Near => sector.abs_diff(self.end) <= WINDOW_SECTORS,
            LogWindows::Growing => {
                let behind = self.end..=self.end + rule.sectors(self.windows);
                behind.contains(&sector)
            }
        }
    }
}

impl LogWindows {
    /// Sectors of a window that follows on so many.
    fn sectors(self, windows: u32) -> u64 {
        match self {
            LogWindows::Near => WINDOW_SECTORS,
            LogWindows::Growing => (FIRST_BYTES / SECTOR) << (2 * windows.min(GROWING)),
        }
    }
}

/// A window that a thread is fetching.
struct UnderWay {
    sectors: Range<u64>,
    forgotten: bool,
}

#[derive(Default)]
struct State {
    rule: LogWindows,
    /// Newest last.
    kept: VecDeque<Window>,
    /// One for each stream, the newest last.
    streams: VecDeque<Stream>,
    under_way: Vec<UnderWay>,
    /// How often something was forgotten.
    forgettings: u64,
}

/// What is kept and what is on its way.
#[derive(Default)]
pub(super) struct Windows {
    state: Mutex<State>,
    /// Something is no longer under way.
    arrived: Condvar,
}

impl State {
    /// Notes a miss of `sectors` sectors; if it continues a stream, how many
    /// windows that had in a row.
    fn note(&mut self, sector: u64, sectors: u64) -> Option<u32> {
        let rule = self.rule;
        let stream = self.take_stream(|stream| stream.continues(sector, rule));
        let windows = stream.map(|stream| {
            if sector < stream.end {
                0
            } else {
                stream.windows
            }
        });
        self.streams.push_back(Stream {
            end: sector + sectors,
            windows: windows.unwrap_or(0),
        });
        windows
    }

    /// The newest stream of this kind, taken out; otherwise there is room for one.
    fn take_stream(&mut self, kind: impl Fn(&Stream) -> bool) -> Option<Stream> {
        if let Some(at) = self.streams.iter().rposition(kind) {
            return self.streams.remove(at);
        }
        if self.streams.len() == STREAMS {
            self.streams.pop_front();
        }
        None
    }

    fn keep(&mut self, window: Window) {
        let Range { start, end } = window.sectors;
        let windows = match self.rule {
            LogWindows::Near => self.note(start, end - start).unwrap_or(0),
            LogWindows::Growing => {
                // The stream ended in the window, or right before it.
                let stream = self.take_stream(|stream| (start..=end).contains(&stream.end));
                let windows = stream.map_or(0, |stream| stream.windows);
                self.streams.push_back(Stream { end, windows });
                windows
            }
        };
        if let Some(stream) = self.streams.back_mut() {
            stream.windows = windows + 1;
        }
        if self.kept.len() == WINDOWS {
            self.kept.pop_front();
        }
        self.kept.push_back(window);
    }

    /// What to fetch behind `sector`, up to `limit`, so that the next windows
    /// are there or on their way.
    fn lacking(&mut self, sector: u64, limit: u64) -> Vec<Range<u64>> {
        let until = limit.min(sector + AHEAD * WINDOW_SECTORS);
        let mut next = sector;
        let mut lacking = Vec::new();
        while next < until {
            let kept = self.kept.iter().map(|window| &window.sectors);
            let mut known = kept.chain(self.under_way.iter().map(|window| &window.sectors));
            if let Some(known) = known.find(|known| known.contains(&next)) {
                next = known.end;
                continue;
            }
            let sectors = next..limit.min(next + WINDOW_SECTORS);
            next = sectors.end;
            lacking.push(sectors.clone());
            self.under_way.push(UnderWay {
                sectors,
                forgotten: false,
            });
        }
        lacking
    }
}

impl Windows {
    /// None yet; misses bring them by this rule.
    pub fn by(rule: LogWindows) -> Self {
        let state = State {
            rule,
            ..State::default()
        };
        Windows {
            state: Mutex::new(state),
            ..Windows::default()
        }
    }

    /// Drops what was fetched.
    pub fn clear(&self) {
        self.forget(|_| true);
    }

    fn forget(&self, which: impl Fn(&Range<u64>) -> bool) {
        let state = &mut *self.state.lock();
        state.forgettings += 1;
        state.kept.retain(|window| !which(&window.sectors));
        for window in &mut state.under_way {
            window.forgotten |= which(&window.sectors);
        }
    }

    /// A read that needed no window.
    pub fn passed(&self, sector: u64, sectors: u64) {
        self.state.lock().note(sector, sectors);
    }

    /// True if a window that is there or on its way has any of these sectors.
    pub fn overlap(&self, sectors: &Range<u64>) -> bool {
        let state = self.state.lock();
        let kept = state.kept.iter().map(|window| &window.sectors);
        let mut windows = kept.chain(state.under_way.iter().map(|window| &window.sectors));
        windows.any(|window| window.start < sectors.end && sectors.start < window.end)
    }

    /// A fetch has ended, with the bytes of its sectors if it brought any.
    pub fn arrived(&self, sectors: &Range<u64>, bytes: Option<PooledBuffer>) {
        let state = &mut *self.state.lock();
        let place = |window: &UnderWay| window.sectors == *sectors;
        let Some(place) = state.under_way.iter().position(place) else {
            return;
        };
        let forgotten = state.under_way.swap_remove(place).forgotten;
        if let Some(bytes) = bytes.filter(|_| !forgotten) {
            state.keep(Window {
                sectors: sectors.clone(),
                bytes: Arc::new(bytes),
                untouched: true,
            });
        }
        self.arrived.notify_all();
    }
}

impl Reader {
    /// Copies sectors from windows that are there or on their way, as many as follow
    /// each other from the first sector on: so that a run which begins in one window
    /// and ends in the next has no sector read twice, nor the arm sent back. Returns
    /// how many bytes.
    pub(super) fn take_from_windows(&self, sector: u64, bytes: &mut [u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() {
            let (sector, rest) = (sector + taken as u64 / SECTOR, &mut bytes[taken..]);
            let more = self.of_window(sector, SECTOR as usize, |window| {
                let length = window.len().min(rest.len());
                rest[..length].copy_from_slice(&window[..length]);
                length
            });
            match more {
                Some(length) => taken += length,
                None => break,
            }
        }
        taken
    }

    /// What a window holds of `length` bytes, without a copy: `take` sees them where
    /// they are.
    pub(super) fn in_window<T>(
        &self,
        sector: u64,
        length: usize,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        self.of_window(sector, length, |window| take(&window[..length]))
    }

    /// Shows `take` what a window holds that is there or on its way, from a sector on,
    /// if that is `least` bytes. Whoever is the first to read from it has the next ones
    /// fetched.
    fn of_window<T>(&self, sector: u64, least: usize, take: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let end = sector + least as u64 / SECTOR;
        let covers = |range: &Range<u64>| range.start <= sector && end <= range.end;
        let mut state = self.windows.state.lock();
        while state.under_way.iter().any(|w| covers(&w.sectors)) {
            assert_may_wait();
            self.windows.arrived.wait(&mut state);
        }
        let mut kept = state.kept.iter_mut().rev();
        let window = kept.find(|window| covers(&window.sectors))?;
        let buffer = Arc::clone(&window.bytes);
        let offset = ((sector - window.sectors.start) * SECTOR) as usize;
        let lacking = match std::mem::take(&mut window.untouched) {
            true => {
                let behind = window.sectors.end;
                state.lacking(behind, self.log_end())
            }
            false => Vec::new(),
        };
        drop(state);
        self.fetch_ahead(lacking);
        Some(take(&buffer[offset..]))
    }

    /// The sector behind the last segment. A window may well reach into the
    /// segment behind its own, which mostly is the next of the log.
    fn log_end(&self) -> u64 {
        let geometry = &self.geometry;
        let last = geometry.segment_count - 1;
        geometry.byte(last, geometry.segment_bytes) / SECTOR
    }

    fn fetch_ahead(&self, lacking: Vec<Range<u64>>) {
        for sectors in lacking {
            self.ahead.offer(Fetch::new(&self.windows, sectors));
        }
    }

    /// Reads what no buffer holds: just that, or the window around it when
    /// the last miss was a neighbour.
    pub(super) fn miss(&self, cause: ReadCause, sector: u64, bytes: &mut [u8]) -> Result<()> {
        let sectors = bytes.len() as u64 / SECTOR;
        let (before, rule, forgettings) = {
            let mut state = self.windows.state.lock();
            (state.note(sector, sectors), state.rule, state.forgettings)
        };
        let end = self.log_end();
        let Some(before) = before.filter(|_| sectors < WINDOW_SECTORS && sector < end) else {
            return self.read_for(cause, sector, bytes);
        };
        let count = rule.sectors(before).min(end - sector).max(sectors);
        let Ok((buffer, range)) = self.source.read_aligned(cause, sector, count) else {
            // A neighbour may be unreadable; what was asked for may not.
            return self.read_for(cause, sector, bytes);
        };
        self.counters.windows_read.fetch_add(1, Relaxed);
        bytes.copy_from_slice(&buffer[range.start..range.start + bytes.len()]);
        let first = sector - range.start as u64 / SECTOR;
        let behind = first + buffer.len() as u64 / SECTOR;
        let mut state = self.windows.state.lock();
        if state.forgettings != forgettings {
            return Ok(());
        }
        state.keep(Window {
            sectors: first..behind,
            bytes: Arc::new(buffer),
            untouched: false,
        });
        // Threads fetch windows of the largest size.
        let is_large = before > 0 && rule.sectors(before) == WINDOW_SECTORS;
        let lacking = match is_large {
            true => state.lacking(behind, end),
            false => Vec::new(),
        };
        drop(state);
        self.fetch_ahead(lacking);
        Ok(())
    }

    /// Drops windows over a segment that is about to be written anew.
    pub fn forget_segment(&self, segment: u32) {
        let first = self.geometry.byte(segment, 0) / SECTOR;
        let end = self.geometry.byte(segment, self.geometry.segment_bytes) / SECTOR;
        let over = |sectors: &Range<u64>| sectors.start < end && first < sectors.end;
        self.windows.forget(over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(sectors: Range<u64>) -> Window {
        let pool = varve_device::BufferPool::new(4096, 1);
        Window {
            sectors,
            bytes: Arc::new(pool.take(4096)),
            untouched: false,
        }
    }

    fn growing() -> State {
        State {
            rule: LogWindows::Growing,
            ..State::default()
        }
    }

    #[test]
    fn windows_grow_while_misses_follow_each_other() {
        let mut state = growing();
        assert_eq!(state.note(1000, 8), None);
        let mut at = 1008;
        for kib in [16, 64, 256, 256] {
            let before = state.note(at, 8).unwrap();
            let sectors = LogWindows::Growing.sectors(before);
            assert_eq!(sectors * SECTOR, kib << 10);
            state.keep(window(at..at + sectors));
            // What lies between two partial segments is no break.
            at += sectors + 3;
        }
        assert_eq!(state.streams.len(), 1);
    }

    /// How many of a thousand pages of 8 KB, of a database of 4 MB, bring a window
    /// with them if they are read at random.
    fn windows_of_random_pages(mut state: State) -> u32 {
        let (mut page, mut windows) = (1u64, 0);
        for _ in 0..1000 {
            page = (page * 293 + 131) % 521;
            windows += u32::from(state.note(page * 16, 16).is_some());
        }
        windows
    }

    #[test]
    fn pages_read_at_random_follow_no_page_though_they_are_near_one() {
        assert!(windows_of_random_pages(growing()) < 100);
        assert!(windows_of_random_pages(State::default()) > 500);
        let mut state = growing();
        assert_eq!(state.note(5000, 16), None);
        assert_eq!(state.note(4984, 16), None, "the page before");
        assert_eq!(state.note(5400, 16), None, "100 KB further on");
        assert_eq!(state.note(5000, 16), Some(0), "right behind");
    }
}
