//! Directories of a private tree: changes of names over those of the tree below.

use crate::directory::{self, Emit};
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::isolation::{Access, Part};
use crate::layout::Layout;
use crate::memory::name_changes::{Below, Found, NameChange};
use crate::memory::private::Private;
use crate::memory::vnode::{Ground, State, Vnode};
use crate::names::directory_blocks::Searched;
use crate::types::Timestamp;
use std::sync::Arc;

impl<L: Layout> FileSystem<L> {
    pub(crate) fn find_overlaid(
        &self,
        vnode: &Arc<Vnode>,
        state: &State,
        private: &Private,
        name: &[u8],
    ) -> Result<Option<Found>> {
        self.uses(vnode, Part::Name(name), Access::Read)?;
        match private.names.get(&self.store.key(vnode), name) {
            Some((_, change)) => Ok(change.after),
            None => self.find_below(vnode, state, name),
        }
    }

    /// Searches the directory below.
    fn find_below(&self, vnode: &Arc<Vnode>, state: &State, name: &[u8]) -> Result<Option<Found>> {
        match &vnode.ground {
            Ground::Layout(_) => self.find_stored(vnode, state, name),
            Ground::Vnode(below) => self.find(below, &below.read(), name),
        }
    }

    /// The entry of a name in the directory below.
    fn entry_below(&self, vnode: &Vnode, state: &State, name: &[u8]) -> Result<Option<Below>> {
        let key = self.store.key(vnode);
        let cookies = directory::cookies(&key, name);
        let mut found = None;
        let mut look = |listed: &[u8], ino, kind, cookie| {
            if directory::is_same(&key, listed, name) {
                found = Some(Below {
                    name: listed.into(),
                    leads_to: (ino, kind),
                    cookie,
                });
            }
            found.is_none() && cookie < *cookies.end()
        };
        self.list_below(vnode, state, cookies.start() - 1, &mut look)?;
        Ok(found)
    }

    fn list_below(
        &self,
        vnode: &Vnode,
        state: &State,
        after: u64,
        emit: &mut Emit<'_>,
    ) -> Result<()> {
        match &vnode.ground {
            Ground::Layout(_) => self.list_stored(vnode, state, after, emit),
            Ground::Vnode(below) => self.list_unnoted(below, &below.read(), after, emit),
        }
    }

    /// Records that a name refers to `after`. The caller has checked that the change is
    /// allowed.
    ///
    /// # Errors
    /// Errors of reading the tree below; nothing has changed then.
    pub(crate) fn overlay_name(
        &self,
        vnode: &Arc<Vnode>,
        state: &mut State,
        name: &[u8],
        after: Option<Found>,
        now: Timestamp,
    ) -> Result<()> {
        self.uses(vnode, Part::Name(name), Access::Write)?;
        let key = self.store.key(vnode);
        let private = state.private.as_ref().expect("a directory of the ground");
        let before = match private.names.get(&key, name) {
            Some(_) => None,
            None => self.entry_below(vnode, state, name)?,
        };
        let private = state.private.as_mut().expect("it was there");
        let (cookie, former) = private.names.set(&key, name, before, after)?;
        state.keep_name(cookie, former);
        state.inode.mtime = now;
        state.inode.ctime = now;
        self.join(vnode, state);
        Ok(())
    }

    /// [`directory::list`] of any directory, which is locked.
    pub(crate) fn list(
        &self,
        vnode: &Arc<Vnode>,
        state: &State,
        after: u64,
        emit: &mut Emit<'_>,
    ) -> Result<()> {
        if state.private.is_some() {
            self.uses(vnode, Part::Names, Access::Read)?;
        }
        self.list_unnoted(vnode, state, after, emit)
    }

    /// [`Self::list`] for a caller that has declared its use, or that searches for one
    /// name only: only that name is locked, or noted as read.
    fn list_unnoted(
        &self,
        vnode: &Arc<Vnode>,
        state: &State,
        after: u64,
        emit: &mut Emit<'_>,
    ) -> Result<()> {
        let Some(private) = &state.private else {
            return self.list_stored(vnode, state, after, emit);
        };
        let key = self.store.key(vnode);
        let mut own = private.names.behind(after).peekable();
        let mut goes_on = true;
        let mut merged = |name: &[u8], ino, kind, cookie| {
            while let Some((cookie, change)) = own.next_if(|(own, _)| *own < cookie) {
                goes_on = emit_change(change, cookie, emit);
                if !goes_on {
                    return false;
                }
            }
            if private.names.get(&key, name).is_none() {
                goes_on = emit(name, ino, kind, cookie);
            }
            goes_on
        };
        self.list_below(vnode, state, after, &mut merged)?;
        for (cookie, change) in own {
            goes_on = goes_on && emit_change(change, cookie, emit);
        }
        Ok(())
    }

    pub(crate) fn list_stored(
        &self,
        vnode: &Vnode,
        state: &State,
        after: u64,
        emit: &mut Emit<'_>,
    ) -> Result<()> {
        if state.inode.blocks == 0 {
            return Ok(());
        }
        let mut blocks = Searched {
            store: &self.store,
            vnode,
            state,
        };
        directory::list(&self.store.key(vnode), &mut blocks, after, emit)
    }

    /// Checks that the directory has no names.
    ///
    /// # Errors
    /// `NotEmpty`.
    pub(crate) fn overlaid_must_be_empty(&self, vnode: &Arc<Vnode>, state: &State) -> Result<()> {
        let mut is_empty = true;
        self.list(vnode, state, 0, &mut |_, _, _, _| {
            is_empty = false;
            false
        })?;
        match is_empty {
            true => Ok(()),
            false => Err(Error::NotEmpty),
        }
    }
}

fn emit_change(change: &NameChange, cookie: u64, emit: &mut Emit<'_>) -> bool {
    match change.after {
        Some((ino, kind)) => emit(&change.name, ino, kind, cookie),
        None => true,
    }
}
