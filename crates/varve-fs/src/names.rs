//! Looking names up, and making new ones.

use crate::acl;
use crate::attr::{Attr, Caller};
use crate::directory;
use crate::directory_blocks::{Changed, Searched};
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::inode::Inode;
use crate::layout::{Layout, Purpose, Usage};
use crate::permission::{EXECUTE, WRITE};
use crate::statistics::count;
use crate::types::{FileKind, InodeNo, Timestamp, View};
use crate::vnode::{Dirty, State, Vnode, dirty_charge, sectors_of};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Links a file may have.
pub(crate) const LINKS_MAX: u32 = u32::MAX / 2;
/// The longest symbolic link's target.
const TARGET_MAX: usize = 4095;

/// What a new inode starts with.
pub(crate) struct New<'a> {
    pub kind: FileKind,
    /// Permission bits before umask.
    pub mode: u32,
    pub rdev: u64,
    /// A symbolic link's.
    pub target: &'a [u8],
    pub nlink: u32,
}

impl<L: Layout> FileSystem<L> {
    /// What a name leads to; `.` and `..` work.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `AccessDenied`, `NameTooLong`, `Stale`,
    /// `Damaged`, device errors.
    pub fn lookup(
        &self,
        view: View,
        caller: &Caller,
        parent: InodeNo,
        name: &[u8],
    ) -> Result<Attr> {
        let View::Live = view;
        count(&self.store.counters.lookups, 1);
        let directory = self.vnode(parent)?;
        directory.directory()?;
        let ino = {
            let state = directory.read_directory();
            state.live()?;
            self.permit(caller, &directory, &state, EXECUTE)?;
            match name {
                b"." => parent,
                b".." => state.inode.parent,
                _ => {
                    self.find(&directory, &state, name)?
                        .ok_or(Error::NotFound)?
                        .0
                }
            }
        };
        // Between the two the name may go; then it was not found.
        self.getattr(view, ino).map_err(|error| match error {
            Error::Stale => Error::NotFound,
            other => other,
        })
    }

    /// The directory that holds a directory's name; the root is its own.
    ///
    /// # Errors
    /// `NotDirectory`, `Stale`, `Damaged`, device errors.
    pub fn parent(&self, view: View, ino: InodeNo) -> Result<InodeNo> {
        let View::Live = view;
        let vnode = self.vnode(ino)?;
        vnode.directory()?;
        let state = vnode.read();
        state.live()?;
        Ok(state.inode.parent)
    }

    /// Makes a regular or special file. `mode` holds type and permission bits;
    /// no type means a regular file.
    ///
    /// # Errors
    /// `Exists`, `NotPermitted` for a directory's type or a device made by
    /// other than root, `NoSpace`, and as [`Self::lookup`].
    pub fn mknod(
        &self,
        view: View,
        caller: &Caller,
        parent: InodeNo,
        name: &[u8],
        mode: u32,
        rdev: u64,
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
            view,
            caller,
            parent,
            name,
            New {
                kind,
                mode,
                rdev,
                target: b"",
                nlink: 1,
            },
        )
    }

    /// Makes an empty directory.
    ///
    /// # Errors
    /// `TooManyLinks`, otherwise as [`Self::mknod`].
    pub fn mkdir(
        &self,
        view: View,
        caller: &Caller,
        parent: InodeNo,
        name: &[u8],
        mode: u32,
    ) -> Result<Attr> {
        let new = New {
            kind: FileKind::Directory,
            mode,
            rdev: 0,
            target: b"",
            nlink: 2,
        };
        self.make(view, caller, parent, name, new)
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// `NameTooLong` for a target of more than 4095 bytes, `NotFound` for an
    /// empty one, otherwise as [`Self::mknod`].
    pub fn symlink(
        &self,
        view: View,
        caller: &Caller,
        parent: InodeNo,
        name: &[u8],
        target: &[u8],
    ) -> Result<Attr> {
        match target.len() {
            0 => return Err(Error::NotFound),
            length if length > TARGET_MAX => return Err(Error::NameTooLong),
            _ => {}
        }
        let new = New {
            kind: FileKind::Symlink,
            mode: 0o777,
            rdev: 0,
            target,
            nlink: 1,
        };
        self.make(view, caller, parent, name, new)
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// `NotPermitted` for directories, `TooManyLinks`, `NotFound` if the file
    /// has lost its last name, otherwise as [`Self::mknod`].
    pub fn link(
        &self,
        view: View,
        caller: &Caller,
        ino: InodeNo,
        parent: InodeNo,
        name: &[u8],
    ) -> Result<Attr> {
        let View::Live = view;
        new_name(name)?;
        let vnode = self.vnode(ino)?;
        if vnode.kind == FileKind::Directory {
            return Err(Error::NotPermitted);
        }
        let (directory, _operation) = self.begin_in(parent, Usage::default(), Purpose::Grow)?;
        let now = self.now();
        let mut above = directory.write_directory();
        self.may_enter(caller, &directory, &above)?;
        let mut state = vnode.write();
        state.live()?;
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
        Ok(vnode.attr(&state, self.store.geometry.block_bytes))
    }

    /// Makes a regular file without a name, held once on the caller's behalf:
    /// [`Self::release`] it, or [`Self::link`] it first.
    ///
    /// # Errors
    /// As [`Self::mknod`].
    pub fn tmpfile(&self, view: View, caller: &Caller, parent: InodeNo, mode: u32) -> Result<Attr> {
        let View::Live = view;
        let (directory, _operation) = self.begin_in(parent, ONE_INODE, Purpose::Grow)?;
        let above = directory.write_directory();
        self.may_enter(caller, &directory, &above)?;
        let (ino, version) = self.store.layout.allocate_inode()?;
        let new = New {
            kind: FileKind::Regular,
            mode,
            rdev: 0,
            target: b"",
            nlink: 0,
        };
        let acls = self.default_acl(&directory, &above, new.kind);
        let acls = acls.inspect_err(|_| self.store.layout.forget_inode(ino))?;
        let inode = self.new_inode(caller, &above.inode, &new, ino, version, acls.as_ref());
        let vnode = self.enter_new(inode, &new, acls, |vnode, state| {
            state.linkable = true;
            vnode.refs.store(1, Relaxed);
        });
        let attr = vnode.attr(&vnode.read(), self.store.geometry.block_bytes);
        Ok(attr)
    }

    fn make(
        &self,
        view: View,
        caller: &Caller,
        parent: InodeNo,
        name: &[u8],
        new: New<'_>,
    ) -> Result<Attr> {
        let View::Live = view;
        new_name(name)?;
        let target = Usage {
            inodes: 1,
            blocks: u64::from(!new.target.is_empty()),
            sectors: sectors_of(new.target.len()),
        };
        let (directory, operation) = self.begin_in(parent, target, Purpose::Grow)?;
        let now = self.now();
        let mut above = directory.write_directory();
        self.may_enter(caller, &directory, &above)?;
        if new.kind == FileKind::Directory && above.inode.nlink >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        let acls = self.default_acl(&directory, &above, new.kind)?;
        let (ino, version) = self.store.layout.allocate_inode()?;
        let added = self.add_name(&directory, &mut above, name, ino, new.kind, now);
        added.inspect_err(|_| self.store.layout.forget_inode(ino))?;
        if new.kind == FileKind::Directory {
            above.inode.nlink += 1;
        }
        let inode = self.new_inode(caller, &above.inode, &new, ino, version, acls.as_ref());
        let inode = Inode {
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            ..inode
        };
        let mut attr = Attr::of(&inode, self.store.geometry.block_bytes);
        let vnode = self.enter_new(inode, &new, acls, |_, _| {});
        if !new.target.is_empty() {
            attr = vnode.attr(&vnode.read(), self.store.geometry.block_bytes);
        }
        count(&self.store.counters.creates, 1);
        drop(above);
        drop(operation);
        self.dirtied();
        Ok(attr)
    }

    /// Begins an operation that may add a name to `parent`.
    pub(crate) fn begin_in(
        &self,
        parent: InodeNo,
        growth: Usage,
        purpose: Purpose,
    ) -> Result<(Arc<Vnode>, crate::space::Operation<'_>)> {
        let directory = self.vnode(parent)?;
        directory.directory()?;
        let operation = self.begin(self.with_name(growth), NAME_BYTES, purpose)?;
        Ok((directory, operation))
    }

    /// `growth`, and what adding a name may take.
    pub(crate) fn with_name(&self, growth: Usage) -> Usage {
        let blocks = directory::INSERT_BLOCKS_MAX;
        Usage {
            inodes: growth.inodes,
            blocks: growth.blocks + blocks,
            sectors: growth.sectors + blocks * self.store.sectors_per_block(),
        }
    }

    /// # Errors
    /// `NotFound` for a directory that was removed, `AccessDenied`.
    pub(crate) fn may_enter(
        &self,
        caller: &Caller,
        directory: &Vnode,
        state: &State,
    ) -> Result<()> {
        state.live()?;
        self.permit(caller, directory, state, WRITE | EXECUTE)?;
        if state.inode.nlink == 0 {
            Err(Error::NotFound)
        } else {
            Ok(())
        }
    }

    /// Searches a directory.
    #[inline]
    pub(crate) fn find(
        &self,
        vnode: &Vnode,
        state: &State,
        name: &[u8],
    ) -> Result<Option<(InodeNo, FileKind)>> {
        if state.inode.blocks == 0 {
            return if name.len() > directory::MAX_NAME_BYTES {
                Err(Error::NameTooLong)
            } else {
                Ok(None)
            };
        }
        let mut blocks = Searched {
            store: &self.store,
            vnode,
            state,
        };
        directory::lookup(&self.store.key(vnode), &mut blocks, name)
    }

    /// Adds a name; the directory's times, size and counts follow.
    pub(crate) fn add_name(
        &self,
        vnode: &Arc<Vnode>,
        state: &mut State,
        name: &[u8],
        ino: InodeNo,
        kind: FileKind,
        now: Timestamp,
    ) -> Result<()> {
        let key = self.store.key(vnode);
        self.change_names(vnode, state, now, |blocks| {
            directory::insert(&key, blocks, name, ino, kind)
        })?;
        state.inode.size += entry_bytes(name);
        Ok(())
    }

    /// Removes a name.
    pub(crate) fn remove_name(
        &self,
        vnode: &Arc<Vnode>,
        state: &mut State,
        name: &[u8],
        now: Timestamp,
    ) -> Result<()> {
        let key = self.store.key(vnode);
        self.change_names(vnode, state, now, |blocks| {
            directory::remove(&key, blocks, name).map(|_| ())
        })?;
        state.inode.size = state.inode.size.saturating_sub(entry_bytes(name));
        Ok(())
    }

    /// Runs a change of a directory, and puts it into the epoch.
    pub(crate) fn change_names(
        &self,
        vnode: &Arc<Vnode>,
        state: &mut State,
        now: Timestamp,
        change: impl FnOnce(&mut Changed<'_, L>) -> Result<()>,
    ) -> Result<()> {
        let before = state.usage();
        let changed = change(&mut Changed {
            fs: self,
            vnode,
            state,
            now,
        });
        self.space.settle(before, state.usage());
        if changed.is_ok() {
            state.inode.mtime = now;
            state.inode.ctime = now;
        }
        if changed.is_ok() || state.has_data() {
            self.join(vnode, state);
        }
        changed
    }

    /// A new inode in `above`, owned as POSIX and set-gid directories say.
    fn new_inode(
        &self,
        caller: &Caller,
        above: &Inode,
        new: &New<'_>,
        ino: InodeNo,
        version: u32,
        acls: Option<&acl::Inherited>,
    ) -> Inode {
        let now = self.now();
        let set_gid = above.mode & 0o2000 != 0;
        let gid = if set_gid { above.gid } else { caller.gid };
        let mut bits = new.mode & 0o7777;
        match (new.kind, acls) {
            (FileKind::Symlink, _) => bits = 0o777,
            (_, Some(acls)) => bits = bits & !0o777 | acls.mode(bits),
            (_, None) => bits &= !(caller.umask & 0o777),
        }
        if new.kind == FileKind::Directory {
            bits |= above.mode & 0o2000;
        } else if bits & 0o2010 == 0o2010 && !caller.is_root() && !caller.in_group(gid) {
            bits &= !0o2000;
        }
        Inode {
            ino,
            version,
            mode: new.kind.mode_bits() | bits,
            uid: caller.uid,
            gid,
            nlink: new.nlink,
            rdev: new.rdev,
            size: 0,
            blocks: 0,
            sectors: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            flags: 0,
            project: above.project,
            parent: if new.kind == FileKind::Directory {
                above.ino
            } else {
                InodeNo(0)
            },
            inline: Vec::new(),
            xattr_bytes: 0,
        }
    }

    /// Enters a new inode into the table and the epoch. Nobody knows of it.
    fn enter_new(
        &self,
        inode: Inode,
        new: &New<'_>,
        acls: Option<acl::Inherited>,
        prepare: impl FnOnce(&Vnode, &mut State),
    ) -> Arc<Vnode> {
        let now = inode.btime;
        let vnode = Arc::new(Vnode::new(inode, false, self.table.birth()));
        {
            let mut state = vnode.write();
            self.space.settle(Usage::default(), state.usage());
            let before = state.usage();
            if !new.target.is_empty() {
                self.set_target(&mut state, new.target, now);
            }
            if let Some(blob) = acls.and_then(|acls| acls.blob(state.inode.mode)) {
                self.set_blob(&mut state, blob);
            }
            self.space.settle(before, state.usage());
            prepare(&vnode, &mut state);
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
        self.dirty_bytes
            .fetch_add(dirty_charge(target.len()), Relaxed);
        let data = Arc::new(target.to_vec());
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

pub(crate) const ONE_INODE: Usage = Usage {
    inodes: 1,
    blocks: 0,
    sectors: 0,
};
/// What a new name may make dirty.
pub(crate) const NAME_BYTES: u64 = 16_384;

/// What an entry adds to a directory's size: for people only.
pub(crate) fn entry_bytes(name: &[u8]) -> u64 {
    name.len() as u64 + 16
}

/// # Errors
/// `Exists` for `.` and `..`, which every directory has.
fn new_name(name: &[u8]) -> Result<()> {
    match name {
        b"" => Err(Error::NotFound),
        b"." | b".." => Err(Error::Exists),
        _ => Ok(()),
    }
}
