//! How full every segment is at this moment, for those who look on.

use crate::lfs::Lfs;
use crate::segments::SegmentState;
use crate::statistics::{STEPS, step_of};
use serde::Serialize;

/// One segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentUse {
    /// What may be done with it.
    pub state: SegmentState,
    /// Live bytes: those of the last checkpoint and what was logged since; an
    /// upper bound.
    pub live_bytes: u64,
    /// Bytes it can hold, summaries included.
    pub room_bytes: u64,
    /// Youngest user write, nanoseconds since 1970; 0 if none is known.
    pub newest_ns: i64,
}

impl SegmentUse {
    /// Live bytes over the bytes it can hold, in `[0, 1]`.
    pub fn utilisation(&self) -> f64 {
        (self.live_bytes as f64 / self.room_bytes.max(1) as f64).min(1.0)
    }

    /// The step of a histogram it belongs to.
    pub fn step(&self) -> usize {
        step_of(self.live_bytes, self.room_bytes)
    }
}

/// Segments by utilisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Utilisation {
    /// Segments that may be opened.
    pub clean: u64,
    /// The log's head, and the segment it names.
    pub open: u64,
    /// Segments without live blocks that wait for a checkpoint to say so.
    pub empty: u64,
    /// The others, by utilisation in equal steps.
    pub used: [u64; STEPS],
    /// Live bytes of all.
    pub live_bytes: u64,
    /// Bytes that all can hold.
    pub room_bytes: u64,
}

impl Utilisation {
    /// Counts segments.
    pub fn of(segments: impl IntoIterator<Item = SegmentUse>) -> Self {
        let mut counted = Utilisation::default();
        for segment in segments {
            counted.live_bytes += segment.live_bytes;
            counted.room_bytes += segment.room_bytes;
            match segment.state {
                SegmentState::Clean | SegmentState::Leaving => counted.clean += 1,
                SegmentState::Open => counted.open += 1,
                SegmentState::Used if segment.live_bytes == 0 => counted.empty += 1,
                SegmentState::Used => counted.used[segment.step()] += 1,
            }
        }
        counted
    }

    /// Live bytes over the bytes all segments can hold, in `[0, 1]`.
    pub fn overall(&self) -> f64 {
        self.live_bytes as f64 / self.room_bytes.max(1) as f64
    }
}

impl Lfs {
    /// Every segment as it stands, in order of number.
    pub fn segment_map(&self) -> Vec<SegmentUse> {
        let committed = self.layers.read();
        let segments = self.segments.lock();
        let newest = |number: u32| {
            let frozen = committed.frozen.as_ref();
            let frozen = frozen.and_then(|f| f.newest_ns.get(&number));
            let live = committed.live.newest_ns.get(&number);
            live.max(frozen).copied().unwrap_or(0)
        };
        segments
            .iter()
            .map(|(number, segment)| {
                let live = i64::from(segment.live_bytes) + committed.added(number);
                SegmentUse {
                    state: segment.state,
                    live_bytes: live.max(0) as u64,
                    room_bytes: self.geometry.payload_bytes(number).into(),
                    newest_ns: segment.newest_ns.max(newest(number)),
                }
            })
            .collect()
    }

    /// The volume's clock, nanoseconds since 1970: ages are counted from it.
    pub fn now_ns(&self) -> i64 {
        self.clock.now_ns()
    }

    /// Segments by utilisation as they stand.
    pub fn utilisation(&self) -> Utilisation {
        Utilisation::of(self.segment_map())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(state: SegmentState, live_bytes: u64) -> SegmentUse {
        SegmentUse {
            state,
            live_bytes,
            room_bytes: 1000,
            newest_ns: 0,
        }
    }

    #[test]
    fn every_segment_is_counted_once() {
        let of = |live| segment(SegmentState::Used, live);
        let all = [
            segment(SegmentState::Clean, 0),
            segment(SegmentState::Open, 500),
            of(0),
            of(1),
            of(99),
            of(100),
            of(999),
            of(1000),
            of(1200),
        ];
        let counted = Utilisation::of(all);
        assert_eq!((counted.clean, counted.open, counted.empty), (1, 1, 1));
        assert_eq!(counted.used, [2, 1, 0, 0, 0, 0, 0, 0, 0, 3]);
        let used: u64 = counted.used.iter().sum();
        let counted = counted.clean + counted.open + counted.empty + used;
        assert_eq!(counted, all.len() as u64);
    }
}
