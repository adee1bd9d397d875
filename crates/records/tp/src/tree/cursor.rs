//! Reads records: one, or those of a leaf, forward and backward.

use super::Tree;
use super::find::{Step, Wanted};
use crate::error::Result;
use crate::page::{Cell, Found as Place, Page};
use crate::versions::{Found, Record, View};
use smallvec::SmallVec;
use std::ops::Bound;

/// The records of a leaf in a range, and the position of the next leaf.
#[derive(Debug, Default)]
pub(crate) struct Leaf {
    pub records: Vec<Record>,
    /// Forward: the first key of the next leaf. Backward: a key above all keys of the
    /// next leaf. `None` if there is no further leaf.
    pub next: Option<Vec<u8>>,
    /// LSN of the last change of the leaf.
    pub lsn: u64,
}

fn value_in<'p>(page: Page<'p>, key: &[u8]) -> Option<Cell<'p>> {
    match page.search(key) {
        Place::At(at) => Some(page.value(at)),
        Place::Missing(_) => None,
    }
}

impl Tree<'_> {
    /// Returns the value of a key in a view, or without one as its leaf stores it, and
    /// the LSN of the leaf's last change.
    pub(crate) fn get(&self, key: &[u8], view: Option<View<'_>>) -> Result<(Found, u64)> {
        let mut seen = None;
        let leaf = self.leaf_unless(key, |number| {
            seen = view.and_then(|view| self.near(number, key, view));
            seen.is_some()
        })?;
        let Some(leaf) = leaf else {
            return seen.expect("it has done without the leaf");
        };
        let page = leaf.page();
        let lsn = page.lsn();
        let value = value_in(page, key);
        let found = match view {
            Some(view) => {
                if view.is_settled(lsn) {
                    self.engine.pool.bring_near(&leaf);
                }
                view.value(key, value, lsn)?
            }
            None => value.map(|cell| (cell.overflow, SmallVec::from_slice(cell.bytes))),
        };
        Ok((found, lsn))
    }

    /// Does the same as [`get`](Self::get) without a latch, if this thread has recently
    /// read the page, and the page is the key's leaf and settled for the view; `None`
    /// otherwise.
    fn near(&self, number: u32, key: &[u8], view: View<'_>) -> Option<Result<(Found, u64)>> {
        let look = |page: Page<'_>| {
            let lsn = page.lsn();
            let right = self.is_level(page, 0) && view.is_settled(lsn);
            (right && matches!(Wanted::Key(key).step(page), Step::Here)).then(|| {
                let found = view.value(key, value_in(page, key), lsn)?;
                Ok((found, lsn))
            })
        };
        self.engine.pool.near(number, look)?
    }

    /// Returns the records of one leaf from a bound on, as a view sees them.
    pub(crate) fn leaf_from(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        view: Option<View<'_>>,
    ) -> Result<Leaf> {
        let key = match from {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => &[],
        };
        let leaf = self.leaf(Wanted::Key(key))?;
        let page = leaf.page();
        let high = page.high().filter(|high| match to {
            Bound::Included(to) => *high <= to,
            Bound::Excluded(to) => *high < to,
            Bound::Unbounded => true,
        });
        let mut records = within(page, from, to);
        if let Some(view) = view {
            let end = high.map_or(to, Bound::Excluded);
            view.correct(&mut records, (from, end), page.lsn())?;
        }
        Ok(Leaf {
            records,
            next: high.map(<[u8]>::to_vec),
            lsn: page.lsn(),
        })
    }

    /// Returns the records of one leaf up to a bound, in the order of their keys.
    pub(crate) fn leaf_until(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        view: Option<View<'_>>,
    ) -> Result<Leaf> {
        let wanted = match to {
            Bound::Included(key) => Wanted::Key(key),
            Bound::Excluded(key) => Wanted::Below(Some(key)),
            Bound::Unbounded => Wanted::Below(None),
        };
        let leaf = self.leaf(wanted)?;
        let page = leaf.page();
        let low = Some(page.low()).filter(|low| match from {
            _ if low.is_empty() => false,
            Bound::Included(from) | Bound::Excluded(from) => *low > from,
            Bound::Unbounded => true,
        });
        let mut records = within(page, from, to);
        if let Some(view) = view {
            let begin = low.map_or(from, Bound::Included);
            view.correct(&mut records, (begin, to), page.lsn())?;
        }
        Ok(Leaf {
            records,
            next: low.map(<[u8]>::to_vec),
            lsn: page.lsn(),
        })
    }
}

fn within(page: Page<'_>, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Vec<Record> {
    let place = |key: &[u8], behind: bool| match page.search(key) {
        Place::At(at) => at + usize::from(behind),
        Place::Missing(at) => at,
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
