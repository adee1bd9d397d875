//! What happens when the process is asked to end: a clean unmount, or a note.

use crate::unmounter::Unmounter;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::Duration;

/// What asks a process to end.
const TERMINATION: [i32; 3] = [SIGTERM, SIGINT, SIGHUP];

/// Watches for signals until it is dropped.
pub struct Watch {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Hands these signals to `serve`, on a thread of its own.
    ///
    /// # Errors
    /// If signals cannot be watched or the thread cannot be started.
    pub fn start(
        signals: &[i32],
        serve: impl FnOnce(&mut Signals) + Send + 'static,
    ) -> io::Result<Self> {
        let mut signals = Signals::new(signals)?;
        let handle = signals.handle();
        let thread = std::thread::Builder::new()
            .name("varve-signals".into())
            .spawn(move || serve(&mut signals))?;
        Ok(Watch {
            handle,
            thread: Some(thread),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Unblocks all signals, which a process inherits blocked from whoever had them
/// so when starting it. For the first thread, before there are others.
///
/// # Errors
/// None that the system documents.
pub fn unblock() -> io::Result<()> {
    crate::sys::unblock_signals()
}

/// On SIGTERM, SIGINT or SIGHUP sets `noted`, and does nothing else.
///
/// # Errors
/// If signals cannot be watched.
pub fn note_termination(noted: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in TERMINATION {
        signal_hook::flag::register(signal, Arc::clone(noted))?;
    }
    Ok(())
}

/// On SIGTERM, SIGINT or SIGHUP unmounts; [`crate::Session::run`] then writes
/// everything out and returns.
///
/// While the mount is in use it tries again until `grace` has passed, then
/// cuts the connection. A second signal ends the wait at once.
///
/// # Errors
/// If signals cannot be watched or the thread cannot be started.
pub fn unmount_on_termination(unmounter: Unmounter, grace: Duration) -> io::Result<Watch> {
    Watch::start(&TERMINATION, move |signals| {
        let mut shutdown: Option<JoinHandle<()>> = None;
        for signal in signals.forever() {
            tracing::info!(signal, "unmounting");
            if shutdown.is_some() {
                unmounter.hurry();
                continue;
            }
            let unmounter = unmounter.clone();
            let work = move || {
                if let Err(error) = unmounter.shut_down(grace) {
                    tracing::error!(%error, "cannot unmount");
                }
            };
            shutdown = std::thread::Builder::new()
                .name("varve-unmount".into())
                .spawn(work)
                .ok();
        }
        if let Some(thread) = shutdown {
            let _ = thread.join();
        }
    })
}
