//! Records whose keys are longer than a tree's: each change is one of their bundle.

use super::{Bytes, TableId, Transaction};
use crate::bundle::{self, Bundle};
use crate::error::Result;
use crate::page;
use crate::planted::{self, Planted};

impl Transaction<'_> {
    /// The key of the bundle that a long key lies in; `None`: the tree has it as it is.
    pub(super) fn tree_key(&self, key: &[u8]) -> Option<Vec<u8>> {
        bundle::tree_key(key, page::longest_key(self.engine.pool.page_bytes))
    }

    /// A bundle that is going to be changed: locked for writing.
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
        let (bytes, existed) = match self.bundle(id, tree_key)? {
            Some(bundle) => (bundle.with(key, Some(value)), bundle.search(key).is_ok()),
            None => (bundle::of_one(key, tree_key.len() - 1, value), false),
        };
        self.put_in_tree(id, tree_key, &bytes)?;
        Ok(existed)
    }

    pub(super) fn delete_long(&mut self, id: TableId, tree_key: &[u8], key: &[u8]) -> Result<bool> {
        let bundle = self.bundle(id, tree_key)?;
        let Some(bundle) = bundle.filter(|bundle| bundle.search(key).is_ok()) else {
            return Ok(false);
        };
        let left = bundle.with(key, None);
        match left.is_empty() || planted::is(Planted::NeighbourLost) {
            true => self.delete_in_tree(id, tree_key),
            false => self.put_in_tree(id, tree_key, &left),
        }
    }
}

/// A long key's value, out of what the tree has under its bundle's.
pub(super) fn value_of(tree_key: &[u8], key: &[u8], found: Option<Bytes>) -> Result<Option<Bytes>> {
    let Some(bytes) = found else {
        return Ok(None);
    };
    let bundle = Bundle::read(tree_key, bytes.into_vec())?;
    Ok(bundle.into_value(key).map(Bytes::from))
}
