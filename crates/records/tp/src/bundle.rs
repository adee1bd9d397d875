//! Keys longer than those of a tree: keys with a common beginning share one record of the
//! tree.
//!
//! A tree's own keys have at most an eighth of a page, the *limit*. A longer key is
//! stored in a record whose key is its first `limit` bytes and a zero. No other key has
//! this length, so the length identifies such a record. No key of the tree sorts between
//! it and its first `limit` bytes, so the order is that of the whole keys. The record's
//! value is a *bundle*: the parts of these keys behind the limit, and their values.
//!
//! Values too large for a leaf have chains of pages, as in other records; the bundle has
//! their descriptors.
//!
//! A bundle is an ordinary record: it is logged, undone, locked, versioned for snapshots,
//! and moved to its own pages when it is large. The bytes are in `docs/spec/records.md`,
//! "Pages".

use crate::error::{Error, Result};
use crate::page::{Cell, OVERFLOW};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::{Bound, Range};

/// Returns the key under which a tree stores a long key; `None` if the key is short
/// enough to be stored as it is.
pub(crate) fn tree_key(key: &[u8], limit: usize) -> Option<Vec<u8>> {
    if key.len() <= limit {
        return None;
    }
    let mut head = Vec::with_capacity(limit + 1);
    head.extend_from_slice(&key[..limit]);
    head.push(0);
    Some(head)
}

/// Returns true if a tree stores a bundle under this key.
pub(crate) fn is_bundle(tree_key: &[u8], limit: usize) -> bool {
    tree_key.len() > limit
}

/// A key's bytes behind the limit (a part of the first key's, and its own), and its
/// value.
#[derive(Clone, Debug)]
struct Entry {
    shared: usize,
    own: Range<usize>,
    overflow: bool,
    value: Range<usize>,
}

/// Keys with a common beginning, in their order, with their values.
#[derive(Debug)]
pub(crate) struct Bundle {
    /// The common beginning.
    head: Vec<u8>,
    bytes: Vec<u8>,
    /// Range of the first key's bytes behind the limit.
    base: Range<usize>,
    entries: Vec<Entry>,
}

/// Bytes of an entry's header.
const ENTRY: usize = 12;
/// The bit of a value's length that marks a descriptor.
const BIT: usize = OVERFLOW as usize;

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(u32::from_le_bytes(bytes) as usize)
}

impl Bundle {
    /// Parses the value that a tree stores under a bundle's key.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the bytes are not a bundle.
    pub(crate) fn read(tree_key: &[u8], bytes: Vec<u8>) -> Result<Self> {
        let parsed = match tree_key.split_last() {
            Some((0, head)) => Self::parse(head, bytes),
            _ => None,
        };
        parsed.ok_or_else(|| Error::damaged("pages", 0, "a bundle of long keys"))
    }

    /// Parses bytes. `None` if they are not a bundle.
    pub(crate) fn parse(head: &[u8], bytes: Vec<u8>) -> Option<Self> {
        let base = 4..number(&bytes, 0)?.checked_add(4)?;
        let mut bundle = Bundle {
            head: head.to_vec(),
            base,
            bytes,
            entries: Vec::new(),
        };
        let mut at = bundle.base.end;
        while at < bundle.bytes.len() {
            let shared = number(&bundle.bytes, at)?;
            let own = number(&bundle.bytes, at + 4)?;
            let field = number(&bundle.bytes, at + 8)?;
            let (overflow, value) = (field & BIT != 0, field & !BIT);
            let own = at + ENTRY..(at + ENTRY).checked_add(own)?;
            let value = own.end..own.end.checked_add(value)?;
            at = value.end;
            let right = at <= bundle.bytes.len() && shared <= bundle.base.len();
            let first = shared == bundle.base.len() && own.is_empty();
            if !right || (bundle.entries.is_empty() && !first) {
                return None;
            }
            bundle.entries.push(Entry {
                shared,
                own,
                overflow,
                value,
            });
        }
        let ordered = bundle.entries.windows(2);
        let ordered = ordered
            .into_iter()
            .all(|pair| bundle.order(&pair[0], &pair[1]) == Ordering::Less);
        (!bundle.entries.is_empty() && ordered).then_some(bundle)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn rest(&self, entry: &Entry) -> (&[u8], &[u8]) {
        let base = &self.bytes[self.base.clone()];
        (&base[..entry.shared], &self.bytes[entry.own.clone()])
    }

    /// Compares two entries. Bytes that both share with the first key are skipped.
    fn order(&self, a: &Entry, b: &Entry) -> Ordering {
        let same = a.shared.min(b.shared);
        let behind = |entry| {
            let (shared, own) = self.rest(entry);
            shared[same..].iter().chain(own)
        };
        behind(a).cmp(behind(b))
    }

    /// Compares an entry's key with any other key.
    fn beside(&self, entry: &Entry, key: &[u8]) -> Ordering {
        let (shared, own) = self.rest(entry);
        let mut rest = key;
        for part in [&self.head[..], shared] {
            let (now, behind) = rest.split_at(part.len().min(rest.len()));
            match part.cmp(now) {
                Ordering::Equal => rest = behind,
                other => return other,
            }
        }
        own.cmp(rest)
    }

    /// Returns the position of a key, or the position at which it would be inserted.
    pub(crate) fn search(&self, key: &[u8]) -> std::result::Result<usize, usize> {
        self.entries
            .binary_search_by(|entry| self.beside(entry, key))
    }

    /// Returns the positions of the keys within bounds.
    pub(crate) fn within(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Range<usize> {
        let place = |key: &[u8], behind: bool| match self.search(key) {
            Ok(at) => at + usize::from(behind),
            Err(at) => at,
        };
        let first = match from {
            Bound::Included(key) => place(key, false),
            Bound::Excluded(key) => place(key, true),
            Bound::Unbounded => 0,
        };
        let end = match to {
            Bound::Included(key) => place(key, true),
            Bound::Excluded(key) => place(key, false),
            Bound::Unbounded => self.len(),
        };
        first..end.max(first)
    }

    /// Returns the whole key at a position.
    pub(crate) fn key(&self, at: usize) -> Vec<u8> {
        let (shared, own) = self.rest(&self.entries[at]);
        [&self.head, shared, own].concat()
    }

    fn cell(&self, entry: &Entry) -> Cell<'_> {
        Cell {
            overflow: entry.overflow,
            bytes: &self.bytes[entry.value.clone()],
        }
    }

    pub(crate) fn value(&self, at: usize) -> Cell<'_> {
        self.cell(&self.entries[at])
    }

    /// Returns the descriptors of large values.
    pub(crate) fn large_values(&self) -> impl Iterator<Item = &[u8]> {
        let large = self.entries.iter().filter(|entry| entry.overflow);
        large.map(|entry| &self.bytes[entry.value.clone()])
    }

    /// Returns the bytes of a bundle in which a key has another value, or none. They are
    /// empty if no key is left.
    pub(crate) fn with(&self, key: &[u8], value: Option<Cell<'_>>) -> Vec<u8> {
        let (at, skip) = match self.search(key) {
            Ok(at) => (at, 1),
            Err(at) => (at, 0),
        };
        let entry = |entry: &Entry| {
            let (shared, own) = self.rest(entry);
            Part {
                rest: [shared, own],
                value: self.cell(entry),
            }
        };
        let mut parts: Vec<Part<'_>> = self.entries[..at].iter().map(entry).collect();
        parts.extend(value.map(|value| Part {
            rest: [&key[self.head.len()..], &[]],
            value,
        }));
        parts.extend(self.entries[at + skip..].iter().map(entry));
        encode(&parts)
    }
}

/// Returns the bytes of a bundle of one key.
pub(crate) fn of_one(key: &[u8], limit: usize, value: Cell<'_>) -> Vec<u8> {
    let rest = [&key[limit..], &[]];
    encode(&[Part { rest, value }])
}

/// Input of the encoding: a key's bytes behind the limit, in two pieces, and its value.
struct Part<'a> {
    rest: [&'a [u8]; 2],
    value: Cell<'a>,
}

/// Returns the length of the common beginning. Blocks are compared first, because it may
/// be long.
fn same(a: &[u8], b: &[u8]) -> usize {
    const BLOCK: usize = 4096;
    let blocks = a.chunks(BLOCK).zip(b.chunks(BLOCK));
    let alike = blocks.take_while(|(a, b)| a == b).count() * BLOCK;
    let at = alike.min(a.len()).min(b.len());
    let rest = a[at..].iter().zip(&b[at..]);
    at + rest.take_while(|(a, b)| a == b).count()
}

impl Part<'_> {
    /// Returns the number of bytes behind the limit that agree with the base.
    fn shared(&self, base: &[u8]) -> usize {
        let [a, b] = self.rest;
        match same(a, base) {
            all if all == a.len() => all + same(b, &base[all..]),
            some => some,
        }
    }

    fn len(&self) -> usize {
        self.rest[0].len() + self.rest[1].len()
    }
}

fn encode(parts: &[Part<'_>]) -> Vec<u8> {
    let Some(first) = parts.first() else {
        return Vec::new();
    };
    let base = match first.rest {
        [all, []] | [[], all] => Cow::Borrowed(all),
        pieces => Cow::Owned(pieces.concat()),
    };
    let shared: Vec<usize> = parts.iter().map(|part| part.shared(&base)).collect();
    let parts = || parts.iter().zip(&shared);
    let bytes =
        |(part, shared): (&Part<'_>, &usize)| ENTRY + part.len() - shared + part.value.bytes.len();
    let mut to = Vec::with_capacity(4 + base.len() + parts().map(bytes).sum::<usize>());
    let length = |to: &mut Vec<u8>, length: usize| to.extend((length as u32).to_le_bytes());
    length(&mut to, base.len());
    to.extend_from_slice(&base);
    for (part, shared) in parts() {
        let [a, b] = part.rest;
        length(&mut to, *shared);
        length(&mut to, part.len() - shared);
        to.extend_from_slice(&part.value.length_field().to_le_bytes());
        to.extend_from_slice(&a[(*shared).min(a.len())..]);
        to.extend_from_slice(&b[shared.saturating_sub(a.len())..]);
        to.extend_from_slice(part.value.bytes);
    }
    to
}

/// Entry point of the fuzzer: parses bytes as a bundle.
pub(crate) fn look(data: &[u8]) {
    let Some(bundle) = Bundle::parse(b"head", data.to_vec()) else {
        return;
    };
    let again = |bytes: Vec<u8>| Bundle::parse(b"head", bytes);
    for at in 0..bundle.len().min(16) {
        let key = bundle.key(at);
        assert_eq!(bundle.search(&key), Ok(at));
        let fewer = again(bundle.with(&key, None));
        assert_eq!(fewer.map_or(0, |fewer| fewer.len()), bundle.len() - 1);
        let value = Some(bundle.value(at));
        let more = again(bundle.with(&[&key[..], b"0"].concat(), value));
        assert!(more.is_some_and(|more| more.len() >= bundle.len()));
    }
}

#[cfg(test)]
mod tests;
