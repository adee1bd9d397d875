//! Isolation of trees from each other: states, and the declared uses of parts of files.
//! The module above (`transactions`) makes private trees and ends them.

mod below;
mod budget;
mod locking;
mod reads;

use std::ops::Range;
use std::sync::Arc;

pub(crate) use below::{Below, Open, Snapshot, Snapshots};
pub(crate) use budget::Budget;
pub(crate) use locking::{Locking, Object, Outsider};
pub(crate) use reads::{FileReads, Reads};

/// A part of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// These bytes.
    Content(Range<u64>),
    Size,
    /// The end of the file, for an append that does not know the offset.
    End,
    /// Owner, rights, flags, extended attributes.
    Attributes,
    /// Times of the last read and change. An explicit change of a time writes
    /// [`Part::Attributes`].
    Times,
    /// The inode to which a name refers, or the name's absence.
    Name(&'a [u8]),
    /// All names.
    Names,
    /// The place of a directory in the tree.
    Place,
    /// All parts, because the file is about to be removed.
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// A read that a write will follow.
    Update,
    Write,
}

/// Method by which a private tree is isolated.
pub(crate) enum Kind {
    /// By its snapshot, and a comparison of its writes at the commit.
    Snapshot,
    /// As `Snapshot`, and a comparison of its reads, shared by nested transactions.
    Serializable(Arc<Reads>),
    /// By locks.
    Locking(Locking),
    /// It is a snapshot of the volume: nothing changes in it.
    ReadOnly,
}
