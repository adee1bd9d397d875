//! The file system of an open volume and its threads, closed once.

use crate::background::Threads;
use crate::error::{Cause, Error, Result};
use crate::tree::{Tree, on};
use crate::verifier::Verifier;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire};

/// The file system of an open volume and its threads. Dropping it closes the volume if it
/// is still open; errors are then only logged.
pub(crate) struct Running {
    tree: Tree,
    threads: Mutex<Option<Threads>>,
    verifier: Arc<Verifier>,
    /// Name of the image or device, for messages.
    name: String,
    closed: AtomicBool,
}

impl Running {
    pub fn new(
        tree: Tree,
        threads: Option<Threads>,
        verifier: Arc<Verifier>,
        name: String,
    ) -> Arc<Self> {
        Arc::new(Running {
            tree,
            threads: Mutex::new(threads),
            verifier,
            name,
            closed: AtomicBool::new(false),
        })
    }

    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    pub fn verifier(&self) -> &Arc<Verifier> {
        &self.verifier
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Closes the volume after `shut`, which waits for running operations and refuses new
    /// ones.
    ///
    /// # Errors
    /// If the volume was closed before, or the write that failed.
    pub fn close(&self, shut: impl FnOnce()) -> Result<()> {
        if self.closed.swap(true, AcqRel) {
            return Err(Error::of_volume("close", Cause::Closed));
        }
        shut();
        drop(self.threads.lock().take());
        on!(&self.tree, fs => {
            let unmounted = fs.unmount();
            unmounted.map_err(|error| Error::of_volume("close", Cause::Tree(error)))?;
            Ok(fs.layout().unmount()?)
        })
    }

    /// Leaves the volume as after a crash, unless it is closed; `shut` as for
    /// [`Self::close`].
    pub fn abandon(&self, shut: impl FnOnce()) {
        if self.closed.swap(true, AcqRel) {
            return;
        }
        shut();
        drop(self.threads.lock().take());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.closed.load(Acquire)
            && let Err(error) = self.close(|| ())
        {
            tracing::error!(volume = %self.name, %error, "not closed cleanly");
        }
    }
}
