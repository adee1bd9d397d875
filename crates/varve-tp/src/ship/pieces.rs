//! Shipping what is durable of the log, and archiving when asked to.

use crate::archive::identity;
use crate::archive::{Piece, Position, walk};
use crate::environment::Environment;
use crate::error::{Error, Result};

impl Environment {
    /// The durable log behind `from`, as a piece for [`Standby::apply`](super::Standby):
    /// at most to the end of its segment. `None` if there is nothing more yet.
    ///
    /// `from` is where the standby stands. The log is kept for nobody: one that stays
    /// behind for long finds it gone and needs the archive, or a new backup.
    ///
    /// # Errors
    /// [`Error::LogMissing`] if the log no longer reaches back to `from`, and what the
    /// storage says.
    pub fn ship(&self, from: u64) -> Result<Option<Vec<u8>>> {
        let shared = self.shared();
        let (log, shape) = (&shared.engine.log, shared.engine.log.shape);
        let durable = log.durable().0;
        let id = identity::of_original(&*shared.storage)?;
        let mut at = from;
        loop {
            if at >= durable {
                return Ok(None);
            }
            let segment = shape.segment_of(at);
            let end = durable.min((segment + 1) * shape.segment);
            let mut bytes = vec![0; shape.segment as usize];
            if !log.read_segment(segment, &mut bytes)? {
                return Err(Error::LogMissing {
                    from: at,
                    to: log.oldest_segment() * shape.segment,
                    file: "wal".into(),
                });
            }
            let begin = segment * shape.segment;
            let bytes = &bytes[(at - begin) as usize..(end - begin) as usize];
            let position = Position {
                at: from,
                life: 0,
                life_begins: 0,
                time_s: 0,
            };
            if walk(shape, &position, at, bytes).is_none() && end < durable && at == from {
                // The rest of this segment is empty; the log goes on in the next.
                at = end;
                continue;
            }
            let piece = Piece {
                id,
                from: at,
                segment_bytes: shape.segment as u32,
                unit: shape.unit as u32,
                bytes,
            };
            return Ok(Some([&piece.header()[..], bytes].concat()));
        }
    }

    /// Copies what is finished of the log to the archive now: the background thread
    /// does so by itself. Answers how many segments that were.
    ///
    /// # Errors
    /// What either storage says.
    pub fn archive(&self) -> Result<u64> {
        let shared = self.shared();
        match &shared.archiver {
            Some(archiver) => archiver.run(&shared.engine.log),
            None => Ok(0),
        }
    }

    /// Behind the last byte of the log that is durable.
    pub fn durable_lsn(&self) -> u64 {
        self.shared().engine.log.durable().0
    }
}
