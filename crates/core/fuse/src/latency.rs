//! How long requests took, by what they were for: histograms whose steps are a
//! quarter of an octave of microseconds wide.

use crate::protocol::Opcode;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use varve_device::Lanes;

/// Steps per octave.
const FINE: u32 = 4;
/// Steps of a histogram per octave.
pub const LATENCY_STEPS_PER_OCTAVE: usize = FINE as usize;
/// Steps of a histogram: the last takes all that is longer.
pub const LATENCY_STEPS: usize = 25 * LATENCY_STEPS_PER_OCTAVE;

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

/// Microseconds at which a step ends: all that it counts is shorter, but for the
/// last step.
pub fn latency_step_end_us(step: usize) -> u64 {
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
    reached.map(latency_step_end_us)
}

/// Counts by step, and the sum of all latencies in nanoseconds.
struct Histogram {
    steps: [AtomicU64; LATENCY_STEPS],
    sum_ns: AtomicU64,
}

impl Histogram {
    const fn new() -> Self {
        Histogram {
            steps: [const { AtomicU64::new(0) }; LATENCY_STEPS],
            sum_ns: AtomicU64::new(0),
        }
    }
}

/// Latencies since the mount.
pub(crate) struct Latencies {
    lanes: Lanes<[Histogram; KINDS.len()]>,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Latencies {
            lanes: Lanes::new(|| [const { Histogram::new() }; KINDS.len()]),
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
        let histogram = &self.lanes[kind];
        histogram.steps[step_of(latency)].fetch_add(1, Relaxed);
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        histogram.sum_ns.fetch_add(ns, Relaxed);
    }

    /// For each kind its percentiles, the sum of all, and the counts by step up
    /// to the last that is not 0.
    pub(crate) fn to_json(&self) -> Map<String, Value> {
        let of = |(kind, name): (usize, &&str)| {
            let mut steps = vec![0; LATENCY_STEPS];
            let mut sum_ns = 0_u64;
            for lane in self.lanes.iter() {
                for (sum, count) in steps.iter_mut().zip(&lane[kind].steps) {
                    *sum += count.load(Relaxed);
                }
                sum_ns = sum_ns.wrapping_add(lane[kind].sum_ns.load(Relaxed));
            }
            let at = |share| latency_us(&steps, share).unwrap_or(0);
            let used = steps.iter().rposition(|n| *n > 0).map_or(0, |n| n + 1);
            let value = json!({
                "p50_us": at(0.5),
                "p99_us": at(0.99),
                "p999_us": at(0.999),
                "sum_us": sum_ns / 1000,
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
            assert!(us < latency_step_end_us(step), "{us}: {step}");
            assert!(
                step == 0 || us >= latency_step_end_us(step - 1),
                "{us}: {step}"
            );
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
        assert_eq!(read["sum_us"], 98 * 100 + 2 * 10_000);
        assert_eq!(told["sync"]["steps"], json!([]));
        assert_eq!(latency_us(&[], 0.5), None);
    }
}
