//! Transactions: private trees, and their merge into another tree.
//!
//! A private tree is a [`FileSystem`] above a snapshot of the layout or above another
//! tree. All operations work in it as in the mounted one; a commit merges its changes
//! into its target in one operation. See `docs/design/transactions.md`.
//!
//! | file | |
//! |---|---|
//! | `begin.rs` | making and ending a private tree |
//! | `ground.rs` | the snapshot below it |
//! | `room.rs` | admission of a merge |
//! | `append.rs` | appends whose offset is decided at the commit |
//! | `changes.rs` | the changes of a private tree, and their cost |
//! | `commit.rs` | the steps of a commit, and its locks |
//! | `validate.rs` | detection of conflicts |
//! | `names.rs` | merging names |
//! | `merge.rs` | merging files |
//! | `adopt.rs` | passing new files to the target |

mod adopt;
mod append;
mod begin;
mod changes;
mod commit;
mod ground;
mod merge;
mod names;
mod room;
mod times;
mod validate;

use crate::error::Result;
use crate::file_system::{Below, FileSystem};
use crate::layout::Layout;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub use append::Appended;
pub use commit::{Changed, Ticket};

/// Method by which a transaction is isolated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// It sees the tree as it was at its begin. Of two that change the same data, the
    /// first to commit succeeds.
    #[default]
    Snapshot,
    /// As `Snapshot`, and none of its reads has changed at its commit: committed
    /// transactions are as if run one after the other. Times, link counts and the sizes
    /// of directories are not part of that.
    Serializable,
    /// It sees the newest tree, and locks what it reads and writes until its end.
    Locking,
}

/// Options of one transaction.
#[derive(Clone, Debug, Default)]
pub struct TransactionOptions {
    /// Method of isolation. Default: [`Isolation::Snapshot`].
    pub isolation: Isolation,
    /// Longest time that a locking transaction waits for a lock. Default: unlimited; a
    /// deadlock is found at once.
    pub timeout: Option<Duration>,
    /// A locking transaction locks, of each page, the bytes that it uses. Default: off.
    pub subpage: bool,
}

/// Changes that become visible and durable together, or not at all. Every operation of a
/// [`FileSystem`] works in it. A dropped transaction is aborted.
pub struct Transaction<L: Layout> {
    tree: Arc<FileSystem<L>>,
}

impl<L: Layout> Transaction<L> {
    /// The tree in which it works, for a server of the transaction.
    pub fn tree(&self) -> &Arc<FileSystem<L>> {
        &self.tree
    }

    /// Its changes so far of files that existed before, as in [`Ticket::changed`].
    pub fn changed(&self) -> Changed {
        self.tree.changed_files().told()
    }

    /// Merges the changes into the tree from which it was begun, and waits until they are
    /// durable; a nested one's are when its parent's are.
    ///
    /// # Errors
    /// `Conflict`, `Aborted`, `NoSpace`, `ReadOnly`, device errors: nothing is changed
    /// then. `NotDurable` if the changes were made and their flush failed.
    pub fn commit(self) -> Result<()> {
        self.commit_async()?.wait()
    }

    /// [`Self::commit`] without the wait.
    ///
    /// # Errors
    /// As [`Self::commit`], except `NotDurable`.
    pub fn commit_async(self) -> Result<Ticket<L>> {
        self.tree.commit_into_target()
    }

    /// True if a change was refused with [`TransactionTooLarge`](crate::Error::TransactionTooLarge).
    pub fn was_too_large(&self) -> bool {
        let below = self.tree.below.as_ref();
        below.is_some_and(|below| below.too_large.load(Relaxed))
    }

    /// Ends the transaction and drops its changes.
    pub fn abort(self) {
        drop(self);
    }
}

impl<L: Layout> Deref for Transaction<L> {
    type Target = FileSystem<L>;

    fn deref(&self) -> &FileSystem<L> {
        &self.tree
    }
}

impl<L: Layout> Drop for Transaction<L> {
    fn drop(&mut self) {
        self.tree.end_private();
    }
}

impl<L: Layout> std::fmt::Debug for Transaction<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Transaction").field(&self.tree).finish()
    }
}
