//! Records in the order of their keys, from either end.

use super::Handle;
use super::typed::decoded_vec;
use crate::codec::{Key, Value};
use crate::error::Result;
use crate::transaction::{Statement, TableId};
use crate::tree::Leaf;
use crate::versions::{Record, is_empty};
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
    statement: Statement<'e>,
    /// What has not been read.
    rest: Option<Bounds>,
    front: VecDeque<Record>,
    back: VecDeque<Record>,
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
            statement: handle.transaction.borrow().statement(),
            rest: Some(bounds).filter(|(from, to)| !is_empty(as_slice(from), as_slice(to))),
            front: VecDeque::new(),
            back: VecDeque::new(),
            types: PhantomData,
        }
    }

    pub(super) fn statement(&self) -> &Statement<'e> {
        &self.statement
    }

    /// The next leaf from the front.
    fn read_front(&mut self) -> Result<()> {
        let Some((from, to)) = self.rest.take() else {
            return Ok(());
        };
        let mut transaction = self.handle.transaction.borrow_mut();
        let bounds = (as_slice(&from), as_slice(&to));
        let leaf: Leaf = transaction.leaf_from(self.id, bounds, &self.statement)?;
        self.front = leaf.records.into();
        let rest = leaf.next.map(|next| (Bound::Included(next), to));
        self.rest = rest.filter(|(from, to)| !is_empty(as_slice(from), as_slice(to)));
        Ok(())
    }

    fn read_back(&mut self) -> Result<()> {
        let Some((from, to)) = self.rest.take() else {
            return Ok(());
        };
        let mut transaction = self.handle.transaction.borrow_mut();
        let bounds = (as_slice(&from), as_slice(&to));
        let leaf: Leaf = transaction.leaf_until(self.id, bounds, &self.statement)?;
        self.back = leaf.records.into();
        let rest = leaf.next.map(|next| (from, Bound::Excluded(next)));
        self.rest = rest.filter(|(from, to)| !is_empty(as_slice(from), as_slice(to)));
        Ok(())
    }

    fn row(&self, (key, overflow, value): Record) -> Result<Row<K, V>> {
        let value = match overflow {
            true => self
                .handle
                .transaction
                .borrow()
                .load(self.id, &value, &self.statement)?,
            false => value,
        };
        Ok((decoded_vec::<K>(key)?, decoded_vec::<V>(value)?))
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
