//! Files of the log that are damaged, short or missing, and whether that is a loss.
//!
//! A log that ends early looks like one that was never longer. Two things tell them apart:
//! - A batch behind the end that knew the log to be durable beyond it. It is looked for in
//!   every file, also in those whose first batch is damaged.
//! - A file that a crash cannot have left as it is, if what followed the end may have been
//!   in it. If it held the rest of the last segment and nothing came after that, nothing
//!   else shows it.
//!
//! What no file shows is a last segment that was overwritten with zeros behind the last
//! checkpoint: a segment that was made and not yet used looks the same.

use super::LogShape;
use super::format::{BATCH_HEADER, BatchHeader};
use super::segments::{Segments, first_segment, name};
use crate::error::{Error, Result};
use crate::storage::{Named, Storage, failed};
use std::fmt::{self, Display, Formatter};
use std::ops::ControlFlow;

/// Files of a log at most: greater numbers in names are of something else.
const MOST_FILES: usize = 1 << 20;
/// Bytes that are read at once; a multiple of every unit.
const PIECE: u64 = 1 << 20;

/// A file of the log that is missing or shorter than a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lacking {
    pub number: usize,
    /// Bytes that it has; `None` if it is missing.
    bytes: Option<u64>,
    segment_bytes: u64,
    /// The segment that it begins with.
    segment: Option<u64>,
    /// It is as a crash leaves the file that is being made.
    making: bool,
}

impl Lacking {
    /// Bytes at its beginning that stay as they are when it is made whole.
    pub(super) fn content(&self) -> u64 {
        match self.making {
            // Its blocks may be allocated and not written.
            true => 0,
            false => self.bytes.unwrap_or(0),
        }
    }

    /// True if it may have held what followed the log's end.
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

/// What a storage has of a log: files with their numbers and first bytes, and those that
/// are not whole.
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

/// The number in the name of a file of the log.
fn number(name: &str) -> Option<usize> {
    let number = name.strip_prefix("wal-")?.parse().ok()?;
    (number < MOST_FILES && super::segment_file(number) == name).then_some(number)
}

/// Hands over a file of the log in pieces, until the callback says stop.
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
    /// The first file that was found missing or short, of those that `which` picks.
    pub(super) fn lacking(&self, which: impl Fn(&Lacking) -> bool) -> Option<Lacking> {
        let state = self.state.lock();
        let lost = |lacking: &&Lacking| which(lacking);
        state.lacking.iter().find(lost).copied()
    }

    /// How far the log was durable as the batches of this life behind `end` have it, if
    /// that is beyond `end`. A file that begins with a batch before that segment holds none.
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
