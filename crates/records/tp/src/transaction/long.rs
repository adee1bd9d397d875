//! Records whose keys are longer than a tree's: each change is a change of their bundle.

use super::{Bytes, Statement, TableId, Transaction};
use crate::bundle::{self, Bundle};
use crate::error::Result;
use crate::page;
use crate::planted::{self, Planted};

impl Transaction<'_> {
    /// Returns the key of the bundle for a long key; `None` if the tree stores the key
    /// unchanged.
    pub(super) fn tree_key(&self, key: &[u8]) -> Option<Vec<u8>> {
        bundle::tree_key(key, page::longest_key(self.engine.pool.page_bytes))
    }

    /// Reads a bundle that is going to be changed, and locks it for writing.
    fn bundle(&mut self, id: TableId, tree_key: &[u8]) -> Result<Option<Bundle>> {
        self.lock_to_write(id, tree_key)?;
        let found = self.read_locked(id, tree_key)?;
        let bundle = found.map(|bytes| Bundle::read(tree_key, bytes.into_vec()));
        bundle.transpose()
    }

    pub(super) fn put_long(
        &mut self,
        id: TableId,
        tree_key: &[u8],
        key: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        let bundle = self.bundle(id, tree_key)?;
        let mut stored = Vec::new();
        let cell = self.cell(id, value, &mut stored)?;
        let (bytes, old) = match &bundle {
            Some(bundle) => (bundle.with(key, Some(cell)), old(bundle, key)),
            None => (bundle::of_one(key, tree_key.len() - 1, cell), None),
        };
        drop(bundle);
        self.put_in_tree(id, tree_key, &bytes)?;
        let existed = old.is_some();
        self.free_later(old.flatten());
        Ok(existed)
    }

    pub(super) fn delete_long(&mut self, id: TableId, tree_key: &[u8], key: &[u8]) -> Result<bool> {
        let Some(bundle) = self.bundle(id, tree_key)? else {
            return Ok(false);
        };
        let Some(old) = old(&bundle, key) else {
            return Ok(false);
        };
        let left = bundle.with(key, None);
        drop(bundle);
        match left.is_empty() || planted::is(Planted::NeighbourLost) {
            true => self.delete_in_tree(id, tree_key)?,
            false => self.put_in_tree(id, tree_key, &left)?,
        };
        self.free_later(old);
        Ok(true)
    }

    /// Returns a long key's value from the record that the tree has under its bundle's
    /// key, which was read in a statement, or else under a lock.
    pub(super) fn value_of(
        &self,
        (id, tree_key, key): (TableId, &[u8], &[u8]),
        found: Option<Bytes>,
        statement: Option<&Statement<'_>>,
    ) -> Result<Option<Bytes>> {
        let Some(bytes) = found else {
            return Ok(None);
        };
        let bundle = Bundle::read(tree_key, bytes.into_vec())?;
        let Ok(at) = bundle.search(key) else {
            return Ok(None);
        };
        let value = bundle.value(at);
        let value = match (value.overflow, statement) {
            (false, _) => Bytes::from_slice(value.bytes),
            (true, Some(statement)) => self.load(id, value.bytes, statement)?.into(),
            (true, None) => self.tree(id).load(value.bytes)?.into(),
        };
        Ok(Some(value))
    }
}

/// Returns the former value of a key: `None` if it has none, otherwise the descriptor of
/// a large one.
fn old(bundle: &Bundle, key: &[u8]) -> Option<Option<Vec<u8>>> {
    let value = bundle.value(bundle.search(key).ok()?);
    Some(value.overflow.then(|| value.bytes.to_vec()))
}
