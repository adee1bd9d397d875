//! Renaming.
//!
//! A rename is one change of memory under the gate, and so is whole in one group. If a
//! regular file replaces an existing one, its dirty data is in the same group, so that no
//! crash leaves an empty or short target.
//!
//! Order of locks: the rename mutex if two directories are involved, the two directories
//! (an ancestor first, else by number), then the files of the names, by number. The mutex
//! keeps the tree above both directories unchanged, so whether one is below the other is
//! checked before any directory is locked.

use crate::account::Operation;
use crate::account::prices::{NAME_BYTES, REPLACEMENT_BYTES};
use crate::attr::{Caller, Rename};
use crate::attributes::file_flags::same_project;
use crate::attributes::permission::WRITE;
use crate::directory;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::isolation::{Access, Part};
use crate::layout::{Layout, Purpose, Usage};
use crate::locks::{Lock, Ranked};
use crate::memory::vnode::{State, Vnode, WriteState};
use crate::names::lookup::LINKS_MAX;
use crate::names::rename_rules::{Names, check_request};
use crate::planted::{self, Planted};
use crate::space::Number;
use crate::statistics::count;
use crate::types::{FileKind, InodeNo, Timestamp};
use std::sync::Arc;

/// Most dirty bytes that a rename includes; the rest is written back before its locks are
/// taken.
const CARRY_BYTES: usize = 1 << 20;

/// Both directories, locked; the second is absent if they are the same.
struct Parents<'a> {
    from: &'a Arc<Vnode>,
    to: &'a Arc<Vnode>,
    from_state: WriteState<'a>,
    to_state: Option<WriteState<'a>>,
}

/// Operation, whether there is space for a new name, and the whiteout's number.
type Begun<'a, L> = (Operation<'a>, bool, Option<Number<'a, L>>);

impl Parents<'_> {
    fn to_state(&self) -> &State {
        self.to_state.as_deref().unwrap_or(&self.from_state)
    }

    fn to_state_mut(&mut self) -> &mut State {
        self.to_state.as_deref_mut().unwrap_or(&mut self.from_state)
    }
}

impl<L: Layout> FileSystem<L> {
    /// Moves a name, replacing the file of the new one; or, by `flags`, refuses to
    /// replace, exchanges the two, or leaves a whiteout.
    ///
    /// # Errors
    /// `NotFound`, `Exists` with `no_replace`, `Invalid` if a directory would move below
    /// itself, `NotEmpty`, `IsDirectory`, `NotDirectory`, `Busy` for `.` and `..`,
    /// `NotPermitted` by sticky bits and flags, `CrossesProjects`, `AccessDenied`,
    /// `NameTooLong`, `ReadOnly`, `Stale`, `Damaged`, device errors; `NoSpace` for a
    /// whiteout or a new name. Replacing is priced as removing.
    pub fn rename(
        &self,
        caller: &Caller,
        parent: InodeNo,
        name: &[u8],
        new_parent: InodeNo,
        new_name: &[u8],
        flags: Rename,
    ) -> Result<()> {
        check_request(name, new_name, flags)?;
        let (from, to) = (self.vnode(parent)?, self.vnode(new_parent)?);
        from.directory()?;
        to.directory()?;
        let _outside = self.outside_names(&[(parent, name), (new_parent, new_name)])?;
        self.write_back_source(&from, name, &to, new_name)?;
        let begun = self.begin_rename(parent, flags);
        let refused = |error| {
            self.refused_rename(error, caller, (parent, name), (new_parent, new_name), flags)
        };
        let (operation, has_space, whiteout) = begun.map_err(refused)?;
        let across = from.ino != to.ino;
        let mutex =
            across.then(|| Ranked::take(self.level.rank(Lock::Rename), || self.rename.lock()));
        let above = if across {
            Some((self.ancestors(&from)?, self.ancestors(&to)?))
        } else {
            None
        };
        let now = self.now();
        let mut parents = lock_parents(&from, &to, above.as_ref());
        self.may_enter(caller, parents.from, &parents.from_state)?;
        self.may_enter(caller, parents.to, parents.to_state())?;
        let names = Names {
            old: name,
            new: new_name,
            source: self
                .find(&from, &parents.from_state, name)?
                .ok_or(Error::NotFound)?,
            target: self.find(&to, parents.to_state(), new_name)?,
            has_space,
            whiteout: whiteout.as_ref().map(|number| number.ino),
        };
        let is_same = names
            .target
            .is_some_and(|target| target.0 == names.source.0);
        let respells = is_same && self.respells(&from, across, name, new_name);
        match names.target {
            Some(_) if flags.no_replace && !respells => return Err(Error::Exists),
            None if flags.exchange => return Err(Error::NotFound),
            _ => {}
        }
        if let Some(above) = &above {
            names.check_loop(above, flags)?;
        }
        // Two names of one file: POSIX demands that nothing happens. But where case is
        // folded, the two may be one name with another spelling.
        if is_same {
            if !respells {
                return Ok(());
            }
            if flags.whiteout {
                return Err(Error::Invalid("a whiteout under the name itself"));
            }
        }
        if flags.exchange {
            self.exchange(caller, &mut parents, &names, now)?;
        } else {
            self.move_name(caller, &mut parents, &names, now)?;
        }
        if let Some(number) = whiteout {
            self.make_whiteout(caller, &parents.from_state.inode, number);
        }
        count(&self.store.counters.renames, 1);
        drop(parents);
        drop(mutex);
        drop(operation);
        self.dirtied();
        self.settle_names(&from)?;
        self.settle_names(&to)
    }

    /// Begins the operation. Returns it, whether there is space for a new name, and the
    /// number of the whiteout.
    fn begin_rename(&self, parent: InodeNo, flags: Rename) -> Result<Begun<'_, L>> {
        let whiteout = match flags.whiteout {
            true => Some(self.take_number(parent, FileKind::CharDevice)?),
            false => None,
        };
        let growth = self.with_name(Usage {
            inodes: u64::from(flags.whiteout),
            ..Usage::default()
        });
        let purpose = match flags.whiteout {
            true => Purpose::Grow,
            false => Purpose::Shrink,
        };
        match self.begin(growth, 2 * NAME_BYTES, purpose) {
            // Replacing a name needs no more space than a removal.
            Err(Error::NoSpace) if !flags.whiteout => {
                let none = Usage::default();
                let operation = self.begin(none, REPLACEMENT_BYTES, Purpose::Shrink)?;
                Ok((operation, false, whiteout))
            }
            begun => Ok((begun?, true, whiteout)),
        }
    }

    /// Writes back most of a file's dirty data before it replaces another, so that the
    /// rename's group includes little.
    fn write_back_source(
        &self,
        from: &Arc<Vnode>,
        name: &[u8],
        to: &Arc<Vnode>,
        new_name: &[u8],
    ) -> Result<()> {
        let source = self.find(from, &from.read_directory(), name)?;
        let Some((ino, FileKind::Regular)) = source else {
            return Ok(());
        };
        let Ok(vnode) = self.vnode(ino) else {
            return Ok(());
        }; // checked again later
        let dirty_bytes = vnode.read().dirty.len() * self.store.block_bytes;
        if dirty_bytes > CARRY_BYTES && self.find(to, &to.read_directory(), new_name)?.is_some() {
            self.shrink_to_group(&vnode)?;
        }
        Ok(())
    }

    /// True if `new` is another spelling of the name `old`, in the same directory.
    fn respells(&self, from: &Vnode, across: bool, old: &[u8], new: &[u8]) -> bool {
        let is_one_name = || directory::is_same(&self.store.key(from), old, new);
        !across && old != new && is_one_name()
    }

    /// A directory and all its ancestors. The caller has the rename mutex.
    fn ancestors(&self, vnode: &Arc<Vnode>) -> Result<Vec<InodeNo>> {
        let mut above = vec![vnode.ino];
        let mut at = Arc::clone(vnode);
        while at.ino != InodeNo::ROOT {
            let parent = at.read_directory().inode.parent;
            // Removed directories that are still referenced keep their former parent,
            // which may be removed as well; a damaged tree may contain a circle.
            if above.contains(&parent) {
                break;
            }
            above.push(parent);
            match self.vnode(parent) {
                Ok(next) => at = next,
                Err(Error::Stale) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(above)
    }

    fn move_name(
        &self,
        caller: &Caller,
        parents: &mut Parents<'_>,
        names: &Names<'_>,
        now: Timestamp,
    ) -> Result<()> {
        let source = self.named(parents.from.ino, names.source)?;
        let target = names.target.filter(|target| target.0 != names.source.0);
        let target = target
            .map(|found| self.named(parents.to.ino, found))
            .transpose()?;
        if source.kind == FileKind::Directory {
            self.uses(&source, Part::Place, Access::Write)?;
        }
        if let Some(target) = &target {
            self.uses_for_end(target)?;
        }
        let (mut state, mut target_state) = lock_children(&source, target.as_ref());
        state.live()?;
        target_state
            .as_ref()
            .map_or(Ok(()), |target| target.live())?;
        let is_directory = source.kind == FileKind::Directory;
        let across = parents.to_state.is_some();
        self.permit_removal(caller, &parents.from_state.inode, &state.inode)?;
        same_project(&parents.to_state().inode, &state.inode)?;
        if is_directory && across {
            // The directory's entry for its parent changes.
            self.permit(caller, &source, &state, WRITE)?;
        }
        if let (Some(target), Some(target_state)) = (&target, &target_state) {
            self.permit_removal(caller, &parents.to_state().inode, &target_state.inode)?;
            match (is_directory, target.kind == FileKind::Directory) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                (true, true) => self.must_be_empty(target, target_state)?,
                (false, false) => {}
            }
        } else if is_directory && across && parents.to_state().inode.nlink >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        if names.target.is_none() && !names.has_space {
            return Err(Error::NoSpace);
        }
        if is_directory {
            source.turn();
        }
        self.exchange_entries(parents, names, &source, target.is_some(), now)?;
        if is_directory && (across || target.is_some()) {
            let from = &mut parents.from_state.inode;
            from.nlink = from.nlink.saturating_sub(1).max(2);
            if target.is_none() {
                parents.to_state_mut().inode.nlink += 1;
            }
            source.move_below(&mut state, parents.to.ino);
        }
        state.inode.ctime = now;
        let carries = !planted::is(Planted::RenameLeavesData);
        if target.is_some() && state.has_data() && carries {
            state.join_epoch = true;
        }
        self.join(&source, &mut state);
        if let (Some(target), Some(target_state)) = (&target, &mut target_state) {
            if is_directory {
                self.drop_directory(target, target_state, now);
            } else {
                self.drop_link(target, target_state, now);
            }
        }
        Ok(())
    }

    /// The directories' part of a rename: the new name, then the old one, both or
    /// neither.
    fn exchange_entries(
        &self,
        parents: &mut Parents<'_>,
        names: &Names<'_>,
        source: &Vnode,
        replaces: bool,
        now: Timestamp,
    ) -> Result<()> {
        let (from, to) = (Arc::clone(parents.from), Arc::clone(parents.to));
        let respelled = names.target.is_some() && !replaces;
        if respelled {
            return self.respell(&from, &mut parents.from_state, names, source, now);
        }
        parents.to_state_mut().keep_former();
        let entered = if replaces {
            let state = parents.to_state_mut();
            self.replace_name(&to, state, names.new, (source.ino, source.kind), now)
        } else {
            let state = parents.to_state_mut();
            self.add_name(&to, state, names.new, source.ino, source.kind, now)
        };
        let both = entered.and_then(|()| match names.whiteout {
            None => self.remove_name(&from, &mut parents.from_state, names.old, now),
            Some(whiteout) => {
                let device = (whiteout, FileKind::CharDevice);
                self.replace_name(&from, &mut parents.from_state, names.old, device, now)
            }
        });
        self.keep_or_restore(parents.to_state_mut(), both)
    }

    /// Keeps the first of two changes if the second succeeded, and undoes it otherwise:
    /// half a rename must never be seen, nor logged.
    fn keep_or_restore(&self, state: &mut State, both: Result<()>) -> Result<()> {
        match &both {
            Ok(()) => state.former = None,
            Err(_) => self.restore(state),
        }
        both
    }

    /// Where case is folded: changes the spelling of a name. If the file has two distinct
    /// names, nothing happens.
    fn respell(
        &self,
        directory: &Arc<Vnode>,
        state: &mut State,
        names: &Names<'_>,
        source: &Vnode,
        now: Timestamp,
    ) -> Result<()> {
        state.keep_former();
        let both = self
            .remove_name(directory, state, names.old, now)
            .and_then(|()| {
                let kind = source.kind;
                self.add_name(directory, state, names.new, source.ino, kind, now)
            });
        match self.keep_or_restore(state, both) {
            Err(Error::Exists) => Ok(()),
            other => other,
        }
    }

    fn exchange(
        &self,
        caller: &Caller,
        parents: &mut Parents<'_>,
        names: &Names<'_>,
        now: Timestamp,
    ) -> Result<()> {
        let target = names.target.expect("checked by the caller");
        let source = self.named(parents.from.ino, names.source)?;
        let target = self.named(parents.to.ino, target)?;
        let (mut state, target_state) = lock_children(&source, Some(&target));
        let mut target_state = target_state.expect("two different files");
        state.live().and_then(|()| target_state.live())?;
        self.permit_removal(caller, &parents.from_state.inode, &state.inode)?;
        self.permit_removal(caller, &parents.to_state().inode, &target_state.inode)?;
        same_project(&parents.to_state().inode, &state.inode)?;
        same_project(&parents.from_state.inode, &target_state.inode)?;
        let across = parents.to_state.is_some();
        for (vnode, state) in [(&source, &state), (&target, &target_state)] {
            if across && vnode.kind == FileKind::Directory {
                self.permit(caller, vnode, state, WRITE)?;
            }
        }
        source.turn();
        target.turn();
        let (from, to) = (Arc::clone(parents.from), Arc::clone(parents.to));
        parents.to_state_mut().keep_former();
        let (old, new) = ((source.ino, source.kind), (target.ino, target.kind));
        let first = self.replace_name(&to, parents.to_state_mut(), names.new, old, now);
        let both = first
            .and_then(|()| self.replace_name(&from, &mut parents.from_state, names.old, new, now));
        self.keep_or_restore(parents.to_state_mut(), both)?;
        if across {
            move_directory_link(&source, &mut state, parents, true);
            move_directory_link(&target, &mut target_state, parents, false);
        }
        for (vnode, state) in [(&source, &mut state), (&target, &mut target_state)] {
            state.inode.ctime = now;
            // Each file replaces an existing one.
            state.join_epoch |= state.has_data();
            self.join(vnode, state);
        }
        Ok(())
    }
}

/// Updates links and parent of a directory that moved.
fn move_directory_link(vnode: &Vnode, state: &mut State, parents: &mut Parents<'_>, forth: bool) {
    if vnode.kind != FileKind::Directory {
        return;
    }
    let below = if forth { parents.to } else { parents.from };
    vnode.move_below(state, below.ino);
    let from = &mut parents.from_state.inode.nlink;
    *from = if forth {
        from.saturating_sub(1)
    } else {
        from.saturating_add(1)
    };
    let to = &mut parents.to_state_mut().inode.nlink;
    *to = if forth {
        to.saturating_add(1)
    } else {
        to.saturating_sub(1)
    };
}

fn lock_order(vnode: &Vnode) -> (bool, InodeNo) {
    (vnode.kind != FileKind::Directory, vnode.ino)
}

fn lock_parents<'a>(
    from: &'a Arc<Vnode>,
    to: &'a Arc<Vnode>,
    above: Option<&(Vec<InodeNo>, Vec<InodeNo>)>,
) -> Parents<'a> {
    let Some((above_from, above_to)) = above else {
        return Parents {
            from,
            to,
            from_state: from.write_directory(),
            to_state: None,
        };
    };
    // An ancestor before its descendants, as in every walk.
    let to_first = if above_from.contains(&to.ino) {
        true
    } else if above_to.contains(&from.ino) {
        false
    } else {
        to.ino < from.ino
    };
    if to_first {
        let to_state = to.write_directory();
        return Parents {
            from,
            to,
            from_state: from.write_directory(),
            to_state: Some(to_state),
        };
    }
    let from_state = from.write_directory();
    Parents {
        from,
        to,
        from_state,
        to_state: Some(to.write_directory()),
    }
}

/// Locks the files of the names: directories before other files, else by number, as a
/// commit does that changes many.
fn lock_children<'a>(
    source: &'a Arc<Vnode>,
    target: Option<&'a Arc<Vnode>>,
) -> (WriteState<'a>, Option<WriteState<'a>>) {
    match target {
        Some(target) if lock_order(target) < lock_order(source) => {
            let target_state = target.write();
            (source.write(), Some(target_state))
        }
        other => {
            let state = source.write();
            (state, other.map(|target| target.write()))
        }
    }
}
