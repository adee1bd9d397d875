//! B+-trees with link pointers.
//!
//! Everybody goes down with one latch at a time. The fences of a page say whether it is
//! still the right one: a key at or beyond the high fence lies to the right; a page
//! whose low fence is above the key, or that is of another table, kind or level, has been
//! freed meanwhile, and the search begins at the root again. A page's low fence never
//! changes while it is in the tree, since pages split and merge to the left.
//!
//! Latches are taken parents before children, left before right, the meta page last.
//!
//! Source: Lehman and Yao 1981; Seltzer 1992, §5.1.2.

mod allocate;
mod change;
mod cursor;
mod discard;
mod find;
mod merge;
mod overflow;
mod routes;
mod split;
mod undo;

pub(crate) use cursor::Leaf;
pub(crate) use overflow::Stored;
pub(crate) use undo::undo;

use crate::engine::Engine;
use crate::error::Error;

/// A tree: where its root is, and the table that it holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree<'a> {
    pub engine: &'a Engine,
    pub table: u32,
    pub root: u32,
}

/// Steps of one search after which its tree must be in a circle.
const MOST_STEPS: usize = 100_000;

impl Tree<'_> {
    fn damaged(&self, page: u32, what: &str) -> Error {
        let what = format!("page {page} of table {}: {what}", self.table);
        Error::damaged("pages", 0, what)
    }
}
