//! Programs with which the papers measured file systems, on files that have numbers: the
//! same code runs on a simulated drive (B1, B3, B4, B8, X2) and on a host's directory
//! (`varve bench`).
//!
//! | module | what is in it |
//! |---|---|
//! | [`andrew`] | Andrew: directories, copies, attributes, reading, compiling |
//! | [`bandwidth`] | a file written and read again and again |
//! | [`big_file`] | Bigfile: files of 1, 5 and 10 MB created, copied, removed |
//! | [`office`] | files of an office that are made, read, and die |
//! | [`supercomputer`] | bvi, ccm, les, venus |
//!
//! What they compute is not in them: who runs them charges it. Nor is what must be
//! forgotten between two parts: only a simulation can do that whenever it likes.

pub mod andrew;
pub mod bandwidth;
pub mod big_file;
pub mod office;
pub mod supercomputer;

/// Bytes of a file system's block, on every system here.
pub const BLOCK: u64 = 4096;

/// Files and directories with numbers. Every call ends when the file system would have
/// answered. Errors are those of the file system: no room, or it failed.
pub trait NumberedFiles {
    /// What a call fails with.
    type Error;

    /// From now on files are made in this directory, which is made if it is new; 0 is
    /// the root.
    ///
    /// # Errors
    /// No room, or the system failed; so for all of them.
    fn enter(&mut self, directory: u32) -> Result<(), Self::Error>;

    /// Makes an empty file.
    ///
    /// # Errors
    /// As [`NumberedFiles::enter`].
    fn create(&mut self, file: u32) -> Result<(), Self::Error>;

    /// Writes `bytes` at `offset`, a multiple of 512. `sync` waits until they are on the
    /// medium.
    ///
    /// # Errors
    /// As [`NumberedFiles::enter`].
    fn write(&mut self, file: u32, offset: u64, bytes: u32, sync: bool) -> Result<(), Self::Error>;

    /// Reads `bytes` at `offset`, a multiple of 512; all of them were written.
    ///
    /// # Errors
    /// As [`NumberedFiles::enter`], and if other bytes come back.
    fn read(&mut self, file: u32, offset: u64, bytes: u32) -> Result<(), Self::Error>;

    /// Looks a file up, and at its attributes.
    ///
    /// # Errors
    /// As [`NumberedFiles::enter`].
    fn open(&mut self, file: u32) -> Result<(), Self::Error>;

    /// The same of a file that was used a moment ago. Where this takes the processor
    /// alone, and that is charged otherwise, there is nothing to do.
    ///
    /// # Errors
    /// As [`NumberedFiles::enter`].
    fn look_again(&mut self, _file: u32) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Removes a file.
    ///
    /// # Errors
    /// As [`NumberedFiles::enter`].
    fn delete(&mut self, file: u32) -> Result<(), Self::Error>;

    /// Waits until everything is on the medium.
    ///
    /// # Errors
    /// As [`NumberedFiles::enter`].
    fn sync(&mut self) -> Result<(), Self::Error>;

    /// The clock by which they are measured, in nanoseconds.
    fn now_ns(&self) -> u64;
}
