//! Undoes a transaction's records backward, and completes committed transactions.

use crate::change::Change;
use crate::engine::{Active, Author, Engine};
use crate::error::{Error, Result};
use crate::log::Lsn;
use crate::page::CATALOG_ROOT;
use crate::planted::{self, Planted};
use crate::tree::{self, Tree};
use std::sync::Arc;

/// Undoes the records of the author's transaction behind `until`, the last one first.
/// Records that a compensation record shows as undone are skipped.
pub(crate) fn rollback(
    engine: &Engine,
    author: &mut Author,
    until: Lsn,
    root: impl Fn(u32) -> Result<Option<u32>>,
) -> Result<()> {
    let Some(active) = author.active.clone() else {
        return Ok(());
    };
    let mut at = active.chain.lock().last;
    while at > until {
        let record = engine.log.read(at)?;
        if record.transaction != active.number {
            let what = "a record of another transaction in the chain of this";
            return Err(Error::damaged("wal", at.0, what));
        }
        if let Some(next) = record.undo_next {
            at = next;
            continue;
        }
        if Change::is_undone(record.kind) {
            author.undo_next = Some(match planted::is(Planted::UndoRepeated) {
                true => at,
                false => record.previous,
            });
            let undone = tree::undo(engine, author, &record, &root);
            author.undo_next = None;
            undone?;
        }
        at = record.previous;
    }
    Ok(())
}

/// Completes committed transactions that snapshots have delayed.
pub(crate) fn finish(engine: &Engine) -> Result<()> {
    if !engine.versions.has_to_finish() {
        return Ok(());
    }
    for active in engine.versions.to_finish() {
        let finished = finish_commit(engine, &mut Author::nobody(), &active);
        if let Err(error) = finished {
            // A restart frees the chains.
            engine.log.poison(&error);
            return Err(error);
        }
    }
    Ok(())
}

/// Frees the chains that a committed transaction has replaced, and ends it.
pub(crate) fn finish_commit(
    engine: &Engine,
    author: &mut Author,
    active: &Arc<Active>,
) -> Result<()> {
    author.active = Some(active.clone());
    let chains = active.chain.lock().chains.clone();
    let tree = Tree {
        engine,
        table: 0,
        root: CATALOG_ROOT,
    };
    for chain in chains {
        tree.free(author, chain)?;
    }
    engine.log(author, 0, &Change::End)?;
    engine.leave(active);
    Ok(())
}
