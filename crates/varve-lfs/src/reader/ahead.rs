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
    fetches: Option<SyncSender<Range<u64>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Ahead {
    /// Up to `threads` threads, as many as the host grants.
    pub fn new(source: &Arc<Source>, windows: &Arc<Windows>, threads: usize) -> Self {
        let (sender, receiver) = sync_channel(WAITING);
        let receiver = Arc::new(Mutex::new(receiver));
        let spawn = |number| {
            let (source, windows) = (Arc::clone(source), Arc::clone(windows));
            let receiver = Arc::clone(&receiver);
            Builder::new()
                .name(format!("varve-read-{number}"))
                .spawn(move || serve(&source, &windows, &receiver))
        };
        let threads: Vec<_> = (0..threads)
            .map_while(|number| spawn(number).ok())
            .collect();
        Ahead {
            fetches: (!threads.is_empty()).then_some(sender),
            threads,
        }
    }

    /// Has these sectors fetched, and [`Windows::arrived`] called. False if no
    /// thread can.
    pub fn fetch(&self, sectors: Range<u64>) -> bool {
        let queue = self.fetches.as_ref();
        queue.is_some_and(|queue| queue.try_send(sectors).is_ok())
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

fn serve(source: &Source, windows: &Windows, fetches: &Mutex<Receiver<Range<u64>>>) {
    // Whoever waits for what this brings may be freeing memory.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    loop {
        let next = fetches.lock().recv();
        let Ok(sectors) = next else { return };
        let landing = Landing { windows, sectors };
        let bytes = fetch(source, &landing.sectors);
        windows.arrived(&landing.sectors, bytes);
    }
}

/// Whatever becomes of a fetch, nobody waits for it any longer.
struct Landing<'a> {
    windows: &'a Windows,
    sectors: Range<u64>,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        self.windows.arrived(&self.sectors, None);
    }
}

/// Exactly these sectors; none if the device would read more.
fn fetch(source: &Source, sectors: &Range<u64>) -> Option<PooledBuffer> {
    // Streams are of data far more often than of anything else.
    let read = source.read_aligned(ReadCause::Data, sectors.start, sectors.end - sectors.start);
    let (buffer, range) = read.ok()?;
    source.counters.windows_read.fetch_add(1, Relaxed);
    source.counters.windows_ahead.fetch_add(1, Relaxed);
    (range == (0..buffer.len())).then_some(buffer)
}
