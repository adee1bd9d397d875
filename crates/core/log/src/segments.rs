//! The segment usage table in memory, and which segments may be written.
//!
//! A segment is *clean* (may be opened), *open* (the log's head, or named as
//! the next one) or *used*. It becomes clean again when every retained
//! checkpoint says that it was empty (protocol rule 20): the table's
//! `empty_since` holds the first checkpoint that found it so, and with two
//! retained records the one before the newest must already have. A segment of
//! data alone may become clean sooner (`docs/design/reuse.md`): once it has been
//! *vacated*, what says so is durable, and its last partial lies before the
//! positions of both records.

mod early;
mod fence;
mod hold;
mod holes;
mod pins;
mod plugs;
mod shipping;
mod spilled;
mod table;

pub use holes::Holes;

use crate::counts::Counts;
use crate::error::{Error, Result};
use crate::format::UsageEntry;
use crate::format::ifile::{NOT_EMPTY, usage_flags};
use crate::heads::{LogEnd, is_entered};
use early::Records;
use fence::Fence;
use pins::Pins;
use plugs::Mapped;
use shipping::Shippers;
use spilled::Spilled;

use std::collections::BTreeSet;
use std::sync::Arc;

/// What may be done with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Nothing refers to it.
    Clean,
    /// The log is in it, or will go to it next.
    Open,
    /// Nothing refers to it; the device is being told.
    Leaving,
    /// Holds blocks, or held some at a retained checkpoint.
    Used,
}

/// One segment, as far as checkpoints know; deltas come on top.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Live bytes at the last completed checkpoint.
    pub live_bytes: u32,
    /// How many segments had been opened when this one was.
    pub incarnation: u32,
    /// See the module's head.
    pub state: SegmentState,
    /// A block of it failed its checksum: the cleaner leaves it alone.
    pub suspect: bool,
    /// All its live blocks have been moved: number of the first checkpoint
    /// that folds every move, and finds the segment empty.
    pub cleaned: Option<u64>,
    /// Youngest user write, nanoseconds since 1970.
    pub newest_ns: i64,
    /// First checkpoint that found it empty.
    pub empty_since: u64,
    /// Serial of the last partial written into it by this mount; if it was
    /// written between the positions of the two records that the mount found,
    /// that of the newer.
    pub last_serial: u64,
    /// See [`usage_flags::PLUGGED`].
    pub plugged: bool,
    /// The map of it that this mount has written last.
    pub mapped: Option<Arc<Mapped>>,
    /// See [`usage_flags::DATA_ONLY`].
    pub data_only: bool,
    /// So says the table of the newest checkpoint: a mount would know it.
    data_only_recorded: bool,
    /// Nothing in it lives by the log up to this serial, which must be durable
    /// before it is opened ahead of checkpoints.
    pub vacated: Option<u64>,
}

/// What a segment was when it was looked at: anything written into it since
/// makes it another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edition {
    /// Its incarnation.
    pub incarnation: u32,
    /// Serial of the last partial written into it.
    pub last_serial: u64,
}

impl Segment {
    /// What it is now.
    pub fn edition(&self) -> Edition {
        Edition {
            incarnation: self.incarnation,
            last_serial: self.last_serial,
        }
    }

    fn load(entry: &UsageEntry) -> Self {
        let flags = entry.flags.get();
        Segment {
            live_bytes: entry.live_bytes.get(),
            incarnation: entry.incarnation.get(),
            state: SegmentState::Used,
            suspect: flags & usage_flags::SUSPECT != 0,
            cleaned: None,
            newest_ns: entry.newest_ns.get(),
            empty_since: match entry.live_bytes.get() {
                0 => entry.empty_since.get(),
                _ => NOT_EMPTY,
            },
            last_serial: 0,
            plugged: flags & usage_flags::PLUGGED != 0,
            mapped: None,
            data_only: flags & usage_flags::DATA_ONLY != 0,
            data_only_recorded: flags & usage_flags::DATA_ONLY != 0,
            vacated: None,
        }
    }

    fn opened_anew(&mut self, incarnation: u32) {
        self.incarnation = incarnation;
        (self.data_only, self.data_only_recorded) = (true, false);
        (self.plugged, self.mapped) = (false, None);
    }

    /// The flags of a table that follows the record with this position.
    fn flags(&self, before: u64) -> u32 {
        let mut flags = 0;
        if self.plugged {
            flags |= usage_flags::PLUGGED;
            if self.last_serial > before {
                flags |= usage_flags::PLUGGED_LATELY;
            }
        }
        if self.suspect {
            flags |= usage_flags::SUSPECT;
        }
        // What may still be written may yet get metadata.
        if self.data_only && self.state != SegmentState::Open {
            flags |= usage_flags::DATA_ONLY;
        }
        flags
    }
}

/// All segments.
#[derive(Debug, Default)]
pub struct SegmentTable {
    segments: Vec<Segment>,
    clean: BTreeSet<u32>,
    opened: u32,
    /// Live bytes of all segments at the last completed checkpoint.
    live_bytes: u64,
    /// Number of the last completed checkpoint.
    installed: u64,
    /// A checkpoint whose image somebody reads: its segments are not opened.
    held: Option<u64>,
    records: Records,
    /// Segments that have been vacated and not been given back.
    vacated: Vec<u32>,
    /// Segments that replayed moves were made from: perhaps nothing in them
    /// lives.
    pub moved_from: BTreeSet<u32>,
    /// The log was replayed above the table: nothing may live in any other,
    /// either.
    pub stale: bool,
    /// What the log up to this serial has displaced may have been written over.
    overtaken: u64,
    /// The newest image has all that the log says up to this serial.
    folded: u64,
    /// Where the volume is going to end.
    fence: Option<Fence>,
    pins: Pins,
    shippers: Shippers,
    spilled: Spilled,
    /// What waits in memory to be appended and must find room, as far as the last
    /// operation that asked for some knew.
    pub(crate) waiting: Counts,
}

impl SegmentTable {
    /// From the usage table of a checkpoint with number `serial`, whose
    /// position is `newest`. `older` is the position of the record before it,
    /// if that is there.
    pub fn load(
        entries: &[UsageEntry],
        opened: u32,
        serial: u64,
        newest: &LogEnd,
        older: Option<&LogEnd>,
    ) -> Self {
        let mut segments: Vec<Segment> = entries.iter().map(Segment::load).collect();
        let records = Records {
            newest: Some(newest.serial()),
            older: older.map(LogEnd::serial),
        };
        // Openings are numbered, and the last one was that of a head.
        let known = older.map_or(0, |end| {
            let entered = end.positions().filter(is_entered);
            entered
                .map(|p| p.segment_incarnation.get())
                .max()
                .unwrap_or(0)
        });
        for (number, segment) in (0..).zip(&mut segments) {
            let flags = entries[number as usize].flags.get();
            if segment.incarnation > known
                || flags & usage_flags::PLUGGED_LATELY != 0
                || older.is_some_and(|end| end.stands_in(number))
            {
                segment.last_serial = newest.serial();
            }
            let empty = segment.empty_since < serial
                || segment.empty_since == serial && records.spare(segment);
            if empty {
                segment.state = SegmentState::Clean;
            }
        }
        let clean = (0..)
            .zip(&segments)
            .filter(|(_, s)| s.state == SegmentState::Clean)
            .map(|(n, _)| n)
            .collect();
        let live_bytes = segments.iter().map(|s| u64::from(s.live_bytes)).sum();
        SegmentTable {
            segments,
            clean,
            opened,
            live_bytes,
            installed: serial,
            held: None,
            records,
            vacated: Vec::new(),
            moved_from: BTreeSet::new(),
            stale: false,
            overtaken: 0,
            folded: newest.serial(),
            fence: None,
            pins: Pins::default(),
            shippers: Shippers::default(),
            spilled: Spilled::default(),
            waiting: Counts::default(),
        }
    }

    /// The segment with this number.
    pub fn get(&self, segment: u32) -> &Segment {
        &self.segments[segment as usize]
    }

    /// For changing marks; states change through the calls below.
    pub fn get_mut(&mut self, segment: u32) -> &mut Segment {
        &mut self.segments[segment as usize]
    }

    /// All segments, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Segment)> {
        (0..).zip(&self.segments)
    }

    /// Segments that may be opened.
    pub fn clean_count(&self) -> u32 {
        self.clean.len() as u32
    }

    /// Live bytes of all segments at the last completed checkpoint.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Segments opened in the volume's life.
    pub fn opened(&self) -> u32 {
        self.opened
    }

    /// Takes the clean segment that comes next after `after`, in circular
    /// order, so that the log runs forward over the device.
    ///
    /// # Errors
    /// `OutOfSegments`.
    pub fn take(&mut self, after: u32) -> Result<u32> {
        if self.clean.is_empty() {
            self.break_snapshots();
        }
        let segment = self.next_clean(after).ok_or(Error::OutOfSegments)?;
        self.claim(segment);
        Ok(segment)
    }

    /// Marks a segment open: the log is in it or will be.
    pub fn claim(&mut self, segment: u32) {
        self.clean.remove(&segment);
        let entry = self.get_mut(segment);
        entry.state = SegmentState::Open;
        entry.empty_since = NOT_EMPTY;
        entry.cleaned = None;
        entry.vacated = None;
        entry.suspect = false;
        entry.newest_ns = 0;
    }

    /// The log enters an open segment; returns its new incarnation.
    pub fn enter(&mut self, segment: u32) -> u32 {
        self.opened = self.opened.wrapping_add(1);
        let opened = self.opened;
        self.get_mut(segment).opened_anew(opened);
        opened
    }

    /// The log of a record stood in `segment`, opened under this number.
    pub fn stood_in(&mut self, segment: u32, incarnation: u32) {
        self.claim(segment);
        self.get_mut(segment).incarnation = incarnation;
        self.opened = self.opened.max(incarnation);
    }

    /// Roll-forward saw the log enter `segment` under this number.
    pub fn entered(&mut self, segment: u32, incarnation: u32) {
        self.stood_in(segment, incarnation);
        self.get_mut(segment).opened_anew(incarnation);
    }

    /// What a recount says takes the place of what the table said.
    pub fn recount(&mut self, segment: u32, live_bytes: u32, used: bool, incarnation: Option<u32>) {
        let entry = &mut self.segments[segment as usize];
        self.live_bytes = self.live_bytes + u64::from(live_bytes) - u64::from(entry.live_bytes);
        entry.live_bytes = live_bytes;
        entry.data_only = false; // as the table is not believed
        if let Some(incarnation) = incarnation {
            entry.incarnation = entry.incarnation.max(incarnation);
        }
        self.opened = self.opened.max(entry.incarnation);
        if used {
            entry.empty_since = NOT_EMPTY;
        }
        if used && entry.state == SegmentState::Clean {
            entry.state = SegmentState::Used;
            self.clean.remove(&segment);
        }
    }

    /// As many segments as this have been opened before.
    pub fn opened_at_least(&mut self, opened: u32) {
        self.opened = self.opened.max(opened);
    }

    /// The log leaves a segment.
    pub fn leave(&mut self, segment: u32) {
        self.get_mut(segment).state = SegmentState::Used;
    }

    /// Puts back a segment that was taken and never written.
    pub fn put_back(&mut self, segment: u32) {
        let entry = self.get_mut(segment);
        entry.state = SegmentState::Clean;
        entry.empty_since = 0;
        self.may_be_opened(segment);
    }

    /// Nothing refers to these any more: clean, or with `hold` until released.
    fn leave_for_good(&mut self, freed: &[u32], hold: bool) {
        for &number in freed {
            self.get_mut(number).state = SegmentState::Leaving;
        }
        if !hold {
            self.release(freed);
        }
    }

    /// Keeps a clean segment from being opened until it is released, if more than
    /// `kept` are clean. False if it is not clean, or too few are.
    pub fn withhold(&mut self, number: u32, kept: u32) -> bool {
        let may = self.clean_count() > kept && self.clean.remove(&number);
        if may {
            self.get_mut(number).state = SegmentState::Leaving;
        }
        may
    }

    /// Segments that nothing refers to any more may be opened.
    pub fn release(&mut self, freed: &[u32]) {
        for &number in freed {
            let segment = self.get_mut(number);
            segment.state = SegmentState::Clean;
            segment.cleaned = None;
            segment.vacated = None;
            self.may_be_opened(number);
        }
    }
}
