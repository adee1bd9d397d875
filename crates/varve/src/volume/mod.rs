//! The facade: one open volume, and everything that can be done by path.
//!
//! | file | |
//! |---|---|
//! | `open.rs` | creating, opening, closing |
//! | `walk.rs` | from a path to an inode |
//! | `names.rs`, `directory.rs` | names |
//! | `content.rs`, `file.rs` | content |
//! | `attributes.rs`, `metadata.rs` | attributes |
//! | `statistics.rs` | what the volume has done |
//!
//! Nothing here decides what a file system does: paths are walked, arguments
//! handed on, and errors given the path and the operation they belong to.

mod attributes;
mod content;
mod directory;
mod file;
mod metadata;
mod names;
mod open;
mod statistics;
mod walk;

#[cfg(test)]
mod races;
#[cfg(test)]
mod tests;

pub use directory::{DirEntry, ReadDir};
pub use file::{File, OpenFlags};
pub use metadata::Metadata;
#[doc(hidden)]
pub use open::open_device;
pub use open::read_superblock;
pub use statistics::Statistics;

use crate::background::Service;
use crate::error::{Error, Result};
use crate::verifier::Verifier;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use varve_device::{Device, Lanes};
use varve_fs::{Caller, FileSystem, StatFs};
use varve_fsck::verify::{Control, Verification, VerifyOptions, verify};
use varve_lfs::cleaner::{CleanerSettings, CleanerStatus};
use varve_lfs::{Lfs, RecoveryReport};

/// An open volume. Every method may be called from any thread.
///
/// Dropping it closes it as [`Volume::close`] does, but can only log errors.
pub struct Volume {
    /// Open files keep a reference to it.
    mounted: Lanes<Arc<Mounted>>,
    service: Option<Service>,
    verifier: Arc<Verifier>,
    closed: bool,
}

/// What files share with the volume they are of.
pub(crate) struct Mounted {
    fs: Arc<FileSystem<Lfs>>,
    device: Arc<dyn Device>,
    caller: Caller,
}

impl Volume {
    /// Makes everything durable with one flush.
    ///
    /// # Errors
    /// What made a write fail, now or before. After a failed flush the volume
    /// takes no more changes until it is opened again.
    pub fn sync(&self) -> Result<()> {
        self.fs().sync().map_err(Error::tree("sync"))
    }

    /// [`Volume::sync`] and a checkpoint: opening need not replay anything.
    ///
    /// # Errors
    /// As [`Volume::sync`].
    pub fn checkpoint(&self) -> Result<()> {
        self.fs().checkpoint().map_err(Error::tree("checkpoint"))
    }

    /// Room on the volume, in blocks of [`Volume::block_bytes`]; the reserve
    /// is left out.
    pub fn statfs(&self) -> StatFs {
        self.fs().statfs()
    }

    /// Bytes in a logical block.
    pub fn block_bytes(&self) -> u32 {
        self.layout().superblock().block_bytes.get()
    }

    /// The volume's name for people; empty if it has none.
    pub fn label(&self) -> String {
        self.layout().superblock().label_text()
    }

    /// What the volume has done since it was opened.
    pub fn statistics(&self) -> Statistics {
        Statistics::of(self.fs())
    }

    /// What recovery found when the volume was opened.
    pub fn recovery_report(&self) -> &RecoveryReport {
        self.layout().recovery_report()
    }

    /// Why the volume takes no changes, if it does not.
    pub fn read_only_reason(&self) -> Option<String> {
        self.layout().stopped()
    }

    /// Verifies the tree and every live block's checksum, on this thread and
    /// beside whatever else goes on; `control` tells how far it is and can end
    /// it. `None` if another verification is under way.
    ///
    /// ```
    /// # let volume = varve::Volume::in_memory(16 << 20)?;
    /// volume.write("/a", b"something")?;
    /// let control = std::sync::Arc::new(varve::Control::new(0));
    /// let report = volume.scrub(&control, false).expect("nobody else scrubs");
    /// assert!(report.is_sound());
    /// # Ok::<(), varve::Error>(())
    /// ```
    ///
    /// Damaged metadata makes the volume read-only, with `strict` damaged data
    /// as well.
    pub fn scrub(&self, control: &Arc<Control>, strict: bool) -> Option<Verification> {
        let options = VerifyOptions { data: true, strict };
        let report = verify(self.layout(), control, &options);
        if let Some(reason) = self.layout().stopped() {
            self.fs().refuse_changes(&reason);
        }
        report
    }

    /// The thread that verifies, to ask for scrubs in the background. It
    /// answers for as long as the volume is open, and only if that is so with
    /// threads of its own.
    pub fn verifier(&self) -> &Arc<Verifier> {
        &self.verifier
    }

    /// How the volume's own cleaner works, and who else cleans.
    pub fn cleaner(&self) -> CleanerStatus {
        self.layout().cleaner_status()
    }

    /// Changes how the volume's own cleaner works, from its next pass on.
    ///
    /// ```
    /// # let volume = varve::Volume::in_memory(16 << 20)?;
    /// let mut settings = volume.cleaner().settings;
    /// settings.policy = varve::PolicyKind::CostBenefit;
    /// volume.set_cleaner(settings)?;
    /// # Ok::<(), varve::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Layout` says what a mounted volume cannot do; then nothing has changed.
    pub fn set_cleaner(&self, settings: CleanerSettings) -> Result<()> {
        Ok(self.layout().set_cleaner(settings)?)
    }

    /// Forgets every clean block and inode, so that what is read next comes
    /// from the device. For measurements.
    pub fn drop_caches(&self) {
        self.fs().drop_caches();
        self.layout().drop_caches();
    }

    /// The file system below, for front ends that do not work by path.
    pub fn file_system(&self) -> &Arc<FileSystem<Lfs>> {
        &self.mounted.fs
    }

    fn fs(&self) -> &FileSystem<Lfs> {
        &self.mounted.fs
    }

    fn layout(&self) -> &Lfs {
        self.mounted.fs.layout()
    }

    fn caller(&self) -> &Caller {
        &self.mounted.caller
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume")
            .field("device", &self.mounted.device.name())
            .field("label", &self.label())
            .finish_non_exhaustive()
    }
}

/// A path's bytes.
fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Gives an error the operation and path it belongs to.
fn at<'p>(operation: &'static str, path: &'p Path) -> impl FnOnce(varve_fs::Error) -> Error + 'p {
    move |source| Error::File {
        operation,
        path: path.to_owned(),
        source,
    }
}
