//! File flags, as `chattr` sets them, and project identifiers.
//!
//! The kernel checks permission bits for a mount, but of these flags it knows
//! nothing: they bind every caller, whoever has checked its rights, and root
//! as well. What each forbids is what ext4 forbids:
//!
//! | flag | refused with `NotPermitted` |
//! |---|---|
//! | immutable | any change of content, attributes or names, and links |
//! | append-only file | truncates, holes, other attributes, links, removal; writes that are not at the end |
//! | append-only directory | the removal of names, other attributes, its own removal |
//!
//! A change of what may be is one line here and a call where it happens:
//! [`may_change`] before content changes and names are entered, [`may_rewrite`]
//! before all else does.
//!
//! Whether a write is at the end is not asked where the file was opened first
//! ([`FileSystem::may_open`]): what a kernel writes back is whole pages, which
//! also hold older bytes.

use crate::account::prices::REMOVAL_BYTES;
use crate::attr::{Caller, SetAttr, SetTime};
use crate::attributes::permission::permit_owner;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::inode::{Inode, flags};
use crate::isolation::{self, Part};
use crate::layout::{Layout, Promise, Purpose, Usage};
use crate::memory::vnode::{State, Vnode};
use crate::types::{FileKind, InodeNo};
use crate::via::Via;
use std::sync::Arc;

/// What `chattr` says of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileFlags {
    /// `i`: nothing of it changes.
    pub immutable: bool,
    /// `a`: a file only grows at its end; a directory only gets more names.
    pub append_only: bool,
    /// `A`: reading leaves its access time alone.
    pub no_atime: bool,
    /// `d`: for programs that save files; it means nothing here.
    pub no_dump: bool,
    /// `S`: a change is durable before it is answered. New files inherit it.
    pub sync: bool,
    /// `D`, of directories: the same for names in it.
    pub dir_sync: bool,
    /// `P`, of directories: what is made in it has its project, and only what
    /// has may be linked or moved into it.
    pub project_inherit: bool,
    /// `j`: transaction-protected. Whoever uses it outside a transaction waits for the
    /// locks that transactions hold on it. New files inherit it.
    pub protected: bool,
}

/// Where a flag is.
type Field = fn(&mut FileFlags) -> &mut bool;

/// Each flag's bit on the volume.
const BITS: [(u32, Field); 8] = [
    (flags::IMMUTABLE, |f| &mut f.immutable),
    (flags::APPEND_ONLY, |f| &mut f.append_only),
    (flags::NO_ATIME, |f| &mut f.no_atime),
    (flags::NO_DUMP, |f| &mut f.no_dump),
    (flags::SYNC, |f| &mut f.sync),
    (flags::DIR_SYNC, |f| &mut f.dir_sync),
    (flags::PROJECT_INHERIT, |f| &mut f.project_inherit),
    (flags::PROTECTED, |f| &mut f.protected),
];

/// What a new file has of its directory.
const INHERITED: u32 = flags::NO_ATIME | flags::NO_DUMP | flags::SYNC | flags::PROTECTED;
/// And a new directory, beside that.
const INHERITED_BY_DIRECTORIES: u32 = flags::DIR_SYNC | flags::PROJECT_INHERIT;
/// What only directories have.
const OF_DIRECTORIES: u32 = flags::DIR_SYNC | flags::PROJECT_INHERIT;
/// What only root may change.
const PRIVILEGED: u32 = flags::IMMUTABLE | flags::APPEND_ONLY;
/// What makes opening a regular file a matter of ours; a directory passes one
/// of them on.
const GUARDS: u32 = flags::IMMUTABLE | flags::APPEND_ONLY | flags::SYNC;

impl FileFlags {
    /// What the bits of an inode say.
    pub fn from_bits(bits: u32) -> Self {
        let mut all = FileFlags::default();
        for (bit, flag) in BITS {
            *flag(&mut all) = bits & bit != 0;
        }
        all
    }

    /// The same as bits of [`flags`].
    pub fn bits(mut self) -> u32 {
        let set = BITS.iter().filter(|(_, flag)| *flag(&mut self));
        set.map(|(bit, _)| bit).sum()
    }
}

/// How a file is to be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// For writing.
    pub write: bool,
    /// Every write goes to the end.
    pub append: bool,
    /// It is emptied.
    pub truncate: bool,
}

/// # Errors
/// `NotPermitted` if nothing of the inode may change.
pub(crate) fn may_change(inode: &Inode) -> Result<()> {
    refuse(inode, flags::IMMUTABLE)
}

/// # Errors
/// `NotPermitted` if nothing of the inode may change but what is added to it.
pub(crate) fn may_rewrite(inode: &Inode) -> Result<()> {
    refuse(inode, flags::IMMUTABLE | flags::APPEND_ONLY)
}

fn refuse(inode: &Inode, bits: u32) -> Result<()> {
    match inode.flags & bits {
        0 => Ok(()),
        _ => Err(Error::NotPermitted),
    }
}

/// # Errors
/// `NotPermitted` if content may not be written from `offset` on.
pub(crate) fn may_write(inode: &Inode, via: Via, offset: u64) -> Result<()> {
    let inside = offset < inode.size && via == Via::Caller;
    match inside {
        true => may_rewrite(inode),
        false => may_change(inode),
    }
}

/// # Errors
/// `NotPermitted` if `child` may not lose a name in `parent`.
pub(crate) fn may_remove(parent: &Inode, child: &Inode) -> Result<()> {
    may_rewrite(parent)?;
    may_rewrite(child)
}

/// # Errors
/// `NotPermitted` if these attributes may not be set.
pub(crate) fn may_set(inode: &Inode, set: &SetAttr) -> Result<()> {
    let given = |time: Option<SetTime>| matches!(time, Some(SetTime::At(_)));
    // A cache that keeps times itself hands over those of its writes so.
    let of_writes = set.ctime.is_some();
    let times = given(set.atime) || given(set.mtime) && !of_writes;
    let others = (set.mode, set.uid, set.gid) != (None, None, None) || set.size.is_some();
    match others || times {
        true => may_rewrite(inode),
        false => may_change(inode),
    }
}

/// # Errors
/// `CrossesProjects` if `child` may not get a name in `directory`, which says
/// whose projects its names belong to.
pub(crate) fn same_project(directory: &Inode, child: &Inode) -> Result<()> {
    let bound = directory.flags & flags::PROJECT_INHERIT != 0;
    match bound && directory.project != child.project {
        true => Err(Error::CrossesProjects),
        false => Ok(()),
    }
}

/// Flags and project of what is made in `above`.
pub(crate) fn inherited(above: &Inode, kind: FileKind) -> (u32, u32) {
    let bits = match kind {
        FileKind::Directory => INHERITED | INHERITED_BY_DIRECTORIES,
        FileKind::Regular => INHERITED,
        _ => INHERITED & !flags::SYNC,
    };
    let bound = above.flags & flags::PROJECT_INHERIT != 0;
    let project = if bound { above.project } else { 0 };
    (above.flags & bits, project)
}

/// True if opening files of this volume is to be asked for: `root` is its
/// root directory.
fn is_guarded(root: &Inode) -> bool {
    root.flags & flags::GUARDED != 0
}

impl<L: Layout> FileSystem<L> {
    /// A file's flags.
    ///
    /// # Errors
    /// `Stale`, `Damaged`, device errors.
    pub fn file_flags(&self, ino: InodeNo) -> Result<FileFlags> {
        Ok(self.flags_and_project(ino)?.0)
    }

    /// A file's flags, and the identifier of the project it counts to, 0 if
    /// there is none.
    ///
    /// # Errors
    /// As [`Self::file_flags`].
    pub fn flags_and_project(&self, ino: InodeNo) -> Result<(FileFlags, u32)> {
        let vnode = self.vnode(ino)?;
        self.uses(&vnode, Part::Attributes, isolation::Access::Read)?;
        let state = vnode.read();
        state.live()?;
        Ok((FileFlags::from_bits(state.inode.flags), state.inode.project))
    }

    /// Sets all flags of a file or directory, and its project if one is given.
    ///
    /// # Errors
    /// `NotPermitted` for anybody but the owner and root, for anybody but root
    /// if `immutable` or `append_only` change, and if the file is immutable
    /// and stays so; `NotSupported` for flags of directories on a file, for anything that
    /// is neither, and for `protected` where the layout has no transactions; `NoSpace`,
    /// `ReadOnly`, `Stale`, `Damaged`, device errors.
    pub fn set_file_flags(
        &self,
        caller: &Caller,
        ino: InodeNo,
        new: FileFlags,
        project: Option<u32>,
    ) -> Result<()> {
        let (new, vnode) = (new.bits(), self.vnode(ino)?);
        self.uses(&vnode, Part::Attributes, isolation::Access::Write)?;
        match vnode.kind {
            FileKind::Directory => {}
            FileKind::Regular if new & OF_DIRECTORIES == 0 => {}
            _ => return Err(Error::NotSupported),
        }
        let protects = new & !vnode.read().inode.flags & flags::PROTECTED != 0;
        if protects && !self.store.geometry.snapshots {
            // There are no transactions to protect it from.
            return Err(Error::NotSupported);
        }
        let guards = match vnode.kind {
            FileKind::Directory => INHERITED & GUARDS,
            _ => GUARDS,
        };
        if new & guards != 0 && !self.is_guarded()? {
            // May the caller do that at all?
            self.permit_flags(caller, &vnode.read(), new, project)?;
            self.guard()?;
        }
        let operation = self.begin(Usage::default(), REMOVAL_BYTES, Purpose::Shrink)?;
        let mut state = vnode.write();
        state.live()?;
        self.permit_flags(caller, &state, new, project)?;
        let inode = &mut state.inode;
        inode.flags = inode.flags & !FLAGS | new;
        inode.project = project.unwrap_or(inode.project);
        inode.ctime = self.now();
        self.join(&vnode, &mut state);
        let sync = state.inode.flags & flags::SYNC != 0;
        drop(state);
        drop(operation);
        self.dirtied();
        self.settle(sync, ino)
    }

    fn permit_flags(
        &self,
        caller: &Caller,
        state: &State,
        new: u32,
        project: Option<u32>,
    ) -> Result<()> {
        let inode = &state.inode;
        permit_owner(caller, inode)?;
        let changed = (inode.flags ^ new) & FLAGS;
        let trusted = caller.checked || caller.is_root();
        if changed & PRIVILEGED != 0 && !trusted {
            return Err(Error::NotPermitted);
        }
        let moves = project.is_some_and(|project| project != inode.project);
        let stays = inode.flags & new & flags::IMMUTABLE != 0;
        if stays && (changed != 0 || moves) {
            return Err(Error::NotPermitted);
        }
        Ok(())
    }

    /// True if the volume may hold files that have to be asked for before they
    /// are opened, see [`Self::may_open`].
    ///
    /// # Errors
    /// `Damaged`, device errors.
    pub fn is_guarded(&self) -> Result<bool> {
        Ok(is_guarded(&self.vnode(InodeNo::ROOT)?.read().inode))
    }

    /// Notes with the root directory, in an earlier group or the same, that
    /// there is such a file.
    fn guard(&self) -> Result<()> {
        let root = self.vnode(InodeNo::ROOT)?;
        let _operation = self.begin(Usage::default(), REMOVAL_BYTES, Purpose::Shrink)?;
        let mut state = root.write();
        state.inode.flags |= flags::GUARDED;
        self.join(&root, &mut state);
        Ok(())
    }

    /// Asks whether a file's flags let it be opened so, and answers what they
    /// are.
    ///
    /// # Errors
    /// `NotPermitted`; otherwise as [`Self::file_flags`].
    pub fn may_open(&self, ino: InodeNo, access: Access) -> Result<FileFlags> {
        let vnode = self.vnode(ino)?;
        let state = vnode.read();
        state.live()?;
        if vnode.kind == FileKind::Regular {
            if access.write {
                may_change(&state.inode)?;
            }
            if access.truncate || access.write && !access.append {
                may_rewrite(&state.inode)?;
            }
        }
        Ok(FileFlags::from_bits(state.inode.flags))
    }

    /// Waits until what happened to `ino` is durable, if `sync`.
    ///
    /// # Errors
    /// As [`Self::fsync`].
    pub(crate) fn settle(&self, sync: bool, ino: InodeNo) -> Result<()> {
        match sync {
            true => self.fsync(ino, false),
            false => Ok(()),
        }
    }

    /// Waits until what happened to a file is durable, if it wants that.
    ///
    /// # Errors
    /// As [`Self::fsync`].
    #[inline]
    pub(crate) fn settle_file(&self, vnode: &Vnode) -> Result<()> {
        let sync = vnode.read().inode.flags & flags::SYNC != 0;
        self.settle(sync, vnode.ino)
    }

    /// The same of names in a directory, or if the layout has names wait.
    ///
    /// # Errors
    /// As [`Self::fsync`].
    #[inline]
    pub(crate) fn settle_names(&self, directory: &Arc<Vnode>) -> Result<()> {
        let wants = flags::SYNC | flags::DIR_SYNC;
        let sync = self.store.layout.promise() == Promise::Ordered
            || directory.read_directory().inode.flags & wants != 0;
        self.settle(sync, directory.ino)
    }
}

/// All that [`FileFlags`] tells of.
const FLAGS: u32 = flags::IMMUTABLE
    | flags::APPEND_ONLY
    | flags::NO_ATIME
    | flags::NO_DUMP
    | flags::SYNC
    | flags::DIR_SYNC
    | flags::PROJECT_INHERIT
    | flags::PROTECTED;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_has_a_bit_of_its_own() {
        let mut seen = 0;
        for (bit, flag) in BITS {
            let mut one = FileFlags::default();
            *flag(&mut one) = true;
            assert_eq!(one.bits(), bit);
            assert_eq!(FileFlags::from_bits(bit), one);
            assert_eq!(seen & bit, 0, "two flags share a bit");
            seen |= bit;
        }
        assert_eq!(seen, FLAGS);
        assert_eq!(
            seen & (flags::INLINE | flags::TRUNCATING | flags::GUARDED),
            0
        );
    }
}
