//! The vnode operations that the facade needs, on the live tree and on behalf of the
//! volume's caller.

use super::Mounted;
use crate::tree::on;
use std::ops::Range;
use varve_fs::{
    Access, Appended, Attr, Entry, FileFlags, InodeNo, Rename, Result, SetAttr, StatFs, Whence,
};

/// Operations on names.
impl Mounted {
    pub fn directory_at(&self, path: &[u8]) -> Result<Option<InodeNo>> {
        on!(&self.tree, fs => fs.directory_at(&self.caller, path))
    }

    pub fn lookup_held(&self, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        on!(&self.tree, fs => fs.lookup_held(&self.caller, parent, name))
    }

    pub fn retain(&self, ino: InodeNo) -> Result<()> {
        on!(&self.tree, fs => fs.retain(ino))
    }

    pub fn release(&self, ino: InodeNo) {
        on!(&self.tree, fs => fs.release(ino, 1));
    }

    pub fn mkdir(&self, parent: InodeNo, name: &[u8], mode: u32) -> Result<()> {
        on!(&self.tree, fs => fs.mkdir(&self.caller, parent, name, mode)).map(drop)
    }

    pub fn mknod_held(&self, parent: InodeNo, name: &[u8], mode: u32) -> Result<Attr> {
        on!(&self.tree, fs => fs.mknod_held(&self.caller, parent, name, mode, 0))
    }

    pub fn unlink(&self, parent: InodeNo, name: &[u8]) -> Result<()> {
        on!(&self.tree, fs => fs.unlink(&self.caller, parent, name))
    }

    pub fn rmdir(&self, parent: InodeNo, name: &[u8]) -> Result<()> {
        on!(&self.tree, fs => fs.rmdir(&self.caller, parent, name))
    }

    pub fn rename(
        &self,
        from: (InodeNo, &[u8]),
        to: (InodeNo, &[u8]),
        flags: Rename,
    ) -> Result<()> {
        let caller = &self.caller;
        on!(&self.tree, fs => fs.rename(caller, from.0, from.1, to.0, to.1, flags))
    }

    pub fn link(&self, ino: InodeNo, parent: InodeNo, name: &[u8]) -> Result<()> {
        on!(&self.tree, fs => fs.link(&self.caller, ino, parent, name)).map(drop)
    }

    pub fn symlink(&self, parent: InodeNo, name: &[u8], target: &[u8]) -> Result<()> {
        on!(&self.tree, fs => fs.symlink(&self.caller, parent, name, target)).map(drop)
    }

    pub fn readlink(&self, ino: InodeNo) -> Result<Vec<u8>> {
        on!(&self.tree, fs => fs.readlink(ino))
    }

    pub fn readdir(
        &self,
        ino: InodeNo,
        after: u64,
        emit: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<()> {
        on!(&self.tree, fs => fs.readdir(ino, after, emit))
    }

    pub fn read_inodes_ahead(
        &self,
        ino: InodeNo,
        after: u64,
        listed: impl Iterator<Item = InodeNo>,
    ) {
        on!(&self.tree, fs => fs.read_inodes_ahead(ino, after, listed));
    }
}

/// Operations on content.
impl Mounted {
    pub fn may_open(&self, ino: InodeNo, access: Access) -> Result<()> {
        on!(&self.tree, fs => fs.may_open(ino, access)).map(drop)
    }

    pub fn read(&self, ino: InodeNo, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        on!(&self.tree, fs => fs.read(ino, offset, buffer))
    }

    pub fn read_for_update(&self, ino: InodeNo, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        on!(&self.tree, fs => fs.read_for_update(ino, offset, buffer))
    }

    pub fn write(&self, ino: InodeNo, offset: u64, data: &[u8]) -> Result<usize> {
        on!(&self.tree, fs => fs.write(&self.caller, ino, offset, data))
    }

    pub fn append(&self, ino: InodeNo, data: &[u8]) -> Result<Appended> {
        on!(&self.tree, fs => fs.append_in_turn(&self.caller, ino, data))
    }

    pub fn end_of_appended(&self, ino: InodeNo, waiting: u64) -> Result<u64> {
        on!(&self.tree, fs => fs.end_of_appended(ino, waiting))
    }

    pub fn fsync(&self, ino: InodeNo, data_only: bool) -> Result<()> {
        on!(&self.tree, fs => fs.fsync(ino, data_only))
    }

    pub fn fallocate(&self, ino: InodeNo, mode: i32, offset: u64, length: u64) -> Result<()> {
        on!(&self.tree, fs => fs.fallocate(&self.caller, ino, mode, offset, length))
    }

    pub fn seek(&self, ino: InodeNo, offset: u64, whence: Whence) -> Result<u64> {
        on!(&self.tree, fs => fs.seek(ino, offset, whence))
    }

    pub fn stretches(&self, ino: InodeNo, bytes: Range<u64>) -> Result<Vec<Range<u64>>> {
        on!(&self.tree, fs => fs.stretches(ino, bytes))
    }

    /// Copies bytes between the same offsets of two files.
    pub fn copy_range(&self, from: InodeNo, to: InodeNo, at: u64, length: u64) -> Result<u64> {
        let caller = &self.caller;
        on!(&self.tree, fs => fs.copy_range(caller, from, at, to, at, length))
    }
}

/// Operations on attributes.
impl Mounted {
    pub fn getattr(&self, ino: InodeNo) -> Result<Attr> {
        on!(&self.tree, fs => fs.getattr(ino))
    }

    pub fn setattr(&self, ino: InodeNo, set: &SetAttr) -> Result<()> {
        on!(&self.tree, fs => fs.setattr(&self.caller, ino, set)).map(drop)
    }

    pub fn set_size(&self, ino: InodeNo, size: u64) -> Result<()> {
        let set = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        self.setattr(ino, &set)
    }

    pub fn file_flags(&self, ino: InodeNo) -> Result<FileFlags> {
        on!(&self.tree, fs => fs.file_flags(ino))
    }

    pub fn set_file_flags(&self, ino: InodeNo, flags: FileFlags) -> Result<()> {
        on!(&self.tree, fs => fs.set_file_flags(&self.caller, ino, flags, None))
    }

    pub fn getxattr(&self, ino: InodeNo, name: &[u8]) -> Result<Vec<u8>> {
        on!(&self.tree, fs => fs.getxattr(&self.caller, ino, name))
    }

    pub fn listxattr(&self, ino: InodeNo) -> Result<Vec<Vec<u8>>> {
        on!(&self.tree, fs => fs.listxattr(&self.caller, ino))
    }

    pub fn setxattr(&self, ino: InodeNo, name: &[u8], value: &[u8]) -> Result<()> {
        let caller = &self.caller;
        on!(&self.tree, fs => fs.setxattr(caller, ino, name, value, false, false))
    }

    pub fn removexattr(&self, ino: InodeNo, name: &[u8]) -> Result<()> {
        on!(&self.tree, fs => fs.removexattr(&self.caller, ino, name))
    }
}

/// Operations on the whole volume.
impl Mounted {
    pub fn sync(&self) -> Result<()> {
        on!(&self.tree, fs => fs.sync())
    }

    pub fn checkpoint(&self) -> Result<()> {
        on!(&self.tree, fs => fs.checkpoint())
    }

    pub fn statfs(&self) -> StatFs {
        on!(&self.tree, fs => fs.statfs())
    }
}
