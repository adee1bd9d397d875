//! The library as the file system under test.

use super::target::{Fault, How, Outcome, Room, Target, TargetFile, drop_host_caches};
use varve::{File, OpenFlags, Volume};

/// A volume opened by this process.
pub struct Library {
    /// The volume.
    pub volume: Volume,
}

fn fault(error: varve::Error) -> Fault {
    match error.errno() {
        code if code == rustix::io::Errno::NOSPC.raw_os_error() => {
            Fault::NoSpace(error.to_string())
        }
        _ => Fault::System(error.to_string()),
    }
}

impl Target for Library {
    type File = File;

    fn make_dir(&self, path: &str) -> Outcome<()> {
        self.volume.create_dir(path).map_err(fault)
    }

    fn remove_dir(&self, path: &str) -> Outcome<()> {
        self.volume.remove_dir(path).map_err(fault)
    }

    fn remove_tree(&self, path: &str) -> Outcome<()> {
        match self.volume.remove_dir_all(path) {
            Err(error) if !error.is_not_found() => Err(fault(error)),
            _ => Ok(()),
        }
    }

    fn open(&self, path: &str, how: How) -> Outcome<File> {
        let flags = match how {
            How::Read => OpenFlags::READ,
            How::Write => OpenFlags::READ_WRITE,
            How::ReadWrite => OpenFlags::CREATE,
            How::New => OpenFlags {
                create_new: true,
                ..OpenFlags::READ_WRITE
            },
        };
        self.volume.open_file(path, flags).map_err(fault)
    }

    fn remove(&self, path: &str) -> Outcome<()> {
        self.volume.remove_file(path).map_err(fault)
    }

    fn link(&self, existing: &str, new: &str) -> Outcome<()> {
        self.volume.hard_link(existing, new).map_err(fault)
    }

    fn symlink(&self, target: &str, link: &str) -> Outcome<()> {
        self.volume.symlink(target, link).map_err(fault)
    }

    fn rename(&self, from: &str, to: &str) -> Outcome<()> {
        self.volume.rename(from, to).map_err(fault)
    }

    fn stat(&self, path: &str) -> Outcome<(u64, u64)> {
        let metadata = self.volume.metadata(path).map_err(fault)?;
        Ok((metadata.len(), metadata.links().into()))
    }

    fn exists(&self, path: &str) -> bool {
        self.volume.exists(path)
    }

    fn count_names(&self, path: &str, initial: u8) -> Outcome<u64> {
        let mut seen = 0;
        for entry in self.volume.read_dir(path).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            let first = entry.file_name().as_encoded_bytes().first();
            seen += u64::from(first == Some(&initial));
        }
        Ok(seen)
    }

    fn sync(&self) -> Outcome<()> {
        self.volume.sync().map_err(fault)
    }

    fn forget(&self) -> Outcome<()> {
        // Files whose access times wait for a checkpoint stay in memory.
        self.volume.checkpoint().map_err(fault)?;
        self.volume.drop_caches();
        drop_host_caches();
        Ok(())
    }

    fn room(&self) -> Outcome<Room> {
        let space = self.volume.statfs();
        let used = (space.blocks - space.free) as f64 / space.blocks as f64;
        Ok(Room {
            capacity: space.blocks * u64::from(self.volume.block_bytes()),
            used,
        })
    }
}

impl TargetFile for File {
    fn write_at(&self, offset: u64, data: &[u8]) -> Outcome<()> {
        File::write_at(self, offset, data).map_err(fault)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Outcome<()> {
        let read = File::read_at(self, offset, buffer).map_err(fault)?;
        match read == buffer.len() {
            true => Ok(()),
            false => Err(Fault::System(format!(
                "{self:?} is too short: {read} bytes at {offset}"
            ))),
        }
    }

    fn sync_data(&self) -> Outcome<()> {
        File::sync_data(self).map_err(fault)
    }

    fn sync_all(&self) -> Outcome<()> {
        File::sync_all(self).map_err(fault)
    }

    fn close(self) -> Outcome<()> {
        Ok(())
    }
}
