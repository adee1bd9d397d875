//! Pins of the log for copies, and the receipt of log that another environment appended.

use super::{Log, Lsn};
use crate::error::Result;
use crate::planted::{self, Planted};
use std::sync::{Arc, Weak};
use varve_device::sync::Mutex;
use varve_device::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A pin: while it exists, nothing from its position on is recycled.
#[derive(Debug)]
pub(crate) struct LogHold(Arc<AtomicU64>);

impl LogHold {
    /// Moves the pin forward to `lsn`.
    pub(crate) fn advance(&self, lsn: Lsn) {
        self.0.fetch_max(lsn.0, SeqCst);
    }
}

#[derive(Debug, Default)]
pub(super) struct Holds(Mutex<Vec<Weak<AtomicU64>>>);

impl Holds {
    fn oldest(&self) -> u64 {
        let mut holds = self.0.lock();
        holds.retain(|hold| hold.strong_count() > 0);
        let all = holds.iter().filter_map(Weak::upgrade);
        all.map(|hold| hold.load(SeqCst)).min().unwrap_or(u64::MAX)
    }
}

impl Log {
    /// Pins the log from `lsn` on, as far as it still exists.
    pub(crate) fn hold(&self, lsn: Lsn) -> LogHold {
        let hold = Arc::new(AtomicU64::new(lsn.0));
        if !planted::is(Planted::LogNotHeld) {
            self.holds.0.lock().push(Arc::downgrade(&hold));
        }
        LogHold(hold)
    }

    /// Recycles segments before `keep` that are not pinned.
    pub(crate) fn recycle(&self, keep: Lsn) {
        let keep = keep.0.min(self.holds.oldest());
        self.segments.recycle(self.shape.segment_of(keep));
    }

    /// Returns the first segment with a file, or the one in which the log continues.
    pub(crate) fn oldest_segment(&self) -> u64 {
        let end = self.shape.segment_of(self.end().0);
        self.segments.oldest().unwrap_or(end)
    }

    /// Reads bytes of one segment from its file. Returns false if it does not exist.
    pub(crate) fn read_bytes(&self, at: u64, buffer: &mut [u8]) -> Result<bool> {
        self.segments.read(at, buffer)
    }

    /// Writes bytes of a log that another environment appended; they must be in one
    /// segment. They are durable on return.
    pub(crate) fn receive(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.segments.provide(self.shape.segment_of(at))?;
        self.segments.write(at, bytes)?;
        match planted::is(Planted::ReceiptUnsynced) {
            true => Ok(()),
            false => self.segments.sync(),
        }
    }

    /// Overwrites everything behind a position with zeros: the rest of its segment, and
    /// the next one, in which the log continues if a batch did not fit. Durable on
    /// return.
    pub(crate) fn clear_behind(&self, at: Lsn) -> Result<()> {
        let here = self.shape.segment_of(at.0);
        for segment in [here, here + 1] {
            let begin = segment * self.shape.segment;
            let from = begin.max(at.0);
            if self.segments.read(begin, &mut [0; 1])? {
                let rest = begin + self.shape.segment - from;
                self.receive(from, &vec![0; rest as usize])?;
            }
        }
        Ok(())
    }
}
