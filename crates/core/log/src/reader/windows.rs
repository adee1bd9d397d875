//! Read-ahead that crosses files. If misses are neighbours in the log, as when files are
//! read in the order they were written, a whole window is fetched, and later misses are
//! served from it. Where windows follow each other, threads fetch the next ones
//! ([`super::ahead`]), and a reader of a window that is being fetched waits for it.
//!
//! A window takes a drive of 1992 eight times as long as a page, and in a database of a
//! few megabytes that is read at random most misses are neighbours. So the sectors that
//! windows bring unasked are counted against the requests they save ([`Worth`]). While
//! windows do not pay, only a miss close to another one fetches a window, and a small
//! one. If those save requests, large windows are used again.
//!
//! Invariant: a window is kept only if, since its fetch began, its segment has not been
//! opened again and the caches have not been dropped.

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

/// Bytes of a window, fetched when misses are neighbours in the log.
pub(super) const WINDOW_BYTES: u64 = 256 << 10;
const WINDOW_SECTORS: u64 = WINDOW_BYTES / SECTOR;
/// Sectors of a window while large ones do not pay.
const SMALL_SECTORS: u64 = (16 << 10) / SECTOR;
/// Number of fetched sectors after which earlier counts are halved.
const LEARNT_SECTORS: u64 = (2 << 20) / SECTOR;
/// Sectors that a drive reads in the time of a request's overhead, on the drives of the
/// papers; on those of today it is more.
const REQUEST_SECTORS: u64 = (32 << 10) / SECTOR;
/// Most windows kept.
const WINDOWS: usize = 16;
/// Windows fetched ahead of a stream.
const AHEAD: u64 = 2;
/// Most streams of misses that are distinguished: a file's inode and its data may be in
/// different places of the log, each read in order.
const STREAMS: usize = 8;

/// Recent cost and benefit of windows.
struct Worth {
    /// Sectors fetched unasked.
    brought: u64,
    /// Sectors that could have been fetched in the time of the saved requests.
    saved: u64,
}

impl Default for Worth {
    fn default() -> Self {
        Worth {
            brought: LEARNT_SECTORS / 2,
            saved: LEARNT_SECTORS,
        }
    }
}

impl Worth {
    fn bring(&mut self, sectors: u64) {
        self.brought += sectors;
        if self.brought > LEARNT_SECTORS {
            self.brought /= 2;
            self.saved /= 2;
        }
    }

    fn save(&mut self) {
        self.saved += REQUEST_SECTORS;
    }

    /// Distance from another miss within which a miss fetches a window, and the size of
    /// that window, in sectors.
    fn reach(&self) -> u64 {
        match self.saved >= self.brought {
            true => WINDOW_SECTORS,
            false => SMALL_SECTORS,
        }
    }
}

struct Window {
    sectors: Range<u64>,
    bytes: Arc<PooledBuffer>,
    /// No reader has used it. The first one to do so will want the next windows.
    untouched: bool,
}

#[derive(Clone, Copy)]
struct Stream {
    /// The sector after the last miss or window.
    end: u64,
    /// The last one was a window.
    has_window: bool,
}

/// A window that a thread is fetching.
struct UnderWay {
    sectors: Range<u64>,
    forgotten: bool,
}

#[derive(Default)]
struct WindowState {
    worth: Worth,
    /// Windows, newest last.
    kept: VecDeque<Window>,
    /// Streams, newest last.
    streams: VecDeque<Stream>,
    under_way: Vec<UnderWay>,
    /// Number of times that windows were dropped.
    forgettings: u64,
}

/// Windows that are kept or being fetched.
#[derive(Default)]
pub(super) struct Windows {
    state: Mutex<WindowState>,
    /// Signals that a fetch has ended.
    arrived: Condvar,
}

impl WindowState {
    /// Notes a miss of `sectors` sectors. If it is near a stream, returns whether it
    /// continues after a window of that stream.
    fn note(&mut self, sector: u64, sectors: u64) -> Option<bool> {
        let reach = self.worth.reach();
        let near = |stream: &Stream| sector.abs_diff(stream.end) <= reach;
        let stream = match self.streams.iter().rposition(near) {
            Some(at) => self.streams.remove(at),
            None if self.streams.len() == STREAMS => self.streams.pop_front().and(None),
            None => None,
        };
        let goes_on = stream.map(|stream| stream.has_window && sector >= stream.end);
        self.streams.push_back(Stream {
            end: sector + sectors,
            has_window: goes_on.unwrap_or(false),
        });
        goes_on
    }

    fn keep(&mut self, window: Window) {
        let Range { start, end } = window.sectors;
        self.note(start, end - start);
        if let Some(stream) = self.streams.back_mut() {
            stream.has_window = true;
        }
        if self.kept.len() == WINDOWS {
            self.kept.pop_front();
        }
        self.kept.push_back(window);
    }

    /// Ranges to fetch after `sector`, up to `limit`, so that the next windows are kept
    /// or being fetched.
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
    /// Drops all windows.
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

    /// Notes a read that needed no window.
    pub fn passed(&self, sector: u64, sectors: u64) {
        self.state.lock().note(sector, sectors);
    }

    /// True if a window that is kept or being fetched has any of these sectors.
    pub fn overlap(&self, sectors: &Range<u64>) -> bool {
        let state = self.state.lock();
        let kept = state.kept.iter().map(|window| &window.sectors);
        let mut windows = kept.chain(state.under_way.iter().map(|window| &window.sectors));
        windows.any(|window| window.start < sectors.end && sectors.start < window.end)
    }

    /// Notes that a fetch has ended, with the bytes of its sectors if it succeeded.
    pub fn arrived(&self, sectors: &Range<u64>, bytes: Option<PooledBuffer>) {
        let state = &mut *self.state.lock();
        let place = |window: &UnderWay| window.sectors == *sectors;
        let Some(place) = state.under_way.iter().position(place) else {
            return;
        };
        let forgotten = state.under_way.swap_remove(place).forgotten;
        if let Some(bytes) = bytes.filter(|_| !forgotten) {
            state.worth.bring(sectors.end - sectors.start);
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
    /// Copies as many adjacent sectors as possible, from the first sector on, out of
    /// windows that are kept or being fetched. So no sector of a run across two windows
    /// is read twice, nor does the arm seek back. Returns the number of bytes.
    pub(super) fn take_from_windows(&self, sector: u64, bytes: &mut [u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() {
            let (sector, rest) = (sector + taken as u64 / SECTOR, &mut bytes[taken..]);
            let more = self.of_window(sector, SECTOR as usize, rest.len(), |window| {
                rest[..window.len()].copy_from_slice(window);
                window.len()
            });
            match more {
                Some(length) => taken += length,
                None => break,
            }
        }
        taken
    }

    /// Calls `take` with `length` bytes in a window, without a copy, if a window contains
    /// them.
    pub(super) fn in_window<T>(
        &self,
        sector: u64,
        length: usize,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        self.of_window(sector, length, length, take)
    }

    /// Calls `take` with up to `most` bytes from a sector on, if a window that is kept or
    /// being fetched contains at least `least`. The first reader of a window starts the
    /// fetch of the next ones.
    fn of_window<T>(
        &self,
        sector: u64,
        least: usize,
        most: usize,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
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
        let length = most.min(buffer.len() - offset);
        let lacking = match std::mem::take(&mut window.untouched) {
            true => {
                let behind = window.sectors.end;
                state.lacking(behind, self.log_end())
            }
            false => Vec::new(),
        };
        state.worth.save();
        drop(state);
        self.fetch_ahead(lacking);
        Some(take(&buffer[offset..offset + length]))
    }

    /// The sector after the last segment. A window may extend into the segment after its
    /// own, which mostly is the next one of the log.
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

    /// Reads sectors that no buffer contains: just those, or the window around them if
    /// the last miss was a neighbour.
    pub(super) fn miss(&self, cause: ReadCause, sector: u64, bytes: &mut [u8]) -> Result<()> {
        let sectors = bytes.len() as u64 / SECTOR;
        let (goes_on, reach, forgettings) = {
            let mut state = self.windows.state.lock();
            let reach = state.worth.reach();
            (state.note(sector, sectors), reach, state.forgettings)
        };
        let end = self.log_end();
        let Some(goes_on) = goes_on.filter(|_| sectors < reach && sector < end) else {
            return self.read_for(cause, sector, bytes);
        };
        let count = reach.min(end - sector).max(sectors);
        let Ok((buffer, range)) = self.source.read_aligned(cause, sector, count) else {
            // A neighbour may be unreadable, while the wanted sectors are not.
            return self.read_for(cause, sector, bytes);
        };
        self.counters.windows_read.fetch_add(1, Relaxed);
        bytes.copy_from_slice(&buffer[range.start..range.start + bytes.len()]);
        let first = sector - range.start as u64 / SECTOR;
        let behind = first + buffer.len() as u64 / SECTOR;
        let mut state = self.windows.state.lock();
        state.worth.bring(count - sectors);
        if state.forgettings != forgettings {
            return Ok(());
        }
        state.keep(Window {
            sectors: first..behind,
            bytes: Arc::new(buffer),
            untouched: false,
        });
        // Threads fetch windows of the largest size.
        let lacking = match goes_on && reach == WINDOW_SECTORS {
            true => state.lacking(behind, end),
            false => Vec::new(),
        };
        drop(state);
        self.fetch_ahead(lacking);
        Ok(())
    }

    /// Drops windows over a segment that is about to be overwritten.
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

    /// Simulates a miss, and returns the number of sectors fetched.
    fn miss(state: &mut WindowState, sector: u64, sectors: u64) -> u64 {
        let reach = state.worth.reach();
        if state.note(sector, sectors).is_none() || reach <= sectors {
            return sectors;
        }
        state.worth.bring(reach - sectors);
        state.keep(window(sector..sector + reach));
        reach
    }

    /// Simulates a read, from a window if one has it, and returns the number of sectors
    /// fetched.
    fn read(state: &mut WindowState, sector: u64, sectors: u64) -> u64 {
        let mut kept = state.kept.iter().map(|window| &window.sectors);
        if kept.any(|w| w.start <= sector && sector + sectors <= w.end) {
            state.worth.save();
            return 0;
        }
        miss(state, sector, sectors)
    }

    /// First sectors of ten thousand pages of 4 KB, at random in a database of 73 MB.
    fn random_pages() -> impl Iterator<Item = u64> {
        (0..10_000u64).map(|n| n * n * 7 % 18_013 * 8)
    }

    /// Mean number of sectors fetched for each of these pages.
    fn of_random_pages(state: &mut WindowState) -> f64 {
        let fetched: u64 = random_pages().map(|page| read(state, page, 8)).sum();
        fetched as f64 / 10_000.0
    }

    #[test]
    fn pages_read_at_random_stop_bringing_windows() {
        let mut state = WindowState::default();
        let at_first = of_random_pages(&mut state);
        let then = of_random_pages(&mut state);
        assert!(at_first < 12.0 && then < 10.0, "{at_first}, {then}");
    }

    #[test]
    fn who_reads_in_order_has_large_windows_again_soon() {
        let mut state = WindowState::default();
        let mut pages = random_pages();
        while state.worth.reach() == WINDOW_SECTORS {
            read(&mut state, pages.next().unwrap(), 8);
        }
        let mut small = 0;
        let mut sector = 100_000;
        while state.worth.reach() == SMALL_SECTORS {
            small += u64::from(read(&mut state, sector, 8) > 0);
            sector += 8;
        }
        assert!(small < 40, "{small} small windows");
        // Nearly all of the rest is fetched in large windows.
        let fetched: u64 = (0..4096).map(|n| read(&mut state, sector + n * 8, 8)).sum();
        let requests = state.kept.back().unwrap().sectors.end - sector;
        assert!(fetched <= requests + WINDOW_SECTORS);
        assert_eq!(state.worth.reach(), WINDOW_SECTORS);
    }

    /// The pattern of inodes with the data of small files between them.
    #[test]
    fn one_sector_in_forty_is_enough_where_they_follow_each_other() {
        let mut state = WindowState::default();
        for n in 0..20_000 {
            read(&mut state, n * 40, 1);
        }
        assert_eq!(state.worth.reach(), WINDOW_SECTORS);
    }
}
