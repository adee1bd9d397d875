//! Transactions: trees of their own, and how they become part of another.
//!
//! A private tree is a [`FileSystem`] that stands on a snapshot of the layout or on
//! another tree. Everything is done in it as in the mounted one; a commit makes its
//! changes part of its target in one operation. See `docs/design/transactions.md`.
//!
//! | file | |
//! |---|---|
//! | `begin.rs` | making a private tree, and ending it |
//! | `ground.rs` | the snapshot that it stands on |
//! | `room.rs` | room for what becomes part of another |
//! | `append.rs` | appends that find their place at the commit |
//! | `changes.rs` | what a private tree changed, and what that takes |
//! | `commit.rs` | the steps of a commit, and its locks |
//! | `validate.rs` | whether what was changed is as it was |
//! | `names.rs` | names, made part of the target |
//! | `merge.rs` | files, made part of the target |
//! | `adopt.rs` | new files, handed over |

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

/// How a transaction is isolated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// It sees the tree as it was at its begin. Of two that change the same, the
    /// first to commit wins.
    #[default]
    Snapshot,
    /// And of what it read, nothing has changed at its commit: committed transactions
    /// are as if run one after the other. Times, link counts and the sizes of
    /// directories are not part of that.
    Serializable,
    /// It sees the newest tree, and locks what it reads and writes until its end.
    Locking,
}

/// Choices of one transaction.
#[derive(Clone, Debug, Default)]
pub struct TransactionOptions {
    /// How it is isolated. Default: [`Isolation::Snapshot`].
    pub isolation: Isolation,
    /// How long a locking one waits for a lock. Default: as long as it takes; a
    /// deadlock is found at once.
    pub timeout: Option<Duration>,
    /// A locking one locks, of each page, the bytes that it uses. Default: off.
    pub subpage: bool,
}

/// Changes that become visible and durable together, or not at all. Every operation
/// of a [`FileSystem`] works in it. Dropped, it is aborted.
pub struct Transaction<L: Layout> {
    tree: Arc<FileSystem<L>>,
}

impl<L: Layout> Transaction<L> {
    /// The tree in which it works, for who serves it.
    pub fn tree(&self) -> &Arc<FileSystem<L>> {
        &self.tree
    }

    /// What it has changed so far of what had been there before, as
    /// [`Ticket::changed`] would tell it.
    pub fn changed(&self) -> Changed {
        self.tree.changed_files().told()
    }

    /// Makes the changes part of the tree from which it was begun, and waits until
    /// they are durable; a nested one's are when its parent's are.
    ///
    /// # Errors
    /// `Conflict`, `Aborted`, `NoSpace`, `ReadOnly`, device errors: nothing is
    /// changed then. `NotDurable` if the changes were made and their flush failed.
    pub fn commit(self) -> Result<()> {
        self.commit_async()?.wait()
    }

    /// [`Self::commit`] without the wait.
    ///
    /// # Errors
    /// As [`Self::commit`], but for `NotDurable`.
    pub fn commit_async(self) -> Result<Ticket<L>> {
        self.tree.commit_into_target()
    }

    /// True if a change was refused with [`Error::TransactionTooLarge`].
    pub fn was_too_large(&self) -> bool {
        let below = self.tree.below.as_ref();
        below.is_some_and(|below| below.too_large.load(Relaxed))
    }

    /// Nothing of it remains.
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
