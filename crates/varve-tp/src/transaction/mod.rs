//! Transactions: locks, changes, commit, abort, savepoints.
//!
//! Commit point: the batch with the commit record is durable. Locks are released when the
//! record is appended: whoever then reads what it has changed commits behind it in the
//! same log, and those who only read wait for what they have seen.
//!
//! Source: Seltzer 1992, §5.1.4.5; Mohan and others 1992 (savepoints, compensation).

mod locks;
mod rollback;

pub(crate) use rollback::{finish_commit, rollback};

use crate::change::{Chain, Change, chain_bytes};
use crate::engine::{Author, Engine};
use crate::error::{Error, Result};
use crate::log::Lsn;
use crate::page::{self, Cell};
use crate::tree::{Hint, Stored, Tree};
use locks::Granted;
use std::time::Duration;
use varve_locks::{Mode, OwnerId};

/// Chains that a commit record lists; further ones go into records before it.
const MOST_CHAINS: usize = 256;

/// Longest value.
const LONGEST_VALUE: usize = 1 << 30;

/// A table, as a transaction uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableId {
    pub table: u32,
    pub root: u32,
}

/// A place to which a transaction can be rolled back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    last: Lsn,
    chains: usize,
}

/// A transaction at work. Dropping it without an end aborts it.
#[derive(Debug)]
pub(crate) struct Transaction<'e> {
    engine: &'e Engine,
    owner: OwnerId,
    author: Author,
    database: Option<Mode>,
    granted: Vec<Granted>,
    timeout: Option<Duration>,
    /// Chains to be freed when it commits.
    chains: Vec<Chain>,
    /// The highest LSN of a page that it has read.
    seen: Lsn,
    /// What is read is durable before it is answered: for those that only read.
    reads_durable: bool,
    hints: Vec<(u32, u32)>,
    roots: Vec<TableId>,
    ended: bool,
}

impl<'e> Transaction<'e> {
    pub(crate) fn begin(engine: &'e Engine, timeout: Option<Duration>, durable: bool) -> Self {
        Transaction {
            owner: engine.locks.begin(None),
            engine,
            author: Author::nobody(),
            database: None,
            granted: Vec::new(),
            timeout,
            chains: Vec::new(),
            seen: Lsn::NONE,
            reads_durable: durable,
            hints: Vec::new(),
            roots: Vec::new(),
            ended: false,
        }
    }

    /// Who waits for its locks.
    pub(crate) fn owner(&self) -> OwnerId {
        self.owner
    }

    pub(crate) fn tree(&self, id: TableId) -> Tree<'e> {
        Tree {
            engine: self.engine,
            table: id.table,
            root: id.root,
        }
    }

    fn hint(&self, id: TableId) -> Hint {
        let hint = self.hints.iter().find(|(table, _)| *table == id.table);
        hint.map(|(_, leaf)| *leaf)
    }

    fn set_hint(&mut self, id: TableId, leaf: u32) {
        match self.hints.iter_mut().find(|(table, _)| *table == id.table) {
            Some(hint) => hint.1 = leaf,
            None => self.hints.push((id.table, leaf)),
        }
    }

    fn check(&self) -> Result<()> {
        match self.ended {
            true => Err(Error::Ended),
            false => Ok(()),
        }
    }

    /// What was read came from a page last changed at `lsn`.
    pub(crate) fn saw(&mut self, lsn: u64) -> Result<()> {
        let lsn = self.engine.visible(lsn);
        self.seen = self.seen.max(lsn);
        match self.reads_durable {
            true => self.engine.log.flush(lsn),
            false => Ok(()),
        }
    }

    /// The value of a key, locked in this mode.
    pub(crate) fn get(&mut self, id: TableId, key: &[u8], mode: Mode) -> Result<Option<Vec<u8>>> {
        self.check()?;
        self.lock_record(id.table, key, mode)?;
        let copy = |value: Option<Cell<'_>>| value.map(|v| (v.overflow, v.bytes.to_vec()));
        let (value, leaf, lsn) = self.tree(id).get(key, self.hint(id), copy)?;
        self.set_hint(id, leaf);
        self.saw(lsn)?;
        match value {
            Some((true, stored)) => self.tree(id).load(&stored).map(Some),
            Some((false, bytes)) => Ok(Some(bytes)),
            None => Ok(None),
        }
    }

    /// Before the first change: it is entered among those that a restart would undo.
    fn write(&mut self, id: TableId, bytes: usize) -> Result<()> {
        if self.engine.read_only {
            return Err(Error::ReadOnly);
        }
        self.engine
            .log
            .admit((bytes + 4 * self.engine.pool.page_bytes) as u64)?;
        if self.author.active.is_none() {
            self.author.active = Some(self.engine.enter());
        }
        if !self.roots.contains(&id) {
            self.roots.push(id);
        }
        Ok(())
    }

    /// Gives a key a value. True if it had one.
    pub(crate) fn put(&mut self, id: TableId, key: &[u8], value: &[u8]) -> Result<bool> {
        self.check()?;
        let page_bytes = self.engine.pool.page_bytes;
        check_key(key, page_bytes)?;
        if value.len() > LONGEST_VALUE {
            return Err(Error::ValueTooLong { bytes: value.len() });
        }
        self.lock_record(id.table, key, Mode::Write)?;
        self.write(id, key.len() + value.len() + value.len() / 16)?;
        let hint = self.hint(id);
        let stored;
        let tree = self.tree(id);
        let cell = match value.len() > page::longest_inline(page_bytes) {
            true => {
                stored = tree.store(&mut self.author, value)?.to_bytes();
                Cell {
                    overflow: true,
                    bytes: &stored,
                }
            }
            false => Cell {
                overflow: false,
                bytes: value,
            },
        };
        let put = tree.put(&mut self.author, key, cell, hint)?;
        self.set_hint(id, put.leaf);
        self.free_later(put.old_overflow);
        Ok(put.existed)
    }

    fn free_later(&mut self, stored: Option<Vec<u8>>) {
        let Some(stored) = stored.and_then(|stored| Stored::parse(&stored)) else {
            return;
        };
        self.chains.push(stored.chain());
        if let Some(active) = &self.author.active {
            // Its record, and its place in the commit record.
            active.chain.lock().promised += 128;
            self.engine.log.promise(128);
        }
    }

    /// Takes a key away. True if it was there.
    pub(crate) fn delete(&mut self, id: TableId, key: &[u8]) -> Result<bool> {
        self.check()?;
        self.lock_record(id.table, key, Mode::Write)?;
        self.write(id, key.len())?;
        let hint = self.hint(id);
        let tree = self.tree(id);
        let old = tree.delete(&mut self.author, key, hint)?;
        let existed = old.is_some();
        if let Some((true, stored)) = old {
            self.free_later(Some(stored));
        }
        Ok(existed)
    }

    /// A new tree, which is gone if this does not commit.
    pub(crate) fn make_tree(&mut self, table: u32) -> Result<TableId> {
        self.check()?;
        let catalog = TableId {
            table: 0,
            root: page::CATALOG_ROOT,
        };
        self.write(catalog, 0)?;
        let root = self.tree(catalog).make(&mut self.author, table)?;
        Ok(TableId { table, root })
    }

    pub(crate) fn mark(&self) -> Mark {
        let active = self.author.active.as_ref();
        Mark {
            last: active.map_or(Lsn::NONE, |active| active.chain.lock().last),
            chains: self.chains.len(),
        }
    }

    /// Undoes everything since a mark. Locks are kept.
    pub(crate) fn rollback_to(&mut self, mark: Mark) -> Result<()> {
        self.check()?;
        self.chains.truncate(mark.chains);
        if self.author.active.is_none() {
            return Ok(());
        }
        let rolled = self.undo_until(mark.last);
        if rolled.is_err() {
            self.ended = true;
            self.engine.locks.end(self.owner);
        }
        rolled
    }

    fn undo_until(&mut self, until: Lsn) -> Result<()> {
        let roots = &self.roots;
        let root = |table| {
            let id = roots.iter().find(|id| id.table == table);
            id.map(|id| id.root)
        };
        let rolled = rollback(self.engine, &mut self.author, until, root);
        if let Err(error) = &rolled {
            self.engine.log.poison(error);
        }
        rolled
    }

    /// Commits. With `durable` it returns when that survives a crash.
    pub(crate) fn commit(mut self, durable: bool) -> Result<()> {
        self.check()?;
        let Some(active) = self.author.active.clone() else {
            self.ended = true;
            self.engine.locks.end(self.owner);
            return match durable {
                true => self.engine.log.flush(self.seen),
                false => Ok(()),
            };
        };
        let mut parts = self.chains.chunks(MOST_CHAINS).peekable();
        let mut last: &[Chain] = &[];
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                last = part;
                break;
            }
            let chains = chain_bytes(part);
            let change = Change::Chains { chains: &chains };
            self.engine.log(&mut self.author, 0, &change)?;
        }
        let chains = chain_bytes(last);
        let commit = Change::Commit { chains: &chains };
        // If this fails, dropping it aborts.
        let lsn = self.engine.log(&mut self.author, 0, &commit)?;
        self.ended = true;
        self.engine.releases(lsn);
        let finished = match self.chains.is_empty() {
            true => {
                self.engine.leave(&active);
                Ok(())
            }
            false => finish_commit(self.engine, &mut self.author),
        };
        self.engine.locks.end(self.owner);
        if let Err(error) = &finished {
            // It is committed; a restart frees what is to be freed.
            self.engine.log.poison(error);
        }
        match durable {
            true => self.engine.log.flush(lsn),
            false => finished,
        }
    }

    /// Undoes everything.
    pub(crate) fn abort(mut self) -> Result<()> {
        self.check()?;
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.ended = true;
        let mut undone = Ok(());
        if let Some(active) = self.author.active.clone() {
            undone = self.undo_until(Lsn::NONE);
            if undone.is_ok() {
                undone = self
                    .engine
                    .log(&mut self.author, 0, &Change::End)
                    .map(|_| ());
            }
            self.engine.leave(&active);
        }
        self.engine.locks.end(self.owner);
        undone
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.ended
            && let Err(error) = self.end()
        {
            tracing::warn!("a dropped transaction was not undone: {error}");
        }
    }
}

pub(crate) fn check_key(key: &[u8], page_bytes: usize) -> Result<()> {
    let limit = page::longest_key(page_bytes);
    match key.len() > limit {
        true => Err(Error::KeyTooLong {
            bytes: key.len(),
            limit,
        }),
        false => Ok(()),
    }
}
