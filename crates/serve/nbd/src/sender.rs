//! The sending end of a connection: whole replies, one behind the other.
//!
//! Invariant: a reply that was begun and not finished is the last. A client
//! takes what follows for the rest of it.

use std::io::ErrorKind;

use parking_lot::Mutex;

use crate::receiver::{Ended, Received};
use crate::transport::Transport;

/// Whose turn it is to send.
pub(crate) struct Sender {
    /// Why a reply was left in the middle, if one was.
    torn: Mutex<Option<Ended>>,
}

impl Sender {
    pub(crate) fn new() -> Self {
        Sender {
            torn: Mutex::new(None),
        }
    }

    /// Has `send` send whole replies, with nobody else's between. If it fails
    /// or panics nothing is sent any more.
    pub(crate) fn whole(&self, send: impl FnOnce() -> Received<()>) -> Received<()> {
        let mut torn = self.torn.lock();
        if let Some(ended) = &*torn {
            return Err(ended.clone());
        }
        // Stays if it panics, which is reported elsewhere.
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
