//! Changes of the number of segments (`docs/design/resize.md`): the end of a volume that
//! becomes smaller, and the new segments of one that grows.

use super::{Segment, SegmentState, SegmentTable};
use crate::format::UsageEntry;

/// Segments from number `end` on are going to be removed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fence {
    end: u32,
    /// They are not opened any more; otherwise only if no other is clean.
    closed: bool,
}

impl Fence {
    fn shuts_out(&self, segment: u32) -> bool {
        self.closed && segment >= self.end
    }
}

impl SegmentTable {
    /// Opens segments from number `end` on only if no other is clean.
    pub fn set_fence(&mut self, end: u32) {
        self.fence = Some(Fence { end, closed: false });
    }

    /// Stops opening segments beyond the fence, and leaves them out of the usage table
    /// once they are clean.
    pub fn close_fence(&mut self) {
        if let Some(fence) = &mut self.fence {
            fence.closed = true;
            let end = fence.end;
            self.clean.retain(|&segment| segment < end);
        }
    }

    /// The first clean segment after `after`, in circular order, before the fence if one
    /// is clean there.
    pub(super) fn next_clean(&self, after: u32) -> Option<u32> {
        let end = self.fence.map_or(u32::MAX, |fence| fence.end);
        let before = self.clean.range(after.min(end)..end).next();
        let before = before.or_else(|| self.clean.range(..end).next());
        before.or_else(|| self.clean.iter().next()).copied()
    }

    /// The first clean segments after `after`, in the order in which the log takes them,
    /// at most `count`.
    pub fn upcoming(&self, after: u32, count: usize) -> Vec<u32> {
        let end = self.fence.map_or(u32::MAX, |fence| fence.end);
        let after = after.min(end);
        let (behind, before) = (self.clean.range(after..end), self.clean.range(..after));
        behind.chain(before).take(count).copied().collect()
    }

    /// Sets the number of segments. New ones are not opened before they are released.
    pub fn lengthen(&mut self, count: u32) -> Vec<u32> {
        let before = self.segments.len() as u32;
        assert!(count >= before, "{before} segments, and {count} later");
        let new = UsageEntry::default();
        self.segments.extend((before..count).map(|_| Segment {
            state: SegmentState::Leaving,
            ..Segment::load(&new)
        }));
        (before..count).collect()
    }

    /// Adds a segment that has become clean.
    pub(super) fn may_be_opened(&mut self, segment: u32) {
        if self.keep(segment) || self.keep_log(segment) {
            return;
        }
        if self.fence.is_none_or(|fence| !fence.shuts_out(segment)) {
            self.clean.insert(segment);
        }
    }

    /// True if it is beyond the closed fence and nothing refers to it: the table has no
    /// entry for it.
    pub fn is_given_up(&self, segment: u32) -> bool {
        let shut_out = self.fence.is_some_and(|fence| fence.shuts_out(segment));
        shut_out && self.get(segment).state == SegmentState::Clean
    }

    /// Number of segments before the fence that may be opened.
    pub fn clean_before_fence(&self) -> u64 {
        let end = self.fence.map_or(u32::MAX, |fence| fence.end);
        self.clean.range(..end).count() as u64
    }
}
