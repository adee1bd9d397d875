//! Copies a tree from one file system to another.
//!
//! Only ranges with data are copied, so that holes remain holes. The first name of a file
//! is copied as a file, further names as links. Attributes and times are set last, when
//! nothing changes them any more. A file that cannot be read is left out and reported.
//!
//! Memory: [`BATCH`] names for each directory from the root to the current one, the
//! numbers of files with several names, one buffer.

use std::collections::HashMap;
use varve_fs::{
    Attr, Caller, Error, FileKind, FileSystem, InodeNo, Result, SetAttr, SetTime, Whence,
};
use varve_lfs::Lfs;

/// Number of names read at once.
const BATCH: usize = 512;
/// Bytes copied at once.
const BUFFER: usize = 1 << 20;
/// Largest number of reports kept.
const MAX_TROUBLES: usize = 10_000;
/// Largest depth of a directory.
const MAX_DEPTH: usize = 4096;

type Tree = FileSystem<Lfs>;

/// Result of a copy.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Copied {
    /// Files of all kinds except for directories, each counted once.
    pub files: u64,
    /// Directories, including the root.
    pub directories: u64,
    /// Names of files beyond their first.
    pub links: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Paths that could not be copied, with reasons.
    pub left_out: Vec<String>,
}

/// Copies everything in `from` below the root of `to`, which must be empty.
///
/// # Errors
/// If the target has no space or fails. Damage of the source is in the result.
pub(super) fn tree(from: &Tree, to: &Tree, progress: &dyn Fn(u64)) -> Result<Copied> {
    let mut copy = Copy {
        from,
        to,
        caller: Caller::root(),
        links: HashMap::new(),
        copied: Copied::default(),
        buffer: vec![0; BUFFER],
        progress,
    };
    copy.all()?;
    Ok(copy.copied)
}

struct Copy<'c> {
    from: &'c Tree,
    to: &'c Tree,
    caller: Caller,
    /// Copies of files with several names, by their number in the source.
    links: HashMap<u64, InodeNo>,
    copied: Copied,
    buffer: Vec<u8>,
    progress: &'c dyn Fn(u64),
}

/// A directory that is being copied.
struct Level {
    from: InodeNo,
    to: InodeNo,
    path: String,
    /// Cookie of the last name taken.
    after: u64,
    /// The next names, in reverse order.
    names: Vec<(Vec<u8>, InodeNo)>,
}

impl Copy<'_> {
    fn all(&mut self) -> Result<()> {
        let mut levels = vec![Level {
            from: InodeNo::ROOT,
            to: InodeNo::ROOT,
            path: String::new(),
            after: 0,
            names: Vec::new(),
        }];
        self.copied.directories += 1;
        while let Some(level) = levels.last_mut() {
            if level.names.is_empty() && !self.fill(level) {
                let (from, to, path) = (level.from, level.to, level.path.clone());
                levels.pop();
                self.attributes(from, to, &path)?;
                continue;
            }
            let Some((name, ino)) = level.names.pop() else {
                continue;
            };
            let path = format!("{}/{}", level.path, name.escape_ascii());
            let parent = level.to;
            if levels.len() > MAX_DEPTH {
                self.leave_out(&path, "too many directories above it");
                continue;
            }
            if let Some((from, to)) = self.one(parent, &name, ino, &path)? {
                levels.push(Level {
                    from,
                    to,
                    path,
                    after: 0,
                    names: Vec::new(),
                });
            }
        }
        Ok(())
    }

    /// Fetches the next names of a directory; false if there are none.
    fn fill(&mut self, level: &mut Level) -> bool {
        let (names, mut after) = (&mut level.names, level.after);
        let listed = self.from.readdir(level.from, after, &mut |entry| {
            after = entry.cookie;
            if entry.name != b"." && entry.name != b".." {
                names.push((entry.name.to_vec(), entry.ino));
            }
            names.len() < BATCH
        });
        level.after = after;
        level.names.reverse();
        if let Err(error) = listed {
            let path = level.path.clone();
            self.leave_out(&path, &format!("names: {error}"));
            level.after = u64::MAX;
        }
        !level.names.is_empty()
    }

    fn leave_out(&mut self, path: &str, why: &str) {
        if self.copied.left_out.len() < MAX_TROUBLES {
            self.copied.left_out.push(format!("{path}: {why}"));
        }
    }

    /// Copies the file with one name. Of a directory only the directory itself is copied;
    /// the result names the pair whose content follows.
    fn one(
        &mut self,
        parent: InodeNo,
        name: &[u8],
        ino: InodeNo,
        path: &str,
    ) -> Result<Option<(InodeNo, InodeNo)>> {
        let attr = match self.from.getattr(ino) {
            Ok(attr) => attr,
            Err(error) => {
                self.leave_out(path, &error.to_string());
                return Ok(None);
            }
        };
        if let Some(&there) = self.links.get(&ino.0) {
            self.to.link(&self.caller, there, parent, name)?;
            self.copied.links += 1;
            return Ok(None);
        }
        let caller = &self.caller;
        let made = match attr.kind {
            FileKind::Directory => {
                let made = self.to.mkdir(caller, parent, name, 0o700)?;
                self.copied.directories += 1;
                return Ok(Some((ino, made.ino)));
            }
            FileKind::Symlink => match self.from.readlink(ino) {
                Ok(target) => self.to.symlink(caller, parent, name, &target)?,
                Err(error) => {
                    self.leave_out(path, &error.to_string());
                    return Ok(None);
                }
            },
            _ => self.to.mknod(caller, parent, name, attr.mode, attr.rdev)?,
        };
        if attr.nlink > 1 {
            self.links.insert(ino.0, made.ino);
        }
        self.copied.files += 1;
        if attr.kind == FileKind::Regular {
            self.content(ino, made.ino, &attr, path)?;
        }
        self.attributes(ino, made.ino, path)?;
        if self.copied.files.is_multiple_of(256) {
            self.to.maintain()?;
            (self.progress)(self.copied.files);
        }
        Ok(None)
    }

    fn content(&mut self, from: InodeNo, to: InodeNo, attr: &Attr, path: &str) -> Result<()> {
        let mut at = 0;
        while at < attr.size {
            let start = match self.from.seek(from, at, Whence::Data) {
                Ok(start) if start < attr.size => start.max(at),
                Ok(_) | Err(Error::NoData) => break,
                Err(error) => {
                    self.leave_out(path, &format!("from byte {at} on: {error}"));
                    break;
                }
            };
            let hole = self.from.seek(from, start, Whence::Hole);
            let end = hole.unwrap_or(attr.size).clamp(start + 1, attr.size);
            let length = BUFFER.min((end - start) as usize);
            let buffer = &mut self.buffer[..length];
            match self.from.read(from, start, buffer) {
                Ok(0) => break,
                Ok(read) => {
                    self.to.write(&self.caller, to, start, &buffer[..read])?;
                    self.copied.bytes += read as u64;
                    at = start + read as u64;
                }
                Err(error) => {
                    self.leave_out(path, &format!("bytes {start} to {}: {error}", end - 1));
                    at = end;
                }
            }
            if self.copied.bytes % (16 << 20) < BUFFER as u64 {
                self.to.maintain()?;
            }
        }
        let size = SetAttr {
            size: Some(attr.size),
            ..SetAttr::default()
        };
        self.to.setattr(&self.caller, to, &size)?;
        Ok(())
    }

    /// Copies extended attributes, owner, mode and times.
    fn attributes(&mut self, from: InodeNo, to: InodeNo, path: &str) -> Result<()> {
        let attr = match self.from.getattr(from) {
            Ok(attr) => attr,
            Err(error) => {
                self.leave_out(path, &error.to_string());
                return Ok(());
            }
        };
        match self.from.listxattr(&self.caller, from) {
            Ok(names) => {
                for name in names {
                    let copied = self
                        .from
                        .getxattr(&self.caller, from, &name)
                        .and_then(|value| {
                            let caller = &self.caller;
                            self.to.setxattr(caller, to, &name, &value, false, false)
                        });
                    if let Err(error) = copied {
                        let what = format!("attribute {}: {error}", name.escape_ascii());
                        self.leave_out(path, &what);
                    }
                }
            }
            Err(error) => self.leave_out(path, &format!("attributes: {error}")),
        }
        let set = SetAttr {
            mode: (attr.kind != FileKind::Symlink).then_some(attr.mode),
            uid: Some(attr.uid),
            gid: Some(attr.gid),
            atime: Some(SetTime::At(attr.atime)),
            mtime: Some(SetTime::At(attr.mtime)),
            ctime: Some(attr.ctime),
            ..SetAttr::default()
        };
        self.to.setattr(&self.caller, to, &set)?;
        Ok(())
    }
}
