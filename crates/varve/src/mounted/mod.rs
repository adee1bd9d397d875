//! What the handles of one open volume share.
//!
//! | file | |
//! |---|---|
//! | `running.rs` | the tree and the threads behind it, closed once |
//! | `operations.rs` | the vnode operations, on whichever layout |
//! | `resolve.rs` | from a path to an inode |
//!
//! Invariants:
//! - A volume is closed when the last [`Mounted`] is dropped, or by
//!   [`Running::close`]; after that, [`Mounted::run`] runs nothing.
//! - Every operation of the facade goes through [`Mounted::run`], which also
//!   gives an error the operation and the path it belongs to.

mod operations;
mod resolve;
mod running;

pub(crate) use resolve::{Found, Hold, Last, ends_in_slash};
pub(crate) use running::Running;

use crate::error::{Cause, Error, Result};
use crate::tree::Tree;
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
            running: Arc::clone(running),
        }
    }

    pub fn running(&self) -> &Running {
        &self.running
    }

    /// Runs an operation, unless the volume was closed.
    pub fn run<'a, T>(
        &'a self,
        operation: &'static str,
        path: &Path,
        work: impl FnOnce(&'a Self) -> varve_fs::Result<T>,
    ) -> Result<T> {
        let done = match self.running.is_closed() {
            true => Err(Cause::Closed),
            false => work(self).map_err(Cause::Tree),
        };
        done.map_err(|cause| Error::at(operation, path, cause))
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
