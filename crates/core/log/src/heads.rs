//! The end of the log: one chain of partials, and a place for each head.
//!
//! The chain is total (rule H2 of `docs/design/heads.md`): serial, checksum and mount of
//! its last partial, regardless of the head. Each head follows from its own last partial
//! alone (H1): [`LogEnd::at`] is the end as a log with only that head would have it, and
//! every check of a partial's place or succession uses that.

use crate::chain::follows;
use crate::error::Result;
use crate::format::checkpoint::{
    CheckpointHeader, FURTHER_HEADS, HEADS_MAGIC, HeadPlace, MAGIC as ONE_HEAD_MAGIC,
};
use crate::format::{LogPosition, Malformed, SummaryHeader};
use crate::geometry::Geometry;
use varve_fs::planted::{self, Planted};

/// Most heads of a log.
pub const MAX_HEADS: usize = FURTHER_HEADS + 1;

/// The end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The chain, and the place of the first head.
    first: LogPosition,
    further: [HeadPlace; FURTHER_HEADS],
    further_count: usize,
}

impl From<LogPosition> for LogEnd {
    /// The end of a log with one head.
    fn from(position: LogPosition) -> Self {
        LogEnd {
            first: position,
            further: Default::default(),
            further_count: 0,
        }
    }
}

impl From<&CheckpointHeader> for LogEnd {
    fn from(header: &CheckpointHeader) -> Self {
        LogEnd {
            first: header.position,
            further: header.heads,
            further_count: (header.further_heads.get() as usize).min(FURTHER_HEADS),
        }
    }
}

impl LogEnd {
    /// Stores it in the header of a new record.
    pub fn store(&self, header: &mut CheckpointHeader) {
        let magic = match self.further_count {
            0 => ONE_HEAD_MAGIC,
            _ => HEADS_MAGIC,
        };
        header.magic = magic.into();
        header.position = self.first;
        header.further_heads = (self.further_count as u32).into();
        header.heads = self.further;
    }

    /// Number of heads.
    pub fn heads(&self) -> usize {
        1 + self.further_count
    }

    /// Serial of the last partial.
    pub fn serial(&self) -> u64 {
        self.first.serial.get()
    }

    /// Number of the mount that wrote the last partial.
    pub fn incarnation(&self) -> u32 {
        self.first.incarnation.get()
    }

    /// Sets the number of the last mount that has written.
    pub fn set_incarnation(&mut self, incarnation: u32) {
        self.first.incarnation = incarnation.into();
    }

    /// The chain's end with the place of this head.
    ///
    /// # Panics
    /// If there is no such head.
    pub fn at(&self, head: usize) -> LogPosition {
        let mut position = self.first;
        if let Some(further) = head.checked_sub(1) {
            let place = &self.further[..self.further_count][further];
            position.offset = place.offset;
            position.segment = place.segment;
            position.next_segment = place.next_segment;
            position.segment_incarnation = place.segment_incarnation;
        }
        position
    }

    /// [`LogEnd::at`] of all heads.
    pub fn positions(&self) -> impl Iterator<Item = LogPosition> + '_ {
        (0..self.heads()).map(|head| self.at(head))
    }

    /// Sets the place of a head.
    pub fn set_place(&mut self, head: usize, place: HeadPlace) {
        match head.checked_sub(1) {
            Some(further) => self.further[..self.further_count][further] = place,
            None => {
                self.first.offset = place.offset;
                self.first.segment = place.segment;
                self.first.next_segment = place.next_segment;
                self.first.segment_incarnation = place.segment_incarnation;
            }
        }
    }

    /// Advances the end by a partial of this head.
    pub fn advance(&mut self, head: usize, behind: LogPosition) {
        self.set_place(head, place_of(&behind));
        self.first.serial = behind.serial;
        self.first.predecessor = behind.predecessor;
        self.first.incarnation = behind.incarnation;
    }

    /// Makes a head in `segment` continue in the one it has named.
    pub fn leave(&mut self, segment: u32, geometry: &Geometry) {
        for head in 0..self.heads() {
            let position = self.at(head);
            if position.segment.get() == segment && is_entered(&position) {
                let mut place = place_of(&position);
                place.offset = geometry.segment_bytes.into();
                self.set_place(head, place);
            }
        }
    }

    /// True if a head is in `segment`.
    pub fn stands_in(&self, segment: u32) -> bool {
        self.positions()
            .any(|position| position.segment.get() == segment && is_entered(&position))
    }

    /// Adds a head, which will open `next`.
    ///
    /// # Panics
    /// If there are [`MAX_HEADS`].
    pub fn open(&mut self, next: u32, geometry: &Geometry) {
        self.further[self.further_count] = HeadPlace {
            offset: geometry.segment_bytes.into(),
            segment: next.into(),
            next_segment: next.into(),
            segment_incarnation: 0.into(),
        };
        self.further_count += 1;
    }

    /// Removes the last head, and returns its place.
    pub fn close(&mut self) -> Option<LogPosition> {
        let last = self.further_count.checked_sub(1)?;
        let position = self.at(last + 1);
        self.further[last] = HeadPlace::default();
        self.further_count = last;
        Some(position)
    }

    /// Checks rules 8, 9 and H2: `header`, found at the successor's place of `head`,
    /// follows the last partial.
    ///
    /// # Errors
    /// States the field that disagrees.
    pub fn follows(
        &self,
        geometry: &Geometry,
        head: usize,
        header: &SummaryHeader,
    ) -> std::result::Result<(), Malformed> {
        let bad = |problem: String| Err(Malformed::new("summary", problem));
        let mut position = self.at(head);
        if planted::is(Planted::ChainPerHead) && header.serial.get() > self.serial() {
            position.serial = (header.serial.get() - 1).into();
            position.predecessor = header.predecessor;
        }
        follows(geometry, &position, header)?;
        if usize::from(header.head) != head {
            return bad(format!(
                "of head {}, where head {head} goes on",
                header.head
            ));
        }
        let next = header.next_segment.get();
        let others = (0..self.heads()).filter(|other| *other != head);
        let mut others = others.map(|other| self.at(other));
        if others.any(|p| p.segment.get() == next || p.next_segment.get() == next) {
            return bad(format!("names segment {next}, where another head is"));
        }
        Ok(())
    }

    /// Refuses positions that no log can have.
    ///
    /// # Errors
    /// `Damaged`.
    pub fn check(&self, geometry: &Geometry) -> Result<()> {
        let impossible = || Malformed::new("checkpoint record", "its log position is impossible");
        let count = geometry.segment_count;
        let mut taken = std::collections::BTreeSet::new();
        for (head, position) in self.positions().enumerate() {
            let (segment, next) = (position.segment.get(), position.next_segment.get());
            let unentered = head > 0 && !is_entered(&position);
            let sound = segment < count
                && next < count
                && (segment != next || unentered)
                && position.offset.get() <= geometry.segment_bytes
                && (!unentered || position.offset.get() == geometry.segment_bytes)
                && position.serial.get() < 1 << 62
                && position.offset.get() >= geometry.payload_start(segment)
                && position.offset.get().is_multiple_of(geometry.write_unit);
            if !sound || !taken.insert(next) || !unentered && !taken.insert(segment) {
                return Err(impossible().into());
            }
        }
        Ok(())
    }
}

/// False for a head that has named a segment and not opened it.
pub fn is_entered(position: &LogPosition) -> bool {
    position.segment != position.next_segment
}

/// The head's part of a position.
pub fn place_of(position: &LogPosition) -> HeadPlace {
    HeadPlace {
        offset: position.offset,
        segment: position.segment,
        next_segment: position.next_segment,
        segment_incarnation: position.segment_incarnation,
    }
}

#[cfg(test)]
mod tests;
