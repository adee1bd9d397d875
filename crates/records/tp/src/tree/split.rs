//! Splits pages, and posts the results to their parents.
//!
//! A split is one record: the left page is cut, the right one created. The entry in the
//! parent has a record of its own, written by the first operation that finds it missing.
//! Under the parent's latch the child's link shows the missing entry; this cannot change,
//! because merges need the same latch.

use super::find::Wanted;
use super::{MOST_STEPS, Tree};
use crate::buffer::WritePage;
use crate::change::Change;
use crate::engine::Author;
use crate::error::Result;
use crate::page::{Found, Image, Page, PageMut};

impl<'a> Tree<'a> {
    /// Splits a page to make space for a key at a position. The caller searches again.
    pub(super) fn split(
        &self,
        author: &mut Author,
        mut left: WritePage<'a>,
        at: usize,
        key: &[u8],
    ) -> Result<()> {
        if left.number() == self.root {
            return self.grow(author, left);
        }
        let level = left.page().header().level;
        let Some((cut, fence)) = place(left.page(), at, key) else {
            return Err(self.damaged(left.number(), "a page that cannot be split"));
        };
        let mut image = vec![0; self.engine.pool.page_bytes];
        if !right_half(left.page(), cut, &fence, &mut image) {
            return Err(self.damaged(left.number(), "half of a page does not fit into one"));
        }
        let mut fresh = self.allocate()?;
        let change = Change::Split {
            left: left.number(),
            right: fresh.page.number(),
            at: cut as u16,
            meta: fresh.allocation,
            fence: &fence,
            image: Image::of(&image),
        };
        let lsn = self.engine.log_structure(author, self.table, &change)?;
        let pages = &mut [&mut left, &mut fresh.page, &mut fresh.meta];
        self.engine.apply(&change, lsn, pages)?;
        drop((left, fresh));
        self.post(author, &fence, level + 1)
    }

    /// Moves the content of a full root to a child.
    fn grow(&self, author: &mut Author, mut root: WritePage<'a>) -> Result<()> {
        let mut fresh = self.allocate()?;
        root.edit().pack();
        let image = root.page().0.to_vec();
        let change = Change::Grow {
            root: self.root,
            child: fresh.page.number(),
            meta: fresh.allocation,
            image: Image::of(&image),
        };
        let lsn = self.engine.log_structure(author, self.table, &change)?;
        let pages = &mut [&mut root, &mut fresh.page, &mut fresh.meta];
        self.engine.apply(&change, lsn, pages)
    }

    /// Posts to `level` the entries that are missing on the path to a key.
    fn post(&self, author: &mut Author, key: &[u8], level: u8) -> Result<()> {
        for _ in 0..MOST_STEPS {
            let Some(mut parent) = self.page_for_writing(key, level)? else {
                return Ok(());
            };
            let page = parent.page();
            let child = page.child(page.entry_for(key));
            let (fence, right) = {
                let child = self.engine.pool.read(child)?;
                let child = child.page();
                if !child.is_of_tree(self.table) || child.header().level + 1 != level {
                    return Err(self.damaged(parent.number(), "an entry leads elsewhere"));
                }
                match child.high() {
                    Some(high) if high <= key => (high.to_vec(), child.header().right.get()),
                    _ => return Ok(()),
                }
            };
            let Found::Missing(at) = page.search(&fence) else {
                return Err(self.damaged(parent.number(), "an entry and its page disagree"));
            };
            if !page.fits(fence.len(), 0) {
                self.split(author, parent, at, &fence)?;
                continue;
            }
            let change = Change::Post {
                page: parent.number(),
                at: at as u16,
                key: &fence,
                child: right,
            };
            let lsn = self.engine.log_structure(author, self.table, &change)?;
            self.engine.apply(&change, lsn, &mut [&mut parent])?;
        }
        Err(self.damaged(self.root, "posting does not end"))
    }

    /// Posts the entries next to the page of a key that a crash has left unposted.
    pub(super) fn post_beside(&self, author: &mut Author, key: &[u8], level: u8) -> Result<()> {
        let high = {
            let page = self.page_for_reading(Wanted::Key(key), level)?;
            page.page().high().map(<[u8]>::to_vec)
        };
        match high {
            Some(high) => self.post(author, &high, level + 1),
            None => Ok(()),
        }
    }
}

/// Returns the position of a split for a key inserted at `at`, and the fence between the
/// halves.
fn place(page: Page<'_>, at: usize, key: &[u8]) -> Option<(usize, Vec<u8>)> {
    let count = page.count();
    let leaf = page.header().level == 0;
    // An insertion at the end leaves the left page full.
    if at == count && page.high().is_none() && count > 0 && leaf {
        let fence = separator(page.key(count - 1), key);
        if page.used() + fence.len() <= page.room() {
            return Some((count, fence));
        }
    }
    let half = page.used() / 2;
    let (mut sum, mut cut) = (page.low().len(), 0);
    while cut < count && sum < half {
        sum += page.cell_bytes(cut).len() + 2;
        cut += 1;
    }
    let cut = cut.clamp(1, count.checked_sub(1)?.max(1));
    if cut >= count {
        // With a single cell, the new one gets a page of its own.
        let only = page.key(0);
        return match key > only {
            true => Some((1, separator(only, key))),
            false => Some((0, separator(key, only))),
        };
    }
    let fence = match leaf {
        true => separator(page.key(cut - 1), page.key(cut)),
        false => page.key(cut).to_vec(),
    };
    Some((cut, fence))
}

/// Returns the shortest key above `left` and not above `right`.
fn separator(left: &[u8], right: &[u8]) -> Vec<u8> {
    let same = left
        .iter()
        .zip(right)
        .take_while(|(left, right)| left == right);
    right[..(same.count() + 1).min(right.len())].to_vec()
}

/// Makes the page with the cells from `cut` on.
fn right_half(page: Page<'_>, cut: usize, fence: &[u8], to: &mut [u8]) -> bool {
    let header = page.header();
    let mut right = PageMut(to);
    right.format(header.table.get(), header.level);
    right.header().right = header.right;
    right.set_low(fence) && right.set_high(page.high()) && right.append_from(page, cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_separator_is_short_and_between() {
        for (left, right, short) in [
            ("abc", "abd", "abd"),
            ("abc", "b", "b"),
            ("", "abc", "a"),
            ("ab", "abcdef", "abc"),
        ] {
            let between = separator(left.as_bytes(), right.as_bytes());
            assert_eq!(between, short.as_bytes());
            assert!(left.as_bytes() < &between[..] && &between[..] <= right.as_bytes());
        }
    }
}
