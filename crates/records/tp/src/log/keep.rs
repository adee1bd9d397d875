//! Keeping the log for those who copy it, and taking in what was copied elsewhere.

use super::{Log, Lsn};
use crate::error::Result;
use crate::planted::{self, Planted};
use std::sync::{Arc, Weak};
use varve_device::sync::Mutex;
use varve_device::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// While it lives, nothing from a place on is recycled.
#[derive(Debug)]
pub(crate) struct LogHold(Arc<AtomicU64>);

impl LogHold {
    /// From here on is enough.
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
    /// Keeps what is still there from `lsn` on.
    pub(crate) fn hold(&self, lsn: Lsn) -> LogHold {
        let hold = Arc::new(AtomicU64::new(lsn.0));
        if !planted::is(Planted::LogNotHeld) {
            self.holds.0.lock().push(Arc::downgrade(&hold));
        }
        LogHold(hold)
    }

    /// Segments that hold nothing before `keep`, nor what somebody holds, are free to be
    /// written over.
    pub(crate) fn recycle(&self, keep: Lsn) {
        let keep = keep.0.min(self.holds.oldest());
        self.segments.recycle(self.shape.segment_of(keep));
    }

    /// The first segment that has a file, or the one in which the log goes on.
    pub(crate) fn oldest_segment(&self) -> u64 {
        let end = self.shape.segment_of(self.end().0);
        self.segments.oldest().unwrap_or(end)
    }

    /// Bytes of one segment as its file has them. False if it is not there.
    pub(crate) fn read_bytes(&self, at: u64, buffer: &mut [u8]) -> Result<bool> {
        self.segments.read(at, buffer)
    }

    /// Writes bytes of a log that were appended elsewhere; they lie in one segment.
    /// Durable when it returns.
    pub(crate) fn receive(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.segments.provide(self.shape.segment_of(at))?;
        self.segments.write(at, bytes)?;
        match planted::is(Planted::ReceiptUnsynced) {
            true => Ok(()),
            false => self.segments.sync(),
        }
    }

    /// Overwrites what is behind a place with zeros: the rest of its segment, and the next
    /// one, in which the log goes on where a batch did not fit. Durable when it returns.
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
