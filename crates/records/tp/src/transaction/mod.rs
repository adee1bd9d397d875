//! Transactions: locks, changes, commit, abort, savepoints.
//!
//! Commit point: the batch with the commit record is durable. Locks are released when the
//! record is appended. A writer that then reads the changes commits later in the same
//! log, and read-only transactions wait until the changes that they have seen are
//! durable.
//!
//! Source: Seltzer 1992, §5.1.4.5; Mohan and others 1992 (savepoints, compensation).

mod locks;
mod long;
mod nested;
mod read;
mod rollback;

pub(crate) use nested::Outer;
pub(crate) use read::{Bytes, Statement};
pub(crate) use rollback::{finish, finish_commit, rollback};

use crate::change::{Chain, Change, chain_bytes};
use crate::engine::{Author, Engine, FREEING};
use crate::error::{Error, Result};
use crate::log::Lsn;
use crate::options::Isolation;
use crate::page::{self, Cell};
use crate::planted::{self, Planted};
use crate::tree::{Stored, Tree};
use crate::versions::{Snapshot, Writer};
use locks::Granted;
use std::time::Duration;
use varve_locks::{Mode, OwnerId};

/// Largest number of chains in a commit record; further ones are in records before it.
const MOST_CHAINS: usize = 256;

/// Bytes of the longest key, and of the longest value.
const LONGEST: usize = 1 << 30;

/// A table in the form that a transaction uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableId {
    pub table: u32,
    pub root: u32,
}

/// A point to which a transaction can be rolled back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    last: Lsn,
    chains: usize,
    dropped: usize,
    /// Number of keys whose old values it has kept.
    noted: usize,
}

/// A running transaction. Dropping it before its end aborts it.
#[derive(Debug)]
pub(crate) struct Transaction<'e> {
    engine: &'e Engine,
    isolation: Isolation,
    /// Snapshot of its beginning, at the snapshot level.
    snapshot: Option<Snapshot<'e>>,
    /// Owner of its locks, from the first lock on.
    owner: Option<OwnerId>,
    /// Owners of the transactions around it, the outermost first.
    outer: Vec<OwnerId>,
    author: Author,
    database: Option<Mode>,
    granted: Vec<Granted>,
    timeout: Option<Duration>,
    /// Chains to be freed when it commits.
    chains: Vec<Chain>,
    /// The highest LSN of a page that it has read.
    seen: Lsn,
    /// True if everything read must be durable before it is returned, for read-only
    /// transactions.
    reads_durable: bool,
    roots: Vec<TableId>,
    /// Tables that are dropped if it commits.
    dropped: Vec<TableId>,
    ended: bool,
}

impl<'e> Transaction<'e> {
    pub(crate) fn begin(
        engine: &'e Engine,
        isolation: Isolation,
        timeout: Option<Duration>,
        durable: bool,
    ) -> Self {
        let snapshot = isolation == Isolation::Snapshot;
        Transaction {
            snapshot: snapshot.then(|| engine.versions.snapshot()),
            owner: None,
            outer: Vec::new(),
            isolation,
            engine,
            author: Author::nobody(),
            database: None,
            granted: Vec::new(),
            timeout,
            chains: Vec::new(),
            seen: Lsn::NONE,
            reads_durable: durable,
            roots: Vec::new(),
            dropped: Vec::new(),
            ended: false,
        }
    }

    /// Returns the owner of its lock waits.
    pub(crate) fn owner(&mut self) -> OwnerId {
        let locks = &self.engine.locks;
        *self.owner.get_or_insert_with(|| locks.begin(None))
    }

    pub(crate) fn tree(&self, id: TableId) -> Tree<'e> {
        Tree {
            engine: self.engine,
            table: id.table,
            root: id.root,
        }
    }

    fn check(&self) -> Result<()> {
        match self.ended {
            true => Err(Error::Ended),
            false => Ok(()),
        }
    }

    /// Fails if the table can no longer be used here.
    fn check_table(&self, id: TableId) -> Result<()> {
        self.check()?;
        match self.dropped.contains(&id) {
            true => Err(Error::TableDropped),
            false => Ok(()),
        }
    }

    /// Prepares a change: checks the space in the log, and registers the transaction for
    /// an undo by a restart before its first change.
    fn write(&mut self, id: TableId, bytes: usize) -> Result<()> {
        if self.engine.read_only {
            return Err(Error::ReadOnly);
        }
        self.engine
            .log
            .admit((bytes + 4 * self.engine.pool.page_bytes) as u64)?;
        if self.author.active.is_none() {
            let active = self.engine.enter();
            self.author.writer = Some(Writer::new(active.began));
            self.author.active = Some(active);
        }
        if !self.roots.contains(&id) {
            self.roots.push(id);
        }
        Ok(())
    }

    /// Sets the value of a key. Returns true if it had one.
    pub(crate) fn put(&mut self, id: TableId, key: &[u8], value: &[u8]) -> Result<bool> {
        self.check_table(id)?;
        check_key(key, LONGEST)?;
        if value.len() > LONGEST {
            return Err(Error::ValueTooLong { bytes: value.len() });
        }
        let inline = page::longest_inline(self.engine.pool.page_bytes);
        let mark = (key.len() + value.len() > inline).then(|| self.mark());
        let put = match self.tree_key(key) {
            Some(tree_key) => self.put_long(id, &tree_key, key, value),
            None => self.put_in_tree(id, key, value),
        };
        if let (Err(Error::LogFull { .. }), Some(mark)) = (&put, mark) {
            // The value may already have pages to which nothing refers, and is stored
            // again.
            self.rollback_to(mark)?;
        }
        put
    }

    fn put_in_tree(&mut self, id: TableId, key: &[u8], value: &[u8]) -> Result<bool> {
        self.lock_to_write(id, key)?;
        let mut stored = Vec::new();
        let cell = self.cell(id, value, &mut stored)?;
        let put = self.tree(id).put(&mut self.author, key, cell)?;
        self.free_later(put.old_overflow);
        Ok(put.existed)
    }

    /// Returns a value in the form of a leaf; a large one is stored, with its descriptor
    /// in `stored`.
    fn cell<'v>(
        &mut self,
        id: TableId,
        value: &'v [u8],
        stored: &'v mut Vec<u8>,
    ) -> Result<Cell<'v>> {
        let page_bytes = self.engine.pool.page_bytes;
        self.write(id, page_bytes)?;
        let overflow = value.len() > page::longest_inline(page_bytes);
        if overflow {
            let tree = self.tree(id);
            *stored = tree.store(&mut self.author, value)?.to_bytes();
        }
        let bytes = if overflow { stored } else { value };
        Ok(Cell { overflow, bytes })
    }

    fn free_later(&mut self, stored: Option<Vec<u8>>) {
        let Some(stored) = stored.and_then(|stored| Stored::parse(&stored)) else {
            return;
        };
        self.chains.push(stored.chain());
        if let Some(active) = &self.author.active {
            active.chain.lock().promised += FREEING;
            self.engine.log.promise(FREEING);
        }
    }

    /// Locks a key for a change. At the snapshot level it fails if the key was changed
    /// after the snapshot.
    fn lock_to_write(&mut self, id: TableId, key: &[u8]) -> Result<()> {
        self.lock_record(id.table, key, Mode::Write)?;
        match self.view(id.table, None) {
            Some(view)
                if self.isolation == Isolation::Snapshot
                    && !planted::is(Planted::LaterCommitOverwritten)
                    && view.changed_since(key)? =>
            {
                Err(Error::WriteConflict)
            }
            _ => Ok(()),
        }
    }

    /// Removes a key. Returns true if it existed.
    pub(crate) fn delete(&mut self, id: TableId, key: &[u8]) -> Result<bool> {
        self.check_table(id)?;
        match self.tree_key(key) {
            Some(tree_key) => self.delete_long(id, &tree_key, key),
            None => self.delete_in_tree(id, key),
        }
    }

    fn delete_in_tree(&mut self, id: TableId, key: &[u8]) -> Result<bool> {
        self.lock_to_write(id, key)?;
        self.write(id, key.len())?;
        let tree = self.tree(id);
        let old = tree.delete(&mut self.author, key)?;
        let existed = old.is_some();
        if let Some((true, stored)) = old {
            self.free_later(Some(stored));
        }
        Ok(existed)
    }

    /// Creates a tree, which is removed if the transaction does not commit.
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

    /// Drops a table, which must be locked. Its pages are freed after the commit.
    pub(crate) fn drop_tree(&mut self, id: TableId) -> Result<()> {
        self.check_table(id)?;
        let chains = self.tree(id).all_chains()?;
        self.write(id, chains.len() * (FREEING as usize))?;
        if let Some(active) = &self.author.active {
            let freeing = FREEING * chains.len() as u64;
            active.chain.lock().promised += freeing;
            self.engine.log.promise(freeing);
        }
        self.chains.extend(chains);
        self.dropped.push(id);
        Ok(())
    }

    /// Returns the tables that the transaction has dropped.
    pub(crate) fn dropped(&self) -> &[TableId] {
        &self.dropped
    }

    pub(crate) fn mark(&self) -> Mark {
        let active = self.author.active.as_ref();
        Mark {
            last: active.map_or(Lsn::NONE, |active| active.chain.lock().last),
            chains: self.chains.len(),
            dropped: self.dropped.len(),
            noted: self.author.writer.as_ref().map_or(0, Writer::count),
        }
    }

    /// Undoes everything since a mark. Locks are kept.
    pub(crate) fn rollback_to(&mut self, mark: Mark) -> Result<()> {
        self.check()?;
        self.chains.truncate(mark.chains);
        self.dropped.truncate(mark.dropped);
        if self.author.active.is_none() {
            return Ok(());
        }
        let rolled = self.undo_until(mark.last);
        if rolled.is_err() {
            self.ended = true;
            self.release();
        } else if let Some(writer) = &mut self.author.writer {
            // This must precede the release of the locks (as at the end of a child), so
            // that the next writer of these keys does not keep its versions behind those
            // of this transaction.
            self.engine.versions.forget_behind(writer, mark.noted);
        }
        rolled
    }

    fn undo_until(&mut self, until: Lsn) -> Result<()> {
        let roots = &self.roots;
        let root = |table| {
            let id = roots.iter().find(|id| id.table == table);
            Ok(id.map(|id| id.root))
        };
        let rolled = rollback(self.engine, &mut self.author, until, root);
        if let Err(error) = &rolled {
            self.engine.log.poison(error);
        }
        rolled
    }

    fn release(&mut self) {
        self.snapshot = None;
        if let Some(owner) = self.owner.take() {
            self.engine.locks.end(owner);
        }
        while let Some(owner) = self.outer.pop() {
            self.engine.locks.end(owner);
        }
    }

    /// Commits. With `durable` it returns when the commit survives a crash. `prepare` is
    /// called with the LSN of the commit record before the changes become visible.
    pub(crate) fn commit(mut self, durable: bool, prepare: impl FnOnce(Lsn)) -> Result<()> {
        self.check()?;
        let Some(active) = self.author.active.clone() else {
            self.ended = true;
            self.release();
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
        // If this fails, dropping the transaction aborts it.
        let writer = self.author.writer.take();
        let appended = self.engine.versions.commit(writer.as_ref(), || {
            let lsn = self.engine.log(&mut self.author, 0, &commit)?;
            prepare(lsn);
            Ok(lsn)
        });
        let lsn = match appended {
            Ok(lsn) => lsn,
            Err(error) => {
                self.author.writer = writer;
                return Err(error);
            }
        };
        self.ended = true;
        // Its own snapshot needs no versions any more.
        self.snapshot = None;
        let chains = !self.chains.is_empty();
        match chains {
            true => self.engine.committed(&active),
            false => self.engine.leave(&active),
        }
        let finishing = self
            .engine
            .versions
            .keep(lsn, writer, chains.then_some(active));
        let mut finished = finishing.map_or(Ok(()), |active| {
            finish_commit(self.engine, &mut self.author, &active)
        });
        self.release();
        if let Err(error) = &finished {
            // The transaction is committed; a restart frees its chains.
            self.engine.log.poison(error);
        }
        finished = finished.and(finish(self.engine));
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
        // If the undo failed, snapshots continue to use its versions.
        if undone.is_ok()
            && let Some(writer) = self.author.writer.take()
        {
            self.engine.versions.forget(writer);
        }
        self.release();
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

/// Fails if a table's name is longer than a key that a tree stores unchanged.
pub(crate) fn check_name(name: &str, page_bytes: usize) -> Result<()> {
    check_key(name.as_bytes(), page::longest_key(page_bytes))
}

fn check_key(key: &[u8], limit: usize) -> Result<()> {
    match key.len() > limit {
        true => Err(Error::KeyTooLong {
            bytes: key.len(),
            limit,
        }),
        false => Ok(()),
    }
}
