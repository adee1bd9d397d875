//! The threads behind an open volume on the segmented log.
//!
//! One writes back: it is woken when too much is dirty and looks every second
//! for what has grown old. One maintains: checkpoints, cleaning, freeing. It
//! looks often while the log grows and once a second while it does not. They
//! are two so that a checkpoint never keeps dirty data waiting. A third
//! verifies ([`crate::verifier`]). A fourth writes holes of an image file ahead of the log
//! while small groups are made durable.

use super::{IDLE, QUIET, Signal, Threads, requests_of};
use crate::verifier::Verifier;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use varve_fs::FileSystem;
use varve_lfs::Lfs;
use varve_lfs::policy::Coalescing;

/// How often a volume whose log grows is looked at.
const BUSY: Duration = Duration::from_millis(50);
/// How often one that also runs out of clean segments is looked at: the
/// cleaner's rests are its own affair.
const PRESSED: Duration = Duration::from_millis(2);
/// Bytes put in order at a time, and how often in a look: a foreground request
/// meets one of them at most, and none takes more of a device than this a
/// second, twice (they are read and written).
const ORDER_BYTES: u64 = 1 << 20;
const ORDER_TIMES: u32 = 4;

/// Starts the threads, the last of which serves `verifier`, and has the file
/// system wake the first. With `coalesce`, the second puts files in order while
/// nobody asks for anything.
///
/// # Errors
/// If a thread cannot be started; then none is left.
pub(crate) fn start(
    fs: &Arc<FileSystem<Lfs>>,
    verifier: &Arc<Verifier>,
    coalesce: bool,
) -> io::Result<Threads> {
    let signals: [Arc<Signal>; 3] = Default::default();
    let [writing, maintaining, ahead] = signals.clone();
    let (stopped, closing) = (Arc::clone(fs), Arc::clone(verifier));
    let mut threads = Threads::new(move || {
        closing.close();
        stopped.layout().hurry();
        signals.iter().for_each(|signal| signal.stop());
    });
    let (tree, signal, next) = (fs.clone(), writing.clone(), maintaining.clone());
    threads.spawn("varve-write", move || write_back(&tree, &signal, &next))?;
    let (tree, signal) = (fs.clone(), maintaining.clone());
    threads.spawn("varve-clean", move || maintain(&tree, &signal, coalesce))?;
    let (tree, serves) = (fs.clone(), verifier.clone());
    threads.spawn("varve-verify", move || serves.serve(&tree))?;
    let (tree, signal) = (fs.clone(), ahead.clone());
    threads.spawn("varve-zeros", move || write_ahead(&tree, &signal))?;
    fs.layout().on_small_commits(Box::new(move || ahead.wake()));
    fs.set_waker(Box::new(move || writing.wake()));
    fs.layout().on_need(Box::new(move || maintaining.wake()));
    Ok(threads)
}

/// Tells `maintaining` of what it has written: an idle volume's maintenance
/// sleeps for longer than a busy one takes to make a checkpoint overdue.
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

fn maintain(fs: &FileSystem<Lfs>, signal: &Signal, coalesce: bool) {
    let mut groups = 0;
    let mut requests = 0;
    let mut quiet = 0_u32;
    let mut pause = IDLE;
    while signal.wait(pause) {
        if let Err(error) = fs.maintain() {
            tracing::warn!(%error, "maintenance failed");
        }
        // A verification may have found something.
        if let Some(reason) = fs.layout().stopped() {
            fs.refuse_changes(&reason);
        }
        let before = std::mem::replace(&mut groups, fs.layout().statistics().groups);
        pause = match groups == before {
            true => IDLE,
            false if fs.layout().wants_cleaning() => PRESSED,
            false => BUSY,
        };
        let before = std::mem::replace(&mut requests, requests_of(fs));
        quiet = match requests == before && pause == IDLE {
            true => quiet.saturating_add(1),
            false => 0,
        };
        if coalesce && quiet >= QUIET {
            put_in_order(fs, signal, requests);
            // Our own groups are no reason to look more often.
            groups = fs.layout().statistics().groups;
        }
    }
}

/// A step of idle work; it ends as soon as somebody asks for something.
fn put_in_order(fs: &FileSystem<Lfs>, signal: &Signal, requests: u64) {
    let policy = Coalescing::default();
    for _ in 0..ORDER_TIMES {
        if signal.stopping() || requests_of(fs) != requests {
            return;
        }
        match fs.layout().coalesce_found(&policy, ORDER_BYTES) {
            Ok(Some(done)) if !done.short_of_room => {}
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, "putting files in order failed");
                return;
            }
        }
    }
}
