//! Records in the order of their keys, from either end.

use super::Handle;
use super::typed::decoded;
use crate::codec::{Key, Value};
use crate::error::Result;
use crate::transaction::TableId;
use crate::tree::Leaf;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::Bound;

pub(super) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A record.
pub type Row<K, V> = (<K as Value>::Owned, <V as Value>::Owned);

/// Records of a range of keys. Goes on from both ends until they meet.
#[derive(Debug)]
pub struct Range<'t, 'e, K, V> {
    handle: &'t Handle<'e>,
    id: TableId,
    /// What has not been read.
    rest: Option<Bounds>,
    front: VecDeque<(Vec<u8>, bool, Vec<u8>)>,
    back: VecDeque<(Vec<u8>, bool, Vec<u8>)>,
    types: PhantomData<fn(K, V)>,
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl<'t, 'e, K: Key, V: Value> Range<'t, 'e, K, V> {
    pub(super) fn new(handle: &'t Handle<'e>, id: TableId, bounds: Bounds) -> Self {
        Range {
            handle,
            id,
            rest: Some(bounds).filter(|bounds| !is_empty(bounds)),
            front: VecDeque::new(),
            back: VecDeque::new(),
            types: PhantomData,
        }
    }

    /// The next leaf from the front.
    fn read_front(&mut self) -> Result<()> {
        let Some((from, to)) = self.rest.take() else {
            return Ok(());
        };
        let mut transaction = self.handle.transaction.borrow_mut();
        let tree = transaction.tree(self.id);
        let leaf: Leaf = tree.leaf_from(as_slice(&from), as_slice(&to))?;
        transaction.saw(leaf.lsn)?;
        self.front = leaf.records.into();
        let rest = leaf.next.map(|next| (Bound::Included(next), to));
        self.rest = rest.filter(|bounds| !is_empty(bounds));
        Ok(())
    }

    fn read_back(&mut self) -> Result<()> {
        let Some((from, to)) = self.rest.take() else {
            return Ok(());
        };
        let mut transaction = self.handle.transaction.borrow_mut();
        let tree = transaction.tree(self.id);
        let leaf: Leaf = tree.leaf_until(as_slice(&from), as_slice(&to))?;
        transaction.saw(leaf.lsn)?;
        self.back = leaf.records.into();
        let rest = leaf.next.map(|next| (from, Bound::Excluded(next)));
        self.rest = rest.filter(|bounds| !is_empty(bounds));
        Ok(())
    }

    fn row(&self, (key, overflow, value): (Vec<u8>, bool, Vec<u8>)) -> Result<Row<K, V>> {
        let value = match overflow {
            true => self
                .handle
                .transaction
                .borrow()
                .tree(self.id)
                .load(&value)?,
            false => value,
        };
        Ok((decoded::<K>(&key)?, decoded::<V>(&value)?))
    }
}

fn is_empty((from, to): &Bounds) -> bool {
    match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
        _ => false,
    }
}

impl<K: Key, V: Value> Iterator for Range<'_, '_, K, V> {
    type Item = Result<Row<K, V>>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.front.is_empty() && self.rest.is_some() {
            if let Err(error) = self.read_front() {
                return Some(Err(error));
            }
        }
        let record = self.front.pop_front().or_else(|| self.back.pop_front());
        record.map(|record| self.row(record))
    }
}

impl<K: Key, V: Value> DoubleEndedIterator for Range<'_, '_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        while self.back.is_empty() && self.rest.is_some() {
            if let Err(error) = self.read_back() {
                return Some(Err(error));
            }
        }
        let record = self.back.pop_back().or_else(|| self.front.pop_back());
        record.map(|record| self.row(record))
    }
}
