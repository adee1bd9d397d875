//! Look-ups, and what makes, moves and removes names.

use super::{Adapter, Done, convert};
use crate::errno::Errno;
use crate::nodes;
use crate::protocol::{
    BatchForgetIn, CreateIn, EntryOut, ForgetIn, ForgetOne, LinkIn, MkdirIn, MknodIn, Opcode,
    Rename2In, RenameIn, capability,
};
use crate::reply::Reply;
use crate::request::Request;
use varve_fs::{Attr, Caller, Error, FileKind, InodeNo, Layout, Rename};

/// Permission, set-id and sticky bits.
const PERMISSIONS: u32 = 0o7777;

/// The protocol's minor version since which the kernel drops a set-group-id
/// bit that the maker of a file may not give (Linux 6.1).
const SET_GID_CHECKED: u32 = 37;

impl<L: Layout> Adapter<L> {
    pub(super) fn lookup(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        let name = request.arguments().name()?;
        let node = request.inode();
        let found = match name {
            // Asked of any inode, to turn a file handle into a file. One
            // without names is there until the kernel has forgotten it; those
            // that are open the kernel finds without us.
            b"." => self.fs.getattr(node).and_then(named),
            _ if let Some(ino) = self.merging.aside(node, request.header.pid, name) => {
                self.fs.getattr(ino)
            }
            _ => self.fs.lookup(&self.caller(request), node, name),
        };
        match found {
            Ok(attr) => {
                self.note_name(attr.ino, node, name);
                self.entry(&attr, reply)
            }
            // "No such name" may be remembered: nobody makes it but the kernel.
            Err(Error::NotFound) if self.entry_valid_s > 0 && name != b"." && name != b".." => {
                reply.put(&EntryOut {
                    entry_valid: self.merging.validity(self.entry_valid_s),
                    ..EntryOut::default()
                });
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Replies with an inode, which the kernel then counts once more.
    fn entry(&self, attr: &Attr, reply: &mut Reply) -> Done {
        self.fs.hold(attr)?;
        reply.retain(attr.ino);
        reply.put(&self.entry_of(attr));
        Ok(())
    }

    pub(super) fn entry_of(&self, attr: &Attr) -> EntryOut {
        EntryOut {
            nodeid: nodes::node(attr.ino),
            generation: convert::generation(attr),
            entry_valid: self.merging.validity(self.entry_valid_s),
            attr_valid: self.merging.validity(self.attr_valid_s),
            attr: convert::attributes(attr),
            ..EntryOut::default()
        }
    }

    pub(super) fn forget(&self, opcode: Opcode, request: &Request<'_>) -> Done {
        let mut arguments = request.arguments();
        if opcode == Opcode::Forget {
            let forget: ForgetIn = arguments.take()?;
            self.release(request.inode(), forget.nlookup);
            return Ok(());
        }
        let batch: BatchForgetIn = arguments.take()?;
        for _ in 0..batch.count {
            let one: ForgetOne = arguments.take()?;
            self.release(nodes::inode(one.nodeid), one.nlookup);
        }
        Ok(())
    }

    fn release(&self, ino: InodeNo, count: u64) {
        if self.snapshots.is_some() && super::snapshots::has(ino.0) {
            return;
        }
        self.write_errors.forget(ino);
        self.direct.forget(ino);
        if let Some(names) = &self.names {
            names.forget(ino);
            self.lost.forget(ino);
        }
        self.fs.release(ino, count);
    }

    pub(super) fn mknod(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        let mut arguments = request.arguments();
        let mknod: MknodIn = arguments.take()?;
        let name = arguments.name()?;
        let (caller, parent) = (self.maker(request, mknod.umask), request.inode());
        let mode = self.mode_in(parent, &caller, mknod.mode)?;
        let rdev = u64::from(mknod.rdev);
        let attr = self.fs.mknod(&caller, parent, name, mode, rdev)?;
        self.entry(&attr, reply)
    }

    pub(super) fn mkdir(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        let mut arguments = request.arguments();
        let mkdir: MkdirIn = arguments.take()?;
        let name = arguments.name()?;
        let (caller, parent) = (self.maker(request, mkdir.umask), request.inode());
        let mode = mkdir.mode & PERMISSIONS;
        let attr = self.fs.mkdir(&caller, parent, name, mode)?;
        // What is there already may be renamed into it.
        self.note_name(attr.ino, parent, name);
        self.entry(&attr, reply)
    }

    /// CREATE makes and opens. A kernel that is to do without OPEN releases what it
    /// opened so all the same, until some OPEN has been refused. So it is told to do
    /// without CREATE as well: it sends MKNOD then.
    pub(super) fn create(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        if !self.opens.are_asked() && self.has(capability::NO_OPEN_SUPPORT) {
            return Err(Errno::NOT_IMPLEMENTED);
        }
        let mut arguments = request.arguments();
        let create: CreateIn = arguments.take()?;
        let name = arguments.name()?;
        let (caller, parent) = (self.maker(request, create.umask), request.inode());
        let mode = FileKind::Regular.mode_bits() | (create.mode & PERMISSIONS);
        let mode = self.mode_in(parent, &caller, mode)?;
        let attr = self.fs.mknod(&caller, parent, name, mode, 0)?;
        self.entry(&attr, reply)?;
        reply.put(&self.opened_new(attr.ino, create.flags));
        Ok(())
    }

    pub(super) fn tmpfile(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        // The name that follows means nothing.
        let create: CreateIn = request.arguments().take()?;
        let (caller, parent) = (self.maker(request, create.umask), request.inode());
        let mode = FileKind::Regular.mode_bits() | (create.mode & PERMISSIONS);
        let mode = self.mode_in(parent, &caller, mode)?;
        // Comes retained once: nothing else would keep it.
        let attr = self.fs.tmpfile(&caller, parent, mode)?;
        reply.retain(attr.ino);
        reply.put(&self.entry_of(&attr));
        reply.put(&self.opened_new(attr.ino, create.flags));
        Ok(())
    }

    /// The mode of what `caller` makes in `parent`. In a set-group-id directory
    /// of somebody else's group nobody may make a set-group-id program. Newer
    /// kernels see to it, and know all the caller's groups; requests name one.
    fn mode_in(&self, parent: InodeNo, caller: &Caller, mode: u32) -> Result<u32, Errno> {
        let program = libc::S_ISGID | libc::S_IXGRP;
        if self.speaks(SET_GID_CHECKED) || caller.uid == 0 || mode & program != program {
            return Ok(mode);
        }
        let above = self.fs.getattr(parent)?;
        if above.mode & libc::S_ISGID != 0 && above.gid != caller.gid {
            Ok(mode & !libc::S_ISGID)
        } else {
            Ok(mode)
        }
    }

    pub(super) fn symlink(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        let mut arguments = request.arguments();
        let name = arguments.name()?;
        let target = arguments.string()?;
        let (caller, parent) = (self.caller(request), request.inode());
        let attr = self.fs.symlink(&caller, parent, name, target)?;
        self.entry(&attr, reply)
    }

    pub(super) fn readlink(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        reply.put_bytes(&self.fs.readlink(request.inode())?);
        Ok(())
    }

    pub(super) fn link(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        let mut arguments = request.arguments();
        let link: LinkIn = arguments.take()?;
        let name = arguments.name()?;
        let (caller, parent) = (self.caller(request), request.inode());
        let ino = nodes::inode(link.oldnodeid);
        let attr = self.fs.link(&caller, ino, parent, name)?;
        self.entry(&attr, reply)
    }

    pub(super) fn unlink(&self, request: &Request<'_>) -> Done {
        let name = request.arguments().name()?;
        self.fs
            .unlink(&self.caller(request), request.inode(), name)?;
        Ok(())
    }

    pub(super) fn rmdir(&self, request: &Request<'_>) -> Done {
        let name = request.arguments().name()?;
        self.fs
            .rmdir(&self.caller(request), request.inode(), name)?;
        Ok(())
    }

    pub(super) fn rename(&self, opcode: Opcode, request: &Request<'_>) -> Done {
        let Renamed {
            old,
            new_parent,
            new,
            flags,
        } = renamed(opcode, request)?;
        let known = libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE | libc::RENAME_WHITEOUT;
        if flags & !known != 0 {
            return Err(Errno::INVALID);
        }
        let how = Rename {
            no_replace: flags & libc::RENAME_NOREPLACE != 0,
            exchange: flags & libc::RENAME_EXCHANGE != 0,
            whiteout: flags & libc::RENAME_WHITEOUT != 0,
        };
        let (caller, parent) = (self.caller(request), request.inode());
        self.fs.rename(&caller, parent, old, new_parent, new, how)?;
        self.note_renamed(&caller, new_parent, new);
        if how.exchange {
            self.note_renamed(&caller, parent, old);
        }
        Ok(())
    }

    /// Answers OPEN and OPENDIR: a kernel that can do without is told so, and
    /// never asks again. Handles carry nothing, so others get 0.
    pub(super) fn open(&self, unneeded: u64, reply: &mut Reply) -> Done {
        if self.has(unneeded) {
            return Err(Errno::NOT_IMPLEMENTED);
        }
        reply.put(&match unneeded {
            capability::NO_OPENDIR_SUPPORT => self.opens.directory(),
            _ => self.opens.file(false),
        });
        Ok(())
    }
}

/// What RENAME and RENAME2 ask for.
pub(super) struct Renamed<'a> {
    pub(super) old: &'a [u8],
    pub(super) new_parent: InodeNo,
    pub(super) new: &'a [u8],
    flags: u32,
}

/// Parses RENAME or RENAME2.
pub(super) fn renamed<'a>(opcode: Opcode, request: &Request<'a>) -> Result<Renamed<'a>, Errno> {
    let mut arguments = request.arguments();
    let (new_parent, flags) = if opcode == Opcode::Rename {
        (arguments.take::<RenameIn>()?.newdir, 0)
    } else {
        let rename: Rename2In = arguments.take()?;
        (rename.newdir, rename.flags)
    };
    let (old, new) = (arguments.name()?, arguments.name()?);
    Ok(Renamed {
        old,
        new_parent: nodes::inode(new_parent),
        new,
        flags,
    })
}

/// A file that has a name.
///
/// # Errors
/// ESTALE if it has none left.
fn named(attr: Attr) -> varve_fs::Result<Attr> {
    if attr.nlink == 0 {
        return Err(Error::Stale);
    }
    Ok(attr)
}
