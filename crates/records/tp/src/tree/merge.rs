//! Merges small pages with a neighbour under the same parent, and moves the content of an
//! only child to the root. A merge moves cells to the left, so that low fences do not
//! change.

use super::Tree;
use super::change::UNDERFULL;
use crate::buffer::WritePage;
use crate::change::Change;
use crate::engine::Author;
use crate::error::Result;
use crate::page::{Image, META_PAGE, Page};

/// Two pages are merged only if one part in this number of a page stays free, so that the
/// next insert does not split them again.
const STAYS_FREE: usize = 8;

impl<'a> Tree<'a> {
    /// Merges the page of a key at a level if possible.
    pub(super) fn merge(&self, author: &mut Author, key: &[u8], level: u8) -> Result<()> {
        self.post_beside(author, key, level)?;
        let Some(parent) = self.page_for_writing(key, level + 1)? else {
            return Ok(());
        };
        let page = parent.page();
        let at = page.entry_for(key);
        let is_root = parent.number() == self.root;
        if page.count() == 1 {
            // It has no neighbour here; its parent may have one.
            let underfull = !is_root && page.used() < page.room() / UNDERFULL;
            drop(parent);
            return match underfull {
                true => self.merge(author, key, level + 1),
                false => self.collapse(author),
            };
        }
        let pairs = [at.checked_sub(1), (at + 1 < page.count()).then_some(at)];
        for left in pairs.into_iter().flatten() {
            let children = (page.child(left), page.child(left + 1));
            if let Some((left_page, right_page)) = self.pair(children, level)? {
                return self.merge_pair(author, parent, left + 1, left_page, right_page);
            }
        }
        Ok(())
    }

    /// Latches both pages if they are neighbours and fit into one.
    fn pair(
        &self,
        (left, right): (u32, u32),
        level: u8,
    ) -> Result<Option<(WritePage<'a>, WritePage<'a>)>> {
        let left = self.engine.pool.write(left)?;
        let is_ours = |page: Page<'_>| page.is_of_tree(self.table) && page.header().level == level;
        if !is_ours(left.page()) || left.page().header().right.get() != right {
            return Ok(None);
        }
        let right = self.engine.pool.write(right)?;
        let (a, b) = (left.page(), right.page());
        let small = a.used().min(b.used()) < a.room() / UNDERFULL;
        let fit = a.used() + b.used() <= a.room() - a.room() / STAYS_FREE;
        Ok((is_ours(b) && small && fit).then_some((left, right)))
    }

    fn merge_pair(
        &self,
        author: &mut Author,
        mut parent: WritePage<'a>,
        at: usize,
        mut left: WritePage<'a>,
        mut right: WritePage<'a>,
    ) -> Result<()> {
        right.edit().pack();
        let image = right.page().0.to_vec();
        let mut meta = self.engine.pool.write(META_PAGE)?;
        let level = left.page().header().level;
        let low = left.page().low().to_vec();
        let change = Change::Merge {
            parent: parent.number(),
            at: at as u16,
            left: left.number(),
            right: right.number(),
            free: meta.page().meta().1,
            image: Image::of(&image),
        };
        let lsn = self.engine.log_structure(author, self.table, &change)?;
        let pages = &mut [&mut parent, &mut left, &mut right, &mut meta];
        self.engine.apply(&change, lsn, pages)?;
        let page = parent.page();
        let is_root = parent.number() == self.root;
        let underfull = page.used() < page.room() / UNDERFULL;
        let one = page.count() == 1;
        drop((left, right, meta, parent));
        match (is_root, underfull) {
            (true, _) if one => self.collapse(author),
            (false, true) => self.merge(author, &low, level + 1),
            _ => Ok(()),
        }
    }

    /// Moves the content of the only child to the root, repeatedly.
    fn collapse(&self, author: &mut Author) -> Result<()> {
        loop {
            let mut root = self.engine.pool.write(self.root)?;
            let page = root.page();
            if page.header().level == 0 || page.count() != 1 {
                return Ok(());
            }
            let mut child = self.engine.pool.write(page.child(0))?;
            let is_ours = child.page().is_of_tree(self.table);
            if !is_ours || child.page().high().is_some() {
                // A split of the child has not been posted yet.
                return Ok(());
            }
            child.edit().pack();
            let image = child.page().0.to_vec();
            let mut meta = self.engine.pool.write(META_PAGE)?;
            let change = Change::Collapse {
                root: self.root,
                child: child.number(),
                free: meta.page().meta().1,
                image: Image::of(&image),
            };
            let lsn = self.engine.log_structure(author, self.table, &change)?;
            let pages = &mut [&mut root, &mut child, &mut meta];
            self.engine.apply(&change, lsn, pages)?;
        }
    }
}
