//! Signals to a serving process: end, hurry, tell.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;
use varve_nbd::Stopper;

/// What clients get to take their last answers.
const GRACE: Duration = Duration::from_secs(10);

/// Watches for signals until it is dropped.
pub struct Watch {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// SIGTERM, SIGINT and SIGHUP stop the server, a second one at once.
    /// SIGUSR1 calls `tell`.
    ///
    /// # Errors
    /// If signals cannot be watched or the thread cannot be started.
    pub fn start(stopper: Stopper, tell: impl Fn() + Send + 'static) -> io::Result<Self> {
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1])?;
        let handle = signals.handle();
        let watcher = move || {
            let mut asked = false;
            for signal in signals.forever() {
                if signal == SIGUSR1 {
                    tell();
                    continue;
                }
                tracing::info!(signal, "ending");
                let grace = if asked { Duration::ZERO } else { GRACE };
                asked = true;
                let stopper = stopper.clone();
                // Beside this one, so that the next signal is heard.
                let stop = std::thread::Builder::new()
                    .name("varve-stop".into())
                    .spawn(move || stopper.stop(grace));
                if let Err(error) = stop {
                    tracing::error!(%error, "cannot start a thread to end");
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("varve-signals".into())
            .spawn(watcher)?;
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
