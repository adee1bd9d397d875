//! The threads of an open volume on the segmented log.
//!
//! One thread writes back: it is woken when the dirty limit is passed, and looks every
//! second for old dirty data. One thread maintains the log with checkpoints, cleaning and
//! freeing, often while the log grows and once a second otherwise. They are separate so
//! that a checkpoint never delays write-back. A third thread verifies
//! ([`crate::verifier`]). A fourth fills holes of an image file ahead of the log while
//! small groups are made durable.

use super::{IDLE, Signal, Threads};
use crate::verifier::Verifier;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use varve_fs::FileSystem;
use varve_lfs::Lfs;

/// Interval of maintenance while the log grows.
const BUSY: Duration = Duration::from_millis(50);
/// Interval of maintenance while clean segments also run low; the cleaner decides itself
/// when to pause.
const PRESSED: Duration = Duration::from_millis(2);

/// How often the schedule of snapshots is looked at.
const SCHEDULE: Duration = Duration::from_secs(60);

/// Starts the threads, the last of which runs `verifier`. The file system wakes the
/// first.
///
/// # Errors
/// If a thread cannot be started; then none is left running.
pub(crate) fn start(fs: &Arc<FileSystem<Lfs>>, verifier: &Arc<Verifier>) -> io::Result<Threads> {
    let signals: [Arc<Signal>; 3] = Default::default();
    let [writing, maintaining, ahead] = signals.clone();
    let (stopped, closing) = (Arc::clone(fs), Arc::clone(verifier));
    let mut threads = Threads::new(move || {
        closing.close();
        stopped.layout().cleaner().hurry();
        signals.iter().for_each(|signal| signal.stop());
    });
    let (tree, signal, next) = (fs.clone(), writing.clone(), maintaining.clone());
    threads.spawn("varve-write", move || write_back(&tree, &signal, &next))?;
    let (tree, signal) = (fs.clone(), maintaining.clone());
    threads.spawn("varve-clean", move || maintain(&tree, &signal))?;
    let (tree, serves) = (fs.clone(), verifier.clone());
    threads.spawn("varve-verify", move || serves.serve(&tree))?;
    let (tree, signal) = (fs.clone(), ahead.clone());
    threads.spawn("varve-zeros", move || write_ahead(&tree, &signal))?;
    fs.layout().on_small_commits(Box::new(move || ahead.wake()));
    fs.set_waker(Box::new(move || writing.wake()));
    fs.layout()
        .cleaner()
        .on_need(Box::new(move || maintaining.wake()));
    Ok(threads)
}

/// Writes back when woken and wakes `maintaining` after each step, because the
/// maintenance of an idle volume sleeps longer than a busy volume takes to make a
/// checkpoint overdue.
fn write_back(fs: &FileSystem<Lfs>, signal: &Signal, maintaining: &Signal) {
    while signal.wait(IDLE) {
        let written = loop {
            match fs.write_back() {
                Ok(true) if !signal.stopping() => maintaining.wake(),
                other => break other,
            }
        };
        if let Err(error) = written {
            tracing::warn!(%error, "write-back failed");
        }
    }
}

fn write_ahead(fs: &FileSystem<Lfs>, signal: &Signal) {
    while signal.wait_woken() {
        if let Err(error) = fs.layout().write_ahead() {
            tracing::debug!(%error, "nothing was written ahead of the log");
        }
    }
}

fn maintain(fs: &FileSystem<Lfs>, signal: &Signal) {
    let mut groups = 0;
    let mut pause = IDLE;
    let mut looked = Instant::now();
    while signal.wait(pause) {
        if looked.elapsed() >= SCHEDULE {
            looked = Instant::now();
            if let Err(error) = fs.keep_snapshots() {
                tracing::warn!(%error, "the schedule of snapshots cannot be kept");
            }
        }
        if let Err(error) = fs.maintain() {
            tracing::warn!(%error, "maintenance failed");
        }
        // A verification may have stopped the layout.
        if let Some(reason) = fs.layout().stopped() {
            fs.refuse_changes(&reason);
        }
        let before = std::mem::replace(&mut groups, fs.layout().statistics().groups);
        pause = match groups == before {
            true => IDLE,
            false if fs.layout().cleaner().wants_cleaning() => PRESSED,
            false => BUSY,
        };
    }
}
