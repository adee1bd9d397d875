//! The statistics of a mount at one moment, and the differences between two moments.

use crate::cli::output::Failure;
use crate::cli::stats;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;
use varve_fuse::latency_us;

/// Requested number of cells in the segment map.
const CELLS: u64 = 6000;

/// The statistics at one moment.
pub struct Sample {
    taken: Instant,
    statistics: Value,
    map: Value,
}

impl Sample {
    /// Asks the mount's server.
    pub fn take(directory: &Path) -> Result<Self, Failure> {
        let statistics = stats::of_mount(directory)?;
        let question = json!({"segments": CELLS}).to_string();
        let answer = varve_fuse::ask(directory, &question);
        let map = answer.map_err(|error| {
            let shown = directory.display();
            Failure::new(1, format_args!("cannot ask {shown} for its map: {error}"))
        })?;
        Ok(Sample {
            taken: Instant::now(),
            statistics,
            map: serde_json::from_str(&map).map_err(Failure::with(1))?,
        })
    }

    #[cfg(test)]
    pub fn of(statistics: Value, map: Value) -> Self {
        let taken = Instant::now();
        Sample {
            taken,
            statistics,
            map,
        }
    }
}

/// One line of a table of bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    pub name: String,
    /// Bytes since the mount.
    pub total: u64,
    /// Bytes per second.
    pub rate: f64,
}

/// One line of the latency table, over the interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    pub kind: String,
    /// Requests per second.
    pub rate: f64,
    /// Microseconds that half, 99 % and 99.9 % of the requests did not exceed.
    pub percentiles: [Option<u64>; 3],
}

/// The numbers of a frame.
pub struct Rates {
    /// Seconds between the two samples.
    pub seconds: f64,
    /// Write cost since the mount, and over the interval if any data was written.
    pub write_cost: (f64, Option<f64>),
    pub amplification: (f64, Option<f64>),
    pub overall_write_cost: f64,
    /// Live bytes over all bytes.
    pub utilisation: f64,
    pub read_only: bool,
    /// Transactions that are open, were committed, met a conflict, were refused for lack
    /// of space or by an error, and were aborted.
    pub transactions: [u64; 5],
    /// Waits for locks, the longest in nanoseconds, deadlocks and time-outs.
    pub locks: [u64; 4],
    pub written: Vec<Cause>,
    pub read: Vec<Cause>,
    pub latency: Vec<Latency>,
    /// Clean segments, the marks at which cleaning begins and ends, and the segments
    /// missing to the mark.
    pub cleaner: [u64; 4],
    /// Segments cleaned and segments found empty, per second.
    pub cleaned: [f64; 2],
    pub segments: u64,
    pub per_cell: u64,
    pub use_cells: String,
    pub age_cells: String,
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or(0.0)
}

fn count(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

impl Rates {
    /// The numbers from two samples; without rates if they are the same.
    pub fn between(before: &Sample, after: &Sample) -> Self {
        let (old, new) = (&before.statistics, &after.statistics);
        let seconds = after.taken.duration_since(before.taken).as_secs_f64();
        let grown = |path: &str| count(new, path).saturating_sub(count(old, path));
        let each_second = |n: u64| match seconds > 0.0 {
            true => n as f64 / seconds,
            false => 0.0,
        };
        let causes = |list: &str| {
            let members = new[list].as_object().into_iter().flatten();
            let cause = |(name, total): (&String, &Value)| Cause {
                name: name.replace('_', " "),
                total: total.as_u64().unwrap_or(0),
                rate: each_second(grown(&format!("/{list}/{name}"))),
            };
            members.map(cause).collect::<Vec<Cause>>()
        };
        let per_data = |bytes: u64| match grown("/layout/data_bytes") {
            0 => None,
            data => Some(bytes as f64 / data as f64),
        };
        let cleaning = [
            "cleaner_log_bytes",
            "cleaner_read_bytes",
            "coalesced_read_bytes",
        ]
        .map(|name| grown(&format!("/layout/{name}")));
        let cleaning = cleaning.iter().sum();
        let text = |name: &str| after.map[name].as_str().unwrap_or("").to_owned();
        Rates {
            seconds,
            write_cost: (
                number(new, "/write_cost"),
                per_data(cleaning).map(|cost| cost + 1.0),
            ),
            amplification: (
                number(new, "/write_amplification"),
                per_data(grown("/layout/bytes_written")),
            ),
            overall_write_cost: number(new, "/overall_write_cost"),
            utilisation: number(new, "/segments/utilisation"),
            read_only: count(new, "/state/read_only") > 0,
            transactions: {
                let of = |name| count(new, &format!("/transactions/{name}"));
                ["open", "committed", "conflicts", "refused", "aborted"].map(of)
            },
            locks: ["waits", "longest_wait_ns", "deadlocks", "timeouts"]
                .map(|name| count(new, &format!("/transactions/locks/{name}"))),
            written: causes("written_by_cause"),
            read: causes("read_by_cause"),
            latency: latencies(old, new, &each_second),
            cleaner: ["clean_segments", "begins_below", "ends_at", "debt_segments"]
                .map(|name| count(new, &format!("/cleaner/{name}"))),
            cleaned: ["segments_cleaned", "segments_emptied"]
                .map(|name| each_second(grown(&format!("/layout/{name}")))),
            segments: count(&after.map, "/count"),
            per_cell: count(&after.map, "/per_cell"),
            use_cells: text("use"),
            age_cells: text("age"),
        }
    }
}

fn latencies(old: &Value, new: &Value, each_second: &dyn Fn(u64) -> f64) -> Vec<Latency> {
    let kinds = new["latency"].as_object().into_iter().flatten();
    kinds
        .map(|(kind, of)| {
            let before = |at: usize| old["latency"][kind]["steps"][at].as_u64().unwrap_or(0);
            let steps = of["steps"].as_array().into_iter().flatten();
            let steps: Vec<u64> = (0..)
                .zip(steps)
                .map(|(at, n)| n.as_u64().unwrap_or(0).saturating_sub(before(at)))
                .collect();
            Latency {
                kind: kind.clone(),
                rate: each_second(steps.iter().sum()),
                percentiles: [0.5, 0.99, 0.999].map(|share| latency_us(&steps, share)),
            }
        })
        .collect()
}
