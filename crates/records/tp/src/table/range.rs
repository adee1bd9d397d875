//! Iterates over records in the order of their keys, from either end.

use super::Handle;
use super::typed::decoded_vec;
use crate::bundle::{Bundle, is_bundle, tree_key};
use crate::codec::{Key, Value};
use crate::error::Result;
use crate::page::longest_key;
use crate::transaction::{Statement, TableId};
use crate::tree::Leaf;
use crate::versions::{Record, is_empty};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::Bound;
use std::rc::Rc;

pub(crate) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A record: its key and its value.
pub type Row<K, V> = (<K as Value>::Owned, <V as Value>::Owned);

/// A record of a leaf, or a key of a bundle in a leaf.
#[derive(Debug)]
enum Item {
    Record(Record),
    Bundled(Rc<Bundle>, usize),
}

/// The result of opening an item: a row, or the items that replace it.
enum Opened<R> {
    Row(R),
    Items(Vec<Item>),
}

/// An iterator over a range of keys, which may be advanced from both ends until they
/// meet.
#[derive(Debug)]
pub struct Range<'t, 'e, K, V> {
    handle: &'t Handle<'e>,
    id: TableId,
    statement: Statement<'e>,
    /// The range.
    keys: Bounds,
    /// Range that was not read yet, in keys of the tree.
    rest: Option<Bounds>,
    front: VecDeque<Item>,
    back: VecDeque<Item>,
    types: PhantomData<fn(K, V)>,
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl<'t, 'e, K: Key, V: Value> Range<'t, 'e, K, V> {
    pub(super) fn new(handle: &'t Handle<'e>, id: TableId, bounds: Bounds) -> Self {
        let limit = longest_key(handle.shared.engine.pool.page_bytes);
        let rest = (in_tree(&bounds.0, limit), in_tree(&bounds.1, limit));
        Range {
            handle,
            id,
            statement: handle.transaction.borrow().statement(),
            keys: bounds,
            rest: Some(rest).filter(|(from, to)| !is_empty(as_slice(from), as_slice(to))),
            front: VecDeque::new(),
            back: VecDeque::new(),
            types: PhantomData,
        }
    }

    pub(super) fn statement(&self) -> &Statement<'e> {
        &self.statement
    }

    /// Reads the next leaf from the front.
    fn read_front(&mut self) -> Result<()> {
        let Some((from, to)) = self.rest.take() else {
            return Ok(());
        };
        let mut transaction = self.handle.transaction.borrow_mut();
        let bounds = (as_slice(&from), as_slice(&to));
        let leaf: Leaf = transaction.leaf_from(self.id, bounds, &self.statement)?;
        self.front = leaf.records.into_iter().map(Item::Record).collect();
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
        self.back = leaf.records.into_iter().map(Item::Record).collect();
        let rest = leaf.next.map(|next| (from, Bound::Excluded(next)));
        self.rest = rest.filter(|(from, to)| !is_empty(as_slice(from), as_slice(to)));
        Ok(())
    }

    fn value(&self, overflow: bool, value: Vec<u8>) -> Result<Vec<u8>> {
        let transaction = self.handle.transaction.borrow();
        match overflow {
            true => transaction.load(self.id, &value, &self.statement),
            false => Ok(value),
        }
    }

    /// Returns the keys of a bundle that are in the range.
    fn bundled(&self, (tree_key, overflow, value): Record) -> Result<Vec<Item>> {
        let bundle = Bundle::read(&tree_key, self.value(overflow, value)?)?;
        let bundle = Rc::new(bundle);
        let within = bundle.within(as_slice(&self.keys.0), as_slice(&self.keys.1));
        let item = |at| Item::Bundled(bundle.clone(), at);
        Ok(within.map(item).collect())
    }

    fn open(&self, item: Item) -> Result<Opened<Row<K, V>>> {
        let limit = longest_key(self.handle.shared.engine.pool.page_bytes);
        let (key, value) = match item {
            Item::Record(record) if is_bundle(&record.0, limit) => {
                return self.bundled(record).map(Opened::Items);
            }
            Item::Record((key, overflow, value)) => (key, self.value(overflow, value)?),
            Item::Bundled(bundle, at) => {
                let value = bundle.value(at);
                let value = self.value(value.overflow, value.bytes.to_vec())?;
                (bundle.key(at), value)
            }
        };
        let row = (decoded_vec::<K>(key)?, decoded_vec::<V>(value)?);
        Ok(Opened::Row(row))
    }
}

/// Converts a bound to keys of the tree: for a long key, the whole bundle is included.
fn in_tree(bound: &Bound<Vec<u8>>, limit: usize) -> Bound<Vec<u8>> {
    let (Bound::Included(key) | Bound::Excluded(key)) = bound else {
        return Bound::Unbounded;
    };
    match tree_key(key, limit) {
        Some(tree_key) => Bound::Included(tree_key),
        None => bound.clone(),
    }
}

impl<K: Key, V: Value> Iterator for Range<'_, '_, K, V> {
    type Item = Result<Row<K, V>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            while self.front.is_empty() && self.rest.is_some() {
                if let Err(error) = self.read_front() {
                    return Some(Err(error));
                }
            }
            let item = self.front.pop_front().or_else(|| self.back.pop_front())?;
            match self.open(item) {
                Ok(Opened::Row(row)) => return Some(Ok(row)),
                Ok(Opened::Items(items)) => items
                    .into_iter()
                    .rev()
                    .for_each(|item| self.front.push_front(item)),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl<K: Key, V: Value> DoubleEndedIterator for Range<'_, '_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            while self.back.is_empty() && self.rest.is_some() {
                if let Err(error) = self.read_back() {
                    return Some(Err(error));
                }
            }
            let item = self.back.pop_back().or_else(|| self.front.pop_back())?;
            match self.open(item) {
                Ok(Opened::Row(row)) => return Some(Ok(row)),
                Ok(Opened::Items(items)) => self.back.extend(items),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
