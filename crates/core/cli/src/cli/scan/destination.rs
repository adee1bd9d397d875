//! A directory of the host to which a tree is copied.
//!
//! Every path is resolved below the directory and without symbolic links, so no volume,
//! damaged or hostile, makes the copy write elsewhere.

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, XattrFlags, chownat,
    fchmod, fchown, fsetxattr, ftruncate, futimens, linkat, mkdirat, mknodat, openat, openat2,
    symlinkat, utimensat,
};
use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Permissions of an unfinished file.
const PRIVATE: Mode = Mode::RWXU;

pub struct Destination {
    root: OwnedFd,
    /// The last directory, and the last file, that were opened.
    directory: Option<(PathBuf, OwnedFd)>,
    file: Option<(PathBuf, File)>,
    is_root: bool,
}

impl Destination {
    /// Opens a directory, which is made if it is missing.
    ///
    /// # Errors
    /// If it has entries; errors of the host.
    pub fn open(path: &Path) -> Result<Self, String> {
        match std::fs::create_dir(path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(error.to_string());
            }
            Ok(()) | Err(_) => {}
        }
        let mut entries = std::fs::read_dir(path).map_err(|error| error.to_string())?;
        if entries.next().is_some() {
            return Err("the directory is not empty; name one that is, or a new one".to_owned());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, path, flags, Mode::empty()).map_err(|error| error.to_string())?;
        Ok(Destination {
            root,
            directory: None,
            file: None,
            is_root: rustix::process::geteuid().is_root(),
        })
    }

    /// Writes bytes of a file, as an item `part` has them.
    ///
    /// # Errors
    /// Names the path and the reason.
    pub fn write(&mut self, part: &Value, bytes: &[u8]) -> Result<(), String> {
        let path = path_of(&part["part"])?;
        let offset = part["offset"].as_u64().unwrap_or(0);
        let file = self.file(&path).map_err(|error| of(&path, error))?;
        file.write_all_at(bytes, offset)
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Makes an item `entry` what it describes, after its content was written.
    ///
    /// # Errors
    /// Names the path and the reason.
    pub fn finish(&mut self, entry: &Value) -> Result<(), String> {
        let path = path_of(&entry["entry"])?;
        let link = match &entry["link"] {
            Value::Null => None,
            link => Some(path_of(link)?),
        };
        let made = match link {
            Some(link) => self.link(&link, &path),
            None => self.make(&path, entry),
        };
        made.map_err(|error| of(&path, error))
    }

    fn make(&mut self, path: &Path, entry: &Value) -> Result<(), Errno> {
        let number = |name: &str| entry[name].as_u64().unwrap_or(0);
        let mode = number("mode") as u32;
        let owner = self.is_root.then(|| {
            let owner = Uid::from_raw(number("uid") as u32);
            (Some(owner), Some(Gid::from_raw(number("gid") as u32)))
        });
        let times = Timestamps {
            last_access: time(&entry["accessed"]),
            last_modification: time(&entry["modified"]),
        };
        let kind = FileType::from_raw_mode(mode);
        let opened = match kind {
            FileType::RegularFile => {
                ftruncate(self.file(path)?, number("size"))?;
                OwnedFd::from(self.file.take().ok_or(Errno::BADF)?.1)
            }
            FileType::Directory => {
                self.directory = None;
                self.directory_at(path)?;
                self.directory.take().ok_or(Errno::BADF)?.1
            }
            kind => {
                let (name, directory) = self.parent(path)?;
                match kind {
                    FileType::Symlink => {
                        let target = bytes_of(&entry["target"]).ok_or(Errno::INVAL)?;
                        symlinkat(OsStr::from_bytes(&target), directory, name)?;
                    }
                    kind => {
                        let mode = Mode::from_raw_mode(mode & 0o777);
                        mknodat(directory, name, kind, mode, number("rdev"))?;
                    }
                }
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                if let Some((user, group)) = owner {
                    chownat(directory, name, user, group, flags)?;
                }
                return utimensat(directory, name, &times, flags);
            }
        };
        for pair in entry["xattrs"].as_array().into_iter().flatten() {
            let (name, value) = (bytes_of(&pair[0]), bytes_of(&pair[1]));
            let (name, value) = name.zip(value).ok_or(Errno::INVAL)?;
            let name = OsStr::from_bytes(&name);
            // Without root, attributes of the system are left out, as owners are.
            match fsetxattr(&opened, name, &value, XattrFlags::empty()) {
                Err(Errno::PERM | Errno::ACCESS) if !self.is_root => {}
                set => set?,
            }
        }
        let mut bits = mode & 0o7777;
        match owner {
            Some((user, group)) => fchown(&opened, user, group)?,
            None => bits &= 0o1777,
        }
        fchmod(&opened, Mode::from_raw_mode(bits))?;
        futimens(&opened, &times)
    }

    fn link(&mut self, original: &Path, path: &Path) -> Result<(), Errno> {
        let from = {
            let (name, directory) = self.parent(original)?;
            (
                name.to_owned(),
                directory.try_clone().map_err(|_| Errno::MFILE)?,
            )
        };
        let (name, directory) = self.parent(path)?;
        linkat(from.1, from.0, directory, name, AtFlags::empty())
    }

    /// The file at a path, made if it is missing.
    fn file(&mut self, path: &Path) -> Result<&File, Errno> {
        if self.file.as_ref().is_none_or(|(open, _)| open != path) {
            self.file = None;
            let (name, directory) = self.parent(path)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::RUSR | Mode::WUSR;
            let file = openat2(directory, name, flags, mode, beneath())?;
            self.file = Some((path.to_owned(), File::from(file)));
        }
        self.file.as_ref().map(|(_, file)| file).ok_or(Errno::BADF)
    }

    /// The last name of a path, and its directory, made if it is missing.
    fn parent<'a>(&mut self, path: &'a Path) -> Result<(&'a OsStr, &OwnedFd), Errno> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let above = path.parent().unwrap_or(Path::new(""));
        Ok((name, self.directory_at(above)?))
    }

    fn directory_at(&mut self, path: &Path) -> Result<&OwnedFd, Errno> {
        if self.directory.as_ref().is_none_or(|(open, _)| open != path) {
            self.directory = Some((path.to_owned(), self.make_directory(path)?));
        }
        let directory = self.directory.as_ref().map(|(_, directory)| directory);
        directory.ok_or(Errno::BADF)
    }

    fn make_directory(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |path: &Path| openat2(&self.root, path, flags, Mode::empty(), beneath());
        let path = match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        };
        match open(path) {
            Err(Errno::NOENT) => {
                let above = path.parent().unwrap_or(Path::new(""));
                let parent = self.make_directory(above)?;
                let name = path.file_name().ok_or(Errno::INVAL)?;
                mkdirat(parent.as_fd(), name, PRIVATE)?;
                open(path)
            }
            opened => opened,
        }
    }
}

fn beneath() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS
}

fn of(path: &Path, error: Errno) -> String {
    format!("{}: {error}", path.display())
}

fn time(value: &Value) -> Timespec {
    Timespec {
        tv_sec: value[0].as_i64().unwrap_or(0),
        tv_nsec: value[1].as_i64().unwrap_or(0),
    }
}

/// Bytes, as a string or an array.
fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    if let Some(text) = value.as_str() {
        return Some(text.as_bytes().to_vec());
    }
    let byte = |byte: &Value| byte.as_u64().and_then(|byte| u8::try_from(byte).ok());
    value.as_array()?.iter().map(byte).collect()
}

fn path_of(value: &Value) -> Result<PathBuf, String> {
    let bytes = bytes_of(value).ok_or("the server is of another version")?;
    Ok(PathBuf::from(OsStr::from_bytes(&bytes)))
}
