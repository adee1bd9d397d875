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
}

impl Private {
    /// Of an inode that has just been taken from the ground.
    pub fn new(origin: Inode) -> Box<Self> {
        Box::new(Private {
            origin,
            names: NameChanges::default(),
            xattrs: None,
            spans: BTreeMap::new(),
        })
    }
}
