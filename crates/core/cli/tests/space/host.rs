//! A tree shown by the kernel, with the interface of the cases of `varve_prove::space`.

use rustix::fs::{FallocateFlags, XattrFlags};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, FileExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::SystemTime;
use varve_fs::{
    Attr, Error, FileKind, InodeNo, Rename, Result, SetAttr, SetTime, StatFs, Timestamp,
};
use varve_prove::mounted::{Name, Tree};

/// A directory of the host, and the paths of its files: for each number, the name under
/// which it was last seen.
pub struct Host {
    dir: PathBuf,
    names: Mutex<HashMap<InodeNo, (InodeNo, Vec<u8>)>>,
    /// Open files without a name.
    held: Mutex<HashMap<InodeNo, File>>,
}

fn told(error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(2) => Error::NotFound,
        Some(17) => Error::Exists,
        Some(28) => Error::NoSpace,
        Some(31) => Error::TooManyLinks,
        Some(39) => Error::NotEmpty,
        Some(36) => Error::NameTooLong,
        Some(34) => Error::Range,
        Some(30) => Error::ReadOnly(error.to_string()),
        _ => Error::NotDurable(error.to_string()),
    }
}

fn failed(error: rustix::io::Errno) -> Error {
    told(error.into())
}

fn kind_of(kind: fs::FileType) -> FileKind {
    match kind {
        kind if kind.is_dir() => FileKind::Directory,
        kind if kind.is_symlink() => FileKind::Symlink,
        kind if kind.is_fifo() => FileKind::Fifo,
        _ => FileKind::Regular,
    }
}

fn attr_of(found: &Metadata) -> Attr {
    let moment = |seconds, nanos: i64| Timestamp {
        seconds,
        nanos: nanos as u32,
    };
    Attr {
        ino: InodeNo(found.ino()),
        version: 0,
        kind: kind_of(found.file_type()),
        mode: found.mode(),
        nlink: found.nlink() as u32,
        uid: found.uid(),
        gid: found.gid(),
        rdev: found.rdev(),
        size: found.size(),
        sectors: found.blocks(),
        block_bytes: found.blksize() as u32,
        atime: moment(found.atime(), found.atime_nsec()),
        mtime: moment(found.mtime(), found.mtime_nsec()),
        ctime: moment(found.ctime(), found.ctime_nsec()),
        btime: moment(found.ctime(), found.ctime_nsec()),
    }
}

impl Host {
    pub fn new(dir: &str) -> Self {
        Host {
            dir: dir.into(),
            names: Mutex::default(),
            held: Mutex::default(),
        }
    }

    fn names(&self) -> MutexGuard<'_, HashMap<InodeNo, (InodeNo, Vec<u8>)>> {
        self.names.lock().unwrap()
    }

    /// The path to a file by the name under which it was last seen.
    fn path(&self, ino: InodeNo) -> Result<PathBuf> {
        let names = self.names();
        let (mut up, mut way) = (ino, Vec::new());
        while up != InodeNo::ROOT {
            let (parent, name) = names.get(&up).ok_or(Error::NotFound)?;
            way.push(OsStr::from_bytes(name));
            up = *parent;
        }
        let down = way.into_iter().rev();
        Ok(down.fold(self.dir.clone(), |path, name| path.join(name)))
    }

    fn within(&self, parent: InodeNo, name: &[u8]) -> Result<PathBuf> {
        Ok(self.path(parent)?.join(OsStr::from_bytes(name)))
    }

    /// Records a file that was made or found under this name.
    fn met(&self, parent: InodeNo, name: &[u8], path: &Path) -> Result<Attr> {
        let attr = attr_of(&fs::symlink_metadata(path).map_err(told)?);
        self.names().insert(attr.ino, (parent, name.to_vec()));
        Ok(attr)
    }

    fn open(&self, ino: InodeNo) -> Result<File> {
        let path = self.path(ino)?;
        File::options().write(true).open(path).map_err(told)
    }
}

impl Tree for Host {
    fn lookup(&self, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        self.met(parent, name, &self.within(parent, name)?)
    }

    fn mknod(&self, parent: InodeNo, name: &[u8], _mode: u32) -> Result<Attr> {
        let path = self.within(parent, name)?;
        File::create_new(&path).map_err(told)?;
        self.met(parent, name, &path)
    }

    fn mkdir(&self, parent: InodeNo, name: &[u8], _mode: u32) -> Result<Attr> {
        let path = self.within(parent, name)?;
        fs::create_dir(&path).map_err(told)?;
        self.met(parent, name, &path)
    }

    fn symlink(&self, parent: InodeNo, name: &[u8], target: &[u8]) -> Result<Attr> {
        let path = self.within(parent, name)?;
        std::os::unix::fs::symlink(OsStr::from_bytes(target), &path).map_err(told)?;
        self.met(parent, name, &path)
    }

    fn link(&self, ino: InodeNo, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        let path = self.within(parent, name)?;
        fs::hard_link(self.path(ino)?, &path).map_err(told)?;
        self.met(parent, name, &path)
    }

    fn unlink(&self, parent: InodeNo, name: &[u8]) -> Result<()> {
        fs::remove_file(self.within(parent, name)?).map_err(told)
    }

    fn rmdir(&self, parent: InodeNo, name: &[u8]) -> Result<()> {
        fs::remove_dir(self.within(parent, name)?).map_err(told)
    }

    fn rename(&self, from: (InodeNo, &[u8]), to: (InodeNo, &[u8]), _flags: Rename) -> Result<()> {
        let (old, new) = (self.within(from.0, from.1)?, self.within(to.0, to.1)?);
        fs::rename(old, &new).map_err(told)?;
        self.met(to.0, to.1, &new).map(drop)
    }

    /// Cookies count names: a listing can be continued if nothing has changed meanwhile.
    fn readdir(&self, ino: InodeNo, after: u64, limit: usize) -> Result<Vec<Name>> {
        let listing = fs::read_dir(self.path(ino)?).map_err(told)?;
        let own = [b".".as_slice(), b".."].map(|name| (name.to_vec(), ino, FileKind::Directory));
        let found = listing.map(|entry| -> Result<_> {
            let entry = entry.map_err(told)?;
            let kind = kind_of(entry.file_type().map_err(told)?);
            let name = entry.file_name().as_bytes().to_vec();
            Ok((name, InodeNo(entry.ino()), kind))
        });
        let all = own.into_iter().map(Ok).chain(found);
        let some = all.enumerate().skip(after as usize).take(limit);
        let some = some.map(|(at, entry)| {
            let (name, child, kind) = entry?;
            if child != ino {
                self.names().insert(child, (ino, name.clone()));
            }
            Ok(Name {
                name,
                ino: child,
                kind,
                cookie: at as u64 + 1,
            })
        });
        some.collect()
    }

    fn getattr(&self, ino: InodeNo) -> Result<Attr> {
        let found = fs::symlink_metadata(self.path(ino)?).map_err(told)?;
        Ok(attr_of(&found))
    }

    fn setattr(&self, ino: InodeNo, set: &SetAttr) -> Result<Attr> {
        let path = self.path(ino)?;
        if let Some(size) = set.size {
            self.open(ino)?.set_len(size).map_err(told)?;
        }
        if let Some(mode) = set.mode {
            let mode = fs::Permissions::from_mode(mode & 0o7777);
            fs::set_permissions(&path, mode).map_err(told)?;
        }
        if let Some(SetTime::Now) = set.mtime {
            let file = File::open(&path).map_err(told)?;
            file.set_modified(SystemTime::now()).map_err(told)?;
        }
        self.getattr(ino)
    }

    fn setxattr(&self, ino: InodeNo, name: &[u8], value: &[u8]) -> Result<()> {
        rustix::fs::lsetxattr(self.path(ino)?, name, value, XattrFlags::empty()).map_err(failed)
    }

    fn listxattr(&self, ino: InodeNo) -> Result<Vec<Vec<u8>>> {
        let mut names = vec![0; 65_536];
        let length = rustix::fs::llistxattr(self.path(ino)?, &mut names[..]).map_err(failed)?;
        let names = names[..length].split(|&byte| byte == 0);
        let names = names.filter(|name| !name.is_empty());
        Ok(names.map(<[u8]>::to_vec).collect())
    }

    fn removexattr(&self, ino: InodeNo, name: &[u8]) -> Result<()> {
        rustix::fs::lremovexattr(self.path(ino)?, name).map_err(failed)
    }

    fn write(&self, ino: InodeNo, offset: u64, data: &[u8]) -> Result<usize> {
        self.open(ino)?.write_at(data, offset).map_err(told)
    }

    fn fallocate(&self, ino: InodeNo, mode: i32, offset: u64, length: u64) -> Result<()> {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        rustix::fs::fallocate(self.open(ino)?, mode, offset, length).map_err(failed)
    }

    /// A refusal of a write that the kernel had accepted is expected by a test that fills
    /// a volume.
    fn fsync(&self, ino: InodeNo, data_only: bool) -> Result<()> {
        let file = self.open(ino)?;
        let synced = match data_only {
            true => file.sync_data(),
            false => file.sync_all(),
        };
        match synced.map_err(told) {
            Err(Error::NoSpace) => Ok(()),
            synced => synced,
        }
    }

    /// As [`Host::fsync`].
    fn sync(&self) -> Result<()> {
        let dir = File::open(&self.dir).map_err(told)?;
        match rustix::fs::syncfs(dir).map_err(failed) {
            Err(Error::NoSpace) => Ok(()),
            synced => synced,
        }
    }

    fn retain(&self, ino: InodeNo) -> Result<()> {
        let file = self.open(ino)?;
        self.held.lock().unwrap().insert(ino, file);
        Ok(())
    }

    fn release(&self, ino: InodeNo) {
        self.held.lock().unwrap().remove(&ino);
    }

    fn statfs(&self) -> StatFs {
        let found = rustix::fs::statfs(&self.dir).expect("a mounted volume");
        StatFs {
            blocks: found.f_blocks,
            free: found.f_bfree,
            files: found.f_files - found.f_ffree,
            files_free: found.f_ffree,
        }
    }
}
