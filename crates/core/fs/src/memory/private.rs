//! What a private tree knows of a file that exists in its ground.

use super::name_changes::NameChanges;
use crate::inode::Inode;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use varve_device::Block;

/// See the module's head.
#[derive(Clone, Debug)]
pub(crate) struct Private {
    /// The inode as the ground had it: what differs was changed in this tree.
    pub origin: Inode,
    /// Of a directory.
    pub names: NameChanges,
    /// The extended attributes before they were changed.
    pub xattrs: Option<Arc<Block>>,
    /// Of blocks of which not all is this tree's: the bytes that are.
    pub spans: BTreeMap<u64, Vec<Range<u32>>>,
    /// What is appended without a place (`transactions/append.rs`).
    pub appending: Appending,
}

/// See [`Private::appending`].
#[derive(Clone, Debug, Default)]
pub(crate) enum Appending {
    /// None of it.
    #[default]
    Nothing,
    /// These bytes come to where the file ends at the commit.
    AtCommit(Vec<u8>),
    /// They have become content, at this offset.
    Placed(u64),
}

impl Appending {
    /// What waits for the commit.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Appending::AtCommit(bytes) => bytes,
            Appending::Nothing | Appending::Placed(_) => &[],
        }
    }

    /// These bytes wait as well; answers how many did, and do.
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
    /// Of an inode that has just been taken from the ground.
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
