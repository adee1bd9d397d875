//! Reserves and frees space, and finds data and holes.

use super::File;
use crate::error::Result;
use varve_fs::{Error as FsError, Whence};

const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;

impl File {
    /// Reserves space for `length` bytes from `offset`, which read as zeros until they
    /// are written. If `grow` is set, the size grows to the end of the range.
    ///
    /// # Errors
    /// `StorageFull`, or if the file was not opened for writing.
    pub fn allocate(&self, offset: u64, length: u64, grow: bool) -> Result<()> {
        let mode = if grow { 0 } else { KEEP_SIZE };
        self.fallocate("allocate", mode, offset, length)
    }

    /// Frees the space of `length` bytes from `offset`, which read as zeros afterwards.
    ///
    /// # Errors
    /// If the file was not opened for writing.
    pub fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.fallocate("punch", PUNCH_HOLE | KEEP_SIZE, offset, length)
    }

    fn fallocate(&self, what: &'static str, mode: i32, offset: u64, length: u64) -> Result<()> {
        let allowed = self.handle.access.write;
        self.handle.run_if(allowed, what, |mounted, ino| {
            mounted.fallocate(ino, mode, offset, length)
        })
    }

    /// Returns the offset of the first stored byte at or after `offset`, or `None`.
    /// Reserved space without data is not counted.
    ///
    /// # Errors
    /// Device errors and damage.
    pub fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        self.next(offset, Whence::Data)
    }

    /// Returns the offset of the first byte at or after `offset` that is not stored,
    /// which may be the end of the file; `None` if `offset` is at the end or later.
    ///
    /// ```
    /// use std::os::unix::fs::FileExt;
    /// let volume = varve::Volume::in_memory(16 << 20)?;
    /// let file = volume.create_file("/sparse")?;
    /// file.write_all_at(&[7; 4096], 1 << 20)?;
    /// let begin = file.next_data(0)?.unwrap();
    /// assert_eq!((begin, file.next_hole(begin)?), (1 << 20, Some((1 << 20) + 4096)));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`File::next_data`].
    pub fn next_hole(&self, offset: u64) -> Result<Option<u64>> {
        self.next(offset, Whence::Hole)
    }

    fn next(&self, offset: u64, whence: Whence) -> Result<Option<u64>> {
        self.handle.run("seek in", |mounted, ino| {
            match mounted.seek(ino, offset, whence) {
                Ok(offset) => Ok(Some(offset)),
                Err(FsError::NoData) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }
}
