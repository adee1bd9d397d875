//! Which number of `varve stats` is which metric.
//!
//! Names follow Prometheus' conventions: base units (seconds, bytes), `_total`
//! for what only grows. A test holds the catalogue against the statistics.

mod layers;
mod volume;

/// What kind of metric it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, from 0 at the mount.
    Counter,
    /// Goes down as well as up.
    Gauge,
    /// Counts by step, as `latency` of a mount has them.
    Histogram,
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Where its number stands: names of members with dots. `*` is any member,
    /// whose name is then the label's value.
    pub path: &'static str,
    /// What it is called, behind `varve_`.
    pub name: &'static str,
    pub kind: Kind,
    /// The label whose value the `*` of the path is; empty if it has none.
    pub label: &'static str,
    /// What it is.
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

/// Numbers that other metrics tell, or that are of use only together with words.
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
    // Bytes tell it.
    "space.blocks",
    "space.free",
    // How far a scrub is within a stage, and which.
    "verification.done",
    "verification.total",
    "verification.attempt",
    "scrub.done",
    "scrub.total",
    "scrub.attempt",
];

/// All metrics of a volume, but for `up`.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    volume::METRICS.iter().chain(&layers::METRICS)
}
