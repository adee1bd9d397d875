//! Archives finished segments of the log.
//!
//! A segment is finished when the log is durable beyond it. It is copied to a file of its
//! own in the archive, which exists under its name only when it is complete; until then
//! the segment is not recycled. If the archive cannot be written, the log grows up to its
//! limit, and then writers fail.

use super::identity::Id;
use super::piece::Piece;
use crate::error::{Error, Result};
use crate::log::{Log, LogHold, Lsn};
use crate::planted::{self, Planted};
use crate::storage::{Named, Storage, failed, place};
use std::sync::Arc;
use varve_device::sync::Mutex;
use varve_device::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Prefix of the file names in an archive.
const PREFIX: &str = "log-";

/// Returns the name of a segment's file.
pub(crate) fn name(segment: u64) -> String {
    format!("{PREFIX}{segment:020}")
}

/// Returns the segments in an archive, in ascending order.
pub(crate) fn segments(archive: &dyn Storage) -> Result<Vec<u64>> {
    let names = archive.list();
    let names = names.map_err(|source| failed("archive", "list", 0, source))?;
    let number = |name: &String| {
        let digits = name.strip_prefix(PREFIX)?;
        digits
            .parse()
            .ok()
            .filter(|number| *name == self::name(*number))
    };
    let mut found: Vec<u64> = names.iter().filter_map(number).collect();
    found.sort_unstable();
    Ok(found)
}

/// Reads the whole file of a piece.
pub(crate) fn read(archive: &dyn Storage, name: &str) -> Result<Vec<u8>> {
    Named::open(archive, name, false)?.read_all(u64::from(u32::MAX))
}

/// Copies finished segments to an archive.
#[derive(Debug)]
pub(crate) struct Archiver {
    archive: Arc<dyn Storage>,
    id: Id,
    /// The next segment to be copied; locked by the thread that copies.
    next: Mutex<u64>,
    /// True if the last attempt failed and was logged.
    failing: AtomicBool,
    /// Pin on the log that is not yet copied.
    hold: LogHold,
}

impl Archiver {
    /// Continues behind the last segment in the archive. Segments that the log no longer
    /// has remain missing, and a restore that needs one reports it. An archive that
    /// continues beyond the end of the log belongs to a later state, and is refused
    /// because it would mix two histories.
    pub(crate) fn open(archive: Arc<dyn Storage>, id: Id, log: &Log) -> Result<Self> {
        let (oldest, segment) = (log.oldest_segment(), log.shape.segment);
        let mut next = oldest;
        if let Some(last) = segments(&*archive)?.last() {
            let name = name(*last);
            let bytes = read(&*archive, &name)?;
            let piece = Piece::parse(&name, &bytes)?;
            is_of(&name, &piece, id)?;
            is_segment(&name, &piece, *last, segment)?;
            next = last + 1;
            if next > log.shape.segment_of(log.end().0) {
                let what = "the archive goes beyond the log; give that one of its own";
                return Err(Error::Incompatible {
                    file: name,
                    what: what.into(),
                });
            }
        }
        if next < oldest {
            tracing::warn!("the archive lacks segments {next} to {}", oldest - 1);
            next = oldest;
        }
        let hold = log.hold(Lsn(next * segment));
        Ok(Archiver {
            archive,
            id,
            next: Mutex::new(next),
            failing: AtomicBool::new(false),
            hold,
        })
    }

    /// Does the same as [`run`](Self::run) for callers with other tasks: an error is
    /// logged, and the log keeps its segments until an attempt succeeds.
    pub(crate) fn try_run(&self, log: &Log) {
        let failed = self.run(log).err();
        let before = self.failing.swap(failed.is_some(), Relaxed);
        match (failed, before) {
            (Some(error), false) => tracing::error!("the log is not archived: {error}"),
            (None, true) => tracing::info!("the log is archived again"),
            _ => {}
        }
    }

    /// Copies finished segments. Returns their number.
    pub(crate) fn run(&self, log: &Log) -> Result<u64> {
        let mut next = self.next.lock();
        let mut copied = 0;
        let end = match planted::is(Planted::ArchivedEarly) {
            true => log.end().0 + log.shape.segment / 2,
            false => log.durable().0,
        };
        while *next < log.shape.segment_of(end) {
            let from = *next * log.shape.segment;
            let mut bytes = vec![0; log.shape.segment as usize];
            if !log.read_bytes(from, &mut bytes)? {
                // The segment was skipped because a restart began behind it.
                let oldest = log.oldest_segment();
                tracing::warn!(
                    "segment {} of the log is gone before it was archived",
                    *next
                );
                *next = oldest.max(*next + 1);
                continue;
            }
            let piece = Piece {
                id: self.id,
                from,
                segment_bytes: log.shape.segment as u32,
                unit: log.shape.unit as u32,
                bytes: &bytes,
            };
            place(&*self.archive, &name(*next), &[&piece.header(), &bytes])?;
            *next += 1;
            copied += 1;
            self.hold.advance(Lsn(*next * log.shape.segment));
        }
        Ok(copied)
    }
}

/// Fails if a file of an archive does not contain the segment of its name.
pub(crate) fn is_segment(name: &str, piece: &Piece<'_>, segment: u64, bytes: u64) -> Result<()> {
    if u64::from(piece.segment_bytes) != bytes {
        return Err(Error::damaged(name, 0, "its segments are of another size"));
    }
    match segment.checked_mul(bytes) == Some(piece.from) {
        true => Ok(()),
        false => {
            let held = self::name(piece.from / bytes);
            let what = format!("it is not the segment of its name, but what belongs into {held}");
            Err(Error::damaged(name, 0, what))
        }
    }
}

/// Fails if a piece belongs to another environment.
pub(crate) fn is_of(name: &str, piece: &Piece<'_>, id: Id) -> Result<()> {
    match piece.id == id {
        true => Ok(()),
        false => Err(Error::Incompatible {
            file: name.to_owned(),
            what: format!("it is of environment {}, not of {id}", piece.id),
        }),
    }
}
