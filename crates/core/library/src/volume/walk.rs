//! Lists everything below a directory.

use super::{DirEntry, ReadDir, Volume};
use crate::error::Result;
use std::path::Path;

/// An iterator over all entries below a directory, depth first: a directory precedes its
/// content. Symbolic links are returned and never followed.
///
/// A directory that cannot be listed is returned as an error, and the walk continues with
/// the next entry. Entries that are removed meanwhile may be missing.
#[derive(Debug)]
pub struct Walk {
    /// Listings of the directories from the start to the current entry.
    stack: Vec<ReadDir>,
    /// The last entry, if its content is listed next.
    below: Option<DirEntry>,
}

impl Volume {
    /// Walks every entry below a directory, at any depth, without the directory itself.
    ///
    /// ```
    /// let volume = varve::Volume::in_memory(16 << 20)?;
    /// volume.create_dir_all("/a/b")?;
    /// volume.write("/a/b/c", b"deep")?;
    /// let mut bytes = 0;
    /// for entry in volume.walk("/")? {
    ///     let entry = entry?;
    ///     println!("{}", entry.path().display());
    ///     if entry.file_type()?.is_file() {
    ///         bytes += entry.metadata()?.len();
    ///     }
    /// }
    /// assert_eq!(bytes, 4);
    /// # Ok::<(), varve::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the path leads to no directory.
    pub fn walk(&self, path: impl AsRef<Path>) -> Result<Walk> {
        Ok(Walk {
            stack: vec![self.read_dir(path)?],
            below: None,
        })
    }
}

impl Iterator for Walk {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(directory) = self.below.take() {
            match directory.read_dir() {
                Ok(listing) => self.stack.extend(listing),
                Err(error) => return Some(Err(error)),
            }
        }
        loop {
            match self.stack.last_mut()?.next() {
                Some(Ok(entry)) => {
                    self.below = entry.is_dir().then(|| entry.clone());
                    return Some(Ok(entry));
                }
                Some(Err(error)) => return Some(Err(error)),
                None => _ = self.stack.pop(),
            }
        }
    }
}
