//! What the handles of one open volume share.
//!
//! | file | |
//! |---|---|
//! | `running.rs` | the tree and the threads behind it, closed once |
//! | `paths.rs` | by which paths a transaction found files |
//! | `operations.rs` | the vnode operations, on whichever layout |
//! | `resolve.rs` | from a path to an inode |
//!
//! Invariants:
//! - A volume is closed when the last [`Mounted`] is dropped, or by
//!   [`crate::Volume::close`]. Before its last checkpoint, each is shut:
//!   operations under way have ended then, and others are refused. So nothing
//!   is acknowledged that the checkpoint does not hold.
//! - Every operation of the facade goes through [`Mounted::admit`]; those on
//!   paths and files through [`Mounted::run`], which gives an error the
//!   operation and the path it belongs to.
//!
//! There is a [`Mounted`] for every few threads ([`varve_device::Lanes`]), as
//! all of them write to its reference count and its lock.

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

/// What a handle keeps of its volume.
pub(crate) struct Mounted {
    tree: Tree,
    caller: Caller,
    /// Tells the volume from others, as `st_dev` does.
    pub device: u64,
    /// False once the volume was closed; operations hold it shared.
    open: RwLock<bool>,
    /// The tree is a transaction's, and these led to its files.
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

    /// The same volume, as a transaction has it.
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

    /// True if the tree is a transaction's.
    pub fn is_private(&self) -> bool {
        self.paths.is_some()
    }

    /// The tree that its operations are on.
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

    /// Waits for operations under way; from then on none is admitted.
    pub fn shut(&self) {
        *self.open.write() = false;
    }

    /// Lets an operation begin; it ends when what is answered is dropped.
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

    /// Runs an operation, unless the volume was closed. It must not run
    /// another.
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

    /// [`Self::run`] for a path that a user gave: its bytes are handed on if
    /// they can be a path at all.
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
