//! The meaning of log records, and their effect on pages.
//!
//! A change is applied to its pages by the code that redo also uses, [`Change::apply`],
//! so redo cannot differ from the original change.
//!
//! The bytes are read from the medium: a change that does not fit the page is refused,
//! and no index is used unchecked.
//!
//! Source: Seltzer 1992, §5.1.4.6 (record types with redo and undo); Mohan and others
//! 1992 (ARIES: compensation, page LSNs).

mod apply;
mod body;

use crate::page::{Cell, Image};

/// A chain of pages of a value, to be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub first: u32,
    pub last: u32,
}

/// The content of the meta page after a page was allocated from the free list, or behind
/// the last page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allocation {
    pub count: u32,
    pub free: u32,
}

/// The meaning of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    Insert {
        page: u32,
        at: u16,
        key: &'a [u8],
        value: Cell<'a>,
    },
    Delete {
        page: u32,
        at: u16,
        key: &'a [u8],
        old: Cell<'a>,
    },
    Patch {
        page: u32,
        at: u16,
        key: &'a [u8],
        offset: u32,
        old: &'a [u8],
        new: &'a [u8],
    },
    Replace {
        page: u32,
        at: u16,
        key: &'a [u8],
        old: Cell<'a>,
        new: Cell<'a>,
    },
    /// `left` keeps `at` cells; `image` is the new page `right`.
    Split {
        left: u32,
        right: u32,
        at: u16,
        meta: Allocation,
        fence: &'a [u8],
        image: Image<'a>,
    },
    /// The root's content moves to `child`.
    Grow {
        root: u32,
        child: u32,
        meta: Allocation,
        image: Image<'a>,
    },
    Post {
        page: u32,
        at: u16,
        key: &'a [u8],
        child: u32,
    },
    /// The cells of `right`, whose entry is at `at` of the parent, move to `left`.
    Merge {
        parent: u32,
        at: u16,
        left: u32,
        right: u32,
        free: u32,
        image: Image<'a>,
    },
    /// The only child's content moves to the root.
    Collapse {
        root: u32,
        child: u32,
        free: u32,
        image: Image<'a>,
    },
    Overflow {
        page: u32,
        meta: Allocation,
        next: u32,
        bytes: &'a [u8],
    },
    Tree {
        root: u32,
        table: u32,
        meta: Allocation,
    },
    /// A chain becomes the beginning of the free list, which began with `free`.
    Free {
        chain: Chain,
        free: u32,
    },
    /// Chains to be freed if the transaction commits, in addition to those in its commit
    /// record.
    Chains {
        chains: &'a [u8],
    },
    /// A page as it was before it was written in place. Only a restart of an environment
    /// in place uses it, before redo; it changes nothing.
    Image {
        page: u32,
        image: Image<'a>,
    },
    /// The commit of a transaction, with further chains to be freed.
    Commit {
        chains: &'a [u8],
    },
    End,
}

/// The kinds of records.
pub(crate) mod kinds {
    pub(crate) const INSERT: u8 = 1;
    pub(crate) const DELETE: u8 = 2;
    pub(crate) const PATCH: u8 = 3;
    pub(crate) const REPLACE: u8 = 4;
    pub(crate) const SPLIT: u8 = 5;
    pub(crate) const GROW: u8 = 6;
    pub(crate) const POST: u8 = 7;
    pub(crate) const MERGE: u8 = 8;
    pub(crate) const COLLAPSE: u8 = 9;
    pub(crate) const OVERFLOW: u8 = 10;
    pub(crate) const TREE: u8 = 11;
    pub(crate) const FREE: u8 = 12;
    pub(crate) const COMMIT: u8 = 13;
    pub(crate) const END: u8 = 14;
    pub(crate) const CHAINS: u8 = 15;
    pub(crate) const IMAGE: u8 = 16;
}

impl Change<'_> {
    /// Returns the pages that it changes, in latch order.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u32> {
        use crate::page::META_PAGE;
        let pages: [Option<u32>; 4] = match *self {
            Change::Insert { page, .. }
            | Change::Delete { page, .. }
            | Change::Patch { page, .. }
            | Change::Replace { page, .. }
            | Change::Post { page, .. } => [Some(page), None, None, None],
            Change::Split { left, right, .. } => [Some(left), Some(right), Some(META_PAGE), None],
            Change::Grow { root, child, .. } | Change::Collapse { root, child, .. } => {
                [Some(root), Some(child), Some(META_PAGE), None]
            }
            Change::Merge {
                parent,
                left,
                right,
                ..
            } => [Some(parent), Some(left), Some(right), Some(META_PAGE)],
            Change::Overflow { page, .. } => [Some(page), Some(META_PAGE), None, None],
            Change::Tree { root, .. } => [Some(root), Some(META_PAGE), None, None],
            Change::Free { chain, .. } => [Some(chain.last), Some(META_PAGE), None, None],
            Change::Image { .. } | Change::Chains { .. } | Change::Commit { .. } | Change::End => {
                [None; 4]
            }
        };
        pages.into_iter().flatten()
    }

    /// Returns the page that it allocates, which need not exist yet, and the content of
    /// the meta page afterwards.
    pub(crate) fn made(&self) -> Option<(u32, Allocation)> {
        match *self {
            Change::Split { right, meta, .. } => Some((right, meta)),
            Change::Grow { child, meta, .. } => Some((child, meta)),
            Change::Overflow { page, meta, .. } => Some((page, meta)),
            Change::Tree { root, meta, .. } => Some((root, meta)),
            _ => None,
        }
    }

    /// Returns true if an abort must undo a record of this kind.
    pub(crate) fn is_undone(kind: u8) -> bool {
        use kinds::*;
        matches!(kind, INSERT | DELETE | PATCH | REPLACE | OVERFLOW | TREE)
    }
}

/// Parses the chains of a commit record.
pub(crate) fn chains(bytes: &[u8]) -> Vec<Chain> {
    let (pairs, _) = bytes.as_chunks::<8>();
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
    let chain = |pair: &[u8; 8]| Chain {
        first: number(&pair[..4]),
        last: number(&pair[4..]),
    };
    pairs.iter().map(chain).collect()
}

/// Returns chains as bytes.
pub(crate) fn chain_bytes(chains: &[Chain]) -> Vec<u8> {
    let bytes = |chain: &Chain| {
        let (first, last) = (chain.first.to_le_bytes(), chain.last.to_le_bytes());
        first.into_iter().chain(last)
    };
    chains.iter().flat_map(bytes).collect()
}
