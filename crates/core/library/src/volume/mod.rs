//! One open volume and all operations by path.
//!
//! | file | content |
//! |---|---|
//! | `open.rs` | creating, opening, closing |
//! | `names.rs`, `directory.rs`, `walk.rs` | names made, changed and listed |
//! | `scan.rs` | all data in the order in which it is stored |
//! | `content.rs` | whole files, and opening them |
//! | `attributes.rs` | attributes |
//!
//! This layer only resolves paths, forwards arguments, and adds the path and the
//! operation to errors. The file system below decides everything else.

mod attributes;
mod content;
mod directory;
mod files;
mod names;
mod open;
mod scan;
mod walk;

#[cfg(test)]
mod full;
#[cfg(test)]
mod handles;
#[cfg(test)]
mod races;
#[cfg(test)]
mod tests;

pub use directory::{DirEntry, ReadDir};
pub use scan::{Scan, Scanned};
pub use walk::Walk;

use crate::error::{Cause, Error, Result};
use crate::mounted::Mounted;
use crate::options::Layout;
use crate::tree::Tree;
use std::sync::Arc;
use varve_device::Lanes;
use varve_fs::StatFs;

/// A handle of an open volume, with the functions of `std::fs` as methods.
///
/// Every method may be called from any thread, and clones are handles of the same volume.
/// It is closed by [`Volume::close`], or when its last clone, file and listing is
/// dropped.
///
/// Paths are those of the volume's own tree: `/` is its root, and a path without a
/// leading `/` means the same.
#[derive(Clone)]
pub struct Volume {
    /// One [`Mounted`] per few threads. An open file refers to that of the thread that
    /// opened it.
    lanes: Arc<Lanes<Arc<Mounted>>>,
}

impl Volume {
    /// Makes everything durable with one flush.
    ///
    /// # Errors
    /// If a write has failed now or before. After a failed flush the volume takes no
    /// changes until it is opened again.
    pub fn sync(&self) -> Result<()> {
        self.whole("sync", Mounted::sync)
    }

    /// Does the same as [`Volume::sync`] and takes a checkpoint, so that the next opening
    /// replays nothing.
    ///
    /// # Errors
    /// The same as [`Volume::sync`].
    pub fn checkpoint(&self) -> Result<()> {
        self.whole("checkpoint", Mounted::checkpoint)
    }

    fn whole<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Mounted) -> varve_fs::Result<T>,
    ) -> Result<T> {
        let mounted = self.mounted();
        mounted
            .admit()
            .and_then(|_admitted| work(mounted).map_err(Cause::Tree))
            .map_err(|cause| Error::of_volume(operation, cause))
    }

    /// Returns the space of the volume in blocks of [`Volume::block_bytes`], without the
    /// reserve.
    pub fn statfs(&self) -> StatFs {
        self.mounted().statfs()
    }

    /// Returns the size of a block in bytes.
    pub fn block_bytes(&self) -> u32 {
        self.tree().block_bytes()
    }

    /// Returns the label of the volume; empty if it has none.
    pub fn label(&self) -> String {
        self.tree().label()
    }

    /// Returns the layout of the volume.
    pub fn layout(&self) -> Layout {
        match self.tree() {
            Tree::Log(_) => Layout::Log,
            Tree::VirtualLog(_) => Layout::VirtualLog,
            Tree::InPlace(_) => Layout::InPlace,
        }
    }

    /// Returns the reason why the volume takes no changes, if there is one.
    pub fn read_only_reason(&self) -> Option<String> {
        self.tree().stopped()
    }

    /// Examines all transactions that wait for a lock and aborts the one with the least
    /// work in each deadlock, which fails with `EDEADLK`. Returns the number of aborted
    /// transactions. Unless the volume was opened with
    /// [`Detection::OnCall`](crate::Detection::OnCall), no deadlock is left to be found.
    ///
    /// # Errors
    /// If the volume was closed.
    pub fn detect_deadlocks(&self) -> Result<usize> {
        self.whole("look for deadlocks", |_| {
            Ok(match self.tree() {
                Tree::Log(fs) => fs.detect_deadlocks(),
                Tree::VirtualLog(fs) => fs.detect_deadlocks(),
                Tree::InPlace(fs) => fs.detect_deadlocks(),
            })
        })
    }

    pub(crate) fn within(&self, tree: Tree) -> Volume {
        let mounted = Arc::new(self.mounted().within(tree));
        Volume {
            lanes: Arc::new(Lanes::new(|| Arc::clone(&mounted))),
        }
    }

    pub(crate) fn mounted(&self) -> &Arc<Mounted> {
        &self.lanes
    }

    pub(crate) fn tree(&self) -> &Tree {
        self.mounted().running().tree()
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume")
            .field("device", &self.mounted().running().name())
            .field("label", &self.label())
            .finish_non_exhaustive()
    }
}
