//! The counters of a server.

use serde_json::{Map, Value};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::protocol::command;

/// The kinds of requests that are counted, with their names.
const KINDS: [(u16, &str); 6] = [
    (command::READ, "read"),
    (command::WRITE, "write"),
    (command::FLUSH, "flush"),
    (command::TRIM, "trim"),
    (command::WRITE_ZEROES, "write_zeroes"),
    (command::BLOCK_STATUS, "block_status"),
];

/// Counts of events since the start of the server.
#[derive(Debug, Default)]
pub struct Counters {
    connections: AtomicU64,
    connections_open: AtomicU64,
    connections_refused: AtomicU64,
    connections_broken: AtomicU64,
    requests: [AtomicU64; KINDS.len()],
    requests_unknown: AtomicU64,
    requests_failed: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    device_flushes: AtomicU64,
    shared_flushes: AtomicU64,
}

impl Counters {
    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Relaxed);
        self.connections_open.fetch_add(1, Relaxed);
    }

    pub(crate) fn disconnected(&self, broken: bool) {
        self.connections_open.fetch_sub(1, Relaxed);
        self.connections_broken.fetch_add(broken.into(), Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.connections_refused.fetch_add(1, Relaxed);
    }

    pub(crate) fn request(&self, kind: u16) {
        let slot = KINDS.iter().position(|&(number, _)| number == kind);
        slot.map_or(&self.requests_unknown, |slot| &self.requests[slot])
            .fetch_add(1, Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.requests_failed.fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self, bytes: usize) {
        self.read_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn written(&self, bytes: usize) {
        self.written_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn flushed(&self, worked: bool) {
        let counter = match worked {
            true => &self.device_flushes,
            false => &self.shared_flushes,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// Returns the number of present connections, including those in their handshake.
    pub fn open(&self) -> u64 {
        self.connections_open.load(Relaxed)
    }

    /// Returns the number of requests of all kinds so far.
    pub fn total(&self) -> u64 {
        let known: u64 = self.requests.iter().map(|count| count.load(Relaxed)).sum();
        known + self.requests_unknown.load(Relaxed)
    }

    /// Returns all counters, for scripts. `shared_flushes` are flushes of clients that
    /// the flush of another client covered.
    pub fn to_json(&self) -> Value {
        let mut requests = Map::new();
        for ((_, name), count) in KINDS.iter().zip(&self.requests) {
            requests.insert((*name).into(), count.load(Relaxed).into());
        }
        requests.insert("unknown".into(), self.requests_unknown.load(Relaxed).into());
        let mut all = Map::new();
        all.insert("requests".into(), requests.into());
        for (name, count) in [
            ("requests_failed", &self.requests_failed),
            ("read_bytes", &self.read_bytes),
            ("written_bytes", &self.written_bytes),
            ("device_flushes", &self.device_flushes),
            ("shared_flushes", &self.shared_flushes),
            ("connections", &self.connections),
            ("connections_open", &self.connections_open),
            ("connections_refused", &self.connections_refused),
            ("connections_broken", &self.connections_broken),
        ] {
            all.insert(name.into(), count.load(Relaxed).into());
        }
        all.into()
    }
}
