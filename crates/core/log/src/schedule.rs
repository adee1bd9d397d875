//! When checkpoints are taken.

/// When the last checkpoint was, and which one comes next.
#[derive(Debug)]
pub struct Schedule {
    /// Number of the next checkpoint.
    pub next_serial: u64,
    /// Monotonic nanoseconds when the last one was taken.
    pub last_ns: u64,
}
