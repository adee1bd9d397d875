//! Storage of the record store `varve-tp` in a directory of a volume.

use crate::{Error, File, OpenOptions, Volume};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve_tp::storage::{Storage, StoredFile};

/// A directory of a volume that contains the files of a record store.
///
/// ```
/// use std::sync::Arc;
/// use varve::{Volume, VolumeStorage};
/// use varve_tp::{Options, TableDefinition};
///
/// const WORDS: TableDefinition<&str, u32> = TableDefinition::new("words");
///
/// let volume = Volume::in_memory(256 << 20)?;
/// let storage = Arc::new(VolumeStorage::new(&volume, "/records")?);
/// let environment = Options::new().segment(1 << 20).open_storage(storage)?;
/// let transaction = environment.begin_write();
/// transaction.open_table(WORDS)?.insert("varve", 1)?;
/// transaction.commit()?;
/// environment.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The volume's lock excludes other processes. Within this process the directory may be
/// opened only once at a time.
#[derive(Debug)]
pub struct VolumeStorage {
    volume: Volume,
    directory: PathBuf,
    read_only: bool,
}

impl VolumeStorage {
    /// Opens a directory, which is created if it is missing.
    ///
    /// # Errors
    /// The same as [`Volume::create_dir_all`].
    pub fn new(volume: &Volume, directory: impl AsRef<Path>) -> Result<Self, Error> {
        volume.create_dir_all(&directory)?;
        volume.sync()?;
        Ok(Self::of(volume, directory.as_ref(), false))
    }

    /// Opens an existing directory for `Options::read_only`. Nothing is created, and the
    /// volume may be open read-only.
    ///
    /// # Errors
    /// If the directory does not exist.
    pub fn read_only(volume: &Volume, directory: impl AsRef<Path>) -> Result<Self, Error> {
        volume.read_dir(&directory)?;
        Ok(Self::of(volume, directory.as_ref(), true))
    }

    fn of(volume: &Volume, directory: &Path, read_only: bool) -> Self {
        VolumeStorage {
            volume: volume.clone(),
            directory: directory.to_owned(),
            read_only,
        }
    }
}

impl Storage for VolumeStorage {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn StoredFile>> {
        let path = self.directory.join(name);
        let mut options = OpenOptions::new();
        options.read(true).write(!self.read_only);
        match options.open(&self.volume, &path) {
            Ok(file) => Ok(Arc::new(VolumeFile(file))),
            Err(error) => {
                let error = io::Error::from(error);
                if !create || error.kind() != io::ErrorKind::NotFound {
                    return Err(error);
                }
                let file = options.create(true).open(&self.volume, &path)?;
                // The sync includes the name of the new file.
                file.sync_all()?;
                Ok(Arc::new(VolumeFile(file)))
            }
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let entries = self.volume.read_dir(&self.directory)?;
        let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.directory.join(from), self.directory.join(to));
        self.volume.rename(from, to)?;
        Ok(self.volume.sync()?)
    }

    fn lock(&self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct VolumeFile(File);

impl StoredFile for VolumeFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(self.0.sync_data()?)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        Ok(self.0.set_len(bytes)?)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
