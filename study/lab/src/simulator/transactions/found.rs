//! What a run measured.

/// Counts since the beginning of a run.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counts {
    pub(super) committed: u64,
    pub(super) aborted: u64,
    pub(super) events: u64,
    pub(super) asked: u64,
    pub(super) waits: u64,
    pub(super) reads: u64,
    pub(super) fetches: u64,
    pub(super) writes: u64,
    pub(super) processor_ns: u64,
    pub(super) read_ns: u64,
    pub(super) write_ns: u64,
    pub(super) log_ns: u64,
}

/// Transactions that committed a second, in each checkpoint interval.
pub(super) fn rates(marks: &[Counts], interval_s: f64) -> Vec<f64> {
    let rate = |pair: &[Counts]| (pair[1].committed - pair[0].committed) as f64 / interval_s;
    marks.windows(2).map(rate).collect()
}

/// What a run measured, from one checkpoint to another. Rates are per second,
/// amounts per transaction that committed.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Simulated seconds.
    pub seconds: f64,
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that were aborted.
    pub aborted: u64,
    /// Transactions that committed a second.
    pub tps: f64,
    /// The same of each checkpoint interval: a batch.
    pub batches: Vec<f64>,
    /// How busy the processor was.
    pub processor: f64,
    /// How busy the disks were, on average.
    pub disks: f64,
    /// Share of their time that was random reads.
    pub reading: f64,
    /// Share of their time that was the transactions' log.
    pub logging: f64,
    /// Pages read.
    pub reads: f64,
    /// Pages written.
    pub writes: f64,
    /// Pages that were in the pool, of those that were asked for.
    pub hits: f64,
    /// Locks that were asked for.
    pub locks: f64,
    /// Locks that were waited for.
    pub waits: f64,
    /// Events.
    pub events: u64,
}

impl Found {
    /// From the counts at the ends of checkpoint intervals of so many seconds.
    pub(super) fn of(marks: &[Counts], interval_s: f64, disks: usize) -> Self {
        let (first, last) = (&marks[0], &marks[marks.len() - 1]);
        let count = |of: fn(&Counts) -> u64| (of(last) - of(first)) as f64;
        let seconds = interval_s * (marks.len() - 1) as f64;
        let committed = count(|c| c.committed);
        let disk_ns = count(|c| c.read_ns + c.write_ns + c.log_ns);
        let each = |value: f64| value / committed;
        Found {
            seconds,
            committed: committed as u64,
            aborted: last.aborted - first.aborted,
            tps: committed / seconds,
            batches: rates(marks, interval_s),
            processor: count(|c| c.processor_ns) / 1e9 / seconds,
            disks: disk_ns / 1e9 / seconds / disks as f64,
            reading: count(|c| c.read_ns) / disk_ns,
            logging: count(|c| c.log_ns) / disk_ns,
            reads: each(count(|c| c.reads)),
            writes: each(count(|c| c.writes)),
            hits: 1.0 - count(|c| c.reads) / count(|c| c.fetches),
            locks: each(count(|c| c.asked)),
            waits: each(count(|c| c.waits)),
            events: last.events - first.events,
        }
    }

    /// Transactions that were aborted, of a hundred that ended.
    pub fn aborted_percent(&self) -> f64 {
        100.0 * self.aborted as f64 / (self.aborted + self.committed) as f64
    }
}
