//! Volumes in object stores: what a URL names, and how such a volume is opened.

#[cfg(feature = "bucket")]
pub use bucket::{is_url, make, open, remove};
#[cfg(not(feature = "bucket"))]
pub use none::{is_url, make, open, remove};

/// The largest size of an object with bytes of a new volume.
pub const OBJECT_BYTES: u32 = 8 << 20;

#[cfg(feature = "bucket")]
mod bucket {
    use super::OBJECT_BYTES;
    use crate::error::{Error, Result};
    use crate::options::{StoreOptions, VolumeOptions};
    use rustix::io::Errno;
    use std::path::Path;
    use std::sync::Arc;
    use varve_device::Device;
    use varve_object::{Cause, ObjectDevice, Opening, StoreUrl, Takeover, UrlError};

    /// True if a volume's name is the URL of a store.
    pub fn is_url(path: &Path) -> bool {
        StoreUrl::is_url(path)
    }

    fn opening(options: StoreOptions, read_only: bool) -> Opening {
        let mut opening = Opening {
            read_only,
            takeover: match options.takeover {
                None => Takeover::Never,
                Some(time) if time.is_zero() => Takeover::Now,
                Some(time) => Takeover::Idle(time),
            },
            ..Opening::default()
        };
        if let Some(stall) = options.stall {
            opening.settings.stall = stall;
        }
        opening
    }

    fn store(path: &Path) -> Result<Arc<dyn varve_object::Store>> {
        let url = path.to_str().unwrap_or_default();
        let refused =
            |error: UrlError| Error::refused(path, Errno::INVAL, error.problem, error.advice);
        let url = url.parse::<StoreUrl>().map_err(refused)?;
        url.open().map_err(refused)
    }

    fn failed(path: &Path, error: varve_object::Error) -> Error {
        use varve_object::Error as Reason;
        let (errno, problem, advice) = match &error {
            Reason::InUse { holder, idle, .. } => (
                Errno::BUSY,
                format!(
                    "is written by process {} of host {}, last {} s ago",
                    holder.process,
                    holder.host,
                    idle.as_secs()
                ),
                "unmount it there, or end that access with -o takeover",
            ),
            Reason::NoVolume(_) => (
                Errno::NOENT,
                "has no volume".to_owned(),
                "name another one, or make one with mkfs",
            ),
            Reason::AlreadyExists(_) => (
                Errno::EXIST,
                "has a volume already".to_owned(),
                "to make another one, say so (--force)",
            ),
            Reason::NotCreateOnly(..) => (
                Errno::NOTSUP,
                "lets several writers create the same object".to_owned(),
                "use a store in which the first one wins",
            ),
            Reason::Store(failed) if failed.cause == Cause::Rejected => (
                Errno::ACCESS,
                format!("is refused: {error}"),
                "correct the settings",
            ),
            Reason::Store(_) => (
                Errno::IO,
                format!("does not answer: {error}"),
                "try again later",
            ),
            _ => (
                Errno::IO,
                format!("cannot be opened: {error}"),
                "the objects that are named must be brought back from a copy",
            ),
        };
        Error::refused(path, errno, problem, advice)
    }

    /// Opens the device of a volume in a store.
    ///
    /// # Errors
    /// `ResourceBusy` if another writer has it, `NotFound`, `PermissionDenied`, and
    /// failures of the store.
    pub fn open(path: &Path, options: StoreOptions, read_only: bool) -> Result<Arc<dyn Device>> {
        let device = ObjectDevice::open(&store(path)?, &opening(options, read_only));
        Ok(Arc::new(device.map_err(|error| failed(path, error))?))
    }

    /// Removes what names a volume in a store.
    ///
    /// # Errors
    /// As [`open`].
    pub fn remove(path: &Path) -> Result<()> {
        let opening = opening(StoreOptions::default(), false);
        ObjectDevice::remove(&store(path)?, &opening).map_err(|error| failed(path, error))
    }

    /// Makes the device of a new volume in a store, and opens it.
    ///
    /// # Errors
    /// `AlreadyExists` if there is one and the options do not allow to overwrite it,
    /// `InvalidInput` without a size; as [`open`].
    pub fn make(path: &Path, options: &VolumeOptions) -> Result<Arc<dyn Device>> {
        let size = options.size.ok_or_else(|| {
            Error::refused(path, Errno::INVAL, "has no size of its own", "give a size")
        })?;
        let store = store(path)?;
        let opening = opening(options.store, false);
        let made =
            || ObjectDevice::create(&store, size / 512 * 512, u64::from(OBJECT_BYTES), &opening);
        let made = match made() {
            Err(varve_object::Error::AlreadyExists(_)) if options.overwrite => {
                ObjectDevice::remove(&store, &opening).and_then(|()| made())
            }
            made => made,
        };
        made.map_err(|error| failed(path, error))?;
        open(path, options.store, false)
    }
}

#[cfg(not(feature = "bucket"))]
mod none {
    use crate::error::{Error, Result};
    use crate::options::{StoreOptions, VolumeOptions};
    use rustix::io::Errno;
    use std::path::Path;
    use std::sync::Arc;
    use varve_device::Device;

    /// Without the feature `bucket` no name is a URL.
    pub fn is_url(_: &Path) -> bool {
        false
    }

    /// Refuses.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn open(path: &Path, _: StoreOptions, _: bool) -> Result<Arc<dyn Device>> {
        let problem = "is a URL, and this program was built without the feature bucket";
        Err(Error::refused(
            path,
            Errno::NOTSUP,
            problem,
            "build it with that feature",
        ))
    }

    /// Refuses.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn remove(path: &Path) -> Result<()> {
        open(path, StoreOptions::default(), false).map(drop)
    }

    /// Refuses.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn make(path: &Path, options: &VolumeOptions) -> Result<Arc<dyn Device>> {
        open(path, options.store, false)
    }
}
