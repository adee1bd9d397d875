//! The catalogue of metrics: which number of `varve stats` is which metric.
//!
//! Names follow Prometheus' conventions: base units (seconds, bytes), `_total` for
//! numbers that only grow. A test compares the catalogue with the statistics.

mod layers;
mod volume;

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, from 0 at the mount.
    Counter,
    /// It rises and falls.
    Gauge,
    /// Counts by step, as in `latency` of a mount.
    Histogram,
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Path of its number: names of members with dots. `*` is any member, whose name is
    /// then the label's value.
    pub path: &'static str,
    /// Its name, without the prefix `varve_`.
    pub name: &'static str,
    pub kind: Kind,
    /// The label whose value matches the `*` of the path; empty if it has none.
    pub label: &'static str,
    /// Its description.
    pub help: &'static str,
}

impl Metric {
    /// True if the number has to be divided to become seconds.
    pub fn is_nanoseconds(&self) -> bool {
        self.path.ends_with("_ns")
    }
}

const fn counter(path: &'static str, name: &'static str, help: &'static str) -> Metric {
    let (kind, label) = (Kind::Counter, "");
    Metric {
        path,
        name,
        kind,
        label,
        help,
    }
}

const fn gauge(path: &'static str, name: &'static str, help: &'static str) -> Metric {
    let metric = counter(path, name, help);
    Metric {
        kind: Kind::Gauge,
        ..metric
    }
}

const fn by(label: &'static str, metric: Metric) -> Metric {
    Metric { label, ..metric }
}

/// Numbers that other metrics include, or that are of use only together with words.
#[cfg(test)]
pub const LEFT_OUT: [&str; 40] = [
    // The sum of `requests`.
    "requests_total",
    // In `written_by_cause`, `read_by_cause` and `device`.
    "layout.data_bytes",
    "layout.inode_bytes",
    "layout.node_bytes",
    "layout.inode_map_bytes",
    "layout.usage_table_bytes",
    "layout.record_bytes",
    "layout.summary_bytes",
    "layout.map_bytes",
    "layout.padding_bytes",
    "layout.cleaner_bytes",
    "layout.coalesced_bytes",
    "layout.data_read_bytes",
    "layout.metadata_read_bytes",
    "layout.cleaner_read_bytes",
    "layout.coalesced_read_bytes",
    "layout.recovery_read_bytes",
    "layout.verified_read_bytes",
    "layout.device_reads",
    "layout.read_retries",
    "layout.reads_cured",
    "layout.reads_failed",
    "layout.checksum_retries",
    "layout.checksums_cured",
    "layout.checksum_failures",
    "layout.device_writes",
    "layout.write_retries",
    "layout.writes_cured",
    "layout.writes_failed",
    "layout.relocated_partials",
    "layout.flushes",
    "layout.flushes_failed",
    // Reported in bytes.
    "space.blocks",
    "space.free",
    // Progress of a scrub within a stage, and the stage.
    "verification.done",
    "verification.total",
    "verification.attempt",
    "scrub.done",
    "scrub.total",
    "scrub.attempt",
];

/// All metrics of a volume, except `up`.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    volume::METRICS.iter().chain(&layers::METRICS)
}
