//! Snapshots of the volume: what they are called, and their trees.
//!
//! A snapshot is the layout's (`Layout::create_volume_snapshot`); here are its name, what
//! it has in it and how it is read. Its tree is a private tree that takes no changes, so
//! everything that reads works in it. See `docs/design/snapshots.md`.
//!
//! | file | |
//! |---|---|
//! | `diff.rs`, `comparison.rs` | what differs between two of them |
//! | `restore.rs` | writing what one has back, in a transaction |
//! | `former.rs` | what a path was in each of them |
//! | `keep.rs` | the schedule of automatic ones |
//! | `send.rs`, `stream.rs`, `receive.rs`, `apply.rs` | one as a stream, for another volume |
//! | `time.rs` | times as names: `@-2h`, `@2026-11-28T10:00` |

mod apply;
mod comparison;
mod diff;
mod former;
mod keep;
mod receive;
mod restore;
mod send;
mod stream;
mod time;

use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::isolation::{Kind, Snapshot};
use crate::layout::{Cause, Layout, Position, VolumeSnapshot};
use std::ops::Deref;
use std::sync::Arc;

pub use diff::{Change, ChangeKind};
pub(crate) use former::names_of;
pub use former::{FormerFile, RemovedName};
pub use keep::Schedule;
pub use receive::{Received, ReceivedMark};
pub use restore::Restored;
pub use send::Sent;
pub use stream::{SendHeader, SendItem, TransferError, item_kind};
pub use time::{parse_time, show_time};

/// Longest name, in bytes.
const NAME_BYTES: usize = 255;

/// The tree of a snapshot: everything of a [`FileSystem`] that reads. Once the snapshot
/// is deleted, or the volume unmounted, reads answer `Aborted`.
pub struct SnapshotTree<L: Layout> {
    tree: Arc<FileSystem<L>>,
    /// 0 of the present.
    number: u32,
}

impl<L: Layout> SnapshotTree<L> {
    /// The tree, for servers and for handles that outlive this one.
    pub fn tree(&self) -> &Arc<FileSystem<L>> {
        &self.tree
    }
}

impl<L: Layout> Deref for SnapshotTree<L> {
    type Target = FileSystem<L>;

    fn deref(&self) -> &FileSystem<L> {
        &self.tree
    }
}

impl<L: Layout> Drop for SnapshotTree<L> {
    fn drop(&mut self) {
        self.tree.end_private();
    }
}

impl<L: Layout> std::fmt::Debug for SnapshotTree<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SnapshotTree").field(&self.tree).finish()
    }
}

impl<L: Layout> FileSystem<L> {
    /// Takes a snapshot of everything that has been written, durable when this returns.
    /// It is kept until it is deleted. With an empty name it is an automatic one, which
    /// the layout deletes when it needs the space.
    ///
    /// # Errors
    /// `Invalid` for a name that is longer than 255 bytes, is `.` or `..`, begins with
    /// `@` (as times do), or has a slash or a control character; `SnapshotExists`,
    /// `NoSnapshots` on another layout than the log, `NoSpace`, `ReadOnly`, device errors.
    pub fn create_snapshot(&self, name: &str) -> Result<VolumeSnapshot> {
        self.check_writable()?;
        let _naming = self.naming.lock();
        if !name.is_empty() {
            self.check_name(name)?;
        }
        self.snapshots()?;
        self.append_all(Cause::SyncAll)?;
        self.layout()
            .create_volume_snapshot(name)
            .map_err(of_a_snapshot)
    }

    /// The snapshots of the volume, oldest first.
    ///
    /// # Errors
    /// `NoSnapshots`; device errors.
    pub fn snapshots(&self) -> Result<Vec<VolumeSnapshot>> {
        self.layout().volume_snapshots().map_err(of_a_snapshot)
    }

    /// The snapshot with this name; for a time (`@-2h`, [`parse_time`]) the newest one
    /// that is not younger.
    ///
    /// # Errors
    /// `NoSuchSnapshot`, `Invalid` for a malformed time; as [`Self::snapshots`].
    pub fn snapshot_named(&self, name: &str) -> Result<VolumeSnapshot> {
        let mut all = self.snapshots()?.into_iter();
        let found = match name.starts_with('@') {
            true => {
                let latest = parse_time(name, self.now()).map_err(Error::Invalid)?;
                all.rfind(|snapshot| snapshot.taken <= latest)
            }
            false => all.find(|snapshot| snapshot.name == name && !name.is_empty()),
        };
        found.ok_or(Error::NoSuchSnapshot)
    }

    /// Deletes snapshots; their space is freed later.
    ///
    /// # Errors
    /// `NoSuchSnapshot`, and then none is deleted; `NoSnapshots`, `ReadOnly`, device
    /// errors.
    pub fn delete_snapshots(&self, numbers: &[u32]) -> Result<()> {
        self.check_writable()?;
        self.layout()
            .delete_volume_snapshots(numbers)
            .map_err(of_a_snapshot)
    }

    /// Gives a snapshot another name; one that was automatic is kept from now on.
    ///
    /// # Errors
    /// `NoSuchSnapshot`; as [`Self::create_snapshot`].
    pub fn rename_snapshot(&self, number: u32, name: &str) -> Result<()> {
        self.check_writable()?;
        let _naming = self.naming.lock();
        self.check_name(name)?;
        let layout = self.layout();
        layout
            .rename_volume_snapshot(number, name)
            .map_err(of_a_snapshot)
    }

    /// For each snapshot, by number, the bytes that only it has: those that deleting it
    /// alone would free.
    ///
    /// # Errors
    /// As [`Self::snapshots`].
    pub fn snapshot_bytes(&self) -> Result<Vec<(u32, u64)>> {
        self.layout().snapshot_bytes().map_err(of_a_snapshot)
    }

    /// The tree as a snapshot has it.
    ///
    /// # Errors
    /// `NoSuchSnapshot`, `NoSnapshots`, `Aborted` if the volume is being unmounted,
    /// device errors.
    pub fn at(self: &Arc<Self>, number: u32) -> Result<SnapshotTree<L>> {
        let view = self
            .layout()
            .open_volume_snapshot(number)
            .map_err(of_a_snapshot)?;
        let snapshot = Arc::new(Snapshot {
            store: Arc::clone(&self.store),
            number: view,
            position: Position::default(),
        });
        let tree = self.make_private(Some(snapshot), Kind::ReadOnly)?;
        Ok(SnapshotTree { tree, number })
    }

    /// The mounted tree.
    fn outermost(self: &Arc<Self>) -> &Arc<Self> {
        let mut tree = self;
        while let Some(below) = &tree.below {
            tree = &below.target;
        }
        tree
    }

    fn check_name(&self, name: &str) -> Result<()> {
        let flaw = match name {
            "" => "the name is empty",
            "." | ".." => "a snapshot cannot be called `.` or `..`",
            _ if name.len() > NAME_BYTES => "the name is longer than 255 bytes",
            _ if name.starts_with('@') => "a name that begins with @ is a time",
            _ if name.contains('/') => "the name has a slash",
            _ if name.contains(char::is_control) => "the name has a control character",
            _ => {
                let exists = self.snapshots()?.iter().any(|one| one.name == name);
                return match exists {
                    true => Err(Error::SnapshotExists),
                    false => Ok(()),
                };
            }
        };
        Err(Error::Invalid(flaw))
    }
}

/// An error of the layout, as one about a snapshot.
fn of_a_snapshot(error: Error) -> Error {
    match error {
        Error::NotSupported => Error::NoSnapshots,
        Error::NotFound => Error::NoSuchSnapshot,
        other => other,
    }
}
