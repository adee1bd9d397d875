//! What one phase measured: counts, time inside calls, latencies.
//!
//! Latencies go into a log-linear histogram, 64 steps per power of two, so
//! that percentiles err by less than 1.6 %; the maximum is exact.

use std::time::{Duration, Instant};

const STEPS: usize = 64;
const BINS: usize = 60 * STEPS;

/// One phase.
#[derive(Clone)]
pub struct Record {
    /// Operations.
    pub ops: u64,
    /// Bytes of content they carried.
    pub bytes: u64,
    /// Time inside the calls.
    pub busy: Duration,
    /// Longest call, in nanoseconds.
    pub max_ns: u64,
    /// When the phase began.
    pub begun: Instant,
    histogram: Vec<u32>,
}

impl Default for Record {
    fn default() -> Self {
        Record {
            ops: 0,
            bytes: 0,
            busy: Duration::ZERO,
            max_ns: 0,
            begun: Instant::now(),
            histogram: vec![0; BINS],
        }
    }
}

fn bin(ns: u64) -> usize {
    if ns < STEPS as u64 {
        return ns as usize;
    }
    let exponent = 63 - ns.leading_zeros() as usize;
    let step = (ns >> (exponent - 6)) as usize & (STEPS - 1);
    ((exponent - 5) * STEPS + step).min(BINS - 1)
}

/// Middle of a bin, in microseconds.
fn value_us(bin: usize) -> f64 {
    if bin < STEPS {
        return bin as f64 / 1e3;
    }
    let exponent = bin / STEPS + 5;
    let scale = (1u64 << (exponent - 6)) as f64;
    ((STEPS + bin % STEPS) as f64 + 0.5) * scale / 1e3
}

impl Record {
    /// Adds one operation that took `time`.
    pub fn add_time(&mut self, time: Duration, bytes: u64) {
        let ns = time.as_nanos() as u64;
        self.ops += 1;
        self.bytes += bytes;
        self.busy += time;
        self.max_ns = self.max_ns.max(ns);
        self.histogram[bin(ns)] += 1;
    }

    /// Adds one operation that began at `begun` and ends now.
    pub fn add(&mut self, begun: Instant, bytes: u64) {
        self.add_time(begun.elapsed(), bytes);
    }

    /// Adds everything another thread measured.
    pub fn merge(&mut self, other: &Record) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.busy += other.busy;
        self.max_ns = self.max_ns.max(other.max_ns);
        for (to, from) in self.histogram.iter_mut().zip(&other.histogram) {
            *to += from;
        }
    }

    /// The latency that a share of the operations stays below, in
    /// microseconds.
    pub fn percentile_us(&self, share: f64) -> f64 {
        let wanted = (self.ops as f64 * share) as u64;
        let max_us = self.max_ns as f64 / 1e3;
        let mut seen = 0;
        for (bin, &count) in self.histogram.iter().enumerate() {
            seen += u64::from(count);
            if seen > wanted {
                return value_us(bin).min(max_us);
            }
        }
        max_us
    }

    /// The phase as one JSON object. `extra` holds further members, each with
    /// a leading comma.
    pub fn json(&self, head: &Head<'_>, phase: &str, seconds: f64, extra: &str) -> String {
        let s = seconds.max(1e-9);
        format!(
            "{{{},\"ops\":{},\"bytes\":{},\"seconds\":{seconds:.6},\"ops_per_s\":{:.1},\
             \"MB_per_s\":{:.2},\"p50_us\":{:.2},\"p99_us\":{:.2},\"max_us\":{:.2},\
             \"wall_s\":{:.3}{extra}}}",
            head.members(phase),
            self.ops,
            self.bytes,
            self.ops as f64 / s,
            self.bytes as f64 / s / 1e6,
            self.percentile_us(0.50),
            self.percentile_us(0.99),
            self.max_ns as f64 / 1e3,
            self.begun.elapsed().as_secs_f64(),
        )
    }
}

/// What every line of a run begins with.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Name of the file system.
    pub tag: &'a str,
    /// Number of the run.
    pub run: u32,
    /// Name of the workload.
    pub workload: &'a str,
}

impl Head<'_> {
    fn members(&self, phase: &str) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        format!(
            "\"fs\":{},\"run\":{},\"workload\":{},\"phase\":{}",
            quoted(self.tag),
            self.run,
            quoted(self.workload),
            quoted(phase)
        )
    }

    /// A line that says why a phase failed.
    pub fn error(&self, phase: &str, error: &str) -> String {
        let error = serde_json::Value::from(error);
        format!("{{{},\"error\":{error}}}", self.members(phase))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_err_by_less_than_two_percent() {
        let mut record = Record::default();
        for us in 1..=10_000 {
            record.add_time(Duration::from_micros(us), 1);
        }
        for (share, want) in [(0.5, 5000.0), (0.99, 9900.0), (0.0, 1.0)] {
            let got = record.percentile_us(share);
            assert!((got - want).abs() / want < 0.02, "{share}: {got}");
        }
        assert_eq!(record.percentile_us(1.0), 10_000.0);
    }

    #[test]
    fn lines_are_json() {
        let head = Head {
            tag: "a\"b",
            run: 1,
            workload: "w",
        };
        let line = Record::default().json(&head, "p", 0.0, ",\"unit\":1");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["fs"], "a\"b");
        assert_eq!(value["unit"], 1);
    }
}
