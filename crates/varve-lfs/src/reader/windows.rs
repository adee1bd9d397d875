//! Read-ahead that crosses files: when misses are neighbours in the log, as
//! when files are read in the order they were written, a whole window is
//! fetched, and later misses are served from it.

use super::Reader;
use crate::error::Result;
use crate::format::SECTOR;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::PooledBuffer;

/// Bytes fetched at once when misses are neighbours in the log.
pub(super) const WINDOW_BYTES: u64 = 256 << 10;
/// Windows kept.
const WINDOWS: usize = 16;
/// Streams of misses told apart: a file's inode and its data may lie in
/// different places of the log, each read in order.
const STREAMS: usize = 8;

struct Window {
    first_sector: u64,
    bytes: Arc<PooledBuffer>,
}

#[derive(Default)]
pub(super) struct Windows {
    /// Newest last.
    kept: VecDeque<Window>,
    /// Sectors behind recent misses, newest last, one for each stream.
    streams: VecDeque<u64>,
}

impl Windows {
    /// Drops what was fetched.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }

    /// Notes a miss of `sectors` sectors; true if it continues a stream.
    pub(super) fn note(&mut self, sector: u64, sectors: u64) -> bool {
        let near = |end: &u64| sector.abs_diff(*end) <= WINDOW_BYTES / SECTOR;
        let stream = self.streams.iter().rposition(near);
        match stream {
            Some(stream) => {
                self.streams.remove(stream);
            }
            None if self.streams.len() == STREAMS => {
                self.streams.pop_front();
            }
            None => {}
        }
        self.streams.push_back(sector + sectors);
        stream.is_some()
    }
}

impl Reader {
    pub(super) fn take_from_window(&self, sector: u64, bytes: &mut [u8]) -> bool {
        let windows = self.windows.lock();
        let hit = windows.kept.iter().rev().find_map(|window| {
            let offset = (sector.checked_sub(window.first_sector)? * SECTOR) as usize;
            let end = offset.checked_add(bytes.len())?;
            (end <= window.bytes.len()).then(|| (Arc::clone(&window.bytes), offset))
        });
        drop(windows);
        match hit {
            Some((window, offset)) => {
                bytes.copy_from_slice(&window[offset..offset + bytes.len()]);
                true
            }
            None => false,
        }
    }

    /// Reads what no buffer holds: just that, or the window around it when
    /// the last miss was a neighbour.
    pub(super) fn miss(&self, sector: u64, bytes: &mut [u8]) -> Result<()> {
        let sectors = bytes.len() as u64 / SECTOR;
        let near = self.windows.lock().note(sector, sectors);
        if !near || bytes.len() as u64 >= WINDOW_BYTES {
            return self.read_uncached(sector, bytes);
        }
        let Some(segment) = self.geometry.segment_of(sector) else {
            return self.read_uncached(sector, bytes);
        };
        let end = self.geometry.byte(segment, self.geometry.segment_bytes) / SECTOR;
        let count = (WINDOW_BYTES / SECTOR).min(end - sector).max(sectors);
        let Ok((buffer, range)) = self.read_aligned(sector, count) else {
            // A neighbour may be unreadable; what was asked for may not.
            return self.read_uncached(sector, bytes);
        };
        self.counters.windows_read.fetch_add(1, Relaxed);
        bytes.copy_from_slice(&buffer[range.start..range.start + bytes.len()]);
        let first_sector = sector - range.start as u64 / SECTOR;
        let mut windows = self.windows.lock();
        if windows.kept.len() == WINDOWS {
            windows.kept.pop_front();
        }
        windows.note(sector, count);
        windows.kept.push_back(Window {
            first_sector,
            bytes: Arc::new(buffer),
        });
        Ok(())
    }

    /// Drops windows over a segment that is about to be written anew.
    pub fn forget_segment(&self, segment: u32) {
        let first = self.geometry.byte(segment, 0) / SECTOR;
        let end = self.geometry.byte(segment, self.geometry.segment_bytes) / SECTOR;
        self.windows.lock().kept.retain(|window| {
            let behind = window.first_sector + window.bytes.len() as u64 / SECTOR;
            behind <= first || window.first_sector >= end
        });
    }
}
