//! Windows that threads fetch before they are asked for.
//!
//! A fetch that fails, or for which no thread is free, is dropped: a reader that needs
//! the data reads it itself.

use super::source::{DeviceSource, ReadCause};
use super::windows::Windows;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::{PooledBuffer, Workers};

/// Most fetches that wait for a thread.
const WAITING: usize = 4;

/// A window being fetched, or waiting for a thread. When it is dropped, waiting readers
/// are woken.
pub(super) struct Fetch {
    windows: Arc<Windows>,
    sectors: Range<u64>,
    bytes: Option<PooledBuffer>,
}

impl Fetch {
    pub fn new(windows: &Arc<Windows>, sectors: Range<u64>) -> Self {
        Fetch {
            windows: Arc::clone(windows),
            sectors,
            bytes: None,
        }
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.windows.arrived(&self.sectors, self.bytes.take());
    }
}

/// Up to `threads` threads that fetch the windows given to them.
pub(super) fn workers(source: &Arc<DeviceSource>, threads: usize) -> Workers<Fetch> {
    let source = Arc::clone(source);
    Workers::new("varve-read", threads, WAITING, move |mut fetch: Fetch| {
        let Range { start, end } = fetch.sectors;
        // Streams are of data far more often than of metadata.
        fetch.bytes = source.read_unasked(ReadCause::Data, start, end - start);
        if fetch.bytes.is_some() {
            source.counters.windows_read.fetch_add(1, Relaxed);
            source.counters.windows_ahead.fetch_add(1, Relaxed);
        }
    })
}
