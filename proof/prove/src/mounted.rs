//! The file system under test, on any layout.
//!
//! [`Mounted`] is the interface of the file system with a fixed view and caller, and
//! without the type of the layout. [`Subject`] makes, mounts and checks one on a device.

use crate::strangers::Stranger;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use varve_device::{Clock, Device, MemoryImage};
use varve_fs::{
    Attr, Caller, FileKind, FileSystem, InodeNo, Layout, Promise, Rename, Result, SetAttr, StatFs,
    Usage, Whence,
};

/// One name of a directory, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub name: Vec<u8>,
    /// Inode of the file.
    pub ino: InodeNo,
    /// Type of the file.
    pub kind: FileKind,
    /// Cookie at which a listing continues.
    pub cookie: u64,
}

/// A tree that is used through this program or through the kernel; the caller is root.
/// The methods are those of [`FileSystem`].
#[expect(missing_docs, reason = "each is the method of that name")]
pub trait Tree: Send + Sync {
    fn lookup(&self, parent: InodeNo, name: &[u8]) -> Result<Attr>;
    fn mknod(&self, parent: InodeNo, name: &[u8], mode: u32) -> Result<Attr>;
    fn mkdir(&self, parent: InodeNo, name: &[u8], mode: u32) -> Result<Attr>;
    fn symlink(&self, parent: InodeNo, name: &[u8], target: &[u8]) -> Result<Attr>;
    fn link(&self, ino: InodeNo, parent: InodeNo, name: &[u8]) -> Result<Attr>;
    fn unlink(&self, parent: InodeNo, name: &[u8]) -> Result<()>;
    fn rmdir(&self, parent: InodeNo, name: &[u8]) -> Result<()>;
    fn rename(&self, from: (InodeNo, &[u8]), to: (InodeNo, &[u8]), flags: Rename) -> Result<()>;
    /// Returns at most `limit` names after the cookie `after`, including `.` and `..`.
    fn readdir(&self, ino: InodeNo, after: u64, limit: usize) -> Result<Vec<Name>>;
    fn getattr(&self, ino: InodeNo) -> Result<Attr>;
    fn setattr(&self, ino: InodeNo, set: &SetAttr) -> Result<Attr>;
    fn setxattr(&self, ino: InodeNo, name: &[u8], value: &[u8]) -> Result<()>;
    fn listxattr(&self, ino: InodeNo) -> Result<Vec<Vec<u8>>>;
    fn removexattr(&self, ino: InodeNo, name: &[u8]) -> Result<()>;
    fn write(&self, ino: InodeNo, offset: u64, data: &[u8]) -> Result<usize>;
    fn fallocate(&self, ino: InodeNo, mode: i32, offset: u64, length: u64) -> Result<()>;
    fn fsync(&self, ino: InodeNo, data_only: bool) -> Result<()>;
    fn sync(&self) -> Result<()>;
    fn retain(&self, ino: InodeNo) -> Result<()>;
    fn release(&self, ino: InodeNo);
    fn statfs(&self) -> StatFs;
}

/// A mounted file system; the caller is root, the view is live. The methods are those of
/// [`FileSystem`].
#[expect(missing_docs, reason = "each is the method of that name")]
pub trait Mounted: Tree {
    fn readlink(&self, ino: InodeNo) -> Result<Vec<u8>>;
    fn parent(&self, ino: InodeNo) -> Result<InodeNo>;
    fn getxattr(&self, ino: InodeNo, name: &[u8]) -> Result<Vec<u8>>;
    fn read(&self, ino: InodeNo, offset: u64, buffer: &mut [u8]) -> Result<usize>;
    fn seek(&self, ino: InodeNo, offset: u64, whence: Whence) -> Result<u64>;
    fn copy_range(&self, from: (InodeNo, u64), to: (InodeNo, u64), length: u64) -> Result<u64>;
    fn checkpoint(&self) -> Result<()>;
    fn layout_checkpoint(&self) -> Result<()>;
    fn write_back(&self) -> Result<bool>;
    fn maintain(&self) -> Result<()>;
    /// Cleans all segments that the layout can clean.
    fn clean(&self) -> Result<()>;
    /// Moves the blocks of files into their order.
    fn coalesce(&self) -> Result<()>;
    /// Makes the layout's cleaner judge the live blocks of a few segments, and wait.
    fn claim(&self) -> Result<()>;
    /// Moves the blocks that the cleaner last judged as live.
    fn move_claimed(&self) -> Result<()>;
    /// Makes the next call of a cleaner of another process.
    fn stranger(&self, which: u8) -> Result<()>;
    /// Changes the policy of the mount's own cleaner.
    fn switch_policy(&self) -> Result<()>;
    fn usage(&self) -> Usage;
    fn unmount(&self) -> Result<()>;
    fn drop_caches(&self);
    /// Returns the reason why the volume takes no writes, if there is one.
    fn read_only(&self) -> Option<String>;
    /// Returns the damage that mounting found.
    fn damage(&self) -> Vec<String>;
    /// Returns the bytes per block, and the bytes that an inode stores itself.
    fn measures(&self) -> (u32, usize);
    /// Returns the bytes that the extended attributes of a file may take.
    fn attribute_bytes(&self) -> usize;
    /// Returns the promise for changes that are not durable.
    fn promise(&self) -> Promise;
}

/// Moves the blocks that a cleaner has judged as live.
pub type Claimed<L> = Box<dyn FnOnce(&FileSystem<L>) -> Result<()> + Send>;

/// Functions that a layout adds to a file system.
pub struct Extras<L: Layout> {
    /// Cleans all segments that can be cleaned.
    pub clean: fn(&FileSystem<L>) -> Result<()>,
    /// Moves the blocks of files into their order.
    pub coalesce: fn(&FileSystem<L>) -> Result<()>,
    /// Judges live blocks, and returns the function that moves them.
    pub claim: fn(&FileSystem<L>) -> Result<Claimed<L>>,
    /// Makes the next call of a cleaner of another process.
    pub stranger: fn(&FileSystem<L>, &mut Stranger) -> Result<()>,
    /// Changes the policy of the mount's own cleaner.
    pub switch_policy: fn(&FileSystem<L>) -> Result<()>,
    /// Returns the damage that mounting found.
    pub damage: fn(&FileSystem<L>) -> Vec<String>,
    /// Unmounts the layout after the file system.
    pub unmount: fn(&FileSystem<L>) -> Result<()>,
}

impl<L: Layout> Default for Extras<L> {
    fn default() -> Self {
        Extras {
            clean: |system| system.layout().maintain(),
            coalesce: |_| Ok(()),
            claim: |_| Ok(Box::new(|_| Ok(()))),
            stranger: |_, _| Ok(()),
            switch_policy: |_| Ok(()),
            damage: |_| Vec::new(),
            unmount: |_| Ok(()),
        }
    }
}

/// A [`FileSystem`] as [`Mounted`].
pub struct Handle<L: Layout> {
    system: FileSystem<L>,
    caller: Caller,
    extras: Extras<L>,
    claimed: Mutex<Option<Claimed<L>>>,
    strangers: Mutex<[Stranger; 2]>,
}

impl<L: Layout> Handle<L> {
    /// Wraps `system`.
    pub fn new(system: FileSystem<L>, extras: Extras<L>) -> Self {
        Handle {
            system,
            caller: Caller::root(),
            extras,
            claimed: Mutex::default(),
            strangers: Mutex::default(),
        }
    }

    fn claimed(&self) -> MutexGuard<'_, Option<Claimed<L>>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the file system.
    pub fn system(&self) -> &FileSystem<L> {
        &self.system
    }
}

impl<L: Layout> Tree for Handle<L> {
    fn lookup(&self, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        self.system.lookup(&self.caller, parent, name)
    }

    fn mknod(&self, parent: InodeNo, name: &[u8], mode: u32) -> Result<Attr> {
        self.system.mknod(&self.caller, parent, name, mode, 0)
    }

    fn mkdir(&self, parent: InodeNo, name: &[u8], mode: u32) -> Result<Attr> {
        self.system.mkdir(&self.caller, parent, name, mode)
    }

    fn symlink(&self, parent: InodeNo, name: &[u8], target: &[u8]) -> Result<Attr> {
        self.system.symlink(&self.caller, parent, name, target)
    }

    fn link(&self, ino: InodeNo, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        self.system.link(&self.caller, ino, parent, name)
    }

    fn unlink(&self, parent: InodeNo, name: &[u8]) -> Result<()> {
        self.system.unlink(&self.caller, parent, name)
    }

    fn rmdir(&self, parent: InodeNo, name: &[u8]) -> Result<()> {
        self.system.rmdir(&self.caller, parent, name)
    }

    fn rename(&self, from: (InodeNo, &[u8]), to: (InodeNo, &[u8]), flags: Rename) -> Result<()> {
        self.system
            .rename(&self.caller, from.0, from.1, to.0, to.1, flags)
    }

    fn readdir(&self, ino: InodeNo, after: u64, limit: usize) -> Result<Vec<Name>> {
        let mut names = Vec::new();
        self.system.readdir(ino, after, &mut |entry| {
            if names.len() == limit {
                return false;
            }
            names.push(Name {
                name: entry.name.to_vec(),
                ino: entry.ino,
                kind: entry.kind,
                cookie: entry.cookie,
            });
            true
        })?;
        Ok(names)
    }

    fn getattr(&self, ino: InodeNo) -> Result<Attr> {
        self.system.getattr(ino)
    }

    fn setattr(&self, ino: InodeNo, set: &SetAttr) -> Result<Attr> {
        self.system.setattr(&self.caller, ino, set)
    }

    fn setxattr(&self, ino: InodeNo, name: &[u8], value: &[u8]) -> Result<()> {
        self.system
            .setxattr(&self.caller, ino, name, value, false, false)
    }

    fn listxattr(&self, ino: InodeNo) -> Result<Vec<Vec<u8>>> {
        self.system.listxattr(&self.caller, ino)
    }

    fn removexattr(&self, ino: InodeNo, name: &[u8]) -> Result<()> {
        self.system.removexattr(&self.caller, ino, name)
    }

    fn write(&self, ino: InodeNo, offset: u64, data: &[u8]) -> Result<usize> {
        self.system.write(&self.caller, ino, offset, data)
    }

    fn fallocate(&self, ino: InodeNo, mode: i32, offset: u64, length: u64) -> Result<()> {
        self.system
            .fallocate(&self.caller, ino, mode, offset, length)
    }

    fn fsync(&self, ino: InodeNo, data_only: bool) -> Result<()> {
        self.system.fsync(ino, data_only)
    }

    fn sync(&self) -> Result<()> {
        self.system.sync()
    }

    fn retain(&self, ino: InodeNo) -> Result<()> {
        self.system.retain(ino)
    }

    fn release(&self, ino: InodeNo) {
        self.system.release(ino, 1);
    }

    fn statfs(&self) -> StatFs {
        self.system.statfs()
    }
}

impl<L: Layout> Mounted for Handle<L> {
    fn readlink(&self, ino: InodeNo) -> Result<Vec<u8>> {
        self.system.readlink(ino)
    }

    fn parent(&self, ino: InodeNo) -> Result<InodeNo> {
        self.system.parent(ino)
    }

    fn getxattr(&self, ino: InodeNo, name: &[u8]) -> Result<Vec<u8>> {
        self.system.getxattr(&self.caller, ino, name)
    }

    fn read(&self, ino: InodeNo, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.system.read(ino, offset, buffer)
    }

    fn seek(&self, ino: InodeNo, offset: u64, whence: Whence) -> Result<u64> {
        self.system.seek(ino, offset, whence)
    }

    fn copy_range(&self, from: (InodeNo, u64), to: (InodeNo, u64), length: u64) -> Result<u64> {
        self.system
            .copy_range(&self.caller, from.0, from.1, to.0, to.1, length)
    }

    fn checkpoint(&self) -> Result<()> {
        self.system.checkpoint()
    }

    fn layout_checkpoint(&self) -> Result<()> {
        self.system.layout().checkpoint()
    }

    fn write_back(&self) -> Result<bool> {
        self.system.write_back()
    }

    fn maintain(&self) -> Result<()> {
        self.system.maintain()
    }

    fn clean(&self) -> Result<()> {
        (self.extras.clean)(&self.system)
    }

    fn coalesce(&self) -> Result<()> {
        (self.extras.coalesce)(&self.system)
    }

    fn claim(&self) -> Result<()> {
        *self.claimed() = Some((self.extras.claim)(&self.system)?);
        Ok(())
    }

    fn move_claimed(&self) -> Result<()> {
        let claimed = self.claimed().take();
        claimed.map_or(Ok(()), |moves| moves(&self.system))
    }

    fn stranger(&self, which: u8) -> Result<()> {
        let strangers = self.strangers.lock();
        let mut strangers = strangers.unwrap_or_else(PoisonError::into_inner);
        let which = usize::from(which) % strangers.len();
        (self.extras.stranger)(&self.system, &mut strangers[which])
    }

    fn switch_policy(&self) -> Result<()> {
        (self.extras.switch_policy)(&self.system)
    }

    fn usage(&self) -> Usage {
        self.system.usage()
    }

    fn unmount(&self) -> Result<()> {
        self.system.unmount()?;
        (self.extras.unmount)(&self.system)
    }

    fn drop_caches(&self) {
        self.system.drop_caches();
    }

    fn read_only(&self) -> Option<String> {
        self.system.layout().geometry().read_only
    }

    fn damage(&self) -> Vec<String> {
        (self.extras.damage)(&self.system)
    }

    fn measures(&self) -> (u32, usize) {
        let geometry = self.system.layout().geometry();
        (geometry.block_bytes, geometry.inline_bytes)
    }

    fn attribute_bytes(&self) -> usize {
        self.system.layout().geometry().xattr_bytes
    }

    fn promise(&self) -> Promise {
        self.system.layout().promise()
    }
}

/// A file system on a device, as the subject of tests.
pub trait Subject: Sync {
    /// Makes an empty file system. The same device and clock give the same bytes.
    ///
    /// # Errors
    /// The reason of the failure.
    fn format(&self, device: Arc<dyn Device>, clock: Arc<dyn Clock>) -> Result<()>;

    /// Mounts it, including the recovery after a crash. `seed` determines random choices.
    ///
    /// # Errors
    /// The reason of the failure.
    fn mount(
        &self,
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Result<Box<dyn Mounted>>;

    /// Mounts it without any write, if the subject supports that.
    fn mount_read_only(
        &self,
        _device: Arc<dyn Device>,
        _clock: Arc<dyn Clock>,
    ) -> Option<Result<Box<dyn Mounted>>> {
        None
    }

    /// Returns the image with its newest checkpoint damaged, if an older one is kept that
    /// must lead to the same tree.
    fn without_newest_checkpoint(&self, _image: &MemoryImage) -> Option<MemoryImage> {
        None
    }

    /// Returns the findings of an offline check; empty for an undamaged volume.
    fn check(&self, device: Arc<dyn Device>) -> Vec<String>;

    /// Returns the bytes of the device that it needs.
    fn device_bytes(&self) -> u64;
}
