//! `varve stats`: one JSON object, fetched from another process by an ioctl
//! on the mount's root. Anyone who can open the root may read it.

use std::io;
use std::path::Path;

/// The statistics of the file system mounted at `dir`, as JSON text.
///
/// # Errors
/// ENOTTY if `dir` is not the root of a Varve mount; whatever opening it says.
pub fn query_statistics(dir: &Path) -> io::Result<String> {
    let directory = crate::question::open_root(dir)?;
    let buffer = crate::sys::statistics_ioctl(directory)?;
    crate::question::text(&buffer[..])
}
