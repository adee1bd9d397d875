//! How long requests took, by what they were for: histograms whose steps are a
//! quarter of an octave of microseconds wide.

use crate::protocol::Opcode;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use varve_device::Lanes;

/// Steps per octave.
const FINE: u32 = 4;
/// Steps of a histogram: the last takes all that is longer.
pub const LATENCY_STEPS: usize = 25 * FINE as usize;

/// What requests are for.
const KINDS: [&str; 4] = ["read", "write", "sync", "name"];

/// The step that a latency belongs to.
fn step_of(latency: Duration) -> usize {
    let us = latency.as_micros().min(u128::from(u32::MAX)) as u64;
    if us < u64::from(FINE) {
        return us as usize;
    }
    // The two bits behind the leading one.
    let octave = us.ilog2();
    let within = (us >> (octave - 2)) & 3;
    ((octave - 1) as usize * FINE as usize + within as usize).min(LATENCY_STEPS - 1)
}

/// Microseconds at which a step ends.
fn step_end_us(step: usize) -> u64 {
    let (octave, within) = (step / FINE as usize + 1, step % FINE as usize);
    match octave {
        1 => within as u64 + 1,
        _ => (4 + within as u64 + 1) << (octave - 2),
    }
}

/// The latency in microseconds that `share` of the requests counted in `steps`
/// (see [`LATENCY_STEPS`]) did not exceed, to a quarter of an octave; nothing
/// if there were none.
pub fn latency_us(steps: &[u64], share: f64) -> Option<u64> {
    let all: u64 = steps.iter().sum();
    let wanted = ((all as f64 * share).ceil() as u64).max(1);
    let mut seen = 0;
    let reached = steps.iter().position(|count| {
        seen += count;
        seen >= wanted
    });
    reached.map(step_end_us)
}

type Histogram = [AtomicU64; LATENCY_STEPS];

/// Latencies since the mount.
pub(crate) struct Latencies {
    lanes: Lanes<[Histogram; KINDS.len()]>,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        let histogram = || [const { AtomicU64::new(0) }; LATENCY_STEPS];
        Latencies {
            lanes: Lanes::new(|| std::array::from_fn(|_| histogram())),
        }
    }

    /// Counts an answered request.
    pub(crate) fn count(&self, opcode: Option<Opcode>, latency: Duration) {
        let kind = match opcode {
            Some(Opcode::Read) => 0,
            Some(Opcode::Write) => 1,
            Some(Opcode::Fsync | Opcode::Fsyncdir | Opcode::Syncfs) => 2,
            _ => 3,
        };
        self.lanes[kind][step_of(latency)].fetch_add(1, Relaxed);
    }

    /// For each kind its percentiles, and the counts by step up to the last
    /// that is not 0.
    pub(crate) fn to_json(&self) -> Map<String, Value> {
        let of = |(kind, name): (usize, &&str)| {
            let mut steps = vec![0; LATENCY_STEPS];
            for lane in self.lanes.iter() {
                for (sum, count) in steps.iter_mut().zip(&lane[kind]) {
                    *sum += count.load(Relaxed);
                }
            }
            let at = |share| latency_us(&steps, share).unwrap_or(0);
            let used = steps.iter().rposition(|n| *n > 0).map_or(0, |n| n + 1);
            let value = json!({
                "p50_us": at(0.5),
                "p99_us": at(0.99),
                "p999_us": at(0.999),
                "steps": steps[..used],
            });
            ((*name).to_owned(), value)
        };
        KINDS.iter().enumerate().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_lies_within_its_step() {
        let mut last = 0;
        for us in (0..4096).chain((12..25).map(|n| (1 << n) + 7)) {
            let step = step_of(Duration::from_micros(us));
            assert!(step >= last, "{us}");
            assert!(us < step_end_us(step), "{us}: {step}");
            assert!(step == 0 || us >= step_end_us(step - 1), "{us}: {step}");
            last = step;
        }
        assert_eq!(step_of(Duration::from_secs(3600)), LATENCY_STEPS - 1);
    }

    #[test]
    fn percentiles_come_from_the_steps() {
        let latencies = Latencies::new();
        for _ in 0..98 {
            latencies.count(Some(Opcode::Read), Duration::from_micros(100));
        }
        for _ in 0..2 {
            latencies.count(Some(Opcode::Read), Duration::from_millis(10));
        }
        let told = latencies.to_json();
        let read = &told["read"];
        assert_eq!(read["p50_us"], 112);
        assert_eq!(read["p99_us"], 10_240);
        let steps = read["steps"].as_array().unwrap();
        let sum: u64 = steps.iter().map(|n| n.as_u64().unwrap()).sum();
        assert_eq!(sum, 100);
        assert_eq!(told["sync"]["steps"], json!([]));
        assert_eq!(latency_us(&[], 0.5), None);
    }
}
