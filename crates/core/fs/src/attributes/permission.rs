//! Access checks: permission bits, the sticky bit, ownership.

use crate::attr::Caller;
use crate::attributes::acl;
use crate::attributes::file_flags::may_remove;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::inode::Inode;
use crate::layout::Layout;
use crate::memory::vnode::{State, Vnode};
use crate::types::{FileKind, InodeNo};

/// Permission to read.
pub(crate) const READ: u32 = 4;
/// Permission to change.
pub(crate) const WRITE: u32 = 2;
/// Permission to execute a file, or to search a directory.
pub(crate) const EXECUTE: u32 = 1;

impl<L: Layout> FileSystem<L> {
    /// Checks whether the caller may read (4), write (2), execute (1), or any sum of
    /// these; 0 checks only that the file exists.
    ///
    /// # Errors
    /// `AccessDenied`, `ReadOnly` for writing on such a volume, `Stale`.
    pub fn access(&self, caller: &Caller, ino: InodeNo, mask: u32) -> Result<()> {
        let vnode = self.vnode(ino)?;
        let state = vnode.read();
        state.live()?;
        let file = matches!(vnode.kind, FileKind::Regular | FileKind::Directory);
        if mask & WRITE != 0 && file {
            self.check_writable()?;
        }
        let checked = Caller {
            checked: false,
            ..caller.clone()
        };
        self.permit(&checked, &vnode, &state, mask & 7)
    }

    /// Checks that the caller has all permissions in `mask`.
    ///
    /// # Errors
    /// `AccessDenied`.
    #[inline]
    pub(crate) fn permit(
        &self,
        caller: &Caller,
        vnode: &Vnode,
        state: &State,
        mask: u32,
    ) -> Result<()> {
        if caller.checked {
            return Ok(());
        }
        let inode = &state.inode;
        if caller.is_root() {
            let executable = inode.kind() == FileKind::Directory || inode.mode & 0o111 != 0;
            return if mask & EXECUTE == 0 || executable {
                Ok(())
            } else {
                Err(Error::AccessDenied)
            };
        }
        let granted = if caller.uid == inode.uid {
            inode.mode >> 6
        } else if let Some(entries) = self.access_acl(vnode, state)? {
            acl::granted(&entries, caller, inode, mask)
        } else if caller.in_group(inode.gid) {
            inode.mode >> 3
        } else {
            inode.mode
        };
        if granted & mask == mask {
            Ok(())
        } else {
            Err(Error::AccessDenied)
        }
    }

    /// Checks that the caller may remove a name.
    ///
    /// # Errors
    /// `NotPermitted` if flags of the directory or of the named file forbid it, or if the
    /// directory is sticky and neither belongs to the caller.
    pub(crate) fn permit_removal(
        &self,
        caller: &Caller,
        parent: &Inode,
        child: &Inode,
    ) -> Result<()> {
        may_remove(parent, child)?;
        let sticky = parent.mode & 0o1000 != 0 && !caller.checked && !caller.is_root();
        if sticky && caller.uid != parent.uid && caller.uid != child.uid {
            return Err(Error::NotPermitted);
        }
        Ok(())
    }
}

/// Checks that the caller owns the inode or is root.
///
/// # Errors
/// `NotPermitted`.
pub(crate) fn permit_owner(caller: &Caller, inode: &Inode) -> Result<()> {
    if caller.checked || caller.is_root() || caller.uid == inode.uid {
        Ok(())
    } else {
        Err(Error::NotPermitted)
    }
}

/// The mode of `inode` after `caller` has changed its owner or its content.
///
/// A set-group-id bit without group execution gives no rights. It is cleared all the same
/// if the caller is not in the group, as in Linux since 6.2.
pub(crate) fn without_set_id(inode: &Inode, caller: &Caller) -> u32 {
    let mode = inode.mode & !0o4000;
    let in_group = caller.is_root() || caller.in_group(inode.gid);
    if mode & 0o010 == 0 && in_group {
        mode
    } else {
        mode & !0o2000
    }
}
