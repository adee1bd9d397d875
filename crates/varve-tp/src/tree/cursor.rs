//! Reading records: one, or a leaf's at a time, forward and backward.

use super::find::Wanted;
use super::{Hint, Tree};
use crate::error::Result;
use crate::page::{Cell, Found, Page};
use std::ops::Bound;

/// The records of a leaf that lie in a range, and where the next leaf is looked for.
#[derive(Debug, Default)]
pub(crate) struct Leaf {
    /// Key, whether the value is large, the value or where it is.
    pub records: Vec<(Vec<u8>, bool, Vec<u8>)>,
    /// Forward: the first key of the next leaf. Backward: all keys of the next one are
    /// below this. `None`: there is no other.
    pub next: Option<Vec<u8>>,
    /// LSN of the last change of the leaf.
    pub lsn: u64,
}

impl Tree<'_> {
    /// Hands over the value of a key as its leaf has it, and answers the leaf and the LSN
    /// of its last change.
    pub(crate) fn get<T>(
        &self,
        key: &[u8],
        hint: Hint,
        take: impl FnOnce(Option<Cell<'_>>) -> T,
    ) -> Result<(T, u32, u64)> {
        let leaf = self.leaf(Wanted::Key(key), hint)?;
        let page = leaf.page();
        let value = match page.search(key) {
            Found::At(at) => Some(page.value(at)),
            Found::Missing(_) => None,
        };
        let header = page.header();
        Ok((take(value), header.number.get(), header.lsn.get()))
    }

    /// The records from a bound on that one leaf holds.
    pub(crate) fn leaf_from(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Leaf> {
        let key = match from {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => &[],
        };
        let leaf = self.leaf(Wanted::Key(key), None)?;
        let page = leaf.page();
        let high = page.high().filter(|high| match to {
            Bound::Included(to) => *high <= to,
            Bound::Excluded(to) => *high < to,
            Bound::Unbounded => true,
        });
        Ok(Leaf {
            records: within(page, from, to),
            next: high.map(<[u8]>::to_vec),
            lsn: page.lsn(),
        })
    }

    /// The records up to a bound that one leaf holds, in the order of their keys.
    pub(crate) fn leaf_until(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Leaf> {
        let wanted = match to {
            Bound::Included(key) => Wanted::Key(key),
            Bound::Excluded(key) => Wanted::Below(Some(key)),
            Bound::Unbounded => Wanted::Below(None),
        };
        let leaf = self.leaf(wanted, None)?;
        let page = leaf.page();
        let low = Some(page.low()).filter(|low| match from {
            _ if low.is_empty() => false,
            Bound::Included(from) | Bound::Excluded(from) => *low > from,
            Bound::Unbounded => true,
        });
        Ok(Leaf {
            records: within(page, from, to),
            next: low.map(<[u8]>::to_vec),
            lsn: page.lsn(),
        })
    }
}

fn within(page: Page<'_>, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Vec<(Vec<u8>, bool, Vec<u8>)> {
    let place = |key: &[u8], behind: bool| match page.search(key) {
        Found::At(at) => at + usize::from(behind),
        Found::Missing(at) => at,
    };
    let first = match from {
        Bound::Included(key) => place(key, false),
        Bound::Excluded(key) => place(key, true),
        Bound::Unbounded => 0,
    };
    let end = match to {
        Bound::Included(key) => place(key, true),
        Bound::Excluded(key) => place(key, false),
        Bound::Unbounded => page.count(),
    };
    let record = |at: usize| {
        let value = page.value(at);
        (page.key(at).to_vec(), value.overflow, value.bytes.to_vec())
    };
    (first..end.max(first)).map(record).collect()
}
