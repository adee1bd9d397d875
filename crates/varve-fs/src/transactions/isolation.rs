//! What an operation tells of the parts of files that it reads and writes, and what
//! becomes of that: nothing, a note for the commit, or locks.

use super::locking::Locking;
use super::reads::Reads;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::Layout;
use crate::memory::vnode::Vnode;
use std::ops::Range;
use std::sync::Arc;

/// A part of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// These bytes.
    Content(Range<u64>),
    Size,
    /// Owner, rights, flags, extended attributes.
    Attributes,
    /// Where a name leads, or that there is none.
    Name(&'a [u8]),
    /// All names.
    Names,
    /// The place of a directory in the tree.
    Place,
    /// Everything: the file is about to end.
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// How a private tree is isolated.
pub(crate) enum Kind {
    /// By its snapshot, and by comparing what it wrote.
    Snapshot,
    /// And by comparing what it read. Shared by those that lie within each other.
    Serializable(Arc<Reads>),
    /// By locks.
    Locking(Locking),
}

impl<L: Layout> FileSystem<L> {
    /// An operation is about to use a part of a file. In the mounted tree it says so
    /// before it asks for room and with no lock of that tree held.
    ///
    /// # Errors
    /// `Deadlock`, `TimedOut`, `Aborted`, where a lock is not to be had.
    #[inline]
    pub(crate) fn uses(&self, vnode: &Arc<Vnode>, part: Part<'_>, access: Access) -> Result<()> {
        match &self.below {
            None => Ok(()),
            Some(below) => match &below.kind {
                Kind::Snapshot => Ok(()),
                Kind::Serializable(reads) => {
                    reads.note(&self.store, vnode, &part, access);
                    Ok(())
                }
                Kind::Locking(_) if below.is_over() => Err(Error::Aborted),
                Kind::Locking(locking) => self.lock_part(locking, vnode, &part, access),
            },
        }
    }
}
