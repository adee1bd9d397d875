//! Merging names of a private tree into its target: all, or none.

use super::commit::Pair;
use crate::error::{Contended, Error, Result};
use crate::file_system::FileSystem;
use crate::layout::Layout;
use crate::memory::name_changes::NameChange;
use crate::memory::vnode::{State, Vnode};
use crate::types::{FileKind, Timestamp};
use std::sync::Arc;

impl<L: Layout> FileSystem<L> {
    /// Merges the changed names of all directories.
    ///
    /// # Errors
    /// `Conflict` if a directory that is to be removed has names left; `NoSpace`, errors
    /// of reading the layout. Nothing has changed then.
    pub(super) fn merge_names(&self, pairs: &mut [Pair<'_>]) -> Result<()> {
        let now = self.now();
        let is_directory = |pair: &&mut Pair<'_>| pair.vnode.kind == FileKind::Directory;
        let mut changed = Ok(());
        for pair in pairs.iter_mut().filter(is_directory) {
            pair.vnode.turn();
            pair.state.keep_former();
            changed = changed.and_then(|()| self.merge_names_of(pair, now));
        }
        for pair in pairs.iter_mut().filter(is_directory) {
            if changed.is_ok() && pair.mine.state.inode.nlink == 0 {
                let empty = self.must_be_empty(pair.vnode, &pair.state);
                changed = empty.map_err(|error| match error {
                    Error::NotEmpty => Error::conflict(pair.vnode.ino, Contended::Directory),
                    other => other,
                });
            }
        }
        for pair in pairs.iter_mut().filter(is_directory) {
            match &changed {
                Ok(()) => pair.state.former = None,
                Err(_) => self.restore(&mut pair.state),
            }
        }
        changed
    }

    fn merge_names_of(&self, pair: &mut Pair<'_>, now: Timestamp) -> Result<()> {
        let names = &pair.mine.state.origin().names;
        for (_, change) in names.iter() {
            self.merge_name(pair.vnode, &mut pair.state, change, now)?;
        }
        Ok(())
    }

    fn merge_name(
        &self,
        vnode: &Arc<Vnode>,
        state: &mut State,
        change: &NameChange,
        now: Timestamp,
    ) -> Result<()> {
        let name = &change.name;
        match (change.before, change.after) {
            // The target, a private tree itself, also records that the name was used.
            (None, None) if state.private.is_some() => {
                self.overlay_name(vnode, state, name, None, now)
            }
            (None, None) => Ok(()),
            (None, Some((ino, kind))) => self.add_name(vnode, state, name, ino, kind, now),
            (Some(_), None) => self.remove_name(vnode, state, name, now),
            (Some(_), Some((ino, kind))) if change.spelled_below.is_some() => {
                self.remove_name(vnode, state, name, now)?;
                self.add_name(vnode, state, name, ino, kind, now)
            }
            (Some(before), Some(after)) if before != after => {
                self.replace_name(vnode, state, name, after, now)
            }
            (Some(_), Some(_)) => Ok(()),
        }
    }
}
