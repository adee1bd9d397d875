//! State of a private tree's file that exists in the tree below.

use super::name_changes::NameChanges;
use crate::inode::Inode;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use varve_device::Block;

/// Changes of the file relative to the tree below.
#[derive(Clone, Debug)]
pub(crate) struct Private {
    /// The inode of the tree below: differences from it were made in this tree.
    pub origin: Inode,
    /// Changed names, of a directory.
    pub names: NameChanges,
    /// The extended attributes before they were changed.
    pub xattrs: Option<Arc<Block>>,
    /// Bytes that this tree changed, for each block of which it changed only a part.
    pub spans: BTreeMap<u64, Vec<Range<u32>>>,
    /// Data that is appended without a known offset (`transactions/append.rs`).
    pub appending: Appending,
}

/// State of [`Private::appending`].
#[derive(Clone, Debug, Default)]
pub(crate) enum Appending {
    /// No such data.
    #[default]
    Nothing,
    /// These bytes will be at the end that the file has at the commit.
    AtCommit(Vec<u8>),
    /// The bytes have become content, at this offset.
    Placed(u64),
}

impl Appending {
    /// The bytes that wait for the commit.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Appending::AtCommit(bytes) => bytes,
            Appending::Nothing | Appending::Placed(_) => &[],
        }
    }

    /// Adds bytes that wait. Returns the number of waiting bytes before and after.
    pub fn take_in(&mut self, data: &[u8]) -> (usize, usize) {
        let before = self.bytes().len();
        match self {
            Appending::AtCommit(bytes) => bytes.extend_from_slice(data),
            other => *other = Appending::AtCommit(data.to_vec()),
        }
        (before, before + data.len())
    }
}

impl Private {
    /// The state of an inode just copied from the tree below, without changes.
    pub fn new(origin: Inode) -> Box<Self> {
        Box::new(Private {
            origin,
            names: NameChanges::default(),
            xattrs: None,
            spans: BTreeMap::new(),
            appending: Appending::Nothing,
        })
    }
}
