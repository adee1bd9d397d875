//! Making regular and special files, directories, and links.

use crate::attr::{Attr, Caller};
use crate::attributes::acl;
use crate::attributes::file_flags::{inherited, may_rewrite, same_project};
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::inode::{Inode, TARGET_MAX};
use crate::layout::{Layout, Usage};
use crate::memory::vnode::{Dirty, State, Vnode, sectors_of};
use crate::names::lookup::{LINKS_MAX, new_name};
use crate::space::Number;
use crate::statistics::count;
use crate::types::{FileKind, InodeNo, Timestamp};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const ONE_INODE: Usage = Usage {
    inodes: 1,
    blocks: 0,
    sectors: 0,
};

/// Initial values of a new inode.
struct New<'a> {
    pub kind: FileKind,
    /// Permission bits before umask.
    pub mode: u32,
    pub rdev: u64,
    /// Target of a symbolic link.
    pub target: &'a [u8],
    pub nlink: u32,
    /// Number of initial references.
    pub holds: u64,
}

impl<L: Layout> FileSystem<L> {
    /// Makes a regular or special file. `mode` has type and permission bits; no type
    /// means a regular file.
    ///
    /// # Errors
    /// `Exists`, `NotPermitted` for a directory's type or a device made by a caller other
    /// than root, `NoSpace`, and as [`Self::lookup`].
    pub fn mknod(
        &self,
        caller: &Caller,
        parent: InodeNo,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Attr> {
        self.make_node(caller, parent, name, mode, rdev, 0)
    }

    /// [`Self::mknod`] that takes a reference for the caller, to be dropped by
    /// [`Self::release`]. The file cannot be freed before the caller has it.
    ///
    /// # Errors
    /// As [`Self::mknod`].
    pub fn mknod_held(
        &self,
        caller: &Caller,
        parent: InodeNo,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Attr> {
        self.make_node(caller, parent, name, mode, rdev, 1)
    }

    fn make_node(
        &self,
        caller: &Caller,
        parent: InodeNo,
        name: &[u8],
        mode: u32,
        rdev: u64,
        holds: u64,
    ) -> Result<Attr> {
        let kind = match mode >> 12 & 0xf {
            0 => FileKind::Regular,
            _ => FileKind::from_mode(mode).ok_or(Error::Invalid("no such file type"))?,
        };
        let device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
        let forbidden = matches!(kind, FileKind::Directory | FileKind::Symlink);
        if forbidden || (device && !caller.is_root() && !caller.checked) {
            return Err(Error::NotPermitted);
        }
        let rdev = if device { rdev } else { 0 };
        self.make(
            caller,
            parent,
            name,
            New {
                kind,
                mode,
                rdev,
                target: b"",
                nlink: 1,
                holds,
            },
        )
    }

    /// Makes an empty directory.
    ///
    /// # Errors
    /// `TooManyLinks`, otherwise as [`Self::mknod`].
    pub fn mkdir(&self, caller: &Caller, parent: InodeNo, name: &[u8], mode: u32) -> Result<Attr> {
        let new = New {
            kind: FileKind::Directory,
            mode,
            rdev: 0,
            target: b"",
            nlink: 2,
            holds: 0,
        };
        self.make(caller, parent, name, new)
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// `NameTooLong` for a target of more than 4095 bytes, `NotFound` for an empty one,
    /// otherwise as [`Self::mknod`].
    pub fn symlink(
        &self,
        caller: &Caller,
        parent: InodeNo,
        name: &[u8],
        target: &[u8],
    ) -> Result<Attr> {
        match target.len() {
            0 => return Err(Error::NotFound),
            length if length as u64 > TARGET_MAX => return Err(Error::NameTooLong),
            _ => {}
        }
        let new = New {
            kind: FileKind::Symlink,
            mode: 0o777,
            rdev: 0,
            target,
            nlink: 1,
            holds: 0,
        };
        self.make(caller, parent, name, new)
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// `NotPermitted` for directories and for files that are immutable or append-only,
    /// `CrossesProjects`, `TooManyLinks`, `NotFound` if the file has lost its last name,
    /// otherwise as [`Self::mknod`].
    pub fn link(
        &self,
        caller: &Caller,
        ino: InodeNo,
        parent: InodeNo,
        name: &[u8],
    ) -> Result<Attr> {
        new_name(name)?;
        let vnode = self.vnode(ino)?;
        if vnode.kind == FileKind::Directory {
            return Err(self.refuse_link(caller, parent, name)?);
        }
        let _outside = self.outside_names(&[(parent, name)])?;
        let begun = self.begin_in(parent, Usage::default());
        let refused = |error| self.refused_in(error, caller, parent, Some(name));
        let (directory, operation) = begun.map_err(refused)?;
        let now = self.now();
        let mut above = directory.write_directory();
        self.may_enter(caller, &directory, &above)?;
        let mut state = vnode.write();
        state.live()?;
        may_rewrite(&state.inode)?;
        same_project(&above.inode, &state.inode)?;
        if state.inode.nlink == 0 && !state.linkable {
            return Err(Error::NotFound);
        }
        if state.inode.nlink >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        self.add_name(&directory, &mut above, name, ino, vnode.kind, now)?;
        state.linkable = false;
        state.inode.nlink += 1;
        state.inode.ctime = now;
        self.join(&vnode, &mut state);
        count(&self.store.counters.creates, 1);
        let attr = vnode.attr(&state, self.store.geometry.block_bytes);
        drop((state, above, operation));
        self.settle_names(&directory)?;
        Ok(attr)
    }

    /// Makes a regular file without a name, and takes a reference for the caller, to be
    /// dropped by [`Self::release`]; [`Self::link`] gives it a name before that.
    ///
    /// # Errors
    /// As [`Self::mknod`].
    pub fn tmpfile(&self, caller: &Caller, parent: InodeNo, mode: u32) -> Result<Attr> {
        let begun = self.begin_making(parent, ONE_INODE, FileKind::Regular);
        let refused = |error| self.refused_in(error, caller, parent, None);
        let (directory, number, _operation) = begun.map_err(refused)?;
        let above = directory.write_directory();
        self.may_enter(caller, &directory, &above)?;
        let new = New {
            kind: FileKind::Regular,
            mode,
            rdev: 0,
            target: b"",
            nlink: 0,
            holds: 1,
        };
        let acls = self.default_acl(&directory, &above, new.kind)?;
        let inode = self.new_inode(caller, &above.inode, &new, &number, acls.as_ref());
        let inherited = self.inherited(acls, inode.mode)?;
        number.keep();
        let vnode = self.enter_new(inode, &new, inherited);
        let attr = vnode.attr(&vnode.read(), self.store.geometry.block_bytes);
        Ok(attr)
    }

    /// Makes the inode of a whiteout whose name in `above` has been entered.
    pub(crate) fn make_whiteout(&self, caller: &Caller, above: &Inode, number: Number<'_, L>) {
        let new = New {
            kind: FileKind::CharDevice,
            mode: 0,
            rdev: 0,
            target: b"",
            nlink: 1,
            holds: 0,
        };
        let inode = self.new_inode(caller, above, &new, &number, None);
        number.keep();
        self.enter_new(inode, &new, Vec::new());
    }

    fn make(&self, caller: &Caller, parent: InodeNo, name: &[u8], new: New<'_>) -> Result<Attr> {
        new_name(name)?;
        let target = Usage {
            inodes: 1,
            blocks: u64::from(!new.target.is_empty()),
            sectors: sectors_of(new.target.len()),
        };
        let _outside = self.outside_names(&[(parent, name)])?;
        let begun = self.begin_making(parent, target, new.kind);
        let refused = |error| self.refused_in(error, caller, parent, Some(name));
        let (directory, number, operation) = begun.map_err(refused)?;
        let now = self.now();
        let mut above = directory.write_directory();
        self.may_enter(caller, &directory, &above)?;
        if new.kind == FileKind::Directory && above.inode.nlink >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        let acls = self.default_acl(&directory, &above, new.kind)?;
        let inode = self.new_inode(caller, &above.inode, &new, &number, acls.as_ref());
        let inherited = self.inherited(acls, inode.mode)?;
        self.add_name(&directory, &mut above, name, number.ino, new.kind, now)?;
        number.keep();
        if new.kind == FileKind::Directory {
            above.inode.nlink += 1;
        }
        let inode = Inode {
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            ..inode
        };
        let mut attr = Attr::of(&inode, self.store.geometry.block_bytes);
        let vnode = self.enter_new(inode, &new, inherited);
        if !new.target.is_empty() {
            attr = vnode.attr(&vnode.read(), self.store.geometry.block_bytes);
        }
        count(&self.store.counters.creates, 1);
        drop(above);
        drop(operation);
        self.dirtied();
        self.settle_names(&directory)?;
        Ok(attr)
    }

    /// A new inode in `above`, with the owner and group that POSIX and set-gid
    /// directories require.
    fn new_inode(
        &self,
        caller: &Caller,
        above: &Inode,
        new: &New<'_>,
        number: &Number<'_, L>,
        acls: Option<&acl::Inherited>,
    ) -> Inode {
        let now = self.now();
        let (flags, project) = inherited(above, new.kind);
        let set_gid = above.mode & 0o2000 != 0;
        let gid = if set_gid { above.gid } else { caller.gid };
        let mut bits = new.mode & 0o7777;
        let outsider = !caller.checked && !caller.is_root() && !caller.in_group(gid);
        if bits & 0o2010 == 0o2010 && outsider {
            bits &= !0o2000;
        }
        match (new.kind, acls) {
            (FileKind::Symlink, _) => bits = 0o777,
            (_, Some(acls)) => bits = bits & !0o777 | acls.mode(bits),
            (_, None) => bits &= !(caller.umask & 0o777),
        }
        if new.kind == FileKind::Directory {
            bits |= above.mode & 0o2000;
        }
        Inode {
            uid: caller.uid,
            gid,
            nlink: new.nlink,
            rdev: new.rdev,
            flags,
            project,
            parent: if new.kind == FileKind::Directory {
                above.ino
            } else {
                InodeNo(0)
            },
            ..Inode::new(number.ino, number.version, new.kind.mode_bits() | bits, now)
        }
    }

    /// The attributes of a new file with this mode.
    ///
    /// # Errors
    /// `NoSpace` if the layout cannot store so many: a directory has the list that it
    /// inherits twice.
    fn inherited(&self, acls: Option<acl::Inherited>, mode: u32) -> Result<Vec<u8>> {
        let Some(acls) = acls else {
            return Ok(Vec::new());
        };
        let blob = acls.blob(mode)?;
        match blob.len() > self.store.geometry.xattr_bytes {
            true => Err(Error::NoSpace),
            false => Ok(blob),
        }
    }

    /// Enters a new inode, with its extended attributes if it has any, into the table and
    /// the epoch. No other thread has seen it.
    fn enter_new(&self, inode: Inode, new: &New<'_>, xattrs: Vec<u8>) -> Arc<Vnode> {
        let now = inode.btime;
        let vnode = Arc::new(Vnode::new(inode, self.store.birth(), self.level));
        {
            let mut state = vnode.write();
            self.space.settle(Usage::default(), state.usage());
            let before = state.usage();
            if !new.target.is_empty() {
                self.set_target(&mut state, new.target, now);
            }
            if !xattrs.is_empty() {
                self.set_blob(&mut state, xattrs);
            }
            self.space.settle(before, state.usage());
            state.linkable = new.nlink == 0;
            vnode.refs.store(new.holds, Relaxed);
            self.join(&vnode, &mut state);
        }
        self.table.insert(Arc::clone(&vnode));
        vnode
    }

    fn set_target(&self, state: &mut State, target: &[u8], now: Timestamp) {
        state.inode.size = target.len() as u64;
        if target.len() <= self.store.geometry.inline_bytes {
            state.set_inline(target.to_vec());
            return;
        }
        state.inode.blocks = 1;
        state.inode.sectors = sectors_of(target.len());
        self.waits.block_came(target.len());
        let data = target.to_vec().into();
        state.dirty.insert(
            0,
            Dirty {
                data,
                logged_sectors: 0,
                written: now,
                flying: false,
            },
        );
    }
}
