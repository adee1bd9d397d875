//! The segment usage table in memory, and the segments that may be written.
//!
//! A segment is *clean* (may be opened), *open* (the log's head, or named as the next
//! one) or *used*. It becomes clean again when every retained checkpoint states that it
//! was empty (protocol rule 20): the table's `empty_since` is the first checkpoint that
//! found it so, and with two retained records the one before the newest must already
//! have. A segment of data alone may become clean sooner (`docs/design/reuse.md`): once
//! it has been *vacated*, the log that vacated it is durable, and its last partial is
//! before the positions of both records.
//!
//! Invariants, for the table `T` and a segment `s`:
//!
//! - `s in T.clean` implies `s.state == Clean`; only such a segment is taken
//! - `Used -> Leaving -> Clean -> Open -> Used`: an open segment is never released
//! - `T.live_bytes == sum(s.live_bytes)`; `T.installed` and `T.folded` only grow
//! - the count of `T.spilled` for `s` is the number of spills with blocks in `s`

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
    /// The log is in it, or will continue in it.
    Open,
    /// Nothing refers to it; it is being discarded on the device.
    Leaving,
    /// Contains blocks, or contained some at a retained checkpoint.
    Used,
}

/// One segment, as of the last checkpoint; deltas are added to that.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Live bytes at the last completed checkpoint.
    pub live_bytes: u32,
    /// Number of segments opened until this one was, itself included.
    pub incarnation: u32,
    /// State of the segment.
    pub state: SegmentState,
    /// A block of it failed its checksum: the cleaner does not touch it.
    pub suspect: bool,
    /// All its live blocks have been moved: number of the first checkpoint that folds
    /// every move, and finds the segment empty.
    pub cleaned: Option<u64>,
    /// Youngest user write, in nanoseconds since 1970.
    pub newest_ns: i64,
    /// First checkpoint that found it empty.
    pub empty_since: u64,
    /// Serial of the last partial written into it by this mount; if it was written
    /// between the positions of the two records that the mount found, that of the newer.
    pub last_serial: u64,
    /// Blocks were written into its holes, see [`usage_flags::PLUGGED`].
    pub plugged: bool,
    /// The map of it that this mount has written last.
    pub mapped: Option<Arc<Mapped>>,
    /// It contains data alone, see [`usage_flags::DATA_ONLY`].
    pub data_only: bool,
    /// The table of the newest checkpoint has `data_only` set, so a mount would know it.
    data_only_recorded: bool,
    /// Serial of the log up to which nothing in it is live any more. That must be durable
    /// before it is opened ahead of checkpoints.
    pub vacated: Option<u64>,
}

/// State of a segment when it was examined: anything written into it since changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edition {
    /// Incarnation of the segment.
    pub incarnation: u32,
    /// Serial of the last partial written into it.
    pub last_serial: u64,
}

impl Segment {
    /// The present edition.
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
        // A segment that is still being written may get metadata.
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
    /// A checkpoint whose image is being read: its segments are not opened.
    held: Option<u64>,
    records: Records,
    /// Segments that have been vacated and are not clean yet.
    vacated: Vec<u32>,
    /// Segments from which replayed moves were made: they may contain no live data.
    pub moved_from: BTreeSet<u32>,
    /// The log was replayed above the table: any other segment may contain no live data,
    /// either.
    pub stale: bool,
    /// Blocks displaced by the log up to this serial may have been overwritten.
    overtaken: u64,
    /// The newest image includes all of the log up to this serial.
    folded: u64,
    /// The future end of the volume.
    fence: Option<Fence>,
    pins: Pins,
    shippers: Shippers,
    spilled: Spilled,
    /// Changes that wait in memory to be appended and must find space, as of the last
    /// operation that asked for space.
    pub(crate) waiting: Counts,
}

impl SegmentTable {
    /// Loads the usage table of a checkpoint with number `serial`, whose position is
    /// `newest`. `older` is the position of the record before it, if there is one.
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

    /// The segment, for changing marks; states change through the calls below.
    pub fn get_mut(&mut self, segment: u32) -> &mut Segment {
        &mut self.segments[segment as usize]
    }

    /// All segments, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Segment)> {
        (0..).zip(&self.segments)
    }

    /// Number of segments that may be opened.
    pub fn clean_count(&self) -> u32 {
        self.clean.len() as u32
    }

    /// Live bytes of all segments at the last completed checkpoint.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Number of segments opened in the volume's life.
    pub fn opened(&self) -> u32 {
        self.opened
    }

    /// Takes the first clean segment after `after`, in circular order, so that the log
    /// advances over the device.
    ///
    /// # Errors
    /// `OutOfSegments`.
    pub fn take(&mut self, after: u32) -> Result<u32> {
        if self.clean.is_empty() {
            self.break_snapshots();
        }
        let segment = self.next_clean(after).ok_or(Error::OutOfSegments)?;
        let state = self.get(segment).state;
        assert_eq!(state, SegmentState::Clean, "segment {segment} is taken");
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

    /// Opens a segment for the log; returns its new incarnation.
    pub fn enter(&mut self, segment: u32) -> u32 {
        self.opened = self.opened.wrapping_add(1);
        let opened = self.opened;
        self.get_mut(segment).opened_anew(opened);
        opened
    }

    /// Marks a segment in which the log of a record was, opened under this number.
    pub fn stood_in(&mut self, segment: u32, incarnation: u32) {
        self.claim(segment);
        self.get_mut(segment).incarnation = incarnation;
        self.opened = self.opened.max(incarnation);
    }

    /// Marks a segment that roll-forward saw opened under this number.
    pub fn entered(&mut self, segment: u32, incarnation: u32) {
        self.stood_in(segment, incarnation);
        self.get_mut(segment).opened_anew(incarnation);
    }

    /// Replaces the table's values by those of a recount.
    pub fn recount(&mut self, segment: u32, live_bytes: u32, used: bool, incarnation: Option<u32>) {
        let entry = &mut self.segments[segment as usize];
        let all = self.live_bytes;
        assert!(
            all >= u64::from(entry.live_bytes),
            "the sum {all} is too low"
        );
        self.live_bytes = self.live_bytes + u64::from(live_bytes) - u64::from(entry.live_bytes);
        entry.live_bytes = live_bytes;
        entry.data_only = false; // because the table is not trusted
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

    /// Notes that at least this many segments have been opened before.
    pub fn opened_at_least(&mut self, opened: u32) {
        self.opened = self.opened.max(opened);
    }

    /// Marks a segment that the log has left.
    pub fn leave(&mut self, segment: u32) {
        self.get_mut(segment).state = SegmentState::Used;
    }

    /// Makes a segment clean that was taken and never written.
    pub fn put_back(&mut self, segment: u32) {
        let entry = self.get_mut(segment);
        entry.state = SegmentState::Clean;
        entry.empty_since = 0;
        self.may_be_opened(segment);
    }

    /// Makes segments clean to which nothing refers any more; with `hold` only when they
    /// are released.
    fn leave_for_good(&mut self, freed: &[u32], hold: bool) {
        for &number in freed {
            let state = self.get(number).state;
            assert_eq!(state, SegmentState::Used, "segment {number} is freed");
            self.get_mut(number).state = SegmentState::Leaving;
        }
        if !hold {
            self.release(freed);
        }
    }

    /// Keeps a clean segment from being opened until it is released, if more than `kept`
    /// are clean. Returns false if it is not clean, or too few are.
    pub fn withhold(&mut self, number: u32, kept: u32) -> bool {
        let may = self.clean_count() > kept && self.clean.remove(&number);
        if may {
            let state = self.get(number).state;
            assert_eq!(state, SegmentState::Clean, "segment {number} is withheld");
            self.get_mut(number).state = SegmentState::Leaving;
        }
        may
    }

    /// Allows segments to be opened to which nothing refers any more.
    pub fn release(&mut self, freed: &[u32]) {
        for &number in freed {
            let segment = self.get_mut(number);
            assert!(
                segment.state != SegmentState::Open,
                "segment {number} is open and released"
            );
            segment.state = SegmentState::Clean;
            segment.cleaned = None;
            segment.vacated = None;
            self.may_be_opened(number);
        }
    }
}
