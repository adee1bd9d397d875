//! Ships the durable log, and archives on request.

use crate::archive::identity;
use crate::archive::{Piece, Position, walk};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::log::Lsn;

impl Environment {
    /// Returns the durable log behind `from`, as a piece for
    /// [`Standby::apply`](super::Standby): at most to the end of its segment. `None` if
    /// there is nothing more yet.
    ///
    /// `from` is the position of the standby. The log is not kept for standbys: one that
    /// lags too far finds it recycled and needs the archive, or a new backup.
    ///
    /// # Errors
    /// [`Error::LogMissing`] if the log no longer reaches back to `from`,
    /// [`Error::Incompatible`] if no batch follows that position, and errors of the
    /// storage.
    pub fn ship(&self, from: u64) -> Result<Option<Vec<u8>>> {
        let shared = self.shared();
        let (log, shape) = (&shared.engine.log, shared.engine.log.shape);
        let durable = log.durable().0;
        let id = identity::of_original(&*shared.storage)?;
        if from >= durable {
            return Ok(None);
        }
        // The pin prevents that the log is overwritten while it is read.
        let _held = log.hold(Lsn(from));
        let position = Position {
            at: from,
            life: 0,
            life_begins: 0,
            time_s: 0,
        };
        // If the rest of a segment is empty, the log continues in the next one.
        for at in [from, shape.next_segment(from)] {
            if at >= durable {
                break;
            }
            let end = durable.min((shape.segment_of(at) + 1) * shape.segment);
            let mut bytes = vec![0; (end - at) as usize];
            if !log.read_bytes(at, &mut bytes)? {
                return Err(Error::LogMissing {
                    from: at,
                    to: log.oldest_segment() * shape.segment,
                    file: "wal".into(),
                });
            }
            if walk(shape, &position, at, &bytes).is_some() {
                let piece = Piece {
                    id,
                    from: at,
                    segment_bytes: shape.segment as u32,
                    unit: shape.unit as u32,
                    bytes: &bytes,
                };
                return Ok(Some([&piece.header()[..], &bytes].concat()));
            }
        }
        Err(Error::Incompatible {
            file: "wal".into(),
            what: format!("no batch of the log follows LSN {from}"),
        })
    }

    /// Copies finished segments of the log to the archive now; the background thread does
    /// the same. Returns their number.
    ///
    /// # Errors
    /// Errors of either storage.
    pub fn archive(&self) -> Result<u64> {
        let shared = self.shared();
        match &shared.archiver {
            Some(archiver) => archiver.run(&shared.engine.log),
            None => Ok(0),
        }
    }

    /// Returns the end of the durable log.
    pub fn durable_lsn(&self) -> u64 {
        self.shared().engine.log.durable().0
    }
}
