//! Removing names, and freeing files that have no name and no reference.

use crate::attr::{Attr, Caller};
use crate::directory;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::isolation::{Access, Outsider, Part};
use crate::layout::Layout;
use crate::memory::name_changes::Found;
use crate::memory::vnode::{Life, State, Vnode};
use crate::names::alone::Taken;
use crate::names::directory_blocks::Searched;
use crate::statistics::count;
use crate::types::{FileKind, InodeNo, Timestamp};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// The error of an entry of `directory` that refers to the wrong inode.
pub(crate) fn wrong_child(directory: InodeNo, ino: InodeNo, what: &str) -> Error {
    Error::Damaged {
        ino: Some(directory),
        detail: format!("an entry leads to {ino:?}, {what}"),
    }
}

/// The error of an entry whose inode cannot be loaded.
fn lost_child(directory: InodeNo, ino: InodeNo) -> impl Fn(Error) -> Error {
    move |error| match error {
        Error::Stale => wrong_child(directory, ino, "which does not exist"),
        other => other,
    }
}

/// Checks that the vnode is as the entry of `directory` states.
///
/// # Errors
/// `Damaged`.
fn must_be_as_named(vnode: &Vnode, directory: InodeNo, (ino, kind): Found) -> Result<()> {
    if vnode.kind != kind {
        return Err(wrong_child(directory, ino, "which is of another kind"));
    }
    let above = vnode.above.load(Relaxed);
    if kind == FileKind::Directory && (above != directory.0 || ino == directory) {
        let what = "which is not below this directory";
        return Err(wrong_child(directory, ino, what));
    }
    Ok(())
}

/// A directory, and the file to which a name in it refers.
type Led = (Arc<Vnode>, Option<Arc<Vnode>>);

impl<L: Layout> FileSystem<L> {
    /// Removes a name that is not a directory's. A file is freed with its last name, or
    /// with its last reference.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `NotPermitted` in sticky directories, `AccessDenied`,
    /// `NotDirectory`, `ReadOnly`, `Stale`, `Damaged`, device errors. It succeeds on a
    /// full volume.
    pub fn unlink(&self, caller: &Caller, parent: InodeNo, name: &[u8]) -> Result<()> {
        if matches!(name, b"." | b"..") {
            return Err(Error::IsDirectory);
        }
        let _outside = self.outside_names(&[(parent, name)])?;
        let (directory, operation) = self.begin_removal(parent)?;
        let now = self.now();
        {
            let mut above = directory.write_directory();
            self.may_enter(caller, &directory, &above)?;
            let entry = self.find_entry(&directory, &above, name)?;
            let found = entry.leads_to();
            if found.1 == FileKind::Directory {
                return Err(Error::IsDirectory);
            }
            match self.take_up(found.0).map_err(lost_child(parent, found.0))? {
                Taken::Vnode(vnode) => {
                    must_be_as_named(&vnode, parent, found)?;
                    self.uses_for_end(&vnode)?;
                    let mut state = vnode.write();
                    state.live()?;
                    self.permit_removal(caller, &above.inode, &state.inode)?;
                    self.remove_entry(&directory, &mut above, (name, entry), now)?;
                    self.drop_link(&vnode, &mut state, now);
                }
                Taken::Alone(file) => {
                    file.must_be(found.1, parent)?;
                    self.permit_removal(caller, &above.inode, &file.inode)?;
                    self.remove_entry(&directory, &mut above, (name, entry), now)?;
                    self.end_alone(file);
                }
            }
        }
        count(&self.store.counters.unlinks, 1);
        drop(operation);
        self.dirtied();
        self.settle_names(&directory)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotEmpty`, `NotDirectory`, `Invalid` for `.`, otherwise as [`Self::unlink`].
    pub fn rmdir(&self, caller: &Caller, parent: InodeNo, name: &[u8]) -> Result<()> {
        match name {
            b"." => return Err(Error::Invalid("a directory's own name")),
            b".." => return Err(Error::NotEmpty),
            _ => {}
        }
        let _outside = self.outside_names(&[(parent, name)])?;
        let (directory, operation) = self.begin_removal(parent)?;
        let now = self.now();
        {
            let mut above = directory.write_directory();
            self.may_enter(caller, &directory, &above)?;
            let found = self.find(&directory, &above, name)?;
            let found = found.ok_or(Error::NotFound)?;
            if found.1 != FileKind::Directory {
                return Err(Error::NotDirectory);
            }
            let vnode = self.named(parent, found)?;
            self.uses(&vnode, Part::All, Access::Write)?;
            let mut state = vnode.write();
            state.live()?;
            self.permit_removal(caller, &above.inode, &state.inode)?;
            self.must_be_empty(&vnode, &state)?;
            self.remove_name(&directory, &mut above, name, now)?;
            above.inode.nlink = above.inode.nlink.saturating_sub(1).max(2);
            self.drop_directory(&vnode, &mut state, now);
        }
        count(&self.store.counters.unlinks, 1);
        drop(operation);
        self.dirtied();
        self.settle_names(&directory)
    }

    /// The vnode that an entry of `directory` names; the directory is locked. The inode
    /// must exist and be as the entry states, because entries are removed first.
    ///
    /// # Errors
    /// `Damaged` if it is not so.
    pub(crate) fn named(&self, directory: InodeNo, found: Found) -> Result<Arc<Vnode>> {
        let vnode = self.vnode(found.0);
        let vnode = vnode.map_err(lost_child(directory, found.0))?;
        must_be_as_named(&vnode, directory, found)?;
        Ok(vnode)
    }

    /// Checks that the directory has no names.
    ///
    /// # Errors
    /// `NotEmpty`.
    pub(crate) fn must_be_empty(&self, vnode: &Arc<Vnode>, state: &State) -> Result<()> {
        if state.private.is_some() {
            return self.overlaid_must_be_empty(vnode, state);
        }
        if state.inode.blocks == 0 {
            return Ok(());
        }
        let key = self.store.key(vnode);
        let mut blocks = Searched {
            store: &self.store,
            vnode,
            state,
        };
        if directory::is_empty(&key, &mut blocks)? {
            Ok(())
        } else {
            Err(Error::NotEmpty)
        }
    }

    /// Waits for transactions that use these names, of protected directories, or the
    /// protected files to which they refer.
    pub(crate) fn outside_names(&self, names: &[(InodeNo, &[u8])]) -> Result<Option<Outsider>> {
        if self.locks.get().is_none() {
            return Ok(None);
        }
        loop {
            let found = self.where_they_lead(names)?;
            let mut parts = Vec::new();
            for ((directory, file), (_, name)) in found.iter().zip(names) {
                parts.push((directory, Part::Name(name), Access::Write));
                if let Some(file) = file {
                    parts.push((file, Part::All, Access::Write));
                }
            }
            // All at once, because an operation that waits for one of them must not keep
            // another locked.
            let outsider = self.as_outsider(&parts)?;
            let now = self.where_they_lead(names)?;
            let same = |(a, b): (&Led, &Led)| {
                a.1.as_ref().map(|file| file.birth) == b.1.as_ref().map(|file| file.birth)
            };
            if outsider.is_none() || found.iter().zip(&now).all(same) {
                return Ok(outsider);
            }
        }
    }

    fn where_they_lead(&self, names: &[(InodeNo, &[u8])]) -> Result<Vec<Led>> {
        let lead = |(parent, name): &(InodeNo, &[u8])| {
            let directory = self.vnode(*parent)?;
            directory.directory()?;
            let found = self.find(&directory, &directory.read_directory(), name)?;
            // An error of loading the file is reported later.
            let file = found.and_then(|(ino, _)| self.vnode(ino).ok());
            Ok((directory, file))
        };
        names.iter().map(lead).collect()
    }

    /// Declares the use of a file that is about to lose a name, perhaps its last.
    pub(crate) fn uses_for_end(&self, vnode: &Arc<Vnode>) -> Result<()> {
        if self.below.is_some() && vnode.read().inode.nlink <= 1 {
            self.uses(vnode, Part::All, Access::Write)?;
        }
        Ok(())
    }

    /// Removes one link of a file.
    pub(crate) fn drop_link(&self, vnode: &Arc<Vnode>, state: &mut State, now: Timestamp) {
        // A damaged image may count too few.
        state.inode.nlink = state.inode.nlink.saturating_sub(1);
        state.inode.ctime = now;
        self.leave_name(vnode, state);
    }

    /// Removes the name of a directory.
    pub(crate) fn drop_directory(&self, vnode: &Arc<Vnode>, state: &mut State, now: Timestamp) {
        vnode.turn();
        state.inode.nlink = 0;
        state.inode.ctime = now;
        self.leave_name(vnode, state);
    }

    fn leave_name(&self, vnode: &Arc<Vnode>, state: &mut State) {
        if state.inode.nlink == 0 && vnode.refs.load(SeqCst) == 0 {
            self.end(vnode, state);
        } else {
            if state.inode.nlink == 0 {
                let now_ns = self.clock.monotonic_ns();
                self.space.held_removals.removed(vnode.ino, now_ns);
            }
            self.join(vnode, state);
        }
    }

    /// The latest of the files that lost their last name within the last second and are
    /// still referenced. Once they are released, there is more space.
    pub fn latest_held_removal(&self) -> Option<u64> {
        self.space.held_removals.latest(self.clock.monotonic_ns())
    }

    /// True if the file of this removal, or of an earlier one, is still referenced.
    pub fn awaits_release(&self, removal: u64) -> bool {
        let now_ns = self.clock.monotonic_ns();
        self.space.held_removals.are_held(removal, now_ns)
    }

    /// Frees a file without names and references: at once, or, if it is large, in steps.
    fn end(&self, vnode: &Arc<Vnode>, state: &mut State) {
        let blocks = state.inode.blocks.max(state.logged.blocks);
        if blocks <= self.settings.step_blocks {
            self.free(vnode, state);
            return;
        }
        state.life = Life::Doomed;
        self.join(vnode, state);
        self.queues().free_later(Arc::clone(vnode));
    }

    /// Adds a reference, which keeps a file alive without names until [`Self::release`].
    ///
    /// # Errors
    /// `Stale` if the file was removed.
    pub fn retain(&self, ino: InodeNo) -> Result<()> {
        let vnode = self.vnode(ino)?;
        let state = vnode.read();
        state.live()?;
        vnode.refs.fetch_add(1, Relaxed);
        Ok(())
    }

    /// [`Self::retain`] of the very file that was found: its number may belong to another
    /// file since.
    ///
    /// # Errors
    /// `Stale` if the file was removed.
    pub fn hold(&self, found: &Attr) -> Result<()> {
        let vnode = self.vnode(found.ino)?;
        let state = vnode.read();
        state.live()?;
        if state.inode.version != found.version {
            return Err(Error::Stale);
        }
        vnode.refs.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Drops references. A file without names is freed with the last one.
    pub fn release(&self, ino: InodeNo, references: u64) {
        let loaded = self.table.get(ino);
        let Some(vnode) = loaded.or_else(|| self.table.release(ino, references)) else {
            return; // a file that is not in memory has a name
        };
        self.let_go(&vnode, references);
    }

    /// [`Self::release`] of this very vnode, even if its number belongs to another file
    /// by now.
    pub(crate) fn let_go(&self, vnode: &Arc<Vnode>, references: u64) {
        let held = vnode.refs.fetch_update(Relaxed, Relaxed, |refs| {
            Some(refs.saturating_sub(references))
        });
        if held.is_ok_and(|held| held > references) || vnode.read().inode.nlink > 0 {
            return;
        }
        if self.check_writable().is_err() {
            return; // the next mount frees it
        }
        let operation = self.begin_unasked();
        let mut state = vnode.write();
        // Another thread may have referenced it, or freed it, in between.
        let over = state.inode.nlink == 0 && vnode.refs.load(Relaxed) == 0;
        if over && state.life == Life::Live {
            self.end(vnode, &mut state);
        }
        drop(state);
        drop(operation);
        self.space.held_removals.freed(vnode.ino);
        self.dirtied();
    }
}
