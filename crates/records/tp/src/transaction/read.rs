//! Reads at each level of isolation.

use super::{TableId, Transaction};
use crate::error::Result;
use crate::log::Lsn;
use crate::options::Isolation;
use crate::tree::Leaf;
use crate::versions::{Snapshot, View};
use smallvec::SmallVec;
use std::ops::Bound;
use varve_locks::Mode;

/// A value that was read.
pub(crate) type Bytes = SmallVec<[u8; 128]>;

/// The view of an operation that reads several times: at the read-committed level, the
/// state committed when it began.
#[derive(Debug)]
pub(crate) struct Statement<'e>(Option<Snapshot<'e>>);

impl<'e> Transaction<'e> {
    /// Records that a page last changed at `lsn` was read.
    fn saw(&mut self, lsn: u64, at: Option<Lsn>) -> Result<()> {
        let mut lsn = self.engine.visible(lsn);
        if let Some(at) = at {
            lsn = lsn.min(at);
        }
        self.seen = self.seen.max(lsn);
        match self.reads_durable {
            true => self.engine.log.flush(lsn),
            false => Ok(()),
        }
    }

    /// Returns the view of a table for this transaction or statement; `None` if reads
    /// lock.
    pub(super) fn view<'v>(
        &'v self,
        table: u32,
        statement: Option<&Snapshot<'_>>,
    ) -> Option<View<'v>> {
        let snapshot = self.snapshot.as_ref().or(statement)?;
        let own = self.author.writer.as_ref().map(|writer| writer.stamp());
        Some(View::new(&self.engine.versions, snapshot, own, table))
    }

    /// Begins a statement, which reads once or several times.
    pub(crate) fn statement(&self) -> Statement<'e> {
        let fresh = self.isolation == Isolation::ReadCommitted;
        Statement(fresh.then(|| self.engine.versions.snapshot()))
    }

    /// Locks a table for a scan, if reads lock.
    pub(crate) fn lock_to_scan(&mut self, id: TableId) -> Result<()> {
        self.check_table(id)?;
        match self.isolation {
            Isolation::Serializable => self.lock_table(id.table, Mode::Read),
            Isolation::Snapshot | Isolation::ReadCommitted => Ok(()),
        }
    }

    /// Returns the value of a key, according to the level of isolation.
    pub(crate) fn read(&mut self, id: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        let statement = self.statement();
        self.read_in(id, key, &statement)
    }

    /// Returns the value of a key in a statement.
    pub(crate) fn read_in(
        &mut self,
        id: TableId,
        key: &[u8],
        statement: &Statement<'_>,
    ) -> Result<Option<Bytes>> {
        match self.tree_key(key) {
            Some(tree_key) => {
                let found = self.read_in_tree(id, &tree_key, statement)?;
                self.value_of((id, &tree_key, key), found, Some(statement))
            }
            None => self.read_in_tree(id, key, statement),
        }
    }

    fn read_in_tree(
        &mut self,
        id: TableId,
        key: &[u8],
        statement: &Statement<'_>,
    ) -> Result<Option<Bytes>> {
        if self.isolation == Isolation::Serializable {
            self.check_table(id)?;
            self.lock_record(id.table, key, Mode::Read)?;
            return self.read_locked(id, key);
        }
        self.check_table(id)?;
        let view = self.view(id.table, statement.0.as_ref());
        let (found, lsn) = self.tree(id).get(key, view)?;
        let value = match found {
            Some((true, stored)) => {
                let loaded = self.tree(id).load(&stored);
                // If the snapshot is too old, the value's pages may have been freed.
                view.map_or(Ok(()), |view| view.check())?;
                Some(loaded?.into())
            }
            Some((false, bytes)) => Some(bytes),
            None => None,
        };
        let at = view.map(|view| view.at());
        self.saw(lsn, at)?;
        Ok(value)
    }

    /// Returns the value of a key, locked in this mode.
    pub(crate) fn get(&mut self, id: TableId, key: &[u8], mode: Mode) -> Result<Option<Bytes>> {
        self.check_table(id)?;
        let tree_key = self.tree_key(key);
        let lies = tree_key.as_deref().unwrap_or(key);
        self.lock_record(id.table, lies, mode)?;
        self.whole(id, key, tree_key)
    }

    /// Reads a locked key, long or short.
    fn whole(
        &mut self,
        id: TableId,
        key: &[u8],
        tree_key: Option<Vec<u8>>,
    ) -> Result<Option<Bytes>> {
        match tree_key {
            Some(tree_key) => {
                let found = self.read_locked(id, &tree_key)?;
                self.value_of((id, &tree_key, key), found, None)
            }
            None => self.read_locked(id, key),
        }
    }

    pub(super) fn read_locked(&mut self, id: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        let (found, lsn) = self.tree(id).get(key, None)?;
        self.saw(lsn, None)?;
        match found {
            Some((true, stored)) => Ok(Some(self.tree(id).load(&stored)?.into())),
            Some((false, bytes)) => Ok(Some(bytes)),
            None => Ok(None),
        }
    }

    /// Returns the value of a key, locked for writing.
    pub(crate) fn get_to_write(&mut self, id: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        self.check_table(id)?;
        let tree_key = self.tree_key(key);
        let lies = tree_key.as_deref().unwrap_or(key);
        self.lock_to_write(id, lies)?;
        self.whole(id, key, tree_key)
    }

    /// Returns the records of one leaf from a bound on.
    pub(crate) fn leaf_from(
        &mut self,
        id: TableId,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        statement: &Statement<'_>,
    ) -> Result<Leaf> {
        self.check_table(id)?;
        let view = self.view(id.table, statement.0.as_ref());
        let leaf = self.tree(id).leaf_from(from, to, view)?;
        let at = view.map(|view| view.at());
        self.saw(leaf.lsn, at)?;
        Ok(leaf)
    }

    /// Returns the records of one leaf up to a bound.
    pub(crate) fn leaf_until(
        &mut self,
        id: TableId,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        statement: &Statement<'_>,
    ) -> Result<Leaf> {
        self.check_table(id)?;
        let view = self.view(id.table, statement.0.as_ref());
        let leaf = self.tree(id).leaf_until(from, to, view)?;
        let at = view.map(|view| view.at());
        self.saw(leaf.lsn, at)?;
        Ok(leaf)
    }

    /// Returns the last key of a table, committed or not.
    pub(crate) fn last_key(&self, id: TableId) -> Result<Option<Vec<u8>>> {
        let mut to = None;
        loop {
            let bound = to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let leaf = self.tree(id).leaf_until(Bound::Unbounded, bound, None)?;
            if let Some((last, ..)) = leaf.records.into_iter().next_back() {
                return Ok(Some(last));
            }
            match leaf.next {
                Some(next) => to = Some(next),
                None => return Ok(None),
            }
        }
    }

    /// Returns the last commit that the snapshot includes.
    pub(crate) fn snapshot_at(&self) -> Option<Lsn> {
        self.snapshot.as_ref().map(|snapshot| snapshot.at)
    }

    /// Loads a large value that a leaf's record names.
    pub(crate) fn load(
        &self,
        id: TableId,
        stored: &[u8],
        statement: &Statement<'_>,
    ) -> Result<Vec<u8>> {
        let loaded = self.tree(id).load(stored);
        let view = self.view(id.table, statement.0.as_ref());
        view.map_or(Ok(()), |view| view.check())?;
        loaded
    }
}
