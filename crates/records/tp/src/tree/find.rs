//! Finds the page to which a key belongs.

use super::routes::Routed;
use super::{MOST_STEPS, Tree};
use crate::buffer::{ReadPage, WritePage};
use crate::error::Result;
use crate::page::{Page, order};

/// The next step of a search.
pub(super) enum Step {
    Here,
    Right(u32),
    Restart,
}

/// The target of a search.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted<'k> {
    /// The page to which this key belongs.
    Key(&'k [u8]),
    /// The last page with keys below this one; for `None` the last page.
    Below(Option<&'k [u8]>),
}

impl Wanted<'_> {
    pub(super) fn step(self, page: Page<'_>) -> Step {
        let right = page.header().right.get();
        let (beyond, before) = match self {
            Wanted::Key(key) => (
                page.high().is_some_and(|high| order(key, high).is_ge()),
                order(key, page.low()).is_lt(),
            ),
            Wanted::Below(None) => (page.high().is_some(), false),
            Wanted::Below(Some(key)) => (
                page.high().is_some_and(|high| order(key, high).is_gt()),
                // The first page remains the target, although no key is below its empty
                // low fence.
                order(key, page.low()).is_le() && !page.low().is_empty(),
            ),
        };
        match (before, beyond) {
            (true, _) => Step::Restart,
            (_, true) => Step::Right(right),
            _ => Step::Here,
        }
    }

    fn entry(self, page: Page<'_>) -> usize {
        let last = page.count() - 1;
        match self {
            Wanted::Key(key) => page.entry_for(key),
            Wanted::Below(None) => last,
            Wanted::Below(Some(key)) => match page.search(key) {
                crate::page::Found::At(at) | crate::page::Found::Missing(at) => {
                    at.saturating_sub(1)
                }
            },
        }
    }
}

impl<'a> Tree<'a> {
    /// Latches a leaf for reading.
    pub(super) fn leaf(&self, wanted: Wanted<'_>) -> Result<ReadPage<'a>> {
        if let Wanted::Key(key) = wanted
            && let Routed::Leaf(leaf) = self.leaf_by_routes(key, |_| false)?
        {
            return Ok(leaf);
        }
        self.page_for_reading(wanted, 0)
    }

    /// Latches the leaf of a key for reading; `None` if `near` makes that unnecessary.
    pub(super) fn leaf_unless(
        &self,
        key: &[u8],
        near: impl FnMut(u32) -> bool,
    ) -> Result<Option<ReadPage<'a>>> {
        match self.leaf_by_routes(key, near)? {
            Routed::Leaf(leaf) => Ok(Some(leaf)),
            Routed::Near => Ok(None),
            Routed::Lost => self.page_for_reading(Wanted::Key(key), 0).map(Some),
        }
    }

    /// Latches the leaf of a key for writing.
    pub(super) fn leaf_for_writing(&self, key: &[u8]) -> Result<WritePage<'a>> {
        if let Some(page) = self.led_to(key) {
            let leaf = self.engine.pool.write(page)?;
            let right = self.is_level(leaf.page(), 0);
            if right && matches!(Wanted::Key(key).step(leaf.page()), Step::Here) {
                return Ok(leaf);
            }
            drop(leaf);
            // This search corrects the copies.
            self.leaf_by_routes(key, |_| false)?;
        }
        match self.page_for_writing(key, 0)? {
            Some(leaf) => Ok(leaf),
            None => Err(self.damaged(self.root, "a tree without leaves")),
        }
    }

    pub(super) fn is_level(&self, page: Page<'_>, level: u8) -> bool {
        page.is_of_tree(self.table) && page.header().level == level
    }

    /// Returns the number of the page at `level` to which a descent from the root leads.
    /// `None` if the root is below that level.
    fn descend(&self, wanted: Wanted<'_>, level: u8) -> Result<Option<u32>> {
        let (mut number, mut expected) = (self.root, None);
        for _ in 0..MOST_STEPS {
            let page = self.engine.pool.read(number)?;
            let page = page.page();
            let here = page.header().level;
            let right = page.is_of_tree(self.table) && expected.is_none_or(|level| level == here);
            if !right {
                if number == self.root {
                    return Err(self.damaged(number, "this is not the root of a tree"));
                }
                (number, expected) = (self.root, None);
                continue;
            }
            if here <= level {
                return Ok((here == level).then_some(number));
            }
            match wanted.step(page) {
                Step::Restart => (number, expected) = (self.root, None),
                Step::Right(next) => (number, expected) = (next, Some(here)),
                Step::Here if here == level + 1 => {
                    return Ok(Some(page.child(wanted.entry(page))));
                }
                Step::Here => {
                    number = page.child(wanted.entry(page));
                    expected = Some(here - 1);
                }
            }
        }
        Err(self.damaged(number, "a search does not end"))
    }

    pub(super) fn page_for_reading(&self, wanted: Wanted<'_>, level: u8) -> Result<ReadPage<'a>> {
        for _ in 0..MOST_STEPS {
            let Some(mut number) = self.descend(wanted, level)? else {
                return Err(self.damaged(self.root, "a tree without leaves"));
            };
            loop {
                let page = self.engine.pool.read(number)?;
                if !self.is_level(page.page(), level) {
                    break;
                }
                match wanted.step(page.page()) {
                    Step::Here => return Ok(page),
                    Step::Right(next) => number = next,
                    Step::Restart => break,
                }
            }
        }
        Err(self.damaged(self.root, "a search does not end"))
    }

    /// Latches the page of a key at a level; `None` if the tree has no such level.
    pub(super) fn page_for_writing(&self, key: &[u8], level: u8) -> Result<Option<WritePage<'a>>> {
        for _ in 0..MOST_STEPS {
            let Some(mut number) = self.descend(Wanted::Key(key), level)? else {
                return Ok(None);
            };
            loop {
                let page = self.engine.pool.write(number)?;
                if !self.is_level(page.page(), level) {
                    break;
                }
                match Wanted::Key(key).step(page.page()) {
                    Step::Here => return Ok(Some(page)),
                    Step::Right(next) => number = next,
                    Step::Restart => break,
                }
            }
        }
        Err(self.damaged(self.root, "a search does not end"))
    }
}
