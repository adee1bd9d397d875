//! The library as the file system under test.

use super::target::{Fault, How, Outcome, Room, Target, TargetFile, drop_host_caches};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use varve::{File, OpenOptions, Volume, VolumeStorage, admin};
use varve_tp::storage::Storage;

/// A volume opened by this process.
pub struct Library {
    /// The volume.
    pub volume: Volume,
}

fn fault(error: impl Into<std::io::Error>) -> Fault {
    let error = error.into();
    match error.kind() {
        ErrorKind::StorageFull => Fault::NoSpace(error.to_string()),
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
            Err(error) if error.kind() != ErrorKind::NotFound => Err(fault(error)),
            _ => Ok(()),
        }
    }

    fn open(&self, path: &str, how: How) -> Outcome<File> {
        let mut options = OpenOptions::new();
        options.read(true);
        match how {
            How::Read => &mut options,
            How::Write => options.write(true),
            How::ReadWrite => options.write(true).create(true),
            How::New => options.write(true).create_new(true),
        };
        options.open(&self.volume, path).map_err(fault)
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
        Ok((metadata.len(), metadata.nlink()))
    }

    fn exists(&self, path: &str) -> bool {
        self.volume.exists(path).unwrap_or(false)
    }

    fn count_names(&self, path: &str, initial: u8) -> Outcome<u64> {
        let mut seen = 0;
        for entry in self.volume.read_dir(path).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            let name = entry.file_name();
            seen += u64::from(name.as_encoded_bytes().first() == Some(&initial));
        }
        Ok(seen)
    }

    fn total_bytes(&self, path: &str) -> Outcome<(u64, u64)> {
        let (mut seen, mut bytes) = (0, 0);
        for entry in self.volume.read_dir(path).map_err(fault)? {
            let metadata = entry.and_then(|entry| entry.metadata()).map_err(fault)?;
            (seen, bytes) = (seen + 1, bytes + metadata.len());
        }
        Ok((seen, bytes))
    }

    fn sync(&self) -> Outcome<()> {
        self.volume.sync().map_err(fault)
    }

    fn forget(&self) -> Outcome<()> {
        // Files whose access times wait for a checkpoint stay in memory.
        self.volume.checkpoint().map_err(fault)?;
        admin::tree(&self.volume).drop_caches();
        drop_host_caches();
        Ok(())
    }

    fn storage(&self, path: &str) -> Outcome<Arc<dyn Storage>> {
        let storage = VolumeStorage::new(&self.volume, path).map_err(fault)?;
        Ok(Arc::new(storage))
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
        self.write_all_at(data, offset).map_err(fault)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Outcome<()> {
        self.read_exact_at(buffer, offset).map_err(fault)
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
