//! Checkpoints, from which a restart begins.
//!
//! Invariants (P2 to P5 of `docs/spec/records.md`):
//! - A checkpoint is written when the log is durable up to its end, and the pages in its
//!   map are synced.
//! - Its sync is the commit point. Only then are the slots and segments freed that it
//!   does not need.
//! - `redo` is at most the first LSN of a change that a page of the map lacks: it is
//!   computed from the frames before the map is captured. In place (I2, I4) it is the
//!   first change that the file lacks after it was synced.

pub(crate) mod format;

use crate::archive::Position;
use crate::buffer::SlotHold;
use crate::engine::{Engine, Listed};
use crate::error::{Error, Result};
use crate::log::{LogHold, Lsn};
use crate::options::Placement;
use crate::planted::{self, Planted};
use crate::storage::{Named, Storage, place};
pub(crate) use format::Checkpoint;
use std::sync::Arc;
use varve_device::sync::Mutex;

/// Two copies: the second is written when the first is durable. So one is valid at any
/// time, and damage to one loses nothing.
const FILES: [&str; 2] = ["check-0", "check-1"];

/// Properties of the last checkpoint that the next one needs.
#[derive(Debug)]
struct Last {
    version: u32,
    serial: u64,
    life: u32,
    life_begins: Lsn,
    /// Beginnings of the last two checkpoints.
    begins: [Lsn; 2],
}

/// A pin on the slots and the log to which a checkpoint refers.
#[derive(Debug)]
pub(crate) struct Held {
    _slots: Option<SlotHold>,
    _log: LogHold,
}

/// Takes checkpoints, one at a time.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    files: [Named; 2],
    placement: Placement,
    last: Mutex<Last>,
}

/// Returns true if a checkpoint file exists.
pub(crate) fn exists(storage: &dyn Storage) -> Result<bool> {
    for name in FILES {
        if Named::find(storage, name)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the newest valid checkpoint; `None` if none was ever made.
pub(crate) fn newest(storage: &dyn Storage) -> Result<Option<Checkpoint>> {
    let mut best: Option<Checkpoint> = None;
    let mut wrong = None;
    for name in FILES {
        let Some(file) = Named::find(storage, name)? else {
            continue;
        };
        match Checkpoint::parse(&file.read_all(format::LONGEST)?) {
            Ok(found) if best.as_ref().is_none_or(|best| best.serial < found.serial) => {
                best = Some(found);
            }
            Ok(_) => {}
            // An empty second file exists after the creation of an environment.
            Err(what) => wrong = Some((name, what)),
        }
    }
    match (best, wrong) {
        (None, Some((name, what))) => Err(Error::damaged(name, 0, what)),
        (best, _) => Ok(best),
    }
}

/// Writes the first checkpoint of an environment, which exists as soon as the file has
/// its name.
pub(crate) fn create(storage: &dyn Storage, checkpoint: &Checkpoint) -> Result<()> {
    place(storage, FILES[0], &[&checkpoint.to_bytes()])
}

impl Checkpoints {
    /// Returns the state after the checkpoint with which an environment was opened.
    pub(crate) fn open(storage: &Arc<dyn Storage>, found: &Checkpoint) -> Result<Self> {
        let file = |name| Named::open(&**storage, name, true);
        Ok(Checkpoints {
            files: [file(FILES[0])?, file(FILES[1])?],
            placement: found.placement,
            last: Mutex::new(Last {
                version: found.version,
                serial: found.serial,
                life: found.life,
                life_begins: found.life_begins,
                begins: [found.redo, found.begin],
            }),
        })
    }

    /// Returns the placement of pages.
    pub(crate) fn placement(&self) -> Placement {
        self.placement
    }

    fn write(&self, checkpoint: &Checkpoint) -> Result<()> {
        let bytes = checkpoint.to_bytes();
        let first = checkpoint.serial as usize % 2;
        for file in [&self.files[first], &self.files[1 - first]] {
            file.write_at(0, &bytes)?;
            if !planted::is(Planted::CheckpointUnsynced) {
                file.sync()?;
            }
        }
        Ok(())
    }

    /// Begins a new life at the end of the log. Nothing is appended before this returns.
    pub(crate) fn renew(&self, mut found: Checkpoint, end: Lsn) -> Result<u32> {
        if planted::is(Planted::LifeNotRenewed) {
            return Ok(found.life);
        }
        let life = found
            .life
            .checked_add(1)
            .ok_or_else(|| Error::damaged(FILES[0], 72, "the environment was opened too often"))?;
        self.set_life(&mut found, life, end)?;
        Ok(life)
    }

    /// Writes the same checkpoint again, with this life.
    pub(crate) fn set_life(&self, found: &mut Checkpoint, life: u32, begins: Lsn) -> Result<()> {
        let mut last = self.last.lock();
        found.serial = last.serial + 1;
        (found.life, found.life_begins) = (life, begins);
        self.write(found)?;
        last.serial = found.serial;
        (last.life, last.life_begins) = (life, begins);
        Ok(())
    }

    /// Takes a checkpoint. Pages that were changed before the checkpoint before the last
    /// one are written out first; with `everything`, all pages.
    pub(crate) fn take(&self, engine: &Engine, everything: bool) -> Result<()> {
        let active = || (engine.listed(), engine.next_number());
        self.take_of(engine, everything, active, false).map(|_| ())
    }

    /// Takes a checkpoint of everything, and pins the log and the slots to which it
    /// refers.
    pub(crate) fn take_held(&self, engine: &Engine) -> Result<(Checkpoint, Held)> {
        let active = || (engine.listed(), engine.next_number());
        let (checkpoint, held) = self.take_of(engine, true, active, true)?;
        Ok((checkpoint, held.expect("asked for")))
    }

    /// Takes a checkpoint of a copy: `position` is the end of its log, `active` are the
    /// transactions that have not ended there.
    pub(crate) fn take_of_copy(
        &self,
        engine: &Engine,
        position: &Position,
        active: (Vec<Listed>, u64),
    ) -> Result<Held> {
        {
            let mut last = self.last.lock();
            (last.life, last.life_begins) = (position.life, Lsn(position.life_begins));
        }
        let (_, held) = self.take_of(engine, true, || active, true)?;
        Ok(held.expect("asked for"))
    }

    fn take_of(
        &self,
        engine: &Engine,
        everything: bool,
        active: impl FnOnce() -> (Vec<Listed>, u64),
        hold: bool,
    ) -> Result<(Checkpoint, Option<Held>)> {
        let mut last = self.last.lock();
        engine.log.check()?;
        let until = match everything {
            true => u64::MAX,
            false => last.begins[1].0,
        };
        engine.pool.write_before(until)?;
        let begin = engine.log.end();
        let mut redo = engine.pool.begin_checkpoint(begin);
        if planted::is(Planted::CheckpointTooNew) {
            redo = begin;
        }
        let (mut active, next) = active();
        if planted::is(Planted::ActiveForgotten) {
            active.clear();
        }
        // Committed transactions are not undone, because their chains are in the
        // checkpoint.
        let running = active.iter().filter(|active| !active.committed);
        let firsts = running.map(|active| active.first);
        let keep = firsts.min().unwrap_or(redo).min(redo);
        let mut captured = engine.pool.capture();
        let mut taken = Vec::new();
        let checkpoint = engine
            .pool
            .write_map(&mut captured, &mut taken)
            .map(|()| Checkpoint {
                version: last.version,
                placement: self.placement,
                page_bytes: engine.pool.page_bytes as u32,
                segment_bytes: engine.log.shape.segment as u32,
                unit: engine.log.shape.unit as u32,
                serial: last.serial + 1,
                begin,
                redo,
                keep,
                life_begins: last.life_begins,
                life: last.life,
                pages: captured.pages as u32,
                blocks: captured.blocks.clone(),
                active,
                next,
            });
        let checkpoint = match checkpoint {
            Ok(checkpoint) => checkpoint,
            Err(error) => {
                // Pages can be written to other slots later.
                engine.pool.checkpoint_failed(&captured, &taken);
                return Err(error);
            }
        };
        let result = self.commit(engine, &checkpoint);
        if let Err(error) = result {
            // The content of the medium is unknown now.
            engine.log.poison(&error);
            engine.pool.checkpoint_failed(&captured, &[]);
            return Err(error);
        }
        last.serial = checkpoint.serial;
        last.begins = [last.begins[1], begin];
        engine.pool.checkpoint_completed(captured);
        let kept = match planted::is(Planted::LogRecycledEarly) {
            true => begin,
            false => keep,
        };
        let held = hold.then(|| Held {
            _slots: engine.pool.hold(),
            _log: engine.log.hold(kept),
        });
        engine.log.recycle(kept);
        Ok((checkpoint, held))
    }

    fn commit(&self, engine: &Engine, checkpoint: &Checkpoint) -> Result<()> {
        if !planted::is(Planted::CheckpointBeforeLog) {
            let end = engine.log.end();
            engine.log.flush(Lsn(end.0 - 1))?;
        }
        if !planted::is(Planted::CheckpointBeforePages) {
            engine.pool.sync()?;
        }
        self.write(checkpoint)
    }
}
