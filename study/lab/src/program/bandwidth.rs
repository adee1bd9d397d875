//! Raw bandwidth: a file of so many bytes is written again and again, with a sync each
//! time, and read again and again (Seltzer 1992, §7.3; B1).

use super::NumberedFiles;

/// Sizes of the file in the paper, KB.
pub const SIZES_KB: [u64; 10] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/// A file of so many bytes that is written or read whole.
#[derive(Clone, Copy, Debug)]
pub struct Whole {
    /// Its number.
    pub file: u32,
    /// Its size.
    pub bytes: u32,
}

impl Whole {
    /// Makes it, and waits until it is on the medium.
    ///
    /// # Errors
    /// As the files; so for all of them.
    pub fn make<F: NumberedFiles + ?Sized>(self, files: &mut F) -> Result<(), F::Error> {
        files.create(self.file)?;
        self.write(files).map(drop)
    }

    /// Writes it, and waits until it is on the medium. Answers how long it waited, in
    /// nanoseconds.
    ///
    /// # Errors
    /// As [`Whole::make`].
    pub fn write<F: NumberedFiles + ?Sized>(self, files: &mut F) -> Result<u64, F::Error> {
        files.write(self.file, 0, self.bytes, false)?;
        let before = files.now_ns();
        files.sync()?;
        Ok(files.now_ns() - before)
    }

    /// Looks it up and reads it. Answers how long looking it up took, in nanoseconds.
    ///
    /// # Errors
    /// As [`Whole::make`].
    pub fn read<F: NumberedFiles + ?Sized>(self, files: &mut F) -> Result<u64, F::Error> {
        let before = files.now_ns();
        files.open(self.file)?;
        let opening_ns = files.now_ns() - before;
        files.read(self.file, 0, self.bytes)?;
        Ok(opening_ns)
    }
}
