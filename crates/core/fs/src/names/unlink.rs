//! Removing names, and freeing what has none and is not held.

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

/// The error of an entry of `directory` that leads to the wrong inode.
pub(crate) fn wrong_child(directory: InodeNo, ino: InodeNo, what: &str) -> Error {
    Error::Damaged {
        ino: Some(directory),
        detail: format!("an entry leads to {ino:?}, {what}"),
    }
}

/// The error of an entry whose inode cannot be had.
fn lost_child(directory: InodeNo, ino: InodeNo) -> impl Fn(Error) -> Error {
    move |error| match error {
        Error::Stale => wrong_child(directory, ino, "which does not exist"),
        other => other,
    }
}

/// # Errors
/// `Damaged` unless the vnode is what the entry of `directory` says.
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

/// A directory, and what a name in it leads to.
type Led = (Arc<Vnode>, Option<Arc<Vnode>>);

impl<L: Layout> FileSystem<L> {
    /// Removes a name that is not a directory's. With its last name a file
    /// goes, or when it is last released.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `NotPermitted` in sticky directories,
    /// `AccessDenied`, `NotDirectory`, `ReadOnly`, `Stale`, `Damaged`, device
    /// errors. A full volume is none.
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
    /// `NotEmpty`, `NotDirectory`, `Invalid` for `.`, otherwise as
    /// [`Self::unlink`].
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

    /// The vnode that an entry of `directory` names, which is locked. The
    /// inode must exist and be what the entry says, as entries go first.
    ///
    /// # Errors
    /// `Damaged` if it is not so.
    pub(crate) fn named(&self, directory: InodeNo, found: Found) -> Result<Arc<Vnode>> {
        let vnode = self.vnode(found.0);
        let vnode = vnode.map_err(lost_child(directory, found.0))?;
        must_be_as_named(&vnode, directory, found)?;
        Ok(vnode)
    }

    /// # Errors
    /// `NotEmpty` if the directory holds names.
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
    /// protected files that they lead to.
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
            // All at once: who waits for one of them must not hold another apart.
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
            // What cannot be had is told of later.
            let file = found.and_then(|(ino, _)| self.vnode(ino).ok());
            Ok((directory, file))
        };
        names.iter().map(lead).collect()
    }

    /// A name is about to be removed: perhaps the last.
    pub(crate) fn uses_for_end(&self, vnode: &Arc<Vnode>) -> Result<()> {
        if self.below.is_some() && vnode.read().inode.nlink <= 1 {
            self.uses(vnode, Part::All, Access::Write)?;
        }
        Ok(())
    }

    /// One name fewer.
    pub(crate) fn drop_link(&self, vnode: &Arc<Vnode>, state: &mut State, now: Timestamp) {
        // A damaged image may count too few.
        state.inode.nlink = state.inode.nlink.saturating_sub(1);
        state.inode.ctime = now;
        self.leave_name(vnode, state);
    }

    /// A directory lost its name.
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

    /// The latest of the files that lost their last name within the last second and
    /// are held: once they are released, there is more space.
    pub fn latest_held_removal(&self) -> Option<u64> {
        self.space.held_removals.latest(self.clock.monotonic_ns())
    }

    /// True if such a file is still held, this one or one that was removed before.
    pub fn awaits_release(&self, removal: u64) -> bool {
        let now_ns = self.clock.monotonic_ns();
        self.space.held_removals.are_held(removal, now_ns)
    }

    /// A file without names that nobody holds: freed now, or, if it is large,
    /// in steps.
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

    /// Keeps a file alive without names until it is released.
    ///
    /// # Errors
    /// `Stale` if it is gone.
    pub fn retain(&self, ino: InodeNo) -> Result<()> {
        let vnode = self.vnode(ino)?;
        let state = vnode.read();
        state.live()?;
        vnode.refs.fetch_add(1, Relaxed);
        Ok(())
    }

    /// [`Self::retain`] of the very file that was found: its number may have
    /// been given to another since.
    ///
    /// # Errors
    /// `Stale` if it is gone.
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

    /// Gives back references; with the last one a file without names goes.
    pub fn release(&self, ino: InodeNo, references: u64) {
        let loaded = self.table.get(ino);
        let Some(vnode) = loaded.or_else(|| self.table.release(ino, references)) else {
            return; // one that is not in memory has a name
        };
        self.let_go(&vnode, references);
    }

    /// [`Self::release`] of this very vnode, whoever has its number by now.
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
        // Somebody may have taken it up, or freed it, in between.
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
