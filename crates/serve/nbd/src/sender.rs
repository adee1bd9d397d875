//! Sending whole replies to a client, one after the other.
//!
//! Invariant: a reply that was sent in part is the last, because the client takes the
//! next bytes for the rest of it.

use std::io::ErrorKind;

use parking_lot::Mutex;

use crate::receiver::{Ended, Received};
use crate::transport::Transport;

/// The lock of the sending direction.
pub(crate) struct Sender {
    /// The reason why a reply was sent in part, if there is one.
    torn: Mutex<Option<Ended>>,
}

impl Sender {
    pub(crate) fn new() -> Self {
        Sender {
            torn: Mutex::new(None),
        }
    }

    /// Calls `send`, which sends whole replies, while no other thread sends. If it
    /// fails or panics, nothing more is sent.
    pub(crate) fn whole(&self, send: impl FnOnce() -> Received<()>) -> Received<()> {
        let mut torn = self.torn.lock();
        if let Some(ended) = &*torn {
            return Err(ended.clone());
        }
        // This remains if `send` panics, which is reported elsewhere.
        *torn = Some(Ended::Closed);
        let sent = send();
        *torn = sent.clone().err();
        sent
    }
}

/// Sends every byte.
pub(crate) fn send_all(transport: &dyn Transport, mut bytes: &[u8]) -> Received<()> {
    let broken = |what| Err(Ended::Broken(what));
    while !bytes.is_empty() {
        match transport.send(bytes) {
            Ok(0) => return broken("takes no more replies".into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return broken("does not take its replies".into());
            }
            Err(error) => return broken(format!("cannot be sent to: {error}")),
        }
    }
    Ok(())
}
