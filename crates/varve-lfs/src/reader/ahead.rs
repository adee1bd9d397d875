//! Threads that fetch windows before anybody asks for them.
//!
//! A fetch that fails, or for which no thread has time, is dropped: whoever
//! needs what it would have brought reads that.

use super::source::{ReadCause, Source};
use super::windows::Windows;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::PooledBuffer;
use varve_device::sync::Mutex;
use varve_device::sync::mpsc::{Receiver, SyncSender, sync_channel};
use varve_device::sync::thread::{Builder, JoinHandle};

/// Fetches that may wait for a thread.
const WAITING: usize = 4;

/// See the module's head.
#[derive(Default)]
pub(super) struct Ahead {
    fetches: Option<SyncSender<Fetch>>,
    threads: Vec<JoinHandle<()>>,
}

impl Ahead {
    /// Up to `threads` threads, as many as the host grants.
    pub fn new(source: &Arc<Source>, threads: usize) -> Self {
        let (sender, receiver) = sync_channel(WAITING);
        let receiver = Arc::new(Mutex::new(receiver));
        let spawn = |number| {
            let (source, receiver) = (Arc::clone(source), Arc::clone(&receiver));
            Builder::new()
                .name(format!("varve-read-{number}"))
                .spawn(move || serve(&source, &receiver))
        };
        let threads: Vec<_> = (0..threads)
            .map_while(|number| spawn(number).ok())
            .collect();
        Ahead {
            fetches: (!threads.is_empty()).then_some(sender),
            threads,
        }
    }

    /// Has these sectors fetched, if a thread has time, and
    /// [`Windows::arrived`] called in any case. No lock is held.
    pub fn fetch(&self, windows: &Arc<Windows>, sectors: Range<u64>) {
        let fetch = Fetch {
            windows: Arc::clone(windows),
            sectors,
            bytes: None,
        };
        if let Some(queue) = &self.fetches {
            let _ = queue.try_send(fetch);
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.fetches = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread that reads ahead in the log panicked");
            }
        }
    }
}

fn serve(source: &Source, fetches: &Mutex<Receiver<Fetch>>) {
    // Whoever waits for what this brings may be freeing memory.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    loop {
        let next = fetches.lock().recv();
        let Ok(mut fetch) = next else { return };
        let Range { start, end } = fetch.sectors;
        // Streams are of data far more often than of anything else.
        let read = source.read_unasked(ReadCause::Data, start, end - start);
        if read.is_some() {
            source.counters.windows_read.fetch_add(1, Relaxed);
            source.counters.windows_ahead.fetch_add(1, Relaxed);
        }
        fetch.bytes = read;
    }
}

/// A window on its way, wherever it waits. Whatever becomes of it, nobody waits
/// for it any longer once it is dropped.
struct Fetch {
    windows: Arc<Windows>,
    sectors: Range<u64>,
    bytes: Option<PooledBuffer>,
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.windows.arrived(&self.sectors, self.bytes.take());
    }
}
