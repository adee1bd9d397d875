//! All data of a tree, in the order in which it is stored.

use super::Volume;
use crate::error::{Cause, Error, Result};
use crate::mounted::Mounted;
use crate::tree::on;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve_fs::{ScanError, ScanPiece};

/// Data of a file, as a [`Scan`] yields it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// The path below the start of the scan; empty if the scan started at this file.
    pub path: PathBuf,
    /// The offset in the file.
    pub offset: u64,
    /// The bytes, at most 1 MiB.
    pub bytes: Vec<u8>,
}

type Pieces = dyn Iterator<Item = std::result::Result<ScanPiece, ScanError>> + Send;

/// An iterator over the data of all files below a path; see [`Volume::scan`].
pub struct Scan {
    pieces: Box<Pieces>,
    mounted: Arc<Mounted>,
}

impl Volume {
    /// Yields the data of all regular files below a path in the order in which it is
    /// stored, which is the fastest order in which a whole tree can be read after random
    /// writes. Holes are left out; a file with several names is yielded by one of them.
    ///
    /// The tree is scanned in windows of 16,384 files or 65,536 parts of files, each of
    /// which is read in one pass over the device. It may change meanwhile: for a
    /// consistent result, scan a snapshot ([`Volume::at`]).
    ///
    /// ```
    /// let volume = varve::Volume::in_memory(16 << 20)?;
    /// volume.create_dir("/letters")?;
    /// volume.write("/letters/may", b"Hello,")?;
    /// for part in volume.scan("/")? {
    ///     let part = part?;
    ///     assert_eq!(part.path.to_str(), Some("letters/may"));
    ///     assert_eq!((part.offset, &part.bytes[..]), (0, &b"Hello,"[..]));
    /// }
    /// # Ok::<(), varve::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound`, `PermissionDenied`. The iterator yields what fails later and ends.
    pub fn scan(&self, path: impl AsRef<Path>) -> Result<Scan> {
        let mounted = Arc::clone(self.mounted());
        let pieces = mounted.by_path("scan", path.as_ref(), |mounted, path| {
            on!(mounted.tree(), fs => {
                let scan = fs.scan(mounted.caller(), path);
                scan.map(|scan| Box::new(scan) as Box<Pieces>)
            })
        })?;
        Ok(Scan { pieces, mounted })
    }
}

impl Iterator for Scan {
    type Item = Result<Scanned>;

    fn next(&mut self) -> Option<Self::Item> {
        let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
        let piece = match self.mounted.admit() {
            Ok(_admitted) => self.pieces.next()?,
            Err(cause) => return Some(Err(Error::of_volume("scan", cause))),
        };
        Some(match piece {
            Ok(piece) => Ok(Scanned {
                path: path(&piece.path),
                offset: piece.offset,
                bytes: piece.bytes,
            }),
            Err(failed) => {
                self.pieces = Box::new(std::iter::empty());
                let cause = Cause::Tree(failed.error);
                Err(Error::at("scan", &path(&failed.path), cause))
            }
        })
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").finish_non_exhaustive()
    }
}
