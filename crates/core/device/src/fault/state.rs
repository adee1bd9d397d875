//! The faults that are due, and the record of those that struck.
//!
//! Invariant: a fault counts the requests that match it, whether or not another fault
//! strikes them, so that its `n`th request is the `n`th of the caller.

use std::ops::Range;

use super::cache::BlockMap;
use super::plan::{Fault, FaultKind, FaultReport, Repeat};
use crate::device::{Geometry, Operation};
use crate::random::Random;

/// Maximum number of injections that are recorded one by one; later ones are only
/// counted.
const REMEMBERED: usize = 1 << 16;

/// One fault that struck one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Injection {
    /// The kind of fault.
    pub kind: FaultKind,
    /// Number of the request since the device was wrapped, from 1.
    pub number: u64,
    /// Kind of the request.
    pub operation: Operation,
    /// Byte address of the request; 0 for a flush.
    pub offset: u64,
    /// Length of the request in bytes; 0 for a flush.
    pub length: u64,
}

/// A fault that strikes the present request.
#[derive(Debug)]
pub(super) struct Shot {
    pub kind: FaultKind,
    pub argument: u64,
    /// The addresses that both the request and the fault cover.
    pub overlap: Range<u64>,
}

impl Shot {
    /// Returns how many bytes of a request of `length` bytes are transferred before it
    /// stops: whole logical blocks, fewer than all.
    pub(super) fn prefix(&self, random: &mut Random, geometry: Geometry, length: u64) -> usize {
        let block = u64::from(geometry.logical_block);
        let blocks = length / block;
        let wanted = match self.argument {
            0 => random.below(blocks),
            bytes => (bytes / block).min(blocks - 1),
        };
        (wanted * block) as usize
    }
}

#[derive(Debug)]
struct Armed {
    fault: Fault,
    seen: u64,
    struck: u64,
    healed: bool,
}

impl Armed {
    /// Returns the part of the request that the fault affects, if the request matches.
    fn overlap(&self, operation: Operation, request: &Range<u64>) -> Option<Range<u64>> {
        if self
            .fault
            .kind
            .operation()
            .is_some_and(|wanted| wanted != operation)
        {
            return None;
        }
        if operation == Operation::Flush {
            return Some(request.clone());
        }
        let range = self.fault.range.clone().unwrap_or(0..u64::MAX);
        let overlap = request.start.max(range.start)..request.end.min(range.end);
        (!overlap.is_empty()).then_some(overlap)
    }

    /// Counts a matching request; returns true if the fault is due for it.
    fn count(&mut self) -> bool {
        self.seen += 1;
        let spent = match self.fault.repeat {
            // A device that has died never works again.
            _ if self.fault.kind == FaultKind::DeadDevice => false,
            Repeat::Times(times) => self.struck >= times,
            Repeat::Sticky => false,
            Repeat::UntilWritten => self.healed,
        };
        self.seen > self.fault.skip && !spent
    }
}

/// The state of a fault device, apart from the device it wraps.
#[derive(Debug)]
pub(super) struct State {
    armed: Vec<Armed>,
    pub random: Random,
    /// Blocks that no honest flush has made durable, if the volatile cache is on.
    pub cache: Option<BlockMap>,
    /// The bytes before the last write of each block, if a fault needs them.
    pub history: Option<BlockMap>,
    pub report: FaultReport,
    pub injections: Vec<Injection>,
    pub operations: u64,
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        State {
            armed: Vec::new(),
            random: Random::stream(seed, 0xde),
            cache: None,
            history: None,
            report: FaultReport::default(),
            injections: Vec::new(),
            operations: 0,
        }
    }

    pub(super) fn arm(&mut self, fault: Fault) {
        match fault.kind {
            FaultKind::FlushLies | FaultKind::FlushFailsLosing => {
                self.cache.get_or_insert_default();
            }
            FaultKind::StaleRead => {
                self.history.get_or_insert_default();
            }
            _ => {}
        }
        self.armed.push(Armed {
            fault,
            seen: 0,
            struck: 0,
            healed: false,
        });
    }

    pub(super) fn disarm(&mut self) {
        self.armed.clear();
        self.history = None;
    }

    /// Records that a fault struck.
    pub(super) fn note(&mut self, kind: FaultKind, operation: Operation, offset: u64, length: u64) {
        self.report.count_one(kind);
        if self.injections.len() < REMEMBERED {
            self.injections.push(Injection {
                kind,
                number: self.operations,
                operation,
                offset,
                length,
            });
        }
    }

    /// Returns the nanoseconds by which the present request is delayed.
    pub(super) fn latency(&mut self, operation: Operation, offset: u64, length: u64) -> u64 {
        let request = offset..offset + length;
        let mut late_ns = 0u64;
        let mut struck = 0;
        for armed in &mut self.armed {
            let slow = armed.fault.kind == FaultKind::Latency;
            if slow && armed.overlap(operation, &request).is_some() && armed.count() {
                armed.struck += 1;
                struck += 1;
                late_ns = late_ns.saturating_add(armed.fault.latency().as_nanos() as u64);
            }
        }
        for _ in 0..struck {
            self.note(FaultKind::Latency, operation, offset, length);
        }
        late_ns
    }

    /// Counts the request and returns the first fault due for it, latency apart.
    pub(super) fn strike(
        &mut self,
        operation: Operation,
        offset: u64,
        length: u64,
        block: u64,
    ) -> Option<Shot> {
        self.operations += 1;
        let request = offset..offset + length;
        let mut shot = None;
        for armed in &mut self.armed {
            let kind = armed.fault.kind;
            let Some(overlap) = armed.overlap(operation, &request) else {
                continue;
            };
            let history = || self.history.as_ref();
            let pointless = match kind {
                FaultKind::Latency => true,
                // There is nothing stale to return.
                FaultKind::StaleRead => {
                    !history().is_some_and(|history| history.touches(block, offset, length))
                }
                _ => false,
            };
            if pointless || !armed.count() || shot.is_some() {
                continue;
            }
            armed.struck += 1;
            if armed.fault.repeat == Repeat::UntilWritten && armed.struck == 1 {
                let start = overlap.start - overlap.start % block;
                armed.fault.range = Some(start..start + block);
            }
            shot = Some(Shot {
                kind,
                argument: armed.fault.argument,
                overlap,
            });
        }
        if let Some(shot) = &shot {
            self.note(shot.kind, operation, offset, length);
        }
        shot
    }

    /// Ends the faults that a write of these addresses repairs.
    pub(super) fn heal(&mut self, offset: u64, length: u64) {
        for armed in &mut self.armed {
            let until_written = armed.fault.repeat == Repeat::UntilWritten && armed.struck > 0;
            if let Some(range) = &armed.fault.range
                && until_written
                && offset <= range.start
                && range.end <= offset + length
            {
                armed.healed = true;
            }
        }
    }
}
