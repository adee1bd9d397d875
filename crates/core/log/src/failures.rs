//! The last failures of the device, in words for people.
//!
//! Counters say how often; this says what, where and when of the last few. A
//! failure is noted once its outcome is known: cured by trying again, or for
//! good. Memory is bounded: [`KEPT`] entries of short texts.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use varve_device::sync::Mutex;
use varve_device::{Clock, Operation};
use varve_fs::InodeNo;

/// Failures that are kept.
pub const KEPT: usize = 16;
/// Longest text kept of one, in characters.
const TEXT: usize = 200;

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The device did not deliver.
    Read,
    /// The device refused.
    Write,
    /// The device could not make writes durable.
    Flush,
    /// The device delivered something else than was written.
    Checksum,
}

impl From<Operation> for FailureKind {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Read => FailureKind::Read,
            Operation::Write | Operation::Discard | Operation::Resize => FailureKind::Write,
            Operation::Flush => FailureKind::Flush,
        }
    }
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureOutcome {
    /// Trying again at the same place helped.
    Cured,
    /// It failed for good. What a log write held is stored elsewhere, or the
    /// volume has stopped; the counters tell.
    Failed,
}

/// One failure.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Failure {
    /// Nanoseconds since 1970.
    pub time_ns: i64,
    /// What failed.
    pub kind: FailureKind,
    /// What became of it.
    pub outcome: FailureOutcome,
    /// Byte address on the device; 0 of a flush.
    pub offset: u64,
    /// Bytes concerned; 0 of a flush.
    pub length: u64,
    /// The segment at that address, if one is.
    pub segment: Option<u32>,
    /// The file, where one is known.
    pub inode: Option<u64>,
    /// Its logical block, where one is known.
    pub block: Option<u64>,
    /// What the device said, or which checksum was found.
    pub text: String,
}

/// The last failures, oldest first.
#[derive(Debug, Default)]
pub struct FailureLog {
    clock: OnceLock<Arc<dyn Clock>>,
    kept: Mutex<VecDeque<Failure>>,
}

impl FailureLog {
    /// Has failures dated from now on.
    pub fn set_clock(&self, clock: Arc<dyn Clock>) {
        let _ = self.clock.set(clock);
    }

    /// Notes one. `bytes` is its address and length.
    pub fn note(
        &self,
        kind: FailureKind,
        outcome: FailureOutcome,
        bytes: (u64, u64),
        segment: Option<u32>,
        text: impl ToString,
    ) {
        let failure = Failure {
            time_ns: self.clock.get().map_or(0, |clock| clock.now_ns()),
            kind,
            outcome,
            offset: bytes.0,
            length: bytes.1,
            segment,
            inode: None,
            block: None,
            text: text.to_string().chars().take(TEXT).collect(),
        };
        let mut kept = self.kept.lock();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(failure);
    }

    /// Adds whose block it was to the last failure that concerns `byte`.
    pub fn attribute(&self, byte: u64, ino: InodeNo, block: u64) {
        let mut kept = self.kept.lock();
        let concerned = kept
            .iter_mut()
            .rev()
            .find(|f| (f.offset..f.offset + f.length.max(1)).contains(&byte));
        if let Some(failure) = concerned {
            failure.inode = Some(ino.0);
            failure.block = Some(block);
        }
    }

    /// Those kept, oldest first.
    pub fn recent(&self) -> Vec<Failure> {
        self.kept.lock().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept_and_attributed() {
        let log = FailureLog::default();
        for n in 0..KEPT as u64 + 3 {
            let place = (n * 4096, 4096);
            log.note(FailureKind::Read, FailureOutcome::Failed, place, None, n);
        }
        log.attribute(5 * 4096 + 512, InodeNo(9), 77);
        log.attribute(0, InodeNo(1), 1); // forgotten already
        let recent = log.recent();
        assert_eq!(recent.len(), KEPT);
        assert_eq!((recent[0].offset, recent[0].inode), (3 * 4096, None));
        assert_eq!((recent[2].inode, recent[2].block), (Some(9), Some(77)));
    }
}
