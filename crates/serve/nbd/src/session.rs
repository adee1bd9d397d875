//! The service of one client from its first byte to its last.

use crate::ending::Ending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::export::Export;
use crate::negotiate::negotiate;
use crate::receiver::{Ended, Received, Receiver};
use crate::transport::Transport;

/// The limits of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of connections; default 32. Further ones are closed at once.
    pub connections: usize,
    /// Maximum number of requests of one connection at the device, and of its threads.
    /// The default is 8. Each takes up to 2.5 MiB of memory.
    pub in_flight: usize,
    /// Time from connecting to the end of the handshake; default 10 s.
    pub handshake: Duration,
    /// Time for which a client may stop in the middle of a request, or receive no
    /// replies; default 30 s. Between requests it may be silent without limit.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 32,
            in_flight: 8,
            handshake: Duration::from_secs(10),
            stall: Duration::from_secs(30),
        }
    }
}

/// Serves the client at the other end of `transport` until it disconnects, breaks the
/// rules, or `ending` has begun and no request of it is pending. The transport is
/// closed then. Returns true if the connection ended properly.
pub fn serve(transport: &dyn Transport, export: &Export, limits: &Limits, ending: &Ending) -> bool {
    let counters = export.counters();
    counters.connected();
    // The address is not available once the connection is closed.
    let peer = transport.peer();
    let talk = || match begin(transport, export, limits) {
        Ok(agreed) => {
            let threads = limits.in_flight.max(1);
            Connection::new(transport, export, agreed, threads, ending).run()
        }
        Err(ended) => ended,
    };
    let ended = catch_unwind(AssertUnwindSafe(talk))
        .unwrap_or_else(|_| Ended::Broken("met a panic of the server".into()));
    transport.cut();
    // A message that a stopping server does not receive any more is not the client's
    // fault.
    let properly = ended == Ended::Closed || ending.has_begun();
    match ended {
        _ if properly => tracing::debug!(client = peer, "a client has gone"),
        Ended::Closed => {}
        Ended::Broken(what) => {
            tracing::warn!("{peer} {what}; its connection is closed");
        }
    }
    counters.disconnected(!properly);
    properly
}

fn begin(
    transport: &dyn Transport,
    export: &Export,
    limits: &Limits,
) -> Received<(crate::request::Measures, Receiver)> {
    let mut receiver = Receiver::new();
    let deadline = Instant::now() + limits.handshake;
    let measures = negotiate(transport, &mut receiver, export, deadline)?;
    let set = transport.set_patience(limits.stall);
    set.map_err(|error| Ended::Broken(format!("its time cannot be limited: {error}")))?;
    Ok((measures, receiver))
}
