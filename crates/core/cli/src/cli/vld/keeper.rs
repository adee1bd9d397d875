//! Background work of a served virtual log disk between requests: checkpoints, so that
//! opening it after a crash stays fast, and compaction if it was requested.

use super::pace::RealTime;
use super::serve::LogDisk;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use varve_nbd::Export;
use varve_vlog::{Granularity, Medium};

const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Least time between two checkpoints.
const CHECKPOINT_AFTER: Duration = Duration::from_secs(30);
/// A checkpoint writes the whole map: it waits until this many times as many bytes of map
/// records were written, so that it costs at most a third of those.
const RECORDS_PER_MAP: u64 = 3;
/// Drive time of one step of the compactor.
const STEP_NS: u64 = 100_000_000;

/// The background thread; it ends when this is dropped.
pub struct Keeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The disk that the thread maintains.
pub struct Kept {
    pub vld: Arc<LogDisk>,
    pub export: Arc<Export>,
    pub time: Option<Arc<RealTime>>,
    pub compact: bool,
}

impl Keeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system has no thread for it.
    pub fn start(kept: Kept) -> std::io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let work = move || {
            let _ = rustix::process::configure_io_flusher_behavior(true);
            let mut duty = Duty::new(kept);
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK_EVERY) {
                duty.look();
            }
        };
        let builder = std::thread::Builder::new().name("varve-keeper".into());
        Ok(Keeper {
            stop: Some(stop),
            thread: Some(builder.spawn(work)?),
        })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Duty {
    kept: Kept,
    checkpoint_at: Instant,
    /// Map records written when the last checkpoint was taken.
    records: u64,
    /// Requests served at the last check.
    requests: u64,
}

impl Duty {
    fn new(kept: Kept) -> Self {
        Duty {
            checkpoint_at: Instant::now() + CHECKPOINT_AFTER,
            records: 0,
            requests: 0,
            kept,
        }
    }

    fn look(&mut self) {
        let vld = &self.kept.vld;
        let layout = vld.layout();
        let records = vld.records_written();
        let written = (records - self.records).saturating_mul(layout.unit_bytes.into());
        let map_bytes = layout.logical_blocks.saturating_mul(8);
        if Instant::now() >= self.checkpoint_at && written >= RECORDS_PER_MAP * map_bytes {
            if let Err(error) = self.timed(|| vld.checkpoint()) {
                tracing::error!(%error, "cannot take a checkpoint");
            }
            self.records = records;
            self.checkpoint_at = Instant::now() + CHECKPOINT_AFTER;
        }
        let requests = self.kept.export.counters().total();
        if std::mem::replace(&mut self.requests, requests) == requests && self.kept.compact {
            self.compact();
        }
    }

    /// Does one step, if there was no recent request.
    fn compact(&mut self) {
        let vld = &self.kept.vld;
        let done = self.timed(|| {
            let now_ns = vld.medium().now_ns().unwrap_or(0);
            vld.compact(now_ns.saturating_add(STEP_NS), Granularity::Blocks(16))
        });
        if let Err(error) = done {
            tracing::error!(%error, "cannot compact, and will not until the next start");
            self.kept.compact = false;
        }
    }

    fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.kept.time {
            Some(time) => time.wait_for(work),
            None => work(),
        }
    }
}
