//! The conflict between a transaction and another change.

use std::fmt;
use std::path::PathBuf;
use varve_fs::{Contended, InodeNo};

/// A place that two transactions both changed, or that one read and the other changed.
/// See [`crate::Error::conflict`].
///
/// ```
/// use varve::Contended;
/// let volume = varve::Volume::in_memory(16 << 20)?;
/// volume.write("/file", b"before")?;
/// let (one, two) = (volume.begin()?, volume.begin()?);
/// one.write("/file", b"one")?;
/// two.write("/file", b"two")?;
/// one.commit()?;
/// let error = two.commit().unwrap_err();
/// let conflict = error.conflict().expect("both changed it");
/// assert_eq!(conflict.path.as_deref(), Some("/file".as_ref()));
/// assert_eq!(conflict.part, Contended::Size);
/// # Ok::<(), varve::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conflict {
    /// Path by which the transaction reached the file, or the directory that contains the
    /// name. `None` if the transaction did not use a path, or used more than a thousand
    /// files.
    pub path: Option<PathBuf>,
    /// The part of the file in conflict: content, size, attributes, a name, or all.
    pub part: Contended,
    ino: InodeNo,
}

impl Conflict {
    pub(crate) fn new(met: varve_fs::Conflict, path: Option<PathBuf>) -> Self {
        Conflict {
            path,
            part: met.of,
            ino: met.ino,
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ino, of) = (self.ino, self.part.clone());
        write!(f, "{}", varve_fs::Conflict { ino, of })?;
        match &self.path {
            Some(path) => write!(f, " ({})", path.display()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Contended, Error, Transaction, Volume};

    /// Returns the conflict of the second of two transactions that both do `work`.
    fn met(work: impl Fn(&Transaction) -> Result<(), Error>) -> (Option<String>, Contended) {
        let volume = Volume::in_memory(32 << 20).unwrap();
        volume.create_dir("/d").unwrap();
        volume.write("/d/file", b"before").unwrap();
        let (one, two) = (volume.begin().unwrap(), volume.begin().unwrap());
        work(&one).unwrap();
        work(&two).unwrap();
        one.commit().unwrap();
        let error = two.commit().unwrap_err();
        assert!(error.is_conflict());
        let conflict = error.conflict().unwrap();
        let path = conflict
            .path
            .as_ref()
            .map(|path| path.display().to_string());
        if let Some(path) = &path {
            assert!(
                error.to_string().ends_with(&format!(" ({path})")),
                "{error}"
            );
        }
        (path, conflict.part.clone())
    }

    #[test]
    fn a_conflict_names_the_file_and_what_of_it() {
        let of = |path: &str, part| (Some(path.to_owned()), part);
        let file = "/d/file";
        let name = |name: &[u8]| Contended::Name(name.to_vec());
        // One write that changes the size, one that keeps it.
        assert_eq!(
            met(|txn| txn.write(file, b"other")),
            of(file, Contended::Size)
        );
        assert_eq!(
            met(|txn| txn.write(file, b"change")),
            of(file, Contended::Content(0))
        );
        assert_eq!(
            met(|txn| txn.set_xattr(file, "user.note", b"x")),
            of(file, Contended::Attributes)
        );
        assert_eq!(met(|txn| txn.create_dir("/d/new")), of("/d", name(b"new")));
        assert_eq!(met(|txn| txn.write("/d/new", b"x")), of("/d", name(b"new")));
        assert_eq!(met(|txn| txn.rename(file, "top")), of("/", name(b"top")));
        // The savepoint makes the conflicting change.
        let nested = |txn: &Transaction| {
            let inner = txn.savepoint()?;
            inner.write(file, b"other")?;
            inner.commit()
        };
        assert_eq!(met(nested), of(file, Contended::Size));
    }

    #[test]
    fn other_errors_are_none() {
        let volume = Volume::in_memory(16 << 20).unwrap();
        let error = volume.read("/no/such").unwrap_err();
        assert!(error.conflict().is_none() && !error.is_conflict());
    }
}
