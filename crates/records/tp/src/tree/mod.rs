//! B+-trees with link pointers.
//!
//! A descent latches one page at a time. The fences of a page show whether it is still
//! the right one: a key at or beyond the high fence is in a page to the right. A page
//! whose low fence is above the key, or that has another table, kind or level, was freed
//! meanwhile, and the search starts again at the root. The low fence of a page never
//! changes while it is in the tree, because splits create the right page and merges move
//! cells to the left.
//!
//! Latch order: parents before children, left before right, the meta page last.
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

/// A tree: its root page, and the table that it stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree<'a> {
    pub engine: &'a Engine,
    pub table: u32,
    pub root: u32,
}

/// Number of steps of one search that only a tree with a cycle exceeds.
const MOST_STEPS: usize = 100_000;

impl Tree<'_> {
    fn damaged(&self, page: u32, what: &str) -> Error {
        let what = format!("page {page} of table {}: {what}", self.table);
        Error::damaged("pages", 0, what)
    }
}
