//! Signals to a serving process: end, end at once, print counters.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::io;
use std::time::Duration;
use varve_fuse::signals::Watch;
use varve_nbd::Stopper;

/// Time for clients to receive their last answers.
const GRACE: Duration = Duration::from_secs(10);

/// Handles signals: SIGTERM, SIGINT and SIGHUP stop the server, a second one at once.
/// SIGUSR1 calls `tell`.
///
/// # Errors
/// If signals cannot be watched or the thread cannot be started.
pub fn watch(stopper: Stopper, tell: impl Fn() + Send + 'static) -> io::Result<Watch> {
    Watch::start(&[SIGTERM, SIGINT, SIGHUP, SIGUSR1], move |signals| {
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
            // In a thread of its own, so that the next signal is handled.
            let stop = std::thread::Builder::new()
                .name("varve-stop".into())
                .spawn(move || stopper.stop(grace));
            if let Err(error) = stop {
                tracing::error!(%error, "cannot start a thread to end");
            }
        }
    })
}
