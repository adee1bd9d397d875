//! A standby: a copy that follows its original by the original's log.
//!
//! Its state is that of a restart of the original before undo: the pages with every
//! record up to its position, and the transactions that had not ended there. Each piece
//! is validated, written to the copy's own log, synced and then redone; a checkpoint is
//! taken at intervals. After a crash it continues from that checkpoint with its own log,
//! and asks for the rest.

use crate::archive;
use crate::archive::identity::{self, Identity};
use crate::archive::{Piece, Position, walk};
use crate::checkpoint::{self, Checkpoints};
use crate::engine::{Engine, Listed};
use crate::environment::{Environment, engine, nothing_here};
use crate::error::{Error, Result};
use crate::log::format::BATCH_HEADER;
use crate::log::{Lsn, Record};
use crate::options::{Options, Placement};
use crate::recovery::{self, Actives};
use crate::storage::{OverlayStorage, Storage, failed};
use std::sync::{Arc, Weak};

/// The point up to which a copy is brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// The end of the available log.
    #[default]
    End,
    /// Everything committed by the end of this second since 1970: up to the first batch
    /// that was closed later. Commits that share a batch are not separated.
    Time(u64),
    /// The batches that end at or before this LSN.
    Lsn(u64),
}

/// Returns the first missing segment from `from` on.
fn first_absent(segments: &[u64], from: u64) -> u64 {
    let absent = |number: &u64| segments.binary_search(number).is_err();
    (from..).find(absent).unwrap_or(from)
}

/// Result of an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Number of log records.
    pub records: u64,
    /// New position of the copy.
    pub position: u64,
    /// True if the bound was reached and there is more log.
    pub stopped: bool,
}

/// A copy of an environment that was never opened for writing.
///
/// ```
/// use std::sync::Arc;
/// use varve_tp::storage::MemoryStorage;
/// use varve_tp::{Options, Standby, TableDefinition, Until};
///
/// const FRUIT: TableDefinition<&str, u64> = TableDefinition::new("fruit");
///
/// # let mut options = Options::new();
/// # options.segment(1 << 20);
/// let original = options.open_storage(Arc::new(MemoryStorage::new()))?;
/// let copy = Arc::new(MemoryStorage::new());
/// original.backup(&*copy)?;
/// let transaction = original.begin_write();
/// transaction.open_table(FRUIT)?.insert("apples", 3)?;
/// transaction.commit()?;
///
/// let mut standby = Standby::open(&options, copy)?;
/// while let Some(piece) = original.ship(standby.position())? {
///     standby.apply("a piece", &piece, Until::End)?;
/// }
/// let promoted = standby.promote()?;
/// let transaction = promoted.begin_read();
/// assert_eq!(transaction.open_table(FRUIT)?.get("apples")?, Some(3));
/// # Ok::<(), varve_tp::Error>(())
/// ```
#[derive(Debug)]
pub struct Standby {
    engine: Engine,
    checkpoints: Checkpoints,
    storage: Arc<dyn Storage>,
    options: Options,
    identity: Identity,
    position: Position,
    actives: Actives,
    next: u64,
    checkpointed: u64,
    /// Pins of the environments that read it.
    readers: Vec<Weak<checkpoint::Held>>,
}

impl Standby {
    /// Opens a copy in order to apply log to it. No other process may have it open.
    ///
    /// # Errors
    /// [`Error::Incompatible`] if there is no environment, or one that was opened for
    /// writing; [`Error::InUse`]; [`Error::Damaged`]; errors of the storage.
    pub fn open(options: &Options, storage: Arc<dyn Storage>) -> Result<Self> {
        options.check()?;
        crate::environment::lock(&*storage)?;
        let found = checkpoint::newest(&*storage)?.ok_or_else(nothing_here)?;
        let identity = identity::read(&*storage)?;
        let Some((identity, made)) = identity.and_then(|found| Some((found, found.copy?))) else {
            return Err(Error::Incompatible {
                file: "identity".into(),
                what: "it is no copy: it was opened for writing, or made on its own".into(),
            });
        };
        if found.placement != Placement::Shadow {
            return Err(Error::Incompatible {
                file: "check-0".into(),
                what: "pages of a copy lie in shadow slots, not in place".into(),
            });
        }
        let engine = engine(options, &storage, &found)?;
        let map = (&found.blocks[..], found.pages);
        engine.pool.adopt(found.placement, found.redo, map)?;
        let checkpoints = Checkpoints::open(&storage, &found)?;
        let (actives, next, end) = recovery::follow(&engine, &found)?;
        recovery::is_whole(end.end, made.whole)?;
        engine.log.begin(end.end, end.life);
        Ok(Standby {
            checkpoints,
            storage,
            options: options.clone(),
            identity,
            position: Position {
                at: end.end.0,
                life: end.life,
                life_begins: end.life_begins.0,
                // If no batch is left, the time at which the copy was made is used.
                time_s: match end.time_s {
                    0 => u32::try_from(made.time_s).unwrap_or(0),
                    time_s => time_s,
                },
            },
            actives,
            next,
            checkpointed: end.end.0,
            readers: Vec::new(),
            engine,
        })
    }

    /// Returns true if a storage contains a copy, which was never opened for writing.
    ///
    /// # Errors
    /// [`Error::Damaged`], and errors of the storage.
    pub fn is_copy(storage: &dyn Storage) -> Result<bool> {
        Ok(identity::read(storage)?.is_some_and(|identity| identity.copy.is_some()))
    }

    /// Returns the LSN from which it needs the original's log.
    pub fn position(&self) -> u64 {
        self.position.at
    }

    /// Applies a piece of the original's log, from [`Environment::ship`] or from a file
    /// of an archive. Parts that it already has are skipped. `name` identifies the piece
    /// in errors.
    ///
    /// # Errors
    /// [`Error::Damaged`] for a piece that is torn or changed, [`Error::Incompatible`]
    /// for one of another environment, [`Error::LogMissing`] for one that does not
    /// follow; the standby is unchanged then. After an error of the storage it must be
    /// opened again.
    pub fn apply(&mut self, name: &str, piece: &[u8], until: Until) -> Result<Applied> {
        self.engine.log.check()?;
        self.is_before(until)?;
        let piece = Piece::parse(name, piece)?;
        archive::is_of(name, &piece, self.identity.id)?;
        let shape = self.engine.log.shape;
        if (u64::from(piece.segment_bytes), u64::from(piece.unit)) != (shape.segment, shape.unit) {
            let what = "its segments are of another size";
            return Err(Error::damaged(name, 0, what));
        }
        let mut applied = Applied {
            position: self.position.at,
            ..Applied::default()
        };
        let mut end = self.position;
        let (mut first, mut records) = (None, Vec::new());
        while let Some(found) = walk(shape, &end, piece.from, piece.bytes) {
            let behind = found.at + shape.padded(found.bytes.len() as u64);
            applied.stopped = match until {
                Until::End => false,
                Until::Time(time_s) => u64::from(found.header.time_s.get()) > time_s,
                Until::Lsn(lsn) => behind > lsn,
            };
            if applied.stopped {
                break;
            }
            first = first.or(Some(found.at));
            end.pass(shape, found.at, &found.header);
            let mut offset = BATCH_HEADER as usize;
            while offset < found.bytes.len() {
                let lsn = Lsn(found.at + offset as u64);
                let record = Record::parse(lsn, &found.bytes[offset..]);
                let Some((record, length)) = record else {
                    let what = format!("a batch holds no record at LSN {}", lsn.0);
                    return Err(Error::damaged(name, lsn.0 - piece.from, what));
                };
                offset += length;
                records.push(record);
            }
        }
        let Some(first) = first else {
            if piece.from > self.position.at && !applied.stopped {
                return Err(Error::LogMissing {
                    file: archive::name(shape.segment_of(self.position.at)),
                    from: self.position.at,
                    to: piece.from,
                });
            }
            return Ok(applied);
        };
        let new = &piece.bytes[(first - piece.from) as usize..(end.at - piece.from) as usize];
        let received = self.engine.log.receive(first, new);
        let redone = received.and_then(|()| self.redo(&records));
        if let Err(error) = redone {
            self.engine.log.poison(&error);
            return Err(error);
        }
        self.position = end;
        self.engine.log.begin(Lsn(end.at), end.life);
        applied.records = records.len() as u64;
        applied.position = end.at;
        if end.at - self.checkpointed >= self.options.checkpoint {
            self.checkpoint()?;
        }
        Ok(applied)
    }

    /// Fails if its position is already behind the bound.
    fn is_before(&self, until: Until) -> Result<()> {
        let beyond = match until {
            Until::End => false,
            Until::Time(time_s) => u64::from(self.position.time_s) > time_s,
            Until::Lsn(lsn) => self.position.at > lsn,
        };
        match beyond {
            false => Ok(()),
            true => Err(Error::Incompatible {
                file: "identity".into(),
                what: "the copy is of a later time than is asked for; take an older one".into(),
            }),
        }
    }

    fn redo(&mut self, records: &[Record]) -> Result<()> {
        for record in records {
            recovery::redo_record(&self.engine, record)?;
            self.next = self.next.max(record.transaction.saturating_add(1));
            recovery::note(&mut self.actives, record);
        }
        Ok(())
    }

    /// Applies the segments of an archive, up to a bound.
    ///
    /// # Errors
    /// The same as [`apply`](Self::apply). The error names a segment that is torn,
    /// belongs to another environment, or is missing while later ones exist; earlier
    /// segments were applied.
    pub fn apply_archive(&mut self, from: &dyn Storage, until: Until) -> Result<Applied> {
        self.is_before(until)?;
        let shape = self.engine.log.shape;
        let mut all = Applied {
            position: self.position.at,
            ..Applied::default()
        };
        let segments = archive::segments(from)?;
        for segment in segments.iter().copied() {
            if segment < shape.segment_of(self.position.at) {
                continue;
            }
            let name = archive::name(segment);
            let piece = archive::read(from, &name)?;
            let parsed = Piece::parse(&name, &piece)?;
            archive::is_of(&name, &parsed, self.identity.id)?;
            archive::is_segment(&name, &parsed, segment, shape.segment)?;
            let applied = self
                .apply(&name, &piece, until)
                .map_err(|error| match error {
                    Error::LogMissing { from, to, .. } => Error::LogMissing {
                        file: archive::name(first_absent(&segments, shape.segment_of(from))),
                        from,
                        to,
                    },
                    error => error,
                })?;
            all.records += applied.records;
            (all.position, all.stopped) = (applied.position, applied.stopped);
            if all.stopped {
                break;
            }
        }
        Ok(all)
    }

    /// Takes a checkpoint, from which the next opening begins.
    ///
    /// # Errors
    /// Errors of the storage; if a sync fails, the standby must be opened again.
    pub fn checkpoint(&mut self) -> Result<()> {
        self.take().map(|_| ())
    }

    fn take(&mut self) -> Result<checkpoint::Held> {
        let actives: Vec<Listed> = self.actives.values().cloned().collect();
        let held =
            self.checkpoints
                .take_of_copy(&self.engine, &self.position, (actives, self.next))?;
        self.checkpointed = self.position.at;
        Ok(held)
    }

    /// Opens the environment at the standby's position for reading. Pieces applied later
    /// are not visible. Space that they would free is kept until the environment is
    /// dropped, which must happen before the copy is opened again.
    ///
    /// # Errors
    /// The same as [`Options::open`], and errors of the storage.
    pub fn open_read_only(&mut self) -> Result<Environment> {
        let held = Arc::new(self.take()?);
        self.readers.retain(|reader| reader.strong_count() > 0);
        self.readers.push(Arc::downgrade(&held));
        let names = ["check-0", "check-1", "identity"];
        let overlay = OverlayStorage::frozen(self.storage.clone(), &names, held);
        let overlay = overlay.map_err(|source| failed("check-0", "read", 0, source))?;
        let mut options = self.options.clone();
        options.create(false).read_only(true).archive(None);
        Environment::open(options, Arc::new(overlay))
    }

    /// Makes it an environment of its own, which can be written: transactions that had
    /// not ended are undone. No further piece of the original's log fits it.
    ///
    /// # Errors
    /// [`Error::Incompatible`] while an environment of
    /// [`open_read_only`](Self::open_read_only) exists, because its pages would be
    /// overwritten; it remains a copy. And those of [`Options::open`].
    pub fn promote(mut self) -> Result<Environment> {
        if self.readers.iter().any(|reader| reader.strong_count() > 0) {
            return Err(Error::Incompatible {
                file: "pages".into(),
                what: "the copy is being read; it takes over when nobody reads it".into(),
            });
        }
        self.checkpoint()?;
        let (options, storage) = (self.options.clone(), self.storage.clone());
        drop(self);
        options.open_storage(storage)
    }
}
