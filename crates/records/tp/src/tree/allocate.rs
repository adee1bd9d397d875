//! Allocates pages from the free list, or behind the last page. The meta page is latched
//! last, and until the change that allocates the page is applied.

use super::Tree;
use crate::buffer::WritePage;
use crate::change::{Allocation, Change};
use crate::engine::Author;
use crate::error::{Error, Result};
use crate::page::META_PAGE;

/// A page that is about to be created, and the future content of the meta page.
pub(super) struct Fresh<'a> {
    pub page: WritePage<'a>,
    pub meta: WritePage<'a>,
    pub allocation: Allocation,
}

impl<'a> Tree<'a> {
    pub(super) fn allocate(&self) -> Result<Fresh<'a>> {
        let pool = &self.engine.pool;
        let meta = pool.write(META_PAGE)?;
        let (count, free) = meta.page().meta();
        if free == 0 {
            if count >= u32::MAX - 1 {
                return Err(Error::damaged(
                    "pages",
                    0,
                    "there is no number for another page",
                ));
            }
            let allocation = Allocation {
                count: count + 1,
                free: 0,
            };
            let page = pool.make(count)?;
            return Ok(Fresh {
                page,
                meta,
                allocation,
            });
        }
        let page = pool.write(free)?;
        let next = page.page().header().right.get();
        if next == free || free >= count {
            return Err(self.damaged(free, "the free list is damaged"));
        }
        let allocation = Allocation { count, free: next };
        Ok(Fresh {
            page,
            meta,
            allocation,
        })
    }
}

impl Tree<'_> {
    /// Creates an empty tree, which is undone with the author's transaction. Returns its
    /// root.
    pub(crate) fn make(&self, author: &mut Author, table: u32) -> Result<u32> {
        let mut fresh = self.allocate()?;
        let root = fresh.page.number();
        let change = Change::Tree {
            root,
            table,
            meta: fresh.allocation,
        };
        let lsn = self.engine.log(author, self.table, &change)?;
        let pages = &mut [&mut fresh.page, &mut fresh.meta];
        self.engine.apply(&change, lsn, pages)?;
        Ok(root)
    }
}
