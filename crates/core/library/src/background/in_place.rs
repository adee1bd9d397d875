//! The thread of an open volume that is updated in place: it writes back and takes
//! checkpoints.

use super::{IDLE, Signal, Threads};
use std::io;
use std::sync::Arc;
use varve_ffs::Ffs;
use varve_fs::FileSystem;

/// Starts the thread, which the file system then wakes.
///
/// # Errors
/// If the thread cannot be started.
pub(crate) fn start(fs: &Arc<FileSystem<Ffs>>) -> io::Result<Threads> {
    let signal: Arc<Signal> = Arc::default();
    let stopping = Arc::clone(&signal);
    let mut threads = Threads::new(move || stopping.stop());
    let (tree, waits) = (Arc::clone(fs), Arc::clone(&signal));
    threads.spawn("varve-write", move || work(&tree, &waits))?;
    fs.set_waker(Box::new(move || signal.wake()));
    Ok(threads)
}

fn work(fs: &FileSystem<Ffs>, signal: &Signal) {
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
    }
}
