//! Any mounted file system as the one under test, through system calls.

use super::target::{Fault, How, Outcome, Room, Target, TargetFile, drop_host_caches};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use varve_tp::storage::{HostStorage, Storage};

/// A mounted directory. Paths are absolute.
pub struct System {
    /// The directory.
    pub directory: PathBuf,
    /// Further file systems to sync, for servers that stand on another.
    pub sync_also: Vec<PathBuf>,
    /// A shell command for every cold point, such as a remount.
    pub cold_command: Option<String>,
}

fn fault(operation: &str, path: &str, error: Errno) -> Fault {
    let text = format!("{operation} {path}: {error}");
    match error {
        Errno::NOSPC => Fault::NoSpace(text),
        _ => Fault::System(text),
    }
}

fn sync_directory(path: &std::path::Path) -> Outcome<()> {
    let shown = path.display().to_string();
    let failed = |error| fault("sync", &shown, error);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    rustix::fs::syncfs(&directory).map_err(failed)?;
    match rustix::fs::fsync(&directory) {
        Ok(()) | Err(Errno::INVAL | Errno::NOSYS) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

impl Target for System {
    type File = OwnedFd;

    fn make_dir(&self, path: &str) -> Outcome<()> {
        rustix::fs::mkdir(path, Mode::from(0o755)).map_err(|e| fault("mkdir", path, e))
    }

    fn remove_dir(&self, path: &str) -> Outcome<()> {
        rustix::fs::rmdir(path).map_err(|e| fault("rmdir", path, e))
    }

    fn remove_tree(&self, path: &str) -> Outcome<()> {
        // A few passes: some file systems skip entries when a directory
        // shrinks while it is read.
        for _ in 0..4 {
            match std::fs::remove_dir_all(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    tracing::debug!(%error, path, "not yet removed");
                }
                _ => return Ok(()),
            }
        }
        Err(Fault::System(format!("could not remove {path}")))
    }

    fn open(&self, path: &str, how: How) -> Outcome<OwnedFd> {
        let flags = match how {
            How::Read => OFlags::RDONLY,
            How::Write => OFlags::WRONLY,
            How::ReadWrite => OFlags::RDWR | OFlags::CREATE,
            How::New => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::from(0o644))
            .map_err(|e| fault("open", path, e))
    }

    fn remove(&self, path: &str) -> Outcome<()> {
        rustix::fs::unlink(path).map_err(|e| fault("unlink", path, e))
    }

    fn link(&self, existing: &str, new: &str) -> Outcome<()> {
        rustix::fs::link(existing, new).map_err(|e| fault("link", new, e))
    }

    fn symlink(&self, target: &str, link: &str) -> Outcome<()> {
        rustix::fs::symlink(target, link).map_err(|e| fault("symlink", link, e))
    }

    fn rename(&self, from: &str, to: &str) -> Outcome<()> {
        rustix::fs::rename(from, to).map_err(|e| fault("rename", from, e))
    }

    fn stat(&self, path: &str) -> Outcome<(u64, u64)> {
        let stat = rustix::fs::stat(path).map_err(|e| fault("stat", path, e))?;
        Ok((stat.st_size as u64, stat.st_nlink as u64))
    }

    fn exists(&self, path: &str) -> bool {
        rustix::fs::accessat(CWD, path, rustix::fs::Access::EXISTS, AtFlags::empty()).is_ok()
    }

    fn count_names(&self, path: &str, initial: u8) -> Outcome<u64> {
        let failed = |e| fault("list", path, e);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
        let mut seen = 0;
        for entry in Dir::new(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            seen += u64::from(entry.file_name().to_bytes().first() == Some(&initial));
        }
        Ok(seen)
    }

    fn total_bytes(&self, path: &str) -> Outcome<(u64, u64)> {
        let failed = |e: std::io::Error| Fault::System(format!("list {path}: {e}"));
        let (mut seen, mut bytes) = (0, 0);
        for entry in std::fs::read_dir(path).map_err(failed)? {
            let metadata = entry.and_then(|entry| entry.metadata()).map_err(failed)?;
            (seen, bytes) = (seen + 1, bytes + metadata.len());
        }
        Ok((seen, bytes))
    }

    fn sync(&self) -> Outcome<()> {
        sync_directory(&self.directory)?;
        self.sync_also
            .iter()
            .try_for_each(|path| sync_directory(path))
    }

    fn forget(&self) -> Outcome<()> {
        drop_host_caches();
        let Some(command) = &self.cold_command else {
            return Ok(());
        };
        match Command::new("sh").args(["-c", command]).status() {
            Ok(status) if status.success() => Ok(()),
            other => Err(Fault::System(format!("--cold-cmd failed: {other:?}"))),
        }
    }

    fn storage(&self, path: &str) -> Outcome<Arc<dyn Storage>> {
        let storage = HostStorage::new(std::path::Path::new(path));
        let storage = storage.map_err(|error| Fault::System(format!("open {path}: {error}")))?;
        Ok(Arc::new(storage))
    }

    fn room(&self) -> Outcome<Room> {
        let path = self.directory.display().to_string();
        let v = rustix::fs::statvfs(&self.directory).map_err(|e| fault("statvfs", &path, e))?;
        Ok(Room {
            capacity: v.f_blocks * v.f_frsize,
            used: (v.f_blocks - v.f_bfree) as f64 / v.f_blocks as f64,
        })
    }
}

impl TargetFile for OwnedFd {
    fn write_at(&self, mut offset: u64, mut data: &[u8]) -> Outcome<()> {
        while !data.is_empty() {
            match rustix::io::pwrite(self, data, offset) {
                Err(Errno::INTR) => {}
                Err(error) => return Err(fault("pwrite at", &offset.to_string(), error)),
                Ok(written) => {
                    data = &data[written..];
                    offset += written as u64;
                }
            }
        }
        Ok(())
    }

    fn read_at(&self, mut offset: u64, buffer: &mut [u8]) -> Outcome<()> {
        let mut rest = buffer;
        while !rest.is_empty() {
            match rustix::io::pread(self, &mut *rest, offset) {
                Err(Errno::INTR) => {}
                Err(error) => return Err(fault("pread at", &offset.to_string(), error)),
                Ok(0) => return Err(fault("pread at", &offset.to_string(), Errno::NODATA)),
                Ok(read) => {
                    rest = &mut rest[read..];
                    offset += read as u64;
                }
            }
        }
        Ok(())
    }

    fn sync_data(&self) -> Outcome<()> {
        rustix::fs::fdatasync(self).map_err(|e| fault("fdatasync", "", e))
    }

    fn sync_all(&self) -> Outcome<()> {
        rustix::fs::fsync(self).map_err(|e| fault("fsync", "", e))
    }

    fn close(self) -> Outcome<()> {
        let file = std::fs::File::from(self);
        drop(file);
        Ok(())
    }
}
