//! Attributes of a file, as `std::fs` names them.

mod file_type;
mod times;

pub use file_type::FileType;
pub use times::FileTimes;

use crate::error::Result;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::SystemTime;
pub(crate) use times::system_time;
use varve_fs::Attr;

/// Attributes of a file at one moment.
///
/// [`std::os::unix::fs::MetadataExt`] is implemented as well.
///
/// ```
/// let volume = varve::Volume::in_memory(16 << 20)?;
/// volume.write("/a", b"12345")?;
/// let metadata = volume.metadata("/a")?;
/// assert!(metadata.is_file());
/// assert_eq!((metadata.len(), metadata.mode(), metadata.nlink()), (5, 0o100644, 1));
/// assert!(metadata.modified()? >= metadata.created()?);
/// # Ok::<(), varve::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    attr: Attr,
    device: u64,
}

#[expect(
    clippy::len_without_is_empty,
    reason = "the length of a file, as in std"
)]
impl Metadata {
    pub(crate) fn new(attr: Attr, device: u64) -> Self {
        Metadata { attr, device }
    }

    /// Returns the type of the file.
    pub fn file_type(&self) -> FileType {
        FileType::new(self.attr.kind)
    }

    /// Returns true for a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type().is_dir()
    }

    /// Returns true for a regular file.
    pub fn is_file(&self) -> bool {
        self.file_type().is_file()
    }

    /// Returns true for a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.file_type().is_symlink()
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> u64 {
        self.attr.size
    }

    /// Returns permission, set-id and sticky bits.
    pub fn permissions(&self) -> Permissions {
        Permissions::from_mode(self.attr.mode)
    }

    /// Returns the time of the last change of the content.
    ///
    /// # Errors
    /// `InvalidInput` if the host cannot express the time.
    pub fn modified(&self) -> Result<SystemTime> {
        system_time(self.attr.mtime)
    }

    /// Returns the time of the last read, with the precision of relatime.
    ///
    /// # Errors
    /// The same as [`Metadata::modified`].
    pub fn accessed(&self) -> Result<SystemTime> {
        system_time(self.attr.atime)
    }

    /// Returns the time at which the file was created.
    ///
    /// # Errors
    /// The same as [`Metadata::modified`].
    pub fn created(&self) -> Result<SystemTime> {
        system_time(self.attr.btime)
    }

    /// Returns the number of the volume, which is the same for all of its files.
    pub fn dev(&self) -> u64 {
        self.device
    }

    /// Returns the inode number, which no other file of the volume has while this one
    /// exists.
    pub fn ino(&self) -> u64 {
        self.attr.ino.0
    }

    /// Returns type, permission, set-id and sticky bits.
    pub fn mode(&self) -> u32 {
        self.attr.mode
    }

    /// Returns the number of names; for a directory 2 plus the number of subdirectories.
    pub fn nlink(&self) -> u64 {
        self.attr.nlink.into()
    }

    /// Returns the user that owns the file.
    pub fn uid(&self) -> u32 {
        self.attr.uid
    }

    /// Returns the group of the file.
    pub fn gid(&self) -> u32 {
        self.attr.gid
    }

    /// Returns the device number of a special file.
    pub fn rdev(&self) -> u64 {
        self.attr.rdev
    }

    /// Returns the space that the file uses, in units of 512 bytes.
    pub fn blocks(&self) -> u64 {
        self.attr.sectors
    }

    /// Returns the preferred size of a read or write, in bytes.
    pub fn blksize(&self) -> u64 {
        self.attr.block_bytes.into()
    }
}

impl MetadataExt for Metadata {
    fn dev(&self) -> u64 {
        self.dev()
    }

    fn ino(&self) -> u64 {
        self.ino()
    }

    fn mode(&self) -> u32 {
        self.mode()
    }

    fn nlink(&self) -> u64 {
        self.nlink()
    }

    fn uid(&self) -> u32 {
        self.uid()
    }

    fn gid(&self) -> u32 {
        self.gid()
    }

    fn rdev(&self) -> u64 {
        self.rdev()
    }

    fn size(&self) -> u64 {
        self.len()
    }

    fn atime(&self) -> i64 {
        self.attr.atime.seconds
    }

    fn atime_nsec(&self) -> i64 {
        self.attr.atime.nanos.into()
    }

    fn mtime(&self) -> i64 {
        self.attr.mtime.seconds
    }

    fn mtime_nsec(&self) -> i64 {
        self.attr.mtime.nanos.into()
    }

    fn ctime(&self) -> i64 {
        self.attr.ctime.seconds
    }

    fn ctime_nsec(&self) -> i64 {
        self.attr.ctime.nanos.into()
    }

    fn blksize(&self) -> u64 {
        self.blksize()
    }

    fn blocks(&self) -> u64 {
        self.blocks()
    }
}
