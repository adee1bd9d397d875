//! Using and filling the path cache.

use crate::attr::Caller;
use crate::attributes::permission::EXECUTE;
use crate::file_system::FileSystem;
use crate::layout::Layout;
use crate::memory::passages::{Step, Trail};
use crate::planted::{self, Planted};
use crate::statistics::count;
use crate::types::{FileKind, InodeNo};
use crate::{Error, Result};
use std::sync::atomic::Ordering::SeqCst;

impl<L: Layout> FileSystem<L> {
    /// The directory at `path` from the root, with a reference for the caller unless it
    /// is the root; [`Self::release`] drops it. `None` if the path contains `.`, `..` or
    /// a symbolic link. Repeated, leading and trailing slashes are allowed.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `AccessDenied`, `NameTooLong`, `Damaged`, device
    /// errors.
    pub fn directory_at(&self, caller: &Caller, path: &[u8]) -> Result<Option<InodeNo>> {
        if path.iter().all(|byte| *byte == b'/') {
            return Ok(Some(InodeNo::ROOT));
        }
        match self.pass(caller, path) {
            Some(ino) => Ok(Some(ino)),
            None => self.break_trail(caller, path),
        }
    }

    /// Follows a cached path, if there is a valid one.
    fn pass(&self, caller: &Caller, path: &[u8]) -> Option<InodeNo> {
        let trail = self.passages.get(path)?;
        if trail.caller != *caller {
            return None;
        }
        let end = trail.end();
        end.refs.fetch_add(1, SeqCst);
        if trail.is_open() || planted::is(Planted::TrailUnchecked) {
            count(&self.store.counters.passages, 1);
            return Some(end.ino);
        }
        self.passages.forget(path);
        self.let_go(end, 1);
        None
    }

    /// Walks the path, and caches the walk.
    fn break_trail(&self, caller: &Caller, path: &[u8]) -> Result<Option<InodeNo>> {
        let mut steps = vec![Step::new(self.vnode(InodeNo::ROOT)?)];
        let mut names = path.split(|byte| *byte == b'/').filter(|n| !n.is_empty());
        let mut name = names.next();
        while let Some(this) = name {
            if matches!(this, b"." | b"..") {
                return Ok(None);
            }
            name = names.next();
            count(&self.store.counters.lookups, 1);
            let directory = &steps.last().expect("the root at least").vnode;
            let step = {
                let state = directory.read_directory();
                // Removed and freed since it was found.
                state.live().map_err(|_| Error::NotFound)?;
                self.permit(caller, directory, &state, EXECUTE)?;
                let found = self.find(directory, &state, this)?;
                let vnode = self.named(directory.ino, found.ok_or(Error::NotFound)?)?;
                match vnode.kind {
                    FileKind::Directory => {}
                    FileKind::Symlink => return Ok(None),
                    _ => return Err(Error::NotDirectory),
                }
                // While the directory is locked the name remains, and with it the file.
                if name.is_none() {
                    vnode.refs.fetch_add(1, SeqCst);
                }
                Step::new(vnode)
            };
            steps.push(step);
        }
        let end = steps.last().expect("the root at least").vnode.ino;
        let caller = caller.clone();
        self.passages.remember(path, Trail { caller, steps });
        Ok(Some(end))
    }
}
