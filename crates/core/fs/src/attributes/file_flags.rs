//! File flags, as `chattr` sets them, and project identifiers.
//!
//! The kernel checks permission bits on behalf of a mount but knows nothing of these
//! flags. They bind every caller, root included, even if the kernel has checked its
//! rights. They forbid the same operations as in ext4:
//!
//! | flag | refused with `NotPermitted` |
//! |---|---|
//! | immutable | any change of content, attributes or names, and links |
//! | append-only file | truncates, holes, other attributes, links, removal; writes that are not at the end |
//! | append-only directory | the removal of names, other attributes, its own removal |
//!
//! Each rule is one line here and a call at the operation: [`may_change`] before content
//! changes and names are entered, [`may_rewrite`] before every other change.
//!
//! A write through an open file is not checked for being at the end
//! ([`FileSystem::may_open`]), because the kernel writes back whole pages, which also
//! contain older bytes.

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

/// The flags of a file that `chattr` sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileFlags {
    /// `i`: nothing of the file can change.
    pub immutable: bool,
    /// `a`: a file only grows at its end; a directory only gets more names.
    pub append_only: bool,
    /// `A`: reads do not change the access time.
    pub no_atime: bool,
    /// `d`: a mark for programs that save files; it has no effect here.
    pub no_dump: bool,
    /// `S`: a change is durable before it is answered. New files inherit it.
    pub sync: bool,
    /// `D`, of directories: a change of its names is durable before it is answered.
    pub dir_sync: bool,
    /// `P`, of directories: new files in it get its project, and only files of that
    /// project may be linked or moved into it.
    pub project_inherit: bool,
    /// `j`: transaction-protected. A caller outside of transactions waits for the locks
    /// that transactions have on the file. New files inherit it.
    pub protected: bool,
}

/// Accessor of one flag.
type Field = fn(&mut FileFlags) -> &mut bool;

/// Bit of each flag on the volume.
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

/// Bits that a new file inherits from its directory.
const INHERITED: u32 = flags::NO_ATIME | flags::NO_DUMP | flags::SYNC | flags::PROTECTED;
/// Bits that a new directory inherits in addition.
const INHERITED_BY_DIRECTORIES: u32 = flags::DIR_SYNC | flags::PROJECT_INHERIT;
/// Bits that only directories can have.
const OF_DIRECTORIES: u32 = flags::DIR_SYNC | flags::PROJECT_INHERIT;
/// Bits that only root may change.
const PRIVILEGED: u32 = flags::IMMUTABLE | flags::APPEND_ONLY;
/// Bits because of which opening a regular file must be checked here. A new file inherits
/// one of them from its directory.
const GUARDS: u32 = flags::IMMUTABLE | flags::APPEND_ONLY | flags::SYNC;

impl FileFlags {
    /// Decodes the bits of an inode.
    pub fn from_bits(bits: u32) -> Self {
        let mut all = FileFlags::default();
        for (bit, flag) in BITS {
            *flag(&mut all) = bits & bit != 0;
        }
        all
    }

    /// Encodes the flags as bits of [`flags`].
    pub fn bits(mut self) -> u32 {
        let set = BITS.iter().filter(|(_, flag)| *flag(&mut self));
        set.map(|(bit, _)| bit).sum()
    }
}

/// The mode in which a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Open for writing.
    pub write: bool,
    /// Every write appends.
    pub append: bool,
    /// The file is emptied by the open.
    pub truncate: bool,
}

/// Checks that the flags allow any change.
///
/// # Errors
/// `NotPermitted` for an immutable inode.
pub(crate) fn may_change(inode: &Inode) -> Result<()> {
    refuse(inode, flags::IMMUTABLE)
}

/// Checks that the flags allow a change other than an addition.
///
/// # Errors
/// `NotPermitted` for an immutable or append-only inode.
pub(crate) fn may_rewrite(inode: &Inode) -> Result<()> {
    refuse(inode, flags::IMMUTABLE | flags::APPEND_ONLY)
}

fn refuse(inode: &Inode, bits: u32) -> Result<()> {
    match inode.flags & bits {
        0 => Ok(()),
        _ => Err(Error::NotPermitted),
    }
}

/// Checks that the flags allow a write of content at `offset`.
///
/// # Errors
/// `NotPermitted` for an immutable inode, and for an append-only one if the caller itself
/// writes before the end.
pub(crate) fn may_write(inode: &Inode, via: Via, offset: u64) -> Result<()> {
    let inside = offset < inode.size && via == Via::Caller;
    match inside {
        true => may_rewrite(inode),
        false => may_change(inode),
    }
}

/// Checks that the flags allow the removal of a name of `child` in `parent`.
///
/// # Errors
/// `NotPermitted` if either is immutable or append-only.
pub(crate) fn may_remove(parent: &Inode, child: &Inode) -> Result<()> {
    may_rewrite(parent)?;
    may_rewrite(child)
}

/// Checks that the flags allow these attributes to be set.
///
/// # Errors
/// `NotPermitted`; times of earlier writes may be set on an append-only inode.
pub(crate) fn may_set(inode: &Inode, set: &SetAttr) -> Result<()> {
    let given = |time: Option<SetTime>| matches!(time, Some(SetTime::At(_)));
    // A write-back cache that manages times itself reports the times of its writes with
    // `ctime`.
    let of_writes = set.ctime.is_some();
    let times = given(set.atime) || given(set.mtime) && !of_writes;
    let others = (set.mode, set.uid, set.gid) != (None, None, None) || set.size.is_some();
    match others || times {
        true => may_rewrite(inode),
        false => may_change(inode),
    }
}

/// Checks that `child` may get a name in `directory`.
///
/// # Errors
/// `CrossesProjects` if the directory restricts names to its own project and `child`
/// belongs to another.
pub(crate) fn same_project(directory: &Inode, child: &Inode) -> Result<()> {
    let bound = directory.flags & flags::PROJECT_INHERIT != 0;
    match bound && directory.project != child.project {
        true => Err(Error::CrossesProjects),
        false => Ok(()),
    }
}

/// Flags and project of a new file in `above`.
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

/// True if files of this volume must be checked when they are opened; `root` is its root
/// directory.
fn is_guarded(root: &Inode) -> bool {
    root.flags & flags::GUARDED != 0
}

impl<L: Layout> FileSystem<L> {
    /// The flags of a file.
    ///
    /// # Errors
    /// `Stale`, `Damaged`, device errors.
    pub fn file_flags(&self, ino: InodeNo) -> Result<FileFlags> {
        Ok(self.flags_and_project(ino)?.0)
    }

    /// The flags of a file and its project identifier, 0 if it has none.
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
    /// `NotPermitted` for a caller other than the owner and root, for a caller other than
    /// root if `immutable` or `append_only` change, and if the file is immutable and
    /// stays so; `NotSupported` for flags of directories on a file, for any other kind of
    /// file, and for `protected` where the layout has no transactions; `NoSpace`,
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
            // The layout has no transactions from which to protect the file.
            return Err(Error::NotSupported);
        }
        let guards = match vnode.kind {
            FileKind::Directory => INHERITED & GUARDS,
            _ => GUARDS,
        };
        if new & guards != 0 && !self.is_guarded()? {
            // Checked here as well, because the guard itself is a change.
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

    /// True if the volume may contain files that must be checked before they are opened,
    /// see [`Self::may_open`].
    ///
    /// # Errors
    /// `Damaged`, device errors.
    pub fn is_guarded(&self) -> Result<bool> {
        Ok(is_guarded(&self.vnode(InodeNo::ROOT)?.read().inode))
    }

    /// Marks the root directory, in the same group or an earlier one, so that opens are
    /// checked.
    fn guard(&self) -> Result<()> {
        let root = self.vnode(InodeNo::ROOT)?;
        let _operation = self.begin(Usage::default(), REMOVAL_BYTES, Purpose::Shrink)?;
        let mut state = root.write();
        state.inode.flags |= flags::GUARDED;
        self.join(&root, &mut state);
        Ok(())
    }

    /// Checks whether a file's flags allow it to be opened in this mode, and returns the
    /// flags.
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

    /// Makes changes of `ino` durable if `sync` is set.
    ///
    /// # Errors
    /// As [`Self::fsync`].
    pub(crate) fn settle(&self, sync: bool, ino: InodeNo) -> Result<()> {
        match sync {
            true => self.fsync(ino, false),
            false => Ok(()),
        }
    }

    /// Makes changes of a file durable if its flags ask for that.
    ///
    /// # Errors
    /// As [`Self::fsync`].
    #[inline]
    pub(crate) fn settle_file(&self, vnode: &Vnode) -> Result<()> {
        let sync = vnode.read().inode.flags & flags::SYNC != 0;
        self.settle(sync, vnode.ino)
    }

    /// Makes changes of the names in a directory durable if its flags or the layout ask
    /// for that.
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

/// All bits that [`FileFlags`] represents.
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
