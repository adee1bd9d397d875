//! Encoding of whole nodes, and edits of leaves in place.

use super::Key;
use super::node::{
    Child, ENTRY_BYTES, Entry, EntryHeader, HEADER_BYTES, INNER, LEAF, Leaf, MAGIC, MAX_LEVEL,
    NODE_BYTES, NodeHeader, RootHeader,
};
use crate::types::{FileKind, InodeNo};
use zerocopy::{FromBytes, IntoBytes};

/// The only node of a new directory.
pub(super) fn first_leaf(key: &Key, entry: &Entry<'_>) -> Vec<u8> {
    let mut body = vec![0; entry.bytes()];
    put(entry, &mut body);
    make_leaf(key, 0, 1, &body)
}

/// A leaf of `count` entries, whose bytes are `body`.
pub(super) fn make_leaf(key: &Key, block: u64, count: u16, body: &[u8]) -> Vec<u8> {
    make(key, block, (LEAF, 0), count, &[], body)
}

/// An inner node, with `root` at block 0 and only there.
pub(super) fn make_inner(
    key: &Key,
    block: u64,
    level: u8,
    root: Option<&RootHeader>,
    children: &[Child],
) -> Vec<u8> {
    assert_eq!(root.is_some(), block == 0);
    assert!((1..=MAX_LEVEL).contains(&level));
    let count = u16::try_from(children.len()).expect("children fit a node");
    let head = root.map_or(&[][..], |root| root.as_bytes());
    make(key, block, (INNER, level), count, head, children.as_bytes())
}

fn make(
    key: &Key,
    block: u64,
    (kind, level): (u8, u8),
    count: u16,
    head: &[u8],
    body: &[u8],
) -> Vec<u8> {
    let used = HEADER_BYTES + head.len() + body.len();
    assert!(count > 0 && used <= NODE_BYTES);
    let header = NodeHeader {
        magic: MAGIC.into(),
        kind,
        level,
        count: count.into(),
        used_bytes: (used as u16).into(),
        reserved: 0.into(),
        version: key.version.into(),
        ino: key.ino.0.into(),
        block: block.into(),
    };
    let mut data = Vec::with_capacity(used);
    data.extend_from_slice(header.as_bytes());
    data.extend_from_slice(head);
    data.extend_from_slice(body);
    data
}

/// The same leaf at another block.
pub(super) fn moved_leaf(key: &Key, block: u64, leaf: Leaf<'_>) -> Vec<u8> {
    make_leaf(key, block, leaf.count, &leaf.bytes[HEADER_BYTES..])
}

/// One part of a leaf that was split.
pub(super) struct Half {
    pub count: u16,
    /// The bytes of its entries.
    pub body: Vec<u8>,
    pub first_cookie: u64,
}

/// Splits a leaf, with one entry added at byte `at`, into two halves of about equal
/// length. The leaf's entries must have been checked, and together they must be too long
/// for one node.
pub(super) fn split_leaf(leaf: Leaf<'_>, at: usize, entry: &Entry<'_>) -> [Half; 2] {
    let mut left = leaf.bytes[HEADER_BYTES..].to_vec();
    insert_gap(&mut left, at - HEADER_BYTES, entry.bytes());
    put(entry, &mut left[at - HEADER_BYTES..][..entry.bytes()]);
    let mut middle = 0;
    let mut left_count = 0;
    while middle < left.len() / 2 {
        middle += ENTRY_BYTES + usize::from(entry_header(&left[middle..]).name_len);
        left_count += 1;
    }
    let right = left.split_off(middle);
    let half = |count, body: Vec<u8>| Half {
        count,
        first_cookie: entry_header(&body).cookie.get(),
        body,
    };
    let right_count = leaf.count + 1 - left_count;
    [half(left_count, left), half(right_count, right)]
}

fn entry_header(bytes: &[u8]) -> &EntryHeader {
    let (header, _) = EntryHeader::ref_from_prefix(bytes).expect("entries were checked");
    header
}

/// True if the leaf has space for `entry`.
pub(super) fn fits(leaf: Leaf<'_>, entry: &Entry<'_>) -> bool {
    leaf.bytes.len() + entry.bytes() <= NODE_BYTES
}

/// Inserts `entry` at byte `at` into a leaf that has space.
pub(super) fn insert_entry(data: &mut Vec<u8>, at: usize, entry: &Entry<'_>) {
    let bytes = entry.bytes();
    resize(
        data,
        1,
        |used| used + bytes,
        |data| {
            insert_gap(data, at, bytes);
        },
    );
    put(entry, &mut data[at..at + bytes]);
}

/// Removes the entry of `bytes` bytes at byte `at` from a leaf.
pub(super) fn remove_entry(data: &mut Vec<u8>, at: usize, bytes: usize) {
    resize(
        data,
        -1,
        |used| used - bytes,
        |data| {
            data.copy_within(at + bytes.., at);
            data.truncate(data.len() - bytes);
        },
    );
}

/// Makes the entry at byte `at` refer to another inode.
pub(super) fn set_target(data: &mut [u8], at: usize, ino: InodeNo, kind: FileKind) {
    let (header, _) = EntryHeader::mut_from_prefix(&mut data[at..]).expect("found just now");
    header.ino = ino.0.into();
    header.kind = kind as u8;
}

/// Cuts a leaf to the bytes it uses, changes them, and writes the new length and count.
fn resize(
    data: &mut Vec<u8>,
    entries: i16,
    length: impl FnOnce(usize) -> usize,
    change: impl FnOnce(&mut Vec<u8>),
) {
    let (header, _) = NodeHeader::mut_from_prefix(data).expect("parsed just now");
    let used = usize::from(header.used_bytes.get());
    let now = length(used);
    assert!((HEADER_BYTES..=NODE_BYTES).contains(&now));
    header.used_bytes = (now as u16).into();
    header.count = header.count.get().wrapping_add_signed(entries).into();
    data.truncate(used);
    change(data);
    assert_eq!(data.len(), now);
}

fn insert_gap(data: &mut Vec<u8>, at: usize, bytes: usize) {
    let end = data.len();
    data.resize(end + bytes, 0);
    data.copy_within(at..end, at + bytes);
}

fn put(entry: &Entry<'_>, bytes: &mut [u8]) {
    let header = EntryHeader {
        cookie: entry.cookie.into(),
        ino: entry.ino.into(),
        kind: entry.kind,
        name_len: u8::try_from(entry.name.len()).expect("names were measured"),
    };
    bytes[..ENTRY_BYTES].copy_from_slice(header.as_bytes());
    bytes[ENTRY_BYTES..].copy_from_slice(entry.name);
}
