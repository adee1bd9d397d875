//! One open volume, and everything that can be done by path.
//!
//! | file | |
//! |---|---|
//! | `open.rs` | creating, opening, closing |
//! | `names.rs`, `directory.rs`, `walk.rs` | names made, changed and listed |
//! | `content.rs` | whole files, and opening them |
//! | `attributes.rs` | attributes |
//!
//! Nothing here decides what a file system does: paths are resolved, arguments
//! handed on, and errors given the path and the operation they belong to.

mod attributes;
mod content;
mod directory;
mod files;
mod names;
mod open;
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
pub use walk::Walk;

use crate::error::{Cause, Error, Result};
use crate::mounted::Mounted;
use crate::options::Layout;
use crate::tree::Tree;
use std::sync::Arc;
use varve_device::Lanes;
use varve_fs::StatFs;

/// An open volume: a handle, as `std::fs` is for the host. Every method may be
/// called from any thread, and clones are handles of the same volume.
///
/// It is closed by [`Volume::close`], or when its last clone, file and listing
/// is dropped.
///
/// Paths are those of the volume's own tree: `/` is its root, and a path
/// without a leading `/` means the same.
#[derive(Clone)]
pub struct Volume {
    /// Open files keep a reference to that of the thread that opened them.
    lanes: Arc<Lanes<Arc<Mounted>>>,
}

impl Volume {
    /// Makes everything durable with one flush.
    ///
    /// # Errors
    /// What made a write fail, now or before. After a failed flush the volume
    /// takes no more changes until it is opened again.
    pub fn sync(&self) -> Result<()> {
        self.whole("sync", Mounted::sync)
    }

    /// [`Volume::sync`] and a checkpoint: opening need not replay anything.
    ///
    /// # Errors
    /// As [`Volume::sync`].
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

    /// Room on the volume, in blocks of [`Volume::block_bytes`]; the reserve
    /// is left out.
    pub fn statfs(&self) -> StatFs {
        self.mounted().statfs()
    }

    /// Bytes in a logical block.
    pub fn block_bytes(&self) -> u32 {
        self.tree().block_bytes()
    }

    /// The volume's name for people; empty if it has none.
    pub fn label(&self) -> String {
        self.tree().label()
    }

    /// How it places what is written.
    pub fn layout(&self) -> Layout {
        match self.tree() {
            Tree::Log(_) => Layout::Log,
            Tree::VirtualLog(_) => Layout::VirtualLog,
            Tree::InPlace(_) => Layout::InPlace,
        }
    }

    /// Why the volume takes no changes, if it does not.
    pub fn read_only_reason(&self) -> Option<String> {
        self.tree().stopped()
    }

    /// The same volume, as a transaction has it.
    /// Looks at every transaction that waits for a lock, and aborts the cheapest of each
    /// deadlock, which gets `EDEADLK`. Answers how many. There is none to be found unless
    /// the volume was opened with [`Detection::OnCall`](crate::Detection::OnCall).
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
