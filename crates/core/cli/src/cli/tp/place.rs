//! The place of an environment.

use crate::cli::output::Failure;
use crate::cli::size;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve::{Volume, VolumeOptions, VolumeStorage};
use varve_tp::storage::{HostStorage, Storage};
use varve_tp::{Environment, Options, Placement, TornPages};

const FAILED: u8 = 1;
const NO_DIRECTORY: &str = "there is no such directory";

// A directory, of the host or of a volume. (A doc comment here would replace those of the
// commands.)
#[derive(clap::Args)]
pub struct Place {
    /// The environment's directory.
    directory: PathBuf,
    /// The directory is one of this volume: an image or a block device that is not
    /// mounted.
    #[arg(long, value_name = "IMAGE")]
    volume: Option<PathBuf>,
    /// Memory for pages, in bytes.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size::parse)]
    memory: u64,
}

// The placement of a new environment's pages.
#[derive(clap::Args)]
pub struct Lay {
    /// Overwrite pages in place instead of writing to free slots: the file is as long as
    /// its pages, and neighbours stay neighbours. The log gets an image of each page that
    /// is written, once between two checkpoints, because a power cut may tear a page that
    /// is being overwritten.
    #[arg(long)]
    in_place: bool,
    /// Leave the images out: the storage is known to write an aligned page whole or not
    /// at all. If it does not, a power cut damages pages beyond repair.
    #[arg(long, requires = "in_place")]
    never_torn: bool,
}

impl Lay {
    /// The requested placement of pages, if one was given.
    pub fn asked(&self) -> Option<Placement> {
        let torn = match self.never_torn {
            false => TornPages::LogImages,
            true => TornPages::Never,
        };
        self.in_place.then_some(Placement::InPlace(torn))
    }

    pub fn placement(&self) -> Placement {
        self.asked().unwrap_or_default()
    }
}

/// A placement as text.
pub fn in_words(placement: Placement) -> &'static str {
    match placement {
        Placement::Shadow => "in shadow slots",
        Placement::InPlace(TornPages::LogImages) => "in place, with images in the log",
        Placement::InPlace(TornPages::Never) => "in place, never torn",
    }
}

/// A placement in JSON: the name of the option of `init`.
pub fn word(placement: Placement) -> &'static str {
    match placement {
        Placement::Shadow => "shadow",
        Placement::InPlace(TornPages::LogImages) => "in-place",
        Placement::InPlace(TornPages::Never) => "in-place-never-torn",
    }
}

/// An open environment, and its volume.
pub struct Opened {
    pub environment: Environment,
    shown: String,
    volume: Option<Volume>,
}

impl Place {
    /// The environment's name in messages.
    pub fn shown(&self) -> String {
        match &self.volume {
            Some(volume) => format!("{} of {}", self.directory.display(), volume.display()),
            None => self.directory.display().to_string(),
        }
    }

    /// Its directory, if that is one of the host.
    pub fn of_host(&self) -> Option<&Path> {
        self.volume.is_none().then_some(&*self.directory)
    }

    /// Bytes of memory for pages.
    pub fn memory(&self) -> usize {
        usize::try_from(self.memory).unwrap_or(usize::MAX)
    }

    /// A failure with the environment's name.
    pub fn failed(&self, what: impl Display) -> Failure {
        Failure::new(FAILED, format_args!("{}: {what}", self.shown()))
    }

    /// Its files for reading: none is made or changed.
    pub fn to_be_read(&self) -> Result<(Arc<dyn Storage>, Option<Volume>), Failure> {
        let Some(image) = &self.volume else {
            if !self.directory.is_dir() {
                return Err(self.failed(NO_DIRECTORY));
            }
            let storage = HostStorage::read_only(&self.directory);
            let storage = storage.map_err(|error| self.failed(error))?;
            return Ok((Arc::new(storage), None));
        };
        let volume = VolumeOptions::new().read_only(true).open(image)?;
        if !volume.exists(&self.directory)? {
            return Err(self.failed(NO_DIRECTORY));
        }
        let storage = VolumeStorage::read_only(&volume, &self.directory)?;
        Ok((Arc::new(storage), Some(volume)))
    }

    /// Its files. The directory is made only if `make` is set.
    pub fn storage(&self, make: bool) -> Result<(Arc<dyn Storage>, Option<Volume>), Failure> {
        let Some(image) = &self.volume else {
            if !make && !self.directory.is_dir() {
                return Err(self.failed(NO_DIRECTORY));
            }
            let storage = HostStorage::new(&self.directory).map_err(|error| self.failed(error))?;
            return Ok((Arc::new(storage), None));
        };
        let volume = Volume::open(image)?;
        if !make && !volume.exists(&self.directory)? {
            return Err(self.failed(NO_DIRECTORY));
        }
        let storage = VolumeStorage::new(&volume, &self.directory)?;
        Ok((Arc::new(storage), Some(volume)))
    }

    /// Bytes of free space for its files.
    pub fn free_bytes(&self, volume: Option<&Volume>) -> Result<u64, Failure> {
        if let Some(volume) = volume {
            return Ok(volume.statfs().free * u64::from(volume.block_bytes()));
        }
        let found = rustix::fs::statvfs(&self.directory).map_err(|error| self.failed(error))?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Opens the existing environment, or makes one if `options` allow it.
    pub fn open(&self, make: bool, options: &mut Options) -> Result<Opened, Failure> {
        let (storage, volume) = self.storage(make)?;
        self.open_in(storage, volume, options.create(make))
    }

    /// Opens the environment in these files.
    pub fn open_in(
        &self,
        storage: Arc<dyn Storage>,
        volume: Option<Volume>,
        options: &mut Options,
    ) -> Result<Opened, Failure> {
        let environment = options
            .memory(self.memory())
            .open_storage(storage)
            .map_err(|error| self.failed(error))?;
        Ok(Opened {
            environment,
            shown: self.shown(),
            volume,
        })
    }

    /// Opens it for reading: the recovery after a crash is done in memory.
    pub fn read(&self) -> Result<Opened, Failure> {
        let (storage, volume) = self.to_be_read()?;
        let mut options = Options::new();
        options.background(false).read_only(true);
        self.open_in(storage, volume, &mut options)
    }
}

impl Opened {
    /// Closes it with a last checkpoint.
    pub fn close(self) -> Result<(), Failure> {
        let closed = self.environment.close();
        closed.map_err(|error| Failure::new(FAILED, format_args!("{}: {error}", self.shown)))?;
        if let Some(volume) = self.volume {
            volume.close()?;
        }
        Ok(())
    }
}
