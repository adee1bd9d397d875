//! State shared by the handles of one open volume.
//!
//! | file | content |
//! |---|---|
//! | `running.rs` | the tree and its threads, closed once |
//! | `paths.rs` | paths by which a transaction found files |
//! | `operations.rs` | the vnode operations, on any layout |
//! | `resolve.rs` | from a path to an inode |
//!
//! Invariants:
//! - A volume is closed by [`crate::Volume::close`] or when the last [`Mounted`] is
//!   dropped. Before its last checkpoint each [`Mounted`] is shut: running operations
//!   have ended and new ones are refused. So the checkpoint includes every acknowledged
//!   change.
//! - Every operation of the facade passes [`Mounted::admit`]; those on paths and files
//!   pass [`Mounted::run`], which adds operation and path to an error.
//!
//! There is one [`Mounted`] for every few threads ([`varve_device::Lanes`]), because all
//! of them write to its reference count and its lock.

mod operations;
mod paths;
mod resolve;
mod running;

pub(crate) use resolve::{Found, Hold, Last, ends_in_slash};
pub(crate) use running::Running;

use crate::error::{Cause, Error, Result};
use crate::tree::Tree;
use parking_lot::{RwLock, RwLockReadGuard};
use paths::Paths;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use varve_fs::Caller;

/// The part of an open volume that its handles share.
pub(crate) struct Mounted {
    tree: Tree,
    caller: Caller,
    /// Number that identifies the volume, like `st_dev`.
    pub device: u64,
    /// False after the volume was closed; operations lock it shared.
    open: RwLock<bool>,
    /// For the tree of a transaction: paths by which files were found.
    paths: Option<Arc<Paths>>,
    running: Arc<Running>,
}

impl Mounted {
    pub fn new(running: &Arc<Running>, caller: Caller) -> Self {
        let tree = running.tree().clone();
        let [a, b, c, d, e, f, g, h, ..] = tree.uuid();
        Mounted {
            tree,
            caller,
            device: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            open: RwLock::new(true),
            paths: None,
            running: Arc::clone(running),
        }
    }

    /// Returns the same volume with the tree of a transaction.
    pub fn within(&self, tree: Tree) -> Self {
        Mounted {
            tree,
            caller: self.caller.clone(),
            device: self.device,
            open: RwLock::new(true),
            paths: Some(self.paths.clone().unwrap_or_default()),
            running: Arc::clone(&self.running),
        }
    }

    /// Returns true if the tree is a transaction's.
    pub fn is_private(&self) -> bool {
        self.paths.is_some()
    }

    /// Returns the tree on which operations run.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// On whose behalf its operations run.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    pub fn running(&self) -> &Running {
        &self.running
    }

    /// Waits for running operations; new ones are refused from then on.
    pub fn shut(&self) {
        *self.open.write() = false;
    }

    /// Admits an operation, which ends when the guard is dropped.
    ///
    /// # Errors
    /// If the volume was closed.
    pub fn admit(&self) -> std::result::Result<RwLockReadGuard<'_, bool>, Cause> {
        let open = self.open.read();
        match *open {
            true => Ok(open),
            false => Err(Cause::Closed),
        }
    }

    /// Runs an operation unless the volume was closed. `work` must not call this again.
    pub fn run<'a, T>(
        &'a self,
        operation: &'static str,
        path: &Path,
        work: impl FnOnce(&'a Self) -> varve_fs::Result<T>,
    ) -> Result<T> {
        self.admit()
            .and_then(|_admitted| work(self).map_err(Cause::Tree))
            .map_err(|cause| Error::at(operation, path, cause))
    }

    /// Does the same as [`Self::run`] for a path from the user, after checking that it
    /// can be a path.
    pub fn by_path<'a, T>(
        &'a self,
        operation: &'static str,
        path: &'a Path,
        work: impl FnOnce(&'a Self, &'a [u8]) -> varve_fs::Result<T>,
    ) -> Result<T> {
        let bytes = path.as_os_str().as_bytes();
        self.run(operation, path, |mounted| {
            if bytes.is_empty() {
                return Err(varve_fs::Error::NotFound);
            }
            if bytes.contains(&0) {
                return Err(varve_fs::Error::Invalid("a zero byte in a path"));
            }
            work(mounted, bytes)
        })
    }
}
