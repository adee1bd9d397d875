//! A standby: a copy that follows its original by the original's log.
//!
//! It is always as a restart of the original would find it before undo: the pages with
//! every record up to where it stands, and the transactions that had not ended there. Each
//! piece is looked through, written to the copy's own log, synced and then redone; now
//! and then a checkpoint is taken. After a crash it goes on from that, by what its log
//! has, and asks for the rest.

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

/// How far a copy is brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// As far as the log goes.
    #[default]
    End,
    /// What was committed by the end of this second, counted from 1970: up to the first
    /// batch that was closed later. One batch holds what was committed at once.
    Time(u64),
    /// The batches that end at or before this LSN.
    Lsn(u64),
}

/// The first segment from `from` on that is not there.
fn first_absent(segments: &[u64], from: u64) -> u64 {
    let absent = |number: &u64| segments.binary_search(number).is_err();
    (from..).find(absent).unwrap_or(from)
}

/// What has been applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Records of the log.
    pub records: u64,
    /// Where the copy stands.
    pub position: u64,
    /// The bound was reached: there is more of the log.
    pub stopped: bool,
}

/// A copy of an environment that nobody has written to.
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
    /// What the environments refer to that read it.
    readers: Vec<Weak<checkpoint::Held>>,
}

impl Standby {
    /// Opens a copy to bring it further. Nobody else may have it open.
    ///
    /// # Errors
    /// [`Error::Incompatible`] if there is no environment, or one that has been opened
    /// for writing; [`Error::InUse`]; [`Error::Damaged`]; what the storage says.
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
                // Where no batch is left, what the copy's maker said.
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

    /// Whether what a storage holds is a copy. Opened for writing, it is one no longer.
    ///
    /// # Errors
    /// [`Error::Damaged`], and what the storage says.
    pub fn is_copy(storage: &dyn Storage) -> Result<bool> {
        Ok(identity::read(storage)?.is_some_and(|identity| identity.copy.is_some()))
    }

    /// Where it stands: the LSN from which it needs the original's log.
    pub fn position(&self) -> u64 {
        self.position.at
    }

    /// Applies a piece of the original's log: of [`Environment::ship`], or a file of an
    /// archive. What it has of it already is passed over. `name` is what errors call it.
    ///
    /// # Errors
    /// [`Error::Damaged`] for a piece that is torn or changed, [`Error::Incompatible`] for
    /// one of another environment, [`Error::LogMissing`] for one that does not follow;
    /// the standby is as it was then. And what the storage says: then open it again.
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

    /// An error if it stands behind the bound already.
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

    /// Applies what an archive has, up to a bound.
    ///
    /// # Errors
    /// As [`apply`](Self::apply): a segment that is torn, of another environment, or
    /// missing while later ones are there, is named. What comes before it is applied.
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

    /// Takes a checkpoint: opening it again begins here.
    ///
    /// # Errors
    /// What the storage says; if a sync fails, the standby has to be opened again.
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

    /// The environment as it is where the standby stands, to be read. What the standby
    /// applies later is not seen; room that it would give back is kept until the
    /// environment is dropped, which has to be before the copy is opened anew.
    ///
    /// # Errors
    /// As [`Options::open`], and what the storage says.
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

    /// Makes it an environment of its own, which can be written to: transactions that had
    /// not ended are undone. Nothing of the original's log fits it any more.
    ///
    /// # Errors
    /// [`Error::Incompatible`] while an environment of
    /// [`open_read_only`](Self::open_read_only) is there, whose pages would be written
    /// over: it stays a copy. And as [`Options::open`].
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
