//! Whether small groups are being made durable, and whether it then helps to write ahead
//! of the log (`crate::ahead`).

use std::sync::OnceLock;
use varve_device::Device;
use varve_device::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Number of commits that are judged together.
const COMMITS: u64 = 32;
/// Bytes of log for each commit up to which commits count as small.
const SMALL_BYTES: u64 = 64 << 10;

/// Counts of small commits, which decide whether the log is written ahead.
pub(crate) struct Ahead {
    /// The device fills holes slowly, and has refused no write ahead of the log.
    pub useful: AtomicBool,
    commits: AtomicU64,
    /// Bytes of users' groups in the log when commits were last judged.
    log_bytes: AtomicU64,
    /// Wakes a thread that writes ahead of the log.
    pub summon: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Ahead {
    pub fn new(device: &dyn Device) -> Self {
        Ahead {
            useful: AtomicBool::new(device.fills_holes_slowly()),
            commits: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
            summon: OnceLock::new(),
        }
    }

    /// Notes that a group has become durable; users' groups have taken `log_bytes` in the
    /// log.
    pub fn committed(&self, log_bytes: u64) {
        if !self.useful.load(Relaxed) {
            return;
        }
        let commits = self.commits.fetch_add(1, Relaxed) + 1;
        if !commits.is_multiple_of(COMMITS) {
            return;
        }
        let before = self.log_bytes.swap(log_bytes, Relaxed);
        let small = log_bytes.saturating_sub(before) <= COMMITS * SMALL_BYTES;
        if let (true, Some(summon)) = (small, self.summon.get()) {
            summon();
        }
    }
}
