//! Requests by kind, as `varve stats` shows them.

use crate::latency::Latencies;
use crate::protocol::Opcode;
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Slots: one per opcode number; slot 0 takes the unknown.
const SLOTS: usize = 64;

/// Counts requests since the mount.
pub struct RequestCounters {
    requests: [AtomicU64; SLOTS],
    failed: AtomicU64,
    malformed: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    latencies: Latencies,
}

impl RequestCounters {
    pub(crate) fn new() -> Self {
        RequestCounters {
            requests: [const { AtomicU64::new(0) }; SLOTS],
            failed: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            latencies: Latencies::new(),
        }
    }

    pub(crate) fn request(&self, opcode: Option<Opcode>) {
        let slot = opcode.map_or(0, |o| o as usize);
        self.requests[slot].fetch_add(1, Ordering::Relaxed);
    }

    /// A request of this kind has been served.
    pub(crate) fn latency(&self, opcode: Option<Opcode>, latency: Duration) {
        self.latencies.count(opcode, latency);
    }

    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn malformed(&self) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, bytes: usize) {
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn written(&self, bytes: usize) {
        self.written_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Requests of one kind, by the protocol's name in lower case: `lookup`,
    /// `getattr`, `write` ... 0 for a name that does not exist.
    pub fn of(&self, name: &str) -> u64 {
        let kind = Opcode::ALL.iter().find(|o| o.name() == name);
        kind.map_or(0, |&o| self.requests[o as usize].load(Ordering::Relaxed))
    }

    /// All requests.
    pub fn total(&self) -> u64 {
        self.requests
            .iter()
            .map(|c| c.load(Ordering::Relaxed))
            .sum()
    }

    /// Kinds that occurred, with their counts, and the totals.
    pub(crate) fn to_json(&self) -> Map<String, Value> {
        let load = |c: &AtomicU64| c.load(Ordering::Relaxed);
        let mut requests = Map::new();
        for &opcode in Opcode::ALL {
            let count = load(&self.requests[opcode as usize]);
            if count > 0 {
                requests.insert(opcode.name().into(), count.into());
            }
        }
        if load(&self.requests[0]) > 0 {
            requests.insert("unknown".into(), load(&self.requests[0]).into());
        }
        let mut all = Map::new();
        all.insert("requests".into(), requests.into());
        all.insert("requests_total".into(), self.total().into());
        all.insert("requests_failed".into(), load(&self.failed).into());
        all.insert("requests_malformed".into(), load(&self.malformed).into());
        all.insert("read_bytes".into(), load(&self.read_bytes).into());
        all.insert("written_bytes".into(), load(&self.written_bytes).into());
        all.insert("latency".into(), self.latencies.to_json().into());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_opcode_has_a_slot_and_a_name() {
        let counters = RequestCounters::new();
        for &opcode in Opcode::ALL {
            counters.request(Some(opcode));
            assert_eq!(counters.of(opcode.name()), 1, "{opcode:?}");
        }
        counters.request(None);
        assert_eq!(counters.total(), Opcode::ALL.len() as u64 + 1);
        assert_eq!(counters.to_json()["requests"]["unknown"], 1);
    }
}
