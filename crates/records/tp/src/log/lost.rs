//! Files of the log that are damaged, short or missing, and the decision whether
//! acknowledged records are lost.
//!
//! A log that was cut short looks like one that was never longer. Two signs show a loss:
//! - A batch behind the end records that the log was durable beyond the end. It is
//!   searched for in every file, also in those whose first batch is damaged.
//! - A file is in a state that no crash leaves, and may have contained the records that
//!   followed the end. If it contained the rest of the last segment and nothing came
//!   later, this is the only sign.
//!
//! No sign shows a last segment that was overwritten with zeros behind the last
//! checkpoint, because a new segment that was not used yet looks the same.

use super::LogShape;
use super::format::{BATCH_HEADER, BatchHeader};
use super::segments::{Segments, first_segment, name};
use crate::error::{Error, Result};
use crate::storage::{Named, Storage, failed};
use std::fmt::{self, Display, Formatter};
use std::ops::ControlFlow;

/// Largest number of files of a log; a file name with a larger number belongs to
/// something else.
const MOST_FILES: usize = 1 << 20;
/// Bytes read at once; a multiple of every unit.
const PIECE: u64 = 1 << 20;

/// A file of the log that is missing or shorter than a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lacking {
    pub number: usize,
    /// Length in bytes; `None` if the file is missing.
    bytes: Option<u64>,
    segment_bytes: u64,
    /// The segment at its beginning.
    segment: Option<u64>,
    /// True if a crash may have left it while it was being created.
    making: bool,
}

impl Lacking {
    /// Returns the bytes at its beginning that are kept when it is extended.
    pub(super) fn content(&self) -> u64 {
        match self.making {
            // Its blocks may be allocated and not written.
            true => 0,
            false => self.bytes.unwrap_or(0),
        }
    }

    /// Returns true if it may have contained records behind the log's end.
    pub(super) fn may_hold(&self, end: u64, shape: &LogShape) -> bool {
        match self.segment {
            Some(segment) => {
                let here = shape.segment_of(end);
                segment == here || (segment == here + 1 && shape.may_go_on_in_next(end))
            }
            None => !self.making && shape.may_go_on_in_next(end),
        }
    }
}

impl Display for Lacking {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = name(self.number);
        match self.bytes {
            None => write!(f, "{name} is missing"),
            Some(bytes) => write!(
                f,
                "{name} is cut off: it has {bytes} bytes of {}",
                self.segment_bytes
            ),
        }
    }
}

/// Files of a log in a storage: their numbers and first bytes, and those that are short
/// or missing.
pub(super) struct Found {
    pub files: Vec<(usize, Named, [u8; BATCH_HEADER as usize])>,
    pub lacking: Vec<Lacking>,
}

impl Found {
    pub(super) fn look(storage: &dyn Storage, shape: LogShape) -> Result<Self> {
        let names = storage
            .list()
            .map_err(|source| failed("wal-0", "list", 0, source))?;
        let mut numbers: Vec<usize> = names.iter().filter_map(|name| number(name)).collect();
        numbers.sort_unstable();
        let mut found = Found {
            files: Vec::new(),
            lacking: Vec::new(),
        };
        for (at, number) in numbers.iter().copied().enumerate() {
            let next = at.checked_sub(1).map_or(0, |before| numbers[before] + 1);
            found
                .lacking
                .extend((next..number).map(|number| missing(number, shape)));
            let file = Named::open(storage, &name(number), false)?;
            let bytes = file.size()?;
            let mut start = [0; BATCH_HEADER as usize];
            file.read_at(0, &mut start[..bytes.min(BATCH_HEADER) as usize])?;
            if bytes < shape.segment {
                found.lacking.push(Lacking {
                    number,
                    bytes: Some(bytes),
                    segment_bytes: shape.segment,
                    segment: first_segment(&start, shape).map(|(segment, _)| segment),
                    making: at + 1 == numbers.len() && is_zero(&file)?,
                });
            }
            found.files.push((number, file, start));
        }
        let missing = found
            .lacking
            .iter()
            .filter(|lacking| lacking.bytes.is_none());
        if missing.count() > shape.max_segments {
            let what = "more files of the log are missing than it may have; put them back";
            return Err(Error::damaged(&name(found.lacking[0].number), 0, what));
        }
        Ok(found)
    }
}

fn missing(number: usize, shape: LogShape) -> Lacking {
    Lacking {
        number,
        bytes: None,
        segment_bytes: shape.segment,
        segment: None,
        making: false,
    }
}

/// Returns the number in the name of a log file.
fn number(name: &str) -> Option<usize> {
    let number = name.strip_prefix("wal-")?.parse().ok()?;
    (number < MOST_FILES && super::segment_file(number) == name).then_some(number)
}

/// Passes the content of a log file to `each` in pieces, until that returns a break.
fn pieces(
    file: &Named,
    until: u64,
    mut each: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> Result<()> {
    let mut bytes = vec![0; PIECE.min(until) as usize];
    let mut at = 0;
    while at < until {
        let now = (until - at).min(PIECE) as usize;
        file.read_at(at, &mut bytes[..now])?;
        if each(at, &bytes[..now]).is_break() {
            break;
        }
        at += now as u64;
    }
    Ok(())
}

fn is_zero(file: &Named) -> Result<bool> {
    let mut zero = true;
    pieces(file, file.size()?, |_, bytes| {
        zero = bytes.iter().all(|byte| *byte == 0);
        match zero {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    Ok(zero)
}

impl Segments {
    /// Returns the first short or missing file for which `which` returns true.
    pub(super) fn lacking(&self, which: impl Fn(&Lacking) -> bool) -> Option<Lacking> {
        let state = self.state.lock();
        let lost = |lacking: &&Lacking| which(lacking);
        state.lacking.iter().find(lost).copied()
    }

    /// Returns the position up to which batches of this life behind `end` record the log
    /// as durable, if that is beyond `end`. A file that begins with a batch of an earlier
    /// segment contains none.
    pub(super) fn durable_beyond(&self, end: u64, life: u32) -> Result<Option<u64>> {
        let shape = self.shape;
        let files: Vec<Named> = self.state.lock().files.values().cloned().collect();
        let mut durable = None;
        for file in files {
            let until = file.size()?.min(shape.segment);
            pieces(&file, until, |from, bytes| {
                if from == 0
                    && let Some((segment, _)) = first_segment(bytes, shape)
                    && segment < shape.segment_of(end)
                {
                    return ControlFlow::Break(());
                }
                for (unit, at) in bytes
                    .chunks(shape.unit as usize)
                    .zip((from..).step_by(shape.unit as usize))
                {
                    let Some(header) = BatchHeader::parse_anywhere(unit) else {
                        continue;
                    };
                    let lsn = header.lsn.get();
                    let later = lsn >= end && shape.offset(lsn) == at && header.life.get() == life;
                    if later && header.durable.get() > end {
                        durable = durable.max(Some(header.durable.get()));
                    }
                }
                ControlFlow::Continue(())
            })?;
        }
        Ok(durable)
    }
}
