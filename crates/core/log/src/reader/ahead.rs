//! Windows that threads fetch before anybody asks for them.
//!
//! A fetch that fails, or for which no thread has time, is dropped: whoever
//! needs what it would have brought reads that.

use super::source::{ReadCause, Source};
use super::windows::Windows;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::{PooledBuffer, Workers};

/// Fetches that may wait for a thread.
const WAITING: usize = 4;

/// A window on its way, wherever it waits. Whatever becomes of it, nobody waits
/// for it any longer once it is dropped.
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

/// Up to `threads` threads that fetch what is offered to them.
pub(super) fn workers(source: &Arc<Source>, threads: usize) -> Workers<Fetch> {
    let source = Arc::clone(source);
    Workers::new("varve-read", threads, WAITING, move |mut fetch: Fetch| {
        let Range { start, end } = fetch.sectors;
        // Streams are of data far more often than of anything else.
        fetch.bytes = source.read_unasked(ReadCause::Data, start, end - start);
        if fetch.bytes.is_some() {
            source.counters.windows_read.fetch_add(1, Relaxed);
            source.counters.windows_ahead.fetch_add(1, Relaxed);
        }
    })
}
