//! Values too large for a leaf: chains of pages.
//!
//! Each page of a chain has a log record of its own, undone by freeing the page. A chain
//! that a committed transaction has replaced is freed after its commit record, which
//! names it; its pages become the beginning of the free list unchanged.
//!
//! The caller's copy of a value is the only one in memory, in addition to one page at a
//! time. The log must have space for the whole value, which [`Tree::store`] reserves
//! first.

use super::Tree;
use crate::change::{Chain, Change};
use crate::engine::{Author, FREEING};
use crate::error::Result;
use crate::page::{META_PAGE, kind};

/// Descriptor of a large value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub first: u32,
    pub last: u32,
    pub pages: u32,
    pub bytes: u64,
}

impl Stored {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(20);
        for number in [self.first, self.last, self.pages] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.bytes.to_le_bytes());
        bytes
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 20] = bytes.try_into().ok()?;
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4"));
        Some(Stored {
            first: number(0),
            last: number(4),
            pages: number(8),
            bytes: u64::from_le_bytes(bytes[12..].try_into().expect("8")),
        })
    }

    pub(crate) fn chain(self) -> Chain {
        Chain {
            first: self.first,
            last: self.last,
        }
    }
}

/// Bytes of log for a page's record in addition to those of the value, and its share of
/// the batch.
const RECORD: u64 = 128;
/// Bytes of memory allocated before the first page was read.
const AT_FIRST: u64 = 1 << 20;

impl Tree<'_> {
    /// Stores a value in pages of its own. They are created from the last to the first,
    /// because each names the next.
    pub(crate) fn store(&self, author: &mut Author, value: &[u8]) -> Result<Stored> {
        let room = crate::page::overflow_room(self.engine.pool.page_bytes);
        let count = value.len().div_ceil(room) as u64;
        let needed = value.len() as u64 + count * (RECORD + FREEING);
        let mut log_room = self.engine.log.reserve(needed)?;
        let (mut next, mut last, mut pages) = (0, 0, 0);
        for bytes in value.chunks(room).rev() {
            let mut fresh = self.allocate()?;
            let change = Change::Overflow {
                page: fresh.page.number(),
                meta: fresh.allocation,
                next,
                bytes,
            };
            let lsn = self.engine.log(author, self.table, &change)?;
            let pages_of_it = &mut [&mut fresh.page, &mut fresh.meta];
            self.engine.apply(&change, lsn, pages_of_it)?;
            log_room.spend(bytes.len() as u64 + RECORD + FREEING);
            next = fresh.page.number();
            if pages == 0 {
                last = next;
            }
            pages += 1;
        }
        Ok(Stored {
            first: next,
            last,
            pages,
            bytes: value.len() as u64,
        })
    }

    /// Loads a stored value.
    pub(crate) fn load(&self, stored: &[u8]) -> Result<Vec<u8>> {
        let what = "a large value is not where it should be";
        let stored = Stored::parse(stored).ok_or_else(|| self.damaged(self.root, what))?;
        let mut value = Vec::with_capacity(stored.bytes.min(AT_FIRST) as usize);
        let mut number = stored.first;
        for _ in 0..stored.pages {
            let page = self.engine.pool.read(number)?;
            let page = page.page();
            let left = stored.bytes - value.len() as u64;
            let length = page.overflow_length() as u64;
            if page.header().kind != kind::OVERFLOW || !(1..=left).contains(&length) {
                return Err(self.damaged(number, what));
            }
            value.extend_from_slice(page.overflow_bytes());
            number = page.header().right.get();
        }
        match value.len() as u64 == stored.bytes {
            true => Ok(value),
            false => Err(self.damaged(stored.first, what)),
        }
    }

    /// Frees a chain. The record belongs to the author's transaction, if there is one.
    pub(crate) fn free(&self, author: &mut Author, chain: Chain) -> Result<()> {
        let mut last = self.engine.pool.write(chain.last)?;
        let mut meta = self.engine.pool.write(META_PAGE)?;
        let change = Change::Free {
            chain,
            free: meta.page().meta().1,
        };
        let lsn = self.engine.log(author, self.table, &change)?;
        self.engine.apply(&change, lsn, &mut [&mut last, &mut meta])
    }
}
