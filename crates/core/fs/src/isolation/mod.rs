//! How trees are isolated from each other: states, and what operations tell of the
//! parts of files that they use. The room above (`transactions`) makes private trees
//! and ends them.

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
    /// Where the file ends, to append there without knowing where that is.
    End,
    /// Owner, rights, flags, extended attributes.
    Attributes,
    /// When it was read and changed. What sets a time writes [`Part::Attributes`].
    Times,
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
    /// A read by who will write it.
    Update,
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
    /// It is a snapshot of the volume: nothing changes in it.
    ReadOnly,
}
