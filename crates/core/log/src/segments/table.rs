//! The usage table of a checkpoint: made from the state in memory, and installed when the
//! checkpoint is durable.

use super::early::Records;
use super::{SegmentState, SegmentTable};
use crate::format::UsageEntry;
use crate::format::ifile::{NOT_EMPTY, usage_flags};
use foldhash::HashMap;
use std::collections::BTreeMap;
use varve_fs::planted::{self, Planted};

impl SegmentTable {
    /// The table for checkpoint `serial`, given the change of each segment by folding the
    /// frozen delta. `boundary` is the checkpoint's position: segments written after it
    /// are not empty, regardless of the image.
    pub fn image(
        &self,
        serial: u64,
        boundary: u64,
        changes: &HashMap<u32, i64>,
        newest: &HashMap<u32, i64>,
    ) -> Vec<UsageEntry> {
        let before = self.records.newest.unwrap_or(0);
        self.iter()
            .map(|(number, segment)| {
                if self.is_given_up(number) {
                    return UsageEntry::default();
                }
                let change = changes.get(&number).copied().unwrap_or(0);
                let live = apply_change(number, segment.live_bytes, change);
                let empty = live == 0
                    && segment.state != SegmentState::Open
                    && segment.last_serial <= boundary
                    && !self.has_spilled(number);
                let newest_ns = newest
                    .get(&number)
                    .copied()
                    .unwrap_or(0)
                    .max(segment.newest_ns);
                UsageEntry {
                    live_bytes: live.into(),
                    incarnation: segment.incarnation.into(),
                    flags: segment.flags(before).into(),
                    newest_ns: newest_ns.into(),
                    empty_since: if empty {
                        segment.empty_since.min(serial)
                    } else {
                        NOT_EMPTY
                    }
                    .into(),
                    ..UsageEntry::default()
                }
            })
            .collect()
    }

    /// Installs the table of checkpoint `serial`, which is durable with these
    /// corrections. Segments written after its `boundary` have contents that it does not
    /// include. Recovery rolls forward from serial `position`. Returns the segments that
    /// became clean, or with `hold` will when they are released.
    pub fn install(
        &mut self,
        serial: u64,
        (boundary, position): (u64, u64),
        table: &[UsageEntry],
        corrections: &BTreeMap<u32, i64>,
        hold: bool,
    ) -> Vec<u32> {
        let mut freed = Vec::new();
        let held = self.held.unwrap_or(u64::MAX);
        assert!(
            serial > self.installed,
            "checkpoint {serial} is installed late"
        );
        assert!(boundary >= self.folded, "a fold ends before the former");
        assert!(boundary <= position, "recovery begins before the boundary");
        assert_eq!(table.len(), self.segments.len(), "entries of the table");
        self.installed = serial;
        self.folded = boundary;
        // The table is exact again.
        self.moved_from.clear();
        self.stale = false;
        self.records = Records {
            newest: Some(position),
            older: self.records.newest,
        };
        let records = self.records;
        self.live_bytes = 0;
        let spilled = &self.spilled;
        for (number, (segment, entry)) in (0..).zip(self.segments.iter_mut().zip(table)) {
            let correction = corrections.get(&number).copied().unwrap_or(0);
            segment.live_bytes = apply_change(number, entry.live_bytes.get(), correction);
            self.live_bytes += u64::from(segment.live_bytes);
            segment.newest_ns = segment.newest_ns.max(entry.newest_ns.get());
            segment.data_only_recorded = entry.flags.get() & usage_flags::DATA_ONLY != 0
                && entry.incarnation.get() == segment.incarnation;
            if segment.state != SegmentState::Used {
                continue;
            }
            // A correction can only remove what the table still counted; such a segment
            // is found empty by the next checkpoint.
            let empty = segment.live_bytes == 0
                && entry.live_bytes.get() == 0
                && segment.last_serial <= boundary
                && !spilled.is_in(number);
            segment.empty_since = if empty {
                entry.empty_since.get()
            } else {
                NOT_EMPTY
            };
            if segment.live_bytes != 0 && segment.cleaned.is_some_and(|by| by <= serial) {
                // It has live data that its summaries do not describe.
                let live_bytes = segment.live_bytes;
                tracing::error!(number, live_bytes, "a cleaned segment is not empty");
                segment.cleaned = None;
                segment.suspect = true;
            }
            let waited = segment.empty_since < serial || empty && records.spare(segment);
            if waited && segment.empty_since <= held || planted::is(Planted::ReuseAfterOne) && empty
            {
                freed.push(number);
            }
        }
        self.leave_for_good(&freed, hold);
        freed
    }
}

fn apply_change(segment: u32, live_bytes: u32, change: i64) -> u32 {
    let live = i64::from(live_bytes) + change;
    if live < 0 {
        // A bug, or a damaged table: never wrap, always log it.
        tracing::error!(segment, live_bytes, change, "usage count fell below zero");
    }
    live.clamp(0, i64::from(u32::MAX)) as u32
}
