//! Bigfile: a set of large files is created, copied and removed (Seltzer 1992, §5.3: 10 to
//! 20 of 1, 5 and 10 MB; X2). What is asked for at once is not said there: 64 KB here.

use super::NumberedFiles;

/// Sizes, in turn, MB.
pub const SIZES_MB: [u64; 3] = [1, 5, 10];
/// Files of the set in the paper, about.
pub const FILES: u32 = 15;
const AT_ONCE: u32 = 64 << 10;

/// A set of files.
#[derive(Clone, Copy, Debug)]
pub struct Set {
    /// How many, a copy of each not counted.
    pub files: u32,
    /// Bytes of what is called a MB, a multiple of 512.
    pub mb: u64,
}

impl Set {
    fn bytes(self, file: u32) -> u64 {
        SIZES_MB[file as usize % SIZES_MB.len()] * self.mb
    }

    /// Bytes of all, a copy of each not counted.
    pub fn total_bytes(self) -> u64 {
        (0..self.files).map(|file| self.bytes(file)).sum()
    }

    /// Places of a file, and how much is asked for there.
    fn pieces(self, file: u32) -> impl Iterator<Item = (u64, u32)> {
        let end = self.bytes(file);
        let places = (0..end).step_by(AT_ONCE as usize);
        places.map(move |at| (at, (end - at).min(AT_ONCE.into()) as u32))
    }

    /// Creates them.
    ///
    /// # Errors
    /// As the files; so for all of them.
    pub fn create<F: NumberedFiles + ?Sized>(self, files: &mut F) -> Result<(), F::Error> {
        (0..self.files).try_for_each(|file| {
            files.create(file)?;
            let mut pieces = self.pieces(file);
            pieces.try_for_each(|(at, bytes)| files.write(file, at, bytes, false))
        })
    }

    /// Copies each.
    ///
    /// # Errors
    /// As [`Set::create`].
    pub fn copy<F: NumberedFiles + ?Sized>(self, files: &mut F) -> Result<(), F::Error> {
        (0..self.files).try_for_each(|file| {
            let copy = self.files + file;
            files.create(copy)?;
            self.pieces(file).try_for_each(|(at, bytes)| {
                files.read(file, at, bytes)?;
                files.write(copy, at, bytes, false)
            })
        })
    }

    /// Removes them and their copies.
    ///
    /// # Errors
    /// As [`Set::create`].
    pub fn remove<F: NumberedFiles + ?Sized>(self, files: &mut F) -> Result<(), F::Error> {
        (0..2 * self.files).try_for_each(|file| files.delete(file))
    }
}
