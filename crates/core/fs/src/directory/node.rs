//! The bytes of a directory node, declared and parsed; `make.rs` makes them.
//!
//! ```text
//! leaf     NodeHeader  { EntryHeader name } ...            by ascending cookie
//! inner    NodeHeader  Child ...                           by ascending cookie
//! inner at block 0     NodeHeader  RootHeader  Child ...
//! ```
//!
//! A root that is a leaf is the only node, so it needs no [`RootHeader`]: the next block
//! is 1, and no lower number is free.
//!
//! [`parse`] checks the header, and all of an inner node; [`Entries`] checks a leaf's
//! entries as it passes them.

use super::Key;
use super::name::{self, COOKIE_END, COOKIE_MIN};
use crate::error::{Error, Result};
use crate::types::FileKind;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Most bytes in a node.
pub const NODE_BYTES: usize = 4096;
/// The highest level of a node; leaves have level 0.
pub(super) const MAX_LEVEL: u8 = 7;
/// Most freed block numbers that a root lists.
pub(super) const FREE_NUMBERS: usize = 16;
/// One more than the highest block number: far beyond any tree, within any file.
pub(super) const BLOCKS_END: u64 = 1 << 40;

pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"VDir");
pub(super) const LEAF: u8 = 1;
pub(super) const INNER: u8 = 2;

/// Header of each node.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct NodeHeader {
    /// "VDir".
    pub magic: U32,
    /// 1 is a leaf, 2 an inner node.
    pub kind: u8,
    /// Levels below this one: 0 in a leaf, at most 7.
    pub level: u8,
    /// Entries or children; never 0.
    pub count: U16,
    /// Bytes of the node, this header included. Later bytes of the block are unused.
    pub used_bytes: U16,
    /// Always 0.
    pub reserved: U16,
    /// The directory's version.
    pub version: U32,
    /// The directory's inode number.
    pub ino: U64,
    /// The node's own logical block.
    pub block: U64,
}
const _: () = assert!(size_of::<NodeHeader>() == 32);

/// Block numbers for new nodes. It follows the header of an inner node at block 0.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RootHeader {
    /// Every node's number is less than this.
    pub next_block: U64,
    /// Count of numbers in `free`.
    pub free_count: U16,
    /// Always 0.
    pub reserved: [u8; 6],
    /// Unused numbers below `next_block`; they are used before `next_block`.
    pub free: [U64; FREE_NUMBERS],
}
const _: () = assert!(size_of::<RootHeader>() == 144);

/// One name in a leaf; the bytes of the name follow.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct EntryHeader {
    /// Hash (55 bits) and sequence number (8 bits).
    pub cookie: U64,
    /// Inode to which the name refers.
    pub ino: U64,
    /// A [`FileKind`].
    pub kind: u8,
    /// 1 to 255.
    pub name_len: u8,
}
const _: () = assert!(size_of::<EntryHeader>() == 18);

/// One child of an inner node: it contains the cookies from `first_cookie` to the next
/// child's. The first child also contains lower ones.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Child {
    /// The least cookie of this child.
    pub first_cookie: U64,
    /// Its logical block.
    pub block: U64,
}
const _: () = assert!(size_of::<Child>() == 16);

pub(super) const HEADER_BYTES: usize = size_of::<NodeHeader>();
const ROOT_BYTES: usize = size_of::<RootHeader>();
pub(super) const ENTRY_BYTES: usize = size_of::<EntryHeader>();

/// Most children of the inner node at `block`.
pub(super) const fn max_children(block: u64) -> usize {
    (NODE_BYTES - children_at(block)) / size_of::<Child>()
}

/// Offset of the children in the inner node at `block`, in bytes.
const fn children_at(block: u64) -> usize {
    HEADER_BYTES + if block == 0 { ROOT_BYTES } else { 0 }
}

/// An invalid value in a node, and its offset in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flaw {
    pub what: &'static str,
    pub at: usize,
}

impl Flaw {
    #[cold]
    pub fn at_block(self, key: &Key, block: u64) -> Error {
        let Flaw { what, at } = self;
        key.damaged(format!("directory block {block}, byte {at}: {what}"))
    }
}

/// A node whose header is sound.
pub(super) enum Node<'a> {
    Leaf(Leaf<'a>),
    Inner(Inner<'a>),
}

/// The constraints that a node's place in the tree imposes on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Required level; `None` if any is allowed.
    pub level: Option<u8>,
    /// The least cookie it may contain.
    pub lower: u64,
    /// One more than the greatest cookie it may contain.
    pub upper: u64,
}

impl Bounds {
    /// The root's: any level, every cookie.
    pub const ROOT: Bounds = Bounds {
        level: None,
        lower: COOKIE_MIN,
        upper: COOKIE_END,
    };

    /// The constraints on child `index` of a node at `level`.
    pub fn of_child(self, level: u8, children: &[Child], index: usize) -> Bounds {
        let first = |child: &Child| child.first_cookie.get();
        Bounds {
            level: Some(level - 1),
            lower: if index == 0 {
                self.lower
            } else {
                first(&children[index])
            },
            upper: children.get(index + 1).map_or(self.upper, first),
        }
    }
}

/// A leaf, whose entries are not checked yet.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'a> {
    /// The whole node, without the unused bytes after it.
    pub bytes: &'a [u8],
    pub count: u16,
    /// The cookies it may contain.
    pub bounds: Bounds,
}

/// An inner node: at least one child, cookies ascending and in bounds.
pub(super) struct Inner<'a> {
    pub level: u8,
    /// Present at block 0.
    pub root: Option<&'a RootHeader>,
    pub children: &'a [Child],
}

type Parsed<T> = std::result::Result<T, Flaw>;

fn flaw<T>(what: &'static str, at: usize) -> Parsed<T> {
    Err(Flaw { what, at })
}

/// Checks the node found at `block`.
///
/// # Errors
/// `Damaged`.
pub(super) fn parse<'a>(key: &Key, block: u64, bounds: Bounds, data: &'a [u8]) -> Result<Node<'a>> {
    parse_node(key, block, bounds, data).map_err(|flaw| flaw.at_block(key, block))
}

fn parse_node<'a>(key: &Key, block: u64, bounds: Bounds, data: &'a [u8]) -> Parsed<Node<'a>> {
    let Ok((header, _)) = NodeHeader::ref_from_prefix(data) else {
        return flaw("shorter than a header", data.len());
    };
    if header.magic.get() != MAGIC {
        return flaw("not a directory node", 0);
    }
    if header.ino.get() != key.ino.0 || header.version.get() != key.version {
        return flaw("node of another directory", 12);
    }
    if header.block.get() != block {
        return flaw("node of another block", 24);
    }
    let used = usize::from(header.used_bytes.get());
    if used < HEADER_BYTES || used > data.len() || used > NODE_BYTES {
        return flaw("impossible length", 8);
    }
    if header.reserved.get() != 0 {
        return flaw("reserved bytes in use", 10);
    }
    if header.count.get() == 0 {
        return flaw("empty node", 6);
    }
    if bounds.level.is_some_and(|level| level != header.level) {
        return flaw("not the level its parent is above", 5);
    }
    match (header.kind, header.level) {
        (LEAF, 0) => Ok(Node::Leaf(Leaf {
            bytes: &data[..used],
            count: header.count.get(),
            bounds,
        })),
        (INNER, 1..=MAX_LEVEL) => parse_inner(block, bounds, header, &data[..used]),
        _ => flaw("no such kind and level", 4),
    }
}

fn parse_inner<'a>(
    block: u64,
    bounds: Bounds,
    header: &NodeHeader,
    bytes: &'a [u8],
) -> Parsed<Node<'a>> {
    let at = children_at(block);
    let count = usize::from(header.count.get());
    if bytes.len() != at + count * size_of::<Child>() {
        return flaw("length and number of children differ", 6);
    }
    let children = children(block, bytes);
    let ascending = |pair: &[Child]| pair[0].first_cookie.get() < pair[1].first_cookie.get();
    if !children.windows(2).all(ascending) {
        return flaw("children out of order", at);
    }
    let (first, last) = (children[0], children[count - 1]);
    if first.first_cookie.get() < bounds.lower || last.first_cookie.get() >= bounds.upper {
        return flaw("children out of range", at);
    }
    let root = (block == 0).then(|| root_header(bytes));
    if root.is_some_and(|root| !(1..=BLOCKS_END).contains(&root.next_block.get())) {
        return flaw("impossible next block", HEADER_BYTES);
    }
    Ok(Node::Inner(Inner {
        level: header.level,
        root,
        children,
    }))
}

/// The children of an inner node whose length was checked.
pub(super) fn children(block: u64, bytes: &[u8]) -> &[Child] {
    let (header, _) = NodeHeader::ref_from_prefix(bytes).expect("parsed before");
    let used = usize::from(header.used_bytes.get());
    <[Child]>::ref_from_bytes(&bytes[children_at(block)..used]).expect("parsed before")
}

/// The root header of the inner node at block 0, whose length was checked.
pub(super) fn root_header(bytes: &[u8]) -> &RootHeader {
    RootHeader::ref_from_bytes(&bytes[HEADER_BYTES..][..ROOT_BYTES]).expect("parsed before")
}

/// One entry of a leaf, its kind and name as stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub cookie: u64,
    pub ino: u64,
    pub kind: u8,
    pub name: &'a [u8],
}

impl Entry<'_> {
    /// Bytes of the entry in a leaf.
    pub fn bytes(&self) -> usize {
        ENTRY_BYTES + self.name.len()
    }

    /// Checks the parts of an entry that [`Entries`] does not: target, kind and name.
    /// `at` is the entry's offset, for the flaw.
    pub fn check(&self, at: usize) -> Parsed<FileKind> {
        match name::flaw(self.name) {
            Some(what) => flaw(what, at),
            None => self.target(at),
        }
    }

    /// Checks the inode number and kind of an entry.
    pub fn target(&self, at: usize) -> Parsed<FileKind> {
        if self.ino == 0 {
            return flaw("entry leads nowhere", at);
        }
        let what = "entry of no kind";
        FileKind::from_raw(self.kind).ok_or(Flaw { what, at })
    }
}

/// A leaf's entries with their offsets, checked for bounds, order and range.
pub(super) struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
    left: u16,
    previous: u64,
    upper: u64,
}

impl<'a> Leaf<'a> {
    /// The entries with their offsets.
    pub fn entries(self) -> Entries<'a> {
        Entries {
            bytes: self.bytes,
            at: HEADER_BYTES,
            left: self.count,
            previous: self.bounds.lower - 1,
            upper: self.bounds.upper,
        }
    }
}

impl<'a> Entries<'a> {
    /// Skips the entries with cookies below this one, which is at most the leaf's upper
    /// bound; they are checked as [`Iterator::next`] does. It stops at a flaw, which the
    /// next step finds. Searching a leaf consists mostly of this loop.
    #[inline]
    pub fn pass(&mut self, cookie: u64) {
        debug_assert!(cookie <= self.upper);
        let mut rest = &self.bytes[self.at..];
        let (mut left, mut previous) = (self.left, self.previous);
        while left > 0 {
            let Some((header, behind)) = rest.split_first_chunk::<ENTRY_BYTES>() else {
                break;
            };
            let header: &EntryHeader = zerocopy::transmute_ref!(header);
            let this = header.cookie.get();
            let Some(next) = behind.get(usize::from(header.name_len)..) else {
                break;
            };
            if this <= previous || this >= cookie {
                break;
            }
            rest = next;
            left -= 1;
            previous = this;
        }
        self.at = self.bytes.len() - rest.len();
        (self.left, self.previous) = (left, previous);
    }

    #[cold]
    fn stop(&mut self, what: &'static str) -> Option<Parsed<(usize, Entry<'a>)>> {
        let at = self.at;
        self.left = 0;
        self.at = self.bytes.len();
        Some(flaw(what, at))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Parsed<(usize, Entry<'a>)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        if self.left == 0 {
            self.at = self.bytes.len();
            let rest = at != self.at;
            return rest.then(|| flaw("bytes after the last entry", at));
        }
        let Ok((header, rest)) = EntryHeader::ref_from_prefix(&self.bytes[at..]) else {
            return self.stop("entry beyond the end");
        };
        let Some(name) = rest.get(..usize::from(header.name_len)) else {
            return self.stop("name beyond the end");
        };
        let cookie = header.cookie.get();
        if cookie <= self.previous || cookie >= self.upper {
            return self.stop("cookie out of order or range");
        }
        self.at = at + ENTRY_BYTES + name.len();
        self.left -= 1;
        self.previous = cookie;
        let entry = Entry {
            cookie,
            ino: header.ino.get(),
            kind: header.kind,
            name,
        };
        Some(Ok((at, entry)))
    }
}
