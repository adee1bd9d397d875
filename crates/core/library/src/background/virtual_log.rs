//! The thread of an open volume on the virtual log: it writes back, takes checkpoints,
//! and compacts while the volume is idle.

use super::{IDLE, QUIET, Signal, Threads, requests_of};
use std::io;
use std::sync::Arc;
use varve_fs::FileSystem;
use varve_vlfs::Vlfs;

/// Bytes that the compactor moves in one interval.
const COMPACT_BYTES: u64 = 4 << 20;

/// Starts the thread, which also compacts if `compact` is set. The file system wakes it.
///
/// # Errors
/// If the thread cannot be started.
pub(crate) fn start(fs: &Arc<FileSystem<Vlfs>>, compact: bool) -> io::Result<Threads> {
    let signal: Arc<Signal> = Arc::default();
    let stopping = Arc::clone(&signal);
    let mut threads = Threads::new(move || stopping.stop());
    let (tree, waits) = (Arc::clone(fs), Arc::clone(&signal));
    threads.spawn("varve-write", move || work(&tree, &waits, compact))?;
    fs.set_waker(Box::new(move || signal.wake()));
    Ok(threads)
}

fn work(fs: &FileSystem<Vlfs>, signal: &Signal, compact: bool) {
    let mut idle = Idle::default();
    while signal.wait(IDLE) {
        let written = loop {
            match fs.write_back() {
                Ok(true) if !signal.stopping() => {}
                other => break other,
            }
        };
        if let Err(error) = written.and_then(|_| fs.maintain()) {
            tracing::warn!(%error, "write-back failed");
        }
        if let Some(reason) = fs.layout().stopped() {
            fs.refuse_changes(&reason);
        }
        if compact && idle.look(fs) {
            idle.compact(fs, signal);
        }
    }
}

/// Detects that the volume is idle, and compacts then.
#[derive(Default)]
struct Idle {
    requests: u64,
    quiet: u32,
    failed: bool,
}

impl Idle {
    /// Returns true after [`QUIET`] intervals in a row without a request.
    fn look(&mut self, fs: &FileSystem<Vlfs>) -> bool {
        let requests = requests_of(fs);
        let before = std::mem::replace(&mut self.requests, requests);
        self.quiet = match requests == before {
            true => self.quiet.saturating_add(1),
            false => 0,
        };
        self.quiet >= QUIET && !self.failed
    }

    /// Runs a step of the compactor, which ends at the first request.
    fn compact(&mut self, fs: &FileSystem<Vlfs>, signal: &Signal) {
        let layout = fs.layout();
        let most = COMPACT_BYTES / u64::from(layout.superblock().unit_bytes.get());
        let may = |_| !signal.stopping() && requests_of(fs) == self.requests;
        if let Err(error) = layout.compact(most, &may) {
            tracing::error!(%error, "cannot compact, and will not until the next mount");
            self.failed = true;
        }
    }
}
